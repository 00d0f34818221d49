#include <algorithm>
#include <cstdio>

#include "exports.h"
#include "library.h"

// MIG mode, MIG devices, and the profiles of GPU instances.
using nvidia_simulator::Call;
using nvidia_simulator::Gpu;
using nvidia_simulator::Library;
using nvidia_simulator::MigProfile;
using nvidia_simulator::OnDevice;
using nvidia_simulator::OnGpu;
using nvidia_simulator::OnMigDevice;
using nvidia_simulator::Placement;

namespace {

constexpr unsigned kVgpu = 2;  // virtualisation mode of a guest

unsigned MaxMigDevices(const Gpu& gpu) {
  if (!gpu.mig_mode) return 0;
  unsigned most = 0;
  for (const MigProfile& profile : gpu.mig_profiles) most = std::max(most, profile.instances);
  return most;
}

// By the enum; nullptr where the card has no such profile.
const MigProfile* ProfileWithEnum(const Gpu& gpu, unsigned profile_enum) {
  for (const MigProfile& profile : gpu.mig_profiles) {
    if (profile.profile_enum == profile_enum) return &profile;
  }
  return nullptr;
}

template <typename Info>
void FillProfile(const MigProfile& profile, Info& info) {
  info.id = profile.id;
  info.slice_count = profile.slices;
  info.instance_count = profile.instances;
  info.multiprocessor_count = profile.multiprocessors;
  info.copy_engine_count = profile.copy_engines;
  info.decoder_count = profile.decoders;
  info.encoder_count = profile.encoders;
  info.jpeg_count = profile.jpegs;
  info.ofa_count = profile.ofas;
  info.memory_size_mb = profile.memory_mib;
}

// Versions 2 and 3 are of one size: only the word tells them apart.
nvml::Return FillVersioned(const MigProfile& profile, nvml::GpuInstanceProfileInfoV2* info) {
  const std::string name = "MIG " + profile.name;
  if (info->version == nvml::kGpuInstanceProfileInfoV2Version) {
    FillProfile(profile, *info);
    info->is_p2p_supported = profile.p2p ? 1 : 0;
    std::snprintf(info->name, sizeof info->name, "%s", name.c_str());
    return nvml::kSuccess;
  }
  nvml::GpuInstanceProfileInfoV3 third{};
  third.version = nvml::kGpuInstanceProfileInfoV3Version;
  FillProfile(profile, third);
  std::snprintf(third.name, sizeof third.name, "%s", name.c_str());
  third.capabilities = profile.p2p ? nvml::kGpuInstanceCanP2p : 0;
  static_assert(sizeof third == sizeof *info);
  std::copy_n(reinterpret_cast<const char*>(&third), sizeof third, reinterpret_cast<char*>(info));
  return nvml::kSuccess;
}

bool KnownVersion(unsigned version) {
  return version == nvml::kGpuInstanceProfileInfoV2Version ||
         version == nvml::kGpuInstanceProfileInfoV3Version;
}

nvml::Return ListPlacements(const Gpu& gpu, unsigned profile_id, nvml::Placement* placements,
                            unsigned* count) {
  if (count == nullptr) return nvml::kInvalidArgument;
  if (!gpu.mig_capable) return nvml::kNotSupported;
  const MigProfile* profile = gpu.ProfileWithId(profile_id);
  if (profile == nullptr) return nvml::kInvalidArgument;
  const unsigned room = *count;
  *count = static_cast<unsigned>(profile->placements.size());
  if (placements == nullptr) return nvml::kSuccess;  // the caller asks how many there are
  if (room < *count) return nvml::kInsufficientSize;
  for (const Placement& placement : profile->placements)
    *placements++ = {placement.start, placement.size};
  return nvml::kSuccess;
}

}  // namespace

nvml::Return nvmlDeviceGetMigMode(nvml::Device device, unsigned* current, unsigned* pending) {
  return OnGpu("nvmlDeviceGetMigMode", device, [&](const Call& call) {
    if (current == nullptr || pending == nullptr) return nvml::kInvalidArgument;
    if (!call.gpu->mig_capable) return nvml::kNotSupported;
    *current = call.gpu->mig_mode ? 1 : 0;
    *pending = call.gpu->mig_mode_pending ? 1 : 0;
    return nvml::kSuccess;
  });
}

// The mode becomes pending; whether it also became current is the activation's status, beside the result.
nvml::Return nvmlDeviceSetMigMode(nvml::Device device, unsigned mode, nvml::Return* activation) {
  return OnGpu("nvmlDeviceSetMigMode", device, [&](const Call& call) {
    if (mode > 1 || activation == nullptr) return nvml::kInvalidArgument;
    if (!call.gpu->mig_capable || call.gpu->virtualization_mode == kVgpu)
      return nvml::kNotSupported;
    return Library::Get().Change(call.gpu->uuid, [&](Gpu& gpu) {
      const bool wanted = mode == 1;
      if (!wanted && !gpu.mig.empty()) return nvml::kInUse;
      gpu.mig_mode_pending = wanted;
      *activation = nvml::kSuccess;
      if (gpu.mig_mode == wanted) return nvml::kSuccess;
      if (!gpu.processes.empty()) {
        *activation = nvml::kInUse;
      } else if (gpu.architecture < nvidia_simulator::kHopper) {
        *activation = nvml::kResetRequired;
      } else {
        ApplyMigMode(gpu);
      }
      return nvml::kSuccess;
    });
  });
}

nvml::Return nvmlDeviceGetMaxMigDeviceCount(nvml::Device device, unsigned* count) {
  return OnGpu("nvmlDeviceGetMaxMigDeviceCount", device, [&](const Call& call) {
    if (count == nullptr) return nvml::kInvalidArgument;
    *count = MaxMigDevices(*call.gpu);
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetMigDeviceHandleByIndex(nvml::Device device, unsigned index,
                                                 nvml::Device* mig) {
  return OnGpu("nvmlDeviceGetMigDeviceHandleByIndex", device, [&](const Call& call) {
    if (mig == nullptr) return nvml::kInvalidArgument;
    if (!call.gpu->mig_mode) return nvml::kNotSupported;
    if (index >= MaxMigDevices(*call.gpu)) return nvml::kInvalidArgument;
    for (const auto& instance : call.gpu->mig) {
      for (const auto& compute : instance.compute) {
        if (index-- != 0) continue;
        *mig = Library::Get().MigHandle(*call.gpu, instance.gi, compute.ci);
        return nvml::kSuccess;
      }
    }
    return nvml::kNotFound;
  });
}

nvml::Return nvmlDeviceIsMigDeviceHandle(nvml::Device device, unsigned* is_mig) {
  return OnDevice("nvmlDeviceIsMigDeviceHandle", device, [&](const Call& call) {
    if (is_mig == nullptr) return nvml::kInvalidArgument;
    *is_mig = call.is_mig() ? 1 : 0;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetGpuInstanceId(nvml::Device mig, unsigned* id) {
  return OnMigDevice("nvmlDeviceGetGpuInstanceId", mig, [&](const Call& call) {
    if (id == nullptr) return nvml::kInvalidArgument;
    *id = call.instance->gi;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetComputeInstanceId(nvml::Device mig, unsigned* id) {
  return OnMigDevice("nvmlDeviceGetComputeInstanceId", mig, [&](const Call& call) {
    if (id == nullptr) return nvml::kInvalidArgument;
    *id = call.compute->ci;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml::Device mig, nvml::Device* parent) {
  return OnMigDevice("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", mig, [&](const Call& call) {
    if (parent == nullptr) return nvml::kInvalidArgument;
    *parent = Library::Get().DeviceHandle(call.gpu->uuid);
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetAttributes_v2(nvml::Device mig, nvml::DeviceAttributes* attributes) {
  return OnDevice("nvmlDeviceGetAttributes_v2", mig, [&](const Call& call) {
    if (attributes == nullptr) return nvml::kInvalidArgument;
    if (!call.is_mig()) return nvml::kNotSupported;
    const MigProfile* profile = call.gpu->ProfileNamed(call.instance->profile);
    if (profile == nullptr) return nvml::kUnknown;
    *attributes = {ComputeMultiprocessors(*call.gpu, *profile, call.compute->slices),
                   profile->copy_engines,
                   profile->decoders,
                   profile->encoders,
                   profile->jpegs,
                   profile->ofas,
                   profile->slices,
                   call.compute->slices,
                   profile->memory_mib};
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetAttributes(nvml::Device mig, nvml::DeviceAttributes* attributes) {
  return nvmlDeviceGetAttributes_v2(mig, attributes);
}

nvml::Return nvmlDeviceGetGpuInstanceProfileInfo(nvml::Device device, unsigned profile,
                                                 nvml::GpuInstanceProfileInfo* info) {
  return OnGpu("nvmlDeviceGetGpuInstanceProfileInfo", device, [&](const Call& call) {
    if (info == nullptr || profile >= nvml::kGpuInstanceProfileCount) return nvml::kInvalidArgument;
    const MigProfile* found = ProfileWithEnum(*call.gpu, profile);
    if (found == nullptr) return nvml::kNotSupported;
    FillProfile(*found, *info);
    info->is_p2p_supported = found->p2p ? 1 : 0;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetGpuInstanceProfileInfoV(nvml::Device device, unsigned profile,
                                                  nvml::GpuInstanceProfileInfoV2* info) {
  return OnGpu("nvmlDeviceGetGpuInstanceProfileInfoV", device, [&](const Call& call) {
    if (info == nullptr || profile >= nvml::kGpuInstanceProfileCount) return nvml::kInvalidArgument;
    if (!KnownVersion(info->version)) return nvml::kArgumentVersionMismatch;
    const MigProfile* found = ProfileWithEnum(*call.gpu, profile);
    return found == nullptr ? nvml::kNotSupported : FillVersioned(*found, info);
  });
}

nvml::Return nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvml::Device device, unsigned profile_id,
                                                      nvml::GpuInstanceProfileInfoV2* info) {
  return OnGpu("nvmlDeviceGetGpuInstanceProfileInfoByIdV", device, [&](const Call& call) {
    if (info == nullptr) return nvml::kInvalidArgument;
    if (!KnownVersion(info->version)) return nvml::kArgumentVersionMismatch;
    if (!call.gpu->mig_capable) return nvml::kNotSupported;
    const MigProfile* found = call.gpu->ProfileWithId(profile_id);
    return found == nullptr ? nvml::kInvalidArgument : FillVersioned(*found, info);
  });
}

nvml::Return nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvml::Device device, unsigned profile_id,
                                                           nvml::Placement* placements,
                                                           unsigned* count) {
  return OnGpu("nvmlDeviceGetGpuInstancePossiblePlacements_v2", device, [&](const Call& call) {
    return ListPlacements(*call.gpu, profile_id, placements, count);
  });
}

nvml::Return nvmlDeviceGetGpuInstancePossiblePlacements(nvml::Device device, unsigned profile_id,
                                                        nvml::Placement* placements,
                                                        unsigned* count) {
  return nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profile_id, placements, count);
}

nvml::Return nvmlDeviceGetGpuInstanceRemainingCapacity(nvml::Device device, unsigned profile_id,
                                                       unsigned* count) {
  return OnGpu("nvmlDeviceGetGpuInstanceRemainingCapacity", device, [&](const Call& call) {
    if (count == nullptr) return nvml::kInvalidArgument;
    if (!call.gpu->mig_mode) return nvml::kNotSupported;
    const MigProfile* profile = call.gpu->ProfileWithId(profile_id);
    if (profile == nullptr) return nvml::kInvalidArgument;
    unsigned same = 0;
    for (const auto& instance : call.gpu->mig) same += instance.profile == profile->name ? 1 : 0;
    // A profile's own placements never overlap one another.
    const auto free = static_cast<unsigned>(FreePlacements(*call.gpu, *profile).size());
    *count = std::min(free, profile->instances - std::min(profile->instances, same));
    return nvml::kSuccess;
  });
}
