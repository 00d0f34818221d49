#include "library.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <thread>

namespace nvidia_simulator {
namespace {

constexpr std::chrono::milliseconds kLookInterval{20};

// "nvmlDeviceGetCount_v2" -> "nvmlDeviceGetCount": a fault is of a function in all its versions.
std::string Unversioned(const std::string& function) {
  const size_t at = function.rfind("_v");
  if (at == std::string::npos || at + 2 == function.size()) return function;
  return function.find_first_not_of("0123456789", at + 2) == std::string::npos
             ? function.substr(0, at)
             : function;
}

// A change that the caller is to be told of, and that must not be written.
struct Answer {
  nvml::Return result;
};

}  // namespace

// Handles of another load of the library in this process are to be strangers too.
Library::Library()
    : generation_(static_cast<uint32_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                        std::chrono::microseconds(1))) {}

Library& Library::Get() {
  static Library library;
  return library;
}

nvml::Return Library::Init(const char* function, unsigned flags) {
  if ((flags & ~(nvml::kInitNoGpus | nvml::kInitNoAttach | nvml::kInitForceInit)) != 0) {
    return nvml::kInvalidArgument;
  }
  {
    const std::lock_guard lock(mutex_);
    if (inits_ == 0) {
      file_ = StateFile(StateFile::Search());
      const char* dev = std::getenv("NVIDIA_SIMULATOR_DEV");
      visibility_ = dev != nullptr ? Visibility(dev) : Visibility();
      struck_.clear();
    }
  }
  if (const nvml::Return fault = Faults(function, "", false); fault != nvml::kSuccess) return fault;
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<const State> state = file_.Read();
  if (state == nullptr) return file_.Exists() ? nvml::kUnknown : nvml::kDriverNotLoaded;
  if (inits_ == 0) {  // a process that has the driver open keeps it as it was
    if (!state->driver.loaded) return nvml::kDriverNotLoaded;
    if (state->driver.kernel_module != state->driver.version) return nvml::kLibRmVersionMismatch;
    const nvml::Return control = visibility_.ControlNode(*state);
    if (control != nvml::kSuccess) return control;
  }
  if ((flags & nvml::kInitNoGpus) == 0 && visibility_.Of(state)->gpus.empty())
    return nvml::kGpuNotFound;
  ++inits_;
  return nvml::kSuccess;
}

nvml::Return Library::Shutdown() {
  const std::lock_guard lock(mutex_);
  if (inits_ == 0) return nvml::kUninitialized;
  if (--inits_ == 0) {
    ++generation_;
    objects_.clear();
    handles_.clear();
    event_sets_.clear();
  }
  return nvml::kSuccess;
}

std::shared_ptr<const State> Library::Visible() { return visibility_.Of(file_.Read()); }

nvml::Return Library::Enter(const char* function, Call& call) {
  {
    const std::lock_guard lock(mutex_);
    if (inits_ == 0) return nvml::kUninitialized;
  }
  if (const nvml::Return fault = Faults(function, "", false); fault != nvml::kSuccess) return fault;
  const std::lock_guard lock(mutex_);
  if (inits_ == 0) return nvml::kUninitialized;
  call.state = Visible();
  return nvml::kSuccess;
}

nvml::Return Library::Enter(const char* function, const void* handle, Object::Kind kind,
                            Call& call) {
  std::optional<Object> object;
  {
    const std::lock_guard lock(mutex_);
    if (inits_ == 0) return nvml::kUninitialized;
    object = ObjectOf(handle, kind);
    if (!object.has_value()) return nvml::kInvalidArgument;
  }
  const nvml::Return fault = Faults(function, object->uuid, false);
  if (fault != nvml::kSuccess) return fault;

  const std::lock_guard lock(mutex_);  // the fault may have taken its time
  if (inits_ == 0) return nvml::kUninitialized;
  if (!ObjectOf(handle, kind).has_value()) return nvml::kInvalidArgument;
  call.state = Visible();
  call.gpu = call.state->FindGpu(object->uuid);
  if (call.gpu == nullptr || call.gpu->lost) return nvml::kGpuIsLost;
  if (!object->gi.has_value()) return nvml::kSuccess;
  if (call.gpu->attachment == object->attachment)
    call.instance = call.gpu->InstanceWithId(*object->gi);
  if (call.instance == nullptr) return nvml::kInvalidArgument;
  if (!object->ci.has_value()) return nvml::kSuccess;
  for (const ComputeInstance& compute : call.instance->compute) {
    if (compute.ci == *object->ci) call.compute = &compute;
  }
  return call.compute == nullptr ? nvml::kInvalidArgument : nvml::kSuccess;
}

nvml::Return Library::Reach(const char* function, const Gpu& gpu) {
  const nvml::Return fault = Faults(function, gpu.uuid, true);
  if (fault != nvml::kSuccess) return fault;
  return gpu.lost ? nvml::kGpuIsLost : nvml::kSuccess;
}

nvml::Return Library::Faults(const char* function, const std::string& uuid, bool of_this_gpu_only) {
  std::shared_ptr<const State> state;
  {
    const std::lock_guard lock(mutex_);
    state = file_.Read();
  }
  if (state == nullptr) return nvml::kSuccess;
  const std::string name = Unversioned(function);
  for (const Fault& fault : state->faults) {
    if (fault.function != "*" && Unversioned(fault.function) != name) continue;
    if (fault.gpu.empty()) {
      if (of_this_gpu_only) continue;
    } else {
      const Gpu* gpu = uuid.empty() ? nullptr : state->FindGpu(fault.gpu);
      if (gpu == nullptr || gpu->uuid != uuid) continue;
    }
    if (fault.times.has_value() && !Strikes(fault)) continue;
    if (fault.hang_seconds > 0) Hang(fault);
    if (fault.result.value_or(0) != 0) return static_cast<nvml::Return>(*fault.result);
  }
  return nvml::kSuccess;
}

std::string Library::StatePath() const {
  const std::lock_guard lock(mutex_);
  return file_.path();
}

// Counts in the file, for all processes together; where it cannot be written, for this one.
bool Library::Strikes(const Fault& fault) {
  bool strikes = false;
  try {
    UpdateState(StatePath(), [&](State& state) {
      for (Fault& entry : state.faults) {
        if (entry.id != fault.id || entry.times.value_or(0) == 0) continue;
        --*entry.times;
        strikes = true;
      }
      if (!strikes) throw Answer{nvml::kSuccess};
    });
  } catch (const Answer&) {
    return false;
  } catch (const std::exception&) {
    const std::lock_guard lock(mutex_);
    unsigned& struck = struck_[fault.id];
    strikes = struck < *fault.times;
    if (strikes) ++struck;
  }
  return strikes;
}

void Library::Hang(const Fault& fault) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(fault.hang_seconds);
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kLookInterval);
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<const State> state = file_.Read();
    const bool there =
        state != nullptr && std::any_of(state->faults.begin(), state->faults.end(),
                                        [&](const Fault& entry) { return entry.id == fault.id; });
    if (!there) return;
  }
}

nvml::Return Library::Change(const std::string& uuid,
                             const std::function<nvml::Return(Gpu&)>& change) {
  try {
    UpdateState(StatePath(), [&](State& state) {
      Gpu* gpu = state.FindGpu(uuid);
      if (gpu == nullptr) throw Answer{nvml::kGpuIsLost};
      const Gpu before = *gpu;
      const nvml::Return result = change(*gpu);
      if (result != nvml::kSuccess) throw Answer{result};
      AddMigEvent(state, before, *gpu);
    });
  } catch (const Answer& answer) {
    return answer.result;
  } catch (const std::system_error& error) {
    const int code = error.code().value();
    return code == EACCES || code == EPERM || code == EROFS ? nvml::kNoPermission : nvml::kUnknown;
  }
  return nvml::kSuccess;
}

nvml::Return CopyText(const std::string& text, char* buffer, unsigned length) {
  if (buffer == nullptr) return nvml::kInvalidArgument;
  if (length < text.size() + 1) return nvml::kInsufficientSize;
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return nvml::kSuccess;
}

}  // namespace nvidia_simulator
