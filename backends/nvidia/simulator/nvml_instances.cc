#include <algorithm>
#include <cstdio>
#include <optional>

#include "exports.h"
#include "library.h"

// GPU instances and compute instances: made, listed, taken away.
using nvidia_simulator::Call;
using nvidia_simulator::ComputeInstance;
using nvidia_simulator::Gpu;
using nvidia_simulator::Library;
using nvidia_simulator::MigInstance;
using nvidia_simulator::MigProfile;
using nvidia_simulator::OnComputeInstance;
using nvidia_simulator::OnGpu;
using nvidia_simulator::OnGpuInstance;
using nvidia_simulator::Process;

namespace {

// Compute slices of the compute instance profiles, by enum and by id. What is not here no card of ours has.
constexpr unsigned kSlicesByEnum[] = {1, 2, 3, 4, 7};

std::optional<unsigned> SlicesOf(unsigned profile) {
  if (profile >= std::size(kSlicesByEnum)) return std::nullopt;
  return kSlicesByEnum[profile];
}

const MigProfile* ProfileOf(const Call& call) {
  return call.gpu->ProfileNamed(call.instance->profile);
}

// The GPU as it was before is gone with a reset; instances with it.
MigInstance* SameInstance(Gpu& gpu, const Call& call) {
  return gpu.attachment == call.gpu->attachment ? gpu.InstanceWithId(call.instance->gi) : nullptr;
}

nvml::Return Create(const char* function, nvml::Device device, unsigned profile_id,
                    std::optional<const nvml::Placement*> placement, nvml::GpuInstance* instance) {
  return OnGpu(function, device, [&](const Call& call) {
    if (instance == nullptr || (placement.has_value() && *placement == nullptr))
      return nvml::kInvalidArgument;
    if (!call.gpu->mig_mode) return nvml::kNotSupported;
    unsigned gi = 0;
    const nvml::Return result = Library::Get().Change(call.gpu->uuid, [&](Gpu& gpu) {
      const MigProfile* profile = gpu.ProfileWithId(profile_id);
      if (profile == nullptr) return nvml::kInvalidArgument;
      std::optional<unsigned> start;
      if (placement.has_value()) {
        if ((*placement)->size != profile->placements.front().size) return nvml::kInvalidArgument;
        start = (*placement)->start;
      }
      return static_cast<nvml::Return>(CreateGpuInstance(gpu, *profile, start, &gi));
    });
    if (result == nvml::kSuccess) *instance = Library::Get().InstanceHandle(*call.gpu, gi);
    return result;
  });
}

// Fills the version's struct; all begin alike behind the version word.
template <typename Info>
void FillComputeProfile(const Gpu& gpu, const MigProfile& profile, unsigned compute_profile,
                        unsigned slices, Info& info) {
  info.id = compute_profile;
  info.slice_count = slices;
  info.instance_count = profile.slices / slices;
  info.multiprocessor_count = ComputeMultiprocessors(gpu, profile, slices);
  info.shared_copy_engine_count = profile.copy_engines;
  info.shared_decoder_count = profile.decoders;
  info.shared_encoder_count = profile.encoders;
  info.shared_jpeg_count = profile.jpegs;
  info.shared_ofa_count = profile.ofas;
}

// Whether the GPU instance has the profile: its compute slices, or why not.
nvml::Return FindComputeProfile(const Call& call, unsigned profile, unsigned engine_profile,
                                unsigned& slices) {
  if (profile >= nvml::kComputeInstanceProfileCount || engine_profile != 0)
    return nvml::kInvalidArgument;
  const std::optional<unsigned> found = SlicesOf(profile);
  if (!found.has_value() || *found > ProfileOf(call)->slices) return nvml::kNotSupported;
  slices = *found;
  return nvml::kSuccess;
}

bool Holds(const Process& process, unsigned gi, std::optional<unsigned> ci) {
  if (process.gi != gi) return false;
  return !ci.has_value() || !process.ci.has_value() || process.ci == ci;
}

}  // namespace

nvml::Return nvmlDeviceCreateGpuInstance(nvml::Device device, unsigned profile_id,
                                         nvml::GpuInstance* instance) {
  return Create("nvmlDeviceCreateGpuInstance", device, profile_id, std::nullopt, instance);
}

nvml::Return nvmlDeviceCreateGpuInstanceWithPlacement(nvml::Device device, unsigned profile_id,
                                                      const nvml::Placement* placement,
                                                      nvml::GpuInstance* instance) {
  return Create("nvmlDeviceCreateGpuInstanceWithPlacement", device, profile_id, placement,
                instance);
}

nvml::Return nvmlDeviceGetGpuInstances(nvml::Device device, unsigned profile_id,
                                       nvml::GpuInstance* instances, unsigned* count) {
  return OnGpu("nvmlDeviceGetGpuInstances", device, [&](const Call& call) {
    if (instances == nullptr || count == nullptr) return nvml::kInvalidArgument;
    if (!call.gpu->mig_mode) return nvml::kNotSupported;
    const MigProfile* profile = call.gpu->ProfileWithId(profile_id);
    if (profile == nullptr) return nvml::kInvalidArgument;
    *count = 0;  // the buffer is as long as the profile's instance count, says nvml.h
    for (const MigInstance& instance : call.gpu->mig) {
      if (instance.profile == profile->name) {
        instances[(*count)++] = Library::Get().InstanceHandle(*call.gpu, instance.gi);
      }
    }
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetGpuInstanceById(nvml::Device device, unsigned id,
                                          nvml::GpuInstance* instance) {
  return OnGpu("nvmlDeviceGetGpuInstanceById", device, [&](const Call& call) {
    if (instance == nullptr) return nvml::kInvalidArgument;
    if (!call.gpu->mig_mode) return nvml::kNotSupported;
    if (call.gpu->InstanceWithId(id) == nullptr) return nvml::kNotFound;
    *instance = Library::Get().InstanceHandle(*call.gpu, id);
    return nvml::kSuccess;
  });
}

nvml::Return nvmlGpuInstanceGetInfo(nvml::GpuInstance instance, nvml::GpuInstanceInfo* info) {
  return OnGpuInstance("nvmlGpuInstanceGetInfo", instance, [&](const Call& call) {
    if (info == nullptr) return nvml::kInvalidArgument;
    const MigProfile& profile = *ProfileOf(call);
    *info = {Library::Get().DeviceHandle(call.gpu->uuid),
             call.instance->gi,
             profile.id,
             {call.instance->start, profile.placements.front().size}};
    return nvml::kSuccess;
  });
}

nvml::Return nvmlGpuInstanceDestroy(nvml::GpuInstance instance) {
  return OnGpuInstance("nvmlGpuInstanceDestroy", instance, [&](const Call& call) {
    return Library::Get().Change(call.gpu->uuid, [&](Gpu& gpu) {
      const MigInstance* same = SameInstance(gpu, call);
      if (same == nullptr) return nvml::kInvalidArgument;
      if (!same->compute.empty()) return nvml::kInUse;
      for (const Process& process : gpu.processes) {
        if (Holds(process, same->gi, std::nullopt)) return nvml::kInUse;
      }
      gpu.mig.erase(gpu.mig.begin() + (same - gpu.mig.data()));
      return nvml::kSuccess;
    });
  });
}

nvml::Return nvmlGpuInstanceGetComputeInstanceProfileInfo(nvml::GpuInstance instance,
                                                          unsigned profile, unsigned engine_profile,
                                                          nvml::ComputeInstanceProfileInfo* info) {
  return OnGpuInstance(
      "nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, [&](const Call& call) {
        unsigned slices = 0;
        if (info == nullptr) return nvml::kInvalidArgument;
        const nvml::Return found = FindComputeProfile(call, profile, engine_profile, slices);
        if (found == nvml::kSuccess)
          FillComputeProfile(*call.gpu, *ProfileOf(call), profile, slices, *info);
        return found;
      });
}

nvml::Return nvmlGpuInstanceGetComputeInstanceProfileInfoV(
    nvml::GpuInstance instance, unsigned profile, unsigned engine_profile,
    nvml::ComputeInstanceProfileInfoV2* info) {
  return OnGpuInstance(
      "nvmlGpuInstanceGetComputeInstanceProfileInfoV", instance, [&](const Call& call) {
        unsigned slices = 0;
        if (info == nullptr) return nvml::kInvalidArgument;
        const bool third = info->version == nvml::kComputeInstanceProfileInfoV3Version;
        if (!third && info->version != nvml::kComputeInstanceProfileInfoV2Version) {
          return nvml::kArgumentVersionMismatch;
        }
        const nvml::Return found = FindComputeProfile(call, profile, engine_profile, slices);
        if (found != nvml::kSuccess) return found;
        FillComputeProfile(*call.gpu, *ProfileOf(call), profile, slices, *info);
        const std::string split =
            slices == ProfileOf(call)->slices ? "" : std::to_string(slices) + "c.";
        std::snprintf(info->name, sizeof info->name, "MIG %s%s", split.c_str(),
                      call.instance->profile.c_str());
        // The third version is the second and a word of capabilities, and the caller's is long enough.
        if (third) reinterpret_cast<nvml::ComputeInstanceProfileInfoV3*>(info)->capabilities = 0;
        return nvml::kSuccess;
      });
}

nvml::Return nvmlGpuInstanceCreateComputeInstance(nvml::GpuInstance instance, unsigned profile_id,
                                                  nvml::ComputeInstance* compute_instance) {
  return OnGpuInstance("nvmlGpuInstanceCreateComputeInstance", instance, [&](const Call& call) {
    const std::optional<unsigned> slices = SlicesOf(profile_id);
    if (compute_instance == nullptr || !slices.has_value()) return nvml::kInvalidArgument;
    unsigned ci = 0;
    const nvml::Return result = Library::Get().Change(call.gpu->uuid, [&](Gpu& gpu) {
      MigInstance* same = SameInstance(gpu, call);
      if (same == nullptr) return nvml::kInvalidArgument;
      return static_cast<nvml::Return>(CreateComputeInstance(gpu, *same, *slices, &ci));
    });
    if (result == nvml::kSuccess) {
      *compute_instance = Library::Get().ComputeHandle(*call.gpu, call.instance->gi, ci);
    }
    return result;
  });
}

nvml::Return nvmlGpuInstanceGetComputeInstances(nvml::GpuInstance instance, unsigned profile_id,
                                                nvml::ComputeInstance* instances, unsigned* count) {
  return OnGpuInstance("nvmlGpuInstanceGetComputeInstances", instance, [&](const Call& call) {
    if (instances == nullptr || count == nullptr || !SlicesOf(profile_id))
      return nvml::kInvalidArgument;
    *count = 0;
    for (const ComputeInstance& compute : call.instance->compute) {
      if (compute.profile_id() == profile_id) {
        instances[(*count)++] =
            Library::Get().ComputeHandle(*call.gpu, call.instance->gi, compute.ci);
      }
    }
    return nvml::kSuccess;
  });
}

nvml::Return nvmlGpuInstanceGetComputeInstanceById(nvml::GpuInstance instance, unsigned id,
                                                   nvml::ComputeInstance* compute_instance) {
  return OnGpuInstance("nvmlGpuInstanceGetComputeInstanceById", instance, [&](const Call& call) {
    if (compute_instance == nullptr) return nvml::kInvalidArgument;
    for (const ComputeInstance& compute : call.instance->compute) {
      if (compute.ci != id) continue;
      *compute_instance = Library::Get().ComputeHandle(*call.gpu, call.instance->gi, id);
      return nvml::kSuccess;
    }
    return nvml::kNotFound;
  });
}

nvml::Return nvmlComputeInstanceGetInfo_v2(nvml::ComputeInstance instance,
                                           nvml::ComputeInstanceInfo* info) {
  return OnComputeInstance("nvmlComputeInstanceGetInfo_v2", instance, [&](const Call& call) {
    if (info == nullptr) return nvml::kInvalidArgument;
    *info = {Library::Get().MigHandle(*call.gpu, call.instance->gi, call.compute->ci),
             Library::Get().InstanceHandle(*call.gpu, call.instance->gi),
             call.compute->ci,
             call.compute->profile_id(),
             {call.compute->start, call.compute->slices}};
    return nvml::kSuccess;
  });
}

nvml::Return nvmlComputeInstanceDestroy(nvml::ComputeInstance instance) {
  return OnComputeInstance("nvmlComputeInstanceDestroy", instance, [&](const Call& call) {
    return Library::Get().Change(call.gpu->uuid, [&](Gpu& gpu) {
      MigInstance* same = SameInstance(gpu, call);
      if (same == nullptr) return nvml::kInvalidArgument;
      for (const Process& process : gpu.processes) {
        if (Holds(process, same->gi, call.compute->ci)) return nvml::kInUse;
      }
      const auto at = std::find_if(
          same->compute.begin(), same->compute.end(),
          [&](const ComputeInstance& compute) { return compute.ci == call.compute->ci; });
      if (at == same->compute.end()) return nvml::kInvalidArgument;
      same->compute.erase(at);
      return nvml::kSuccess;
    });
  });
}
