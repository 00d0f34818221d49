#include "library.h"

// A handle's value: generation (24 bits above 32), kind (4 bits above 28), place in objects_ + 1.
namespace nvidia_simulator {
namespace {

constexpr unsigned kKindShift = 28, kGenerationShift = 32;
constexpr uint64_t kPlaceMask = (uint64_t{1} << kKindShift) - 1, kGenerationMask = 0xffffff;

uint64_t Value(uint32_t generation, Object::Kind kind, size_t place) {
  return (generation & kGenerationMask) << kGenerationShift | uint64_t{kind} << kKindShift |
         (place + 1);
}

}  // namespace

void* Library::HandleOf(const Object& object) {
  const auto [at, added] = handles_.emplace(object, objects_.size());
  if (added) objects_.push_back(object);
  return reinterpret_cast<void*>(Value(generation_, object.kind, at->second));
}

std::optional<Object> Library::ObjectOf(const void* handle, Object::Kind kind) const {
  const uint64_t value = reinterpret_cast<uintptr_t>(handle);
  const uint64_t place = (value & kPlaceMask) - 1;  // 0 wraps, and is out of range
  if (place >= objects_.size() || value != Value(generation_, kind, place)) return std::nullopt;
  return objects_[place].kind == kind ? std::make_optional(objects_[place]) : std::nullopt;
}

nvml::Device Library::DeviceHandle(const std::string& uuid) {
  const std::lock_guard lock(mutex_);
  return static_cast<nvml::Device>(HandleOf({Object::kDevice, uuid, 0, {}, {}, 0}));
}

nvml::Device Library::MigHandle(const Gpu& gpu, unsigned gi, unsigned ci) {
  const std::lock_guard lock(mutex_);
  return static_cast<nvml::Device>(
      HandleOf({Object::kDevice, gpu.uuid, gpu.attachment, gi, ci, 0}));
}

nvml::GpuInstance Library::InstanceHandle(const Gpu& gpu, unsigned gi) {
  const std::lock_guard lock(mutex_);
  return static_cast<nvml::GpuInstance>(
      HandleOf({Object::kGpuInstance, gpu.uuid, gpu.attachment, gi, {}, 0}));
}

nvml::ComputeInstance Library::ComputeHandle(const Gpu& gpu, unsigned gi, unsigned ci) {
  const std::lock_guard lock(mutex_);
  return static_cast<nvml::ComputeInstance>(
      HandleOf({Object::kComputeInstance, gpu.uuid, gpu.attachment, gi, ci, 0}));
}

nvml::EventSet Library::CreateEventSet() {
  const std::lock_guard lock(mutex_);
  const unsigned id = next_event_set_++;
  event_sets_[id];
  return static_cast<nvml::EventSet>(HandleOf({Object::kEventSet, "", 0, {}, {}, id}));
}

nvml::Return Library::FreeEventSet(nvml::EventSet set) {
  const std::lock_guard lock(mutex_);
  const std::optional<Object> object = ObjectOf(set, Object::kEventSet);
  if (!object.has_value() || event_sets_.erase(object->event_set) == 0)
    return nvml::kInvalidArgument;
  return nvml::kSuccess;
}

nvml::Return Library::OnEventSet(
    nvml::EventSet set, const std::function<nvml::Return(EventSetState&, const State&)>& use) {
  const std::lock_guard lock(mutex_);
  if (inits_ == 0) return nvml::kUninitialized;
  const std::optional<Object> object = ObjectOf(set, Object::kEventSet);
  if (!object.has_value()) return nvml::kInvalidArgument;
  const auto at = event_sets_.find(object->event_set);
  return at == event_sets_.end() ? nvml::kInvalidArgument : use(at->second, *Visible());
}

}  // namespace nvidia_simulator
