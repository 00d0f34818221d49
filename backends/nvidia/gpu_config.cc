#include "gpu_config.h"

#include <string>

#include "dra/backend/configs.h"

namespace nvidia {

using dra::BackendError;
using dra::Json;
using dra::JsonReader;

namespace {

constexpr char kGpu[] = "GpuConfig";
constexpr char kMig[] = "MigDeviceConfig";

// The public driver's kinds that this backend does not serve yet.
// Source: kubernetes-sigs/dra-driver-nvidia-gpu: api/nvidia.com/resource/v1beta1.
struct OtherKind {
  const char* kind;
  const char* what;
};
constexpr OtherKind kOtherKinds[] = {
    {"VfioDeviceConfig", "GPUs for virtual machines are"},
    {"ComputeDomainChannelConfig", "compute domains are"},
    {"ComputeDomainDaemonConfig", "compute domains are"},
};

// `sharing` is known, so that a claim of the public driver gets an answer that says what is missing, and refused, so
// that no workload believes it shares when it does not.
void ReadSharing(JsonReader& reader, bool is_mig) {
  reader.OptionalObject("sharing", [&](JsonReader& sharing) {
    const std::string strategy =
        sharing.Enum<const char*>("strategy", {{"TimeSlicing", "TimeSlicing"}, {"MPS", "MPS"}});
    if (!is_mig) {
      sharing.OptionalObject("timeSlicingConfig", [&](JsonReader& slicing) {
        slicing.OptionalEnum<int>("interval",
                                  {{"Default", 0}, {"Short", 1}, {"Medium", 2}, {"Long", 3}});
      });
    }
    sharing.OptionalObject("mpsConfig", [&](JsonReader& mps) {
      mps.Optional("defaultActiveThreadPercentage", 0, 100);
      mps.Optional<std::string>("defaultPinnedDeviceMemoryLimit");
      mps.Optional<Json>("defaultPerDevicePinnedMemoryLimit");
      mps.Optional<bool>("multiUser");
    });
    sharing.Refuse("strategy", strategy +
                                   ": not supported by this version: remove `sharing` for a " +
                                   (is_mig ? "MIG instance" : "GPU") +
                                   " of its own, or let several containers and pods use one claim");
  });
}

// The kind: kGpu or kMig.
std::string Read(const Json& parameters, const std::string& path) {
  if (parameters.is_object()) {
    const auto kind = parameters.find("kind");
    for (const OtherKind& other : kOtherKinds) {
      if (kind == parameters.end() || *kind != other.kind) continue;
      throw BackendError(DRA_INVALID_ARGUMENT,
                         path + ".kind: " + other.kind +
                             ": not supported by this version: " + other.what +
                             " not served by this driver; known: " + kGpu + ", " + kMig);
    }
  }
  static const dra::ConfigKinds<std::string> kinds({
      {kConfigApiVersion, kGpu,
       [](JsonReader& reader) {
         ReadSharing(reader, /*is_mig=*/false);
         return std::string(kGpu);
       }},
      {kConfigApiVersion, kMig,
       [](JsonReader& reader) {
         ReadSharing(reader, /*is_mig=*/true);
         return std::string(kMig);
       }},
  });
  return kinds.Read(parameters, path);
}

Json Schema(const char* kind) {
  return {
      {"type", "object"},
      {"required", Json::array({"apiVersion", "kind"})},
      {"additionalProperties", false},
      {"properties",
       {{"apiVersion", {{"const", kConfigApiVersion}}},
        {"kind", {{"const", kind}}},
        {"sharing", {{"type", "null"}}}}}};  // as Kubernetes has it, null is the same as not there
}

std::string Where(const dra::DeviceConfig& config) {
  return "configuration " + config.source +
         (config.request.empty() ? "" : " of request " + config.request) + ": parameters";
}

}  // namespace

std::vector<dra::BackendManifest::ConfigKind> ConfigKinds() {
  return {{kConfigApiVersion, kGpu, Schema(kGpu)}, {kConfigApiVersion, kMig, Schema(kMig)}};
}

void ValidateConfig(const Json& parameters) { Read(parameters, "parameters"); }

void CheckConfigOf(const dra::AllocatedDevice& device, bool is_mig) {
  // Every one is read, also one that another outranks: what a user wrote wrong is told in any case.
  std::vector<std::string> kinds;
  for (const dra::DeviceConfig& config : device.configs) {
    kinds.push_back(Read(config.parameters, Where(config)));
  }
  const std::string fitting = is_mig ? kMig : kGpu;
  for (size_t i = kinds.size(); i-- > 0;) {
    if (kinds[i] == fitting) return;
    const dra::DeviceConfig& config = device.configs[i];
    if (config.request.empty()) continue;  // for all requests: meant for devices of the other kind
    throw BackendError(DRA_INVALID_ARGUMENT,
                       Where(config) + ".kind: is " + kinds[i] + ", but device " + device.name() +
                           " of this request is " + (is_mig ? "a MIG instance" : "a whole GPU") +
                           ": use " + fitting);
  }
}

void CheckConfigsFit(const std::vector<dra::AllocatedDevice>& devices,
                     const std::vector<bool>& is_mig) {
  bool have_gpu = false, have_mig = false;
  for (const bool mig : is_mig) (mig ? have_mig : have_gpu) = true;
  for (const dra::AllocatedDevice& device : devices) {
    for (const dra::DeviceConfig& config : device.configs) {
      if (config.source != "FromClaim" || !config.request.empty()) continue;
      const std::string kind = Read(config.parameters, Where(config));
      if (kind == kMig ? have_mig : have_gpu) continue;
      throw BackendError(DRA_INVALID_ARGUMENT,
                         Where(config) + ".kind: is " + kind + ", but no device of the claim is " +
                             (kind == kMig ? "a MIG instance: use " : "a whole GPU: use ") +
                             (kind == kMig ? kGpu : kMig));
    }
  }
}

}  // namespace nvidia
