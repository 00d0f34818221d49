#include "gpu_state.h"

#include <cstring>

#include "mig_instances.h"

namespace nvidia {
namespace {

nvml::Return AskRecoveryAction(const NvmlLibrary& nvml, nvml::Device device, unsigned* action) {
  nvml::FieldValue field = {};
  field.field_id = nvml::kFieldGpuRecoveryAction;
  field.nvml_return = nvml::kNotSupported;
  nvml::Return result = nvml.nvmlDeviceGetFieldValues(device, 1, &field);
  if (result == nvml::kSuccess) result = field.nvml_return;
  // A field that this driver does not know yet.
  if (result == nvml::kInvalidArgument) result = nvml::kNotSupported;
  // Whatever integer it is, on the machines that the driver runs on these are its low bytes.
  std::memcpy(action, &field.value, sizeof(*action));
  return result;
}

class Look {
 public:
  Look(const NvmlLibrary& nvml, nvml::Device device, const std::string& uuid)
      : nvml_(nvml), device_(device), uuid_(uuid) {}

  // False once the GPU as a whole has failed: no more questions then.
  bool Memory() {
    // The one question that every GPU is asked: the driver answers it with the GPU, not from its own memory.
    nvml::Memory memory = {};
    return Had(nvml_.nvmlDeviceGetMemoryInfo(device_, &memory), "nvmlDeviceGetMemoryInfo") !=
           Answer::kFailed;
  }
  bool Repairs() {
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    const Answer rows =
        Had(nvml_.nvmlDeviceGetRemappedRows(device_, &corrected, &uncorrected, &pending, &failed),
            "nvmlDeviceGetRemappedRows");
    if (rows == Answer::kFailed) return false;
    if (rows == Answer::kGiven && failed != 0) {
      state.faults.push_back(RepairFailed("a row of the GPU's memory could not be remapped"));
    }
    if (rows == Answer::kGiven && pending != 0) {
      state.faults.push_back(
          RepairPending("a row of the GPU's memory will be remapped with the next reset"));
    }
    unsigned pages = 0;
    const Answer retired = Had(nvml_.nvmlDeviceGetRetiredPagesPendingStatus(device_, &pages),
                               "nvmlDeviceGetRetiredPagesPendingStatus");
    if (retired == Answer::kFailed) return false;
    if (retired == Answer::kGiven && pages != 0) {
      state.faults.push_back(
          RepairPending("pages of the GPU's memory will be retired with the next reset"));
    }
    return true;
  }
  bool Ecc() {
    unsigned long long count = 0;
    const Answer errors = Had(nvml_.nvmlDeviceGetTotalEccErrors(device_, nvml::kEccUncorrected,
                                                                nvml::kEccVolatile, &count),
                              "nvmlDeviceGetTotalEccErrors");
    if (errors == Answer::kGiven) state.uncorrected = count;
    return errors != Answer::kFailed;
  }
  bool Recovery() {
    unsigned action = 0;
    const Answer asked = Had(AskRecoveryAction(nvml_, device_, &action),
                             "nvmlDeviceGetFieldValues (GPU recovery action)");
    if (asked != Answer::kGiven) return asked != Answer::kFailed;
    state.recovery_action = action;
    if (auto fault = FaultOfRecoveryAction(action)) state.faults.push_back(*std::move(fault));
    return true;
  }
  void Fabric() {
    nvml::FabricInfoV2 info = {};
    info.version = nvml::kFabricInfoV2Version;
    if (Had(nvml_.nvmlDeviceGetGpuFabricInfoV(device_, &info), "nvmlDeviceGetGpuFabricInfoV") !=
        Answer::kGiven) {
      return;
    }
    if (info.state == 1 || info.state == 2) {
      state.faults.push_back(FabricNotReady(
          info.state == 1 ? "the GPU's NVLink fabric has not been started: no CUDA program runs"
                          : "the GPU's NVLink fabric is being set up: no CUDA program runs yet"));
    } else if (info.state == 3 && info.status != nvml::kSuccess) {
      state.faults.push_back(
          FabricFailed("the GPU's NVLink fabric failed: " + nvml_.Describe(info.status)));
    }
  }

  GpuState state;

 private:
  enum class Answer { kGiven, kAbsent, kUnknown, kFailed };
  Answer Had(nvml::Return result, const char* function) {
    if (result == nvml::kSuccess) return Answer::kGiven;
    if (IsAbsent(result)) return Answer::kAbsent;
    GpuState failure = StateOfFailure(
        result, std::string(function) + " of " + uuid_ + ": " + nvml_.Describe(result));
    if (failure.faults.empty()) {
      if (state.unknown.empty()) state.unknown = std::move(failure.unknown);
      return Answer::kUnknown;
    }
    state = std::move(failure);
    return Answer::kFailed;
  }

  const NvmlLibrary& nvml_;
  const nvml::Device device_;
  const std::string& uuid_;
};

}  // namespace

GpuState StateOfFailure(nvml::Return result, const std::string& text) {
  if (IsLibraryLost(result)) throw NvmlError(result, text);
  GpuState state;
  // These say the same whichever function finds it out, so that the answer does not change with it.
  switch (result) {
    case nvml::kGpuIsLost:
      state.lost = true;
      state.faults.push_back(LostGpu("the GPU is lost to the driver"));
      break;
    case nvml::kNotFound:
    case nvml::kGpuNotFound:
      state.lost = true;
      state.faults.push_back(MissingGpu("the driver has no such GPU any more"));
      break;
    case nvml::kResetRequired:
      state.reset_required = true;
      state.faults.push_back(ResetRequired("the driver refuses the GPU until it is reset"));
      break;
    default:
      state.unknown = text;
  }
  return state;
}

GpuState LookAtState(const NvmlLibrary& nvml, nvml::Device device, const std::string& uuid,
                     const LookOptions& options) {
  Look look(nvml, device, uuid);
  if (look.Memory() && look.Repairs() && look.Ecc() && (!options.recovery || look.Recovery()) &&
      !options.mig) {
    look.Fabric();
  }
  if (!look.state.lost) look.state.mig_layout = MigLayoutOf(nvml, device, uuid);
  return std::move(look.state);
}

std::optional<unsigned> RecoveryActionOf(const NvmlLibrary& nvml, nvml::Device device) {
  unsigned action = 0;
  if (AskRecoveryAction(nvml, device, &action) != nvml::kSuccess) return std::nullopt;
  return action;
}

}  // namespace nvidia
