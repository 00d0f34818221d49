#include <algorithm>
#include <utility>

#include "nvml.h"
#include "state.h"

// What MIG allows on a card: placements, instance ids, changes of mode.
namespace nvidia_simulator {
namespace {

bool Overlap(const Placement& a, const Placement& b) {
  return a.start < b.start + b.size && b.start < a.start + a.size;
}

std::optional<Placement> PlacementAt(const MigProfile& profile, unsigned start) {
  for (const Placement& placement : profile.placements) {
    if (placement.start == start) return placement;
  }
  return std::nullopt;
}

// Ids as they are on real cards: a range of their own for each size of placement, and not in the order of
// placements (7g is 0, halves are 1 and 2, quarters 3 to 6, eighths 7 to 13). Source: NVIDIA MIG user guide,
// listings of `nvidia-smi mig -lgi`.
std::optional<unsigned> FreeInstanceId(const Gpu& gpu, unsigned placement_size) {
  std::vector<unsigned> ids;
  if (placement_size >= 8) {
    ids = {0};
  } else if (placement_size >= 4) {
    ids = {2, 1};
  } else if (placement_size >= 2) {
    ids = {3, 5, 4, 6};
  } else {
    ids = {9, 7, 8, 10, 11, 12, 13};
  }
  for (unsigned id = 0; id < kGpuInstanceIds; ++id)
    ids.push_back(id);  // a model's own ids may be in the way
  for (const unsigned id : ids) {
    if (gpu.InstanceWithId(id) == nullptr) return id;
  }
  return std::nullopt;
}

}  // namespace

// Source: NVIDIA MIG user guide, `nvidia-smi mig -lcip`.
unsigned ComputeInstance::profile_id() const { return slices == 7 ? 4 : slices - 1; }

const MigProfile* Gpu::ProfileNamed(const std::string& profile_name) const {
  for (const MigProfile& profile : mig_profiles) {
    if (profile.name == profile_name) return &profile;
  }
  return nullptr;
}

const MigProfile* Gpu::ProfileWithId(unsigned id) const {
  for (const MigProfile& profile : mig_profiles) {
    if (profile.id == id) return &profile;
  }
  return nullptr;
}

const MigInstance* Gpu::InstanceWithId(unsigned gi) const {
  for (const MigInstance& instance : mig) {
    if (instance.gi == gi) return &instance;
  }
  return nullptr;
}

MigInstance* Gpu::InstanceWithId(unsigned gi) {
  return const_cast<MigInstance*>(std::as_const(*this).InstanceWithId(gi));
}

std::vector<Placement> FreePlacements(const Gpu& gpu, const MigProfile& profile) {
  std::vector<Placement> taken;
  unsigned same = 0;
  for (const MigInstance& instance : gpu.mig) {
    const MigProfile* other = gpu.ProfileNamed(instance.profile);
    if (other == nullptr) continue;
    if (other->id == profile.id) ++same;
    if (const auto placement = PlacementAt(*other, instance.start)) taken.push_back(*placement);
  }
  std::vector<Placement> free;
  if (same >= profile.instances) return free;
  for (const Placement& placement : profile.placements) {
    const bool clear = std::none_of(taken.begin(), taken.end(), [&](const Placement& other) {
      return Overlap(placement, other);
    });
    if (clear) free.push_back(placement);
  }
  return free;
}

int CreateGpuInstance(Gpu& gpu, const MigProfile& profile, std::optional<unsigned> start,
                      unsigned* gi) {
  if (!gpu.mig_mode) return nvml::kNotSupported;
  if (start.has_value() && !PlacementAt(profile, *start)) return nvml::kInvalidArgument;
  for (const Placement& placement : FreePlacements(gpu, profile)) {
    if (start.has_value() && placement.start != *start) continue;
    const std::optional<unsigned> id = FreeInstanceId(gpu, placement.size);
    if (!id.has_value()) break;
    gpu.mig.push_back({profile.name, placement.start, *id, {}});
    *gi = *id;
    return nvml::kSuccess;
  }
  return nvml::kInsufficientResources;
}

int CreateComputeInstance(Gpu& gpu, MigInstance& instance, unsigned slices, unsigned* ci) {
  const MigProfile* profile = gpu.ProfileNamed(instance.profile);
  if (profile == nullptr || slices == 0 || slices > profile->slices) return nvml::kNotSupported;
  for (unsigned start = 0; start + slices <= profile->slices; ++start) {
    const bool clear = std::none_of(instance.compute.begin(), instance.compute.end(),
                                    [&](const ComputeInstance& other) {
                                      return Overlap({start, slices}, {other.start, other.slices});
                                    });
    if (!clear) continue;
    unsigned id = 0;
    while (std::any_of(instance.compute.begin(), instance.compute.end(),
                       [&](const ComputeInstance& other) { return other.ci == id; })) {
      ++id;
    }
    instance.compute.push_back({id, slices, start, MigUuid(gpu.uuid, instance.gi, id)});
    *ci = id;
    return nvml::kSuccess;
  }
  return nvml::kInsufficientResources;
}

unsigned ComputeMultiprocessors(const Gpu& gpu, const MigProfile& profile, unsigned slices) {
  if (slices == profile.slices) return profile.multiprocessors;
  unsigned of_one = profile.multiprocessors / profile.slices;
  for (const MigProfile& other : gpu.mig_profiles) {
    if (other.slices == 1) of_one = std::min(of_one, other.multiprocessors);
  }
  return of_one * slices;
}

void ApplyMigMode(Gpu& gpu) {
  ++gpu.attachment;
  gpu.mig.clear();  // instances do not outlive a reset
  if (gpu.mig_mode == gpu.mig_mode_pending) return;
  gpu.mig_mode = gpu.mig_mode_pending;
  if (gpu.minor_after_mig_toggle.has_value()) std::swap(gpu.minor, *gpu.minor_after_mig_toggle);
}

void AddMigEvent(State& state, const Gpu& before, const Gpu& gpu) {
  const auto layout = [](const Gpu& one) {
    const Json json = ToJson(one);
    return Json{json["migMode"], json["mig"]};
  };
  if (layout(before) == layout(gpu)) return;
  AddEvent(state, {0, gpu.uuid, nvml::kEventMigConfigChange, 0, {}, {}});
}

// Source of the numbering: /proc/driver/nvidia-caps/mig-minors of a real driver (gpu3/gi3/ci3/access is 439).
unsigned CapMinor(const State& state, unsigned gpu_minor, unsigned gi, std::optional<unsigned> ci) {
  std::string name = "gpu" + std::to_string(gpu_minor) + "/gi" + std::to_string(gi);
  if (ci.has_value()) name += "/ci" + std::to_string(*ci);
  const auto own = state.cap_minors.find(name + "/access");
  if (own != state.cap_minors.end()) return own->second;
  constexpr unsigned kPerGpuInstance = 1 + kComputeInstanceIds;
  return 3 + (gpu_minor * kGpuInstanceIds + gi) * kPerGpuInstance + (ci.has_value() ? 1 + *ci : 0);
}

}  // namespace nvidia_simulator
