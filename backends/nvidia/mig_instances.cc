#include "mig_instances.h"

#include <cmath>
#include <cstring>
#include <map>
#include <regex>
#include <set>
#include <utility>

namespace nvidia {
namespace {

// More memory slices than any card has; beyond it a placement is nonsense.
constexpr unsigned kMaxMemorySlices = 64;

struct Profile {
  unsigned number = 0;  // of nvmlDeviceGetGpuInstanceProfileInfo
  nvml::GpuInstanceProfileInfoV2 info = {};
};

// "MIG 1g.10gb+me" -> "1g.10gb+me"; "" if it is no profile's name.
std::string SaneName(const char (&name)[96]) {
  std::string text(name, strnlen(name, sizeof(name)));
  if (text.rfind("MIG ", 0) == 0) text.erase(0, 4);
  static const std::regex kProfile("[1-9][0-9]?g\\.[0-9]{1,4}gb([+-][a-z]{2,3}(\\.[a-z]{2,3})?)*");
  return std::regex_match(text, kProfile) ? text : "";
}

// What a GPU's profiles are, by GpuInstanceProfileInfo::id. A number that this GPU has no profile for is skipped.
std::map<unsigned, Profile> ProfilesOf(const NvmlLibrary& nvml, nvml::Device device,
                                       const std::string& gpu) {
  std::map<unsigned, Profile> profiles;
  for (unsigned number = 0; number < nvml::kGpuInstanceProfileCount; ++number) {
    Profile profile = {.number = number};
    nvml::GpuInstanceProfileInfoV2& info = profile.info;
    info.version = nvml::VersionOf<nvml::GpuInstanceProfileInfoV2>(2);
    const char* function = "nvmlDeviceGetGpuInstanceProfileInfoV";
    nvml::Return result = nvml.nvmlDeviceGetGpuInstanceProfileInfoV(device, number, &info);
    if (result == nvml::kFunctionNotFound || result == nvml::kArgumentVersionMismatch) {
      function = "nvmlDeviceGetGpuInstanceProfileInfo";
      nvml::GpuInstanceProfileInfo old = {};
      result = nvml.nvmlDeviceGetGpuInstanceProfileInfo(device, number, &old);
      info = {.version = 0,
              .id = old.id,
              .is_p2p_supported = old.is_p2p_supported,
              .slice_count = old.slice_count,
              .instance_count = old.instance_count,
              .multiprocessor_count = old.multiprocessor_count,
              .copy_engine_count = old.copy_engine_count,
              .decoder_count = old.decoder_count,
              .encoder_count = old.encoder_count,
              .jpeg_count = old.jpeg_count,
              .ofa_count = old.ofa_count,
              .memory_size_mb = old.memory_size_mb,
              .name = {}};
    }
    if (result == nvml::kNotSupported || result == nvml::kInvalidArgument) continue;
    nvml.Check(result, function, gpu + " profile " + std::to_string(number));
    profiles.emplace(info.id, profile);
  }
  return profiles;
}

// Answers of a MIG handle whose instance was destroyed since it was listed.
bool IsGone(nvml::Return result) {
  return result == nvml::kNotFound || result == nvml::kInvalidArgument;
}

class Reader {
 public:
  Reader(const NvmlLibrary& nvml, nvml::Device device, const std::string& gpu,
         std::optional<uint64_t> gpu_memory_bytes)
      : nvml_(nvml), device_(device), gpu_(gpu), gpu_memory_bytes_(gpu_memory_bytes) {}

  // nullopt: an empty slot, gone meanwhile, or divided.
  std::optional<MigInstance> Read(unsigned slot) {
    nvml::DeviceAttributes attributes = {};
    std::optional<MigInstance> instance = Place(slot, attributes);
    if (instance) Describe(attributes, *instance);
    return instance;
  }
  // The same without profile name and capacities.
  std::optional<MigInstance> Place(unsigned slot) const {
    nvml::DeviceAttributes attributes = {};
    return Place(slot, attributes);
  }

 private:
  std::optional<MigInstance> Place(unsigned slot, nvml::DeviceAttributes& attributes) const {
    nvml::Device mig = nullptr;
    if (!Got(nvml_.nvmlDeviceGetMigDeviceHandleByIndex(device_, slot, &mig),
             "nvmlDeviceGetMigDeviceHandleByIndex", slot)) {
      return std::nullopt;
    }
    MigInstance instance;
    char uuid[nvml::kUuidBytes] = {};
    nvml::GpuInstance handle = nullptr;
    nvml::GpuInstanceInfo placed = {};
    if (!Got(nvml_.nvmlDeviceGetUUID(mig, uuid, sizeof(uuid)), "nvmlDeviceGetUUID", slot) ||
        !Got(nvml_.nvmlDeviceGetGpuInstanceId(mig, &instance.gpu_instance),
             "nvmlDeviceGetGpuInstanceId", slot) ||
        !Got(nvml_.nvmlDeviceGetComputeInstanceId(mig, &instance.compute_instance),
             "nvmlDeviceGetComputeInstanceId", slot) ||
        !Got(nvml_.nvmlDeviceGetAttributes_v2(mig, &attributes), "nvmlDeviceGetAttributes_v2",
             slot) ||
        !Got(nvml_.nvmlDeviceGetGpuInstanceById(device_, instance.gpu_instance, &handle),
             "nvmlDeviceGetGpuInstanceById", slot) ||
        !Got(nvml_.nvmlGpuInstanceGetInfo(handle, &placed), "nvmlGpuInstanceGetInfo", slot)) {
      return std::nullopt;
    }
    if (attributes.compute_instance_slice_count != attributes.gpu_instance_slice_count) {
      return std::nullopt;
    }
    if (placed.placement.size > kMaxMemorySlices || placed.placement.start > kMaxMemorySlices) {
      throw NvmlError(nvml::kUnknown, "nvmlGpuInstanceGetInfo of " + Subject(slot) +
                                          ": placement " + std::to_string(placed.placement.start) +
                                          ":" + std::to_string(placed.placement.size) +
                                          " has more memory slices than a card can have");
    }
    instance.uuid.assign(uuid, strnlen(uuid, sizeof(uuid)));
    instance.profile_id = placed.profile_id;
    instance.placement_start = placed.placement.start;
    instance.placement_size = placed.placement.size;
    return instance;
  }

  std::string Subject(unsigned slot) const { return gpu_ + " MIG slot " + std::to_string(slot); }
  bool Got(nvml::Return result, const char* function, unsigned slot) const {
    if (IsGone(result)) return false;
    nvml_.Check(result, function, Subject(slot));
    return true;
  }

  // Name and capacities, from the profile; a profile that the library does not tell of, from the instance itself.
  void Describe(const nvml::DeviceAttributes& attributes, MigInstance& instance) {
    if (!profiles_) profiles_ = ProfilesOf(nvml_, device_, gpu_);
    const auto found = profiles_->find(instance.profile_id);
    Profile profile;
    if (found != profiles_->end()) {
      profile = found->second;
    } else {
      profile.info.slice_count = attributes.gpu_instance_slice_count;
      profile.info.multiprocessor_count = attributes.multiprocessor_count;
      profile.info.copy_engine_count = attributes.shared_copy_engine_count;
      profile.info.decoder_count = attributes.shared_decoder_count;
      profile.info.encoder_count = attributes.shared_encoder_count;
      profile.info.jpeg_count = attributes.shared_jpeg_count;
      profile.info.ofa_count = attributes.shared_ofa_count;
      profile.info.memory_size_mb = attributes.memory_size_mb;
    }
    instance.profile = SaneName(profile.info.name);
    if (instance.profile.empty()) {
      // A GPU that does not tell its memory: as if the instance were all of it.
      const uint64_t memory = gpu_memory_bytes_.value_or(profile.info.memory_size_mb << 20);
      instance.profile = MigProfileName(profile.number, profile.info.slice_count,
                                        profile.info.memory_size_mb, memory);
    }
    instance.memory_bytes = static_cast<int64_t>(profile.info.memory_size_mb << 20);
    instance.capacity = {{"multiprocessors", profile.info.multiprocessor_count},
                         {"copyEngines", profile.info.copy_engine_count},
                         {"decoders", profile.info.decoder_count},
                         {"encoders", profile.info.encoder_count},
                         {"jpegEngines", profile.info.jpeg_count},
                         {"ofaEngines", profile.info.ofa_count}};
  }

  const NvmlLibrary& nvml_;
  const nvml::Device device_;
  const std::string gpu_;
  const std::optional<uint64_t> gpu_memory_bytes_;
  std::optional<std::map<unsigned, Profile>> profiles_;  // read once there is an instance
};

}  // namespace

std::string MigProfileName(unsigned profile, unsigned slices, uint64_t profile_mib,
                           uint64_t gpu_memory_bytes) {
  const double total = static_cast<double>(gpu_memory_bytes);
  const double eighths =
      total > 0 ? std::ceil(8.0 * static_cast<double>(profile_mib) * 1048576.0 / total) : 0;
  const long gigabytes = std::lround(eighths / 8.0 * std::ceil(total / 1073741824.0));
  std::string name = std::to_string(slices) + "g." + std::to_string(gigabytes) + "gb";
  switch (profile) {  // NVML_GPU_INSTANCE_PROFILE_*
    case 0x7:
    case 0x8:
      return name + "+me";
    case 0xA:
    case 0xB:
    case 0xC:
    case 0x11:
      return name + "+gfx";
    case 0xD:
    case 0xE:
      return name + "-me";
    case 0xF:
    case 0x10:
      return name + "+me.all";
    default:
      return name;
  }
}

std::vector<MigInstance> MigInstancesOf(const NvmlLibrary& nvml, nvml::Device device,
                                        const std::string& gpu,
                                        std::optional<uint64_t> gpu_memory_bytes) {
  unsigned slots = 0;
  nvml.Check(nvml.nvmlDeviceGetMaxMigDeviceCount(device, &slots), "nvmlDeviceGetMaxMigDeviceCount",
             gpu);
  Reader reader(nvml, device, gpu, gpu_memory_bytes);
  std::vector<MigInstance> instances;
  for (unsigned slot = 0; slot < slots; ++slot) {
    if (std::optional<MigInstance> instance = reader.Read(slot)) {
      instances.push_back(*std::move(instance));
    }
  }
  return instances;
}

std::string MigLayout(bool enabled, const std::vector<MigInstance>& instances) {
  if (!enabled) return "off";
  std::set<std::string> lines;
  for (const MigInstance& instance : instances) {
    std::string line = instance.uuid;
    for (const unsigned number :
         {instance.gpu_instance, instance.compute_instance, instance.profile_id,
          instance.placement_start, instance.placement_size}) {
      line += " " + std::to_string(number);
    }
    lines.insert(std::move(line));
  }
  std::string layout = "on";
  for (const std::string& line : lines) layout += "\n" + line;
  return layout;
}

std::optional<std::string> MigLayoutOf(const NvmlLibrary& nvml, nvml::Device device,
                                       const std::string& gpu) {
  try {
    unsigned current = 0, pending = 0;
    const nvml::Return mode = nvml.nvmlDeviceGetMigMode(device, &current, &pending);
    if (IsAbsent(mode)) return MigLayout(false, {});
    nvml.Check(mode, "nvmlDeviceGetMigMode", gpu);
    std::vector<MigInstance> instances;
    if (current == 1) {
      unsigned slots = 0;
      nvml.Check(nvml.nvmlDeviceGetMaxMigDeviceCount(device, &slots),
                 "nvmlDeviceGetMaxMigDeviceCount", gpu);
      const Reader reader(nvml, device, gpu, std::nullopt);
      for (unsigned slot = 0; slot < slots; ++slot) {
        if (auto instance = reader.Place(slot)) instances.push_back(*std::move(instance));
      }
    }
    return MigLayout(current == 1, instances);
  } catch (const NvmlError& error) {
    if (IsLibraryLost(error.result())) throw;
    return std::nullopt;
  }
}

}  // namespace nvidia
