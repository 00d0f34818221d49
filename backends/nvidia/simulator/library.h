#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "nvml.h"
#include "state.h"
#include "state_file.h"
#include "visibility.h"

namespace nvidia_simulator {

inline constexpr unsigned kHopper = 9;  // NVML_DEVICE_ARCH_HOPPER

// What a handle stands for. Handles given out are values with a generation in them, never pointers: one from before a
// shutdown, or of an instance that is gone, is told apart and refused.
struct Object {
  enum Kind : unsigned { kDevice = 1, kGpuInstance = 2, kComputeInstance = 3, kEventSet = 4 };
  Kind kind = kDevice;
  std::string uuid;         // of the GPU
  unsigned attachment = 0;  // of the GPU, where it is an instance
  std::optional<unsigned> gi, ci;
  unsigned event_set = 0;
  bool operator<(const Object& other) const {
    return std::tie(kind, uuid, attachment, gi, ci, event_set) <
           std::tie(other.kind, other.uuid, other.attachment, other.gi, other.ci, other.event_set);
  }
};

// What a call sees: the node as this process sees it, at one moment, and what its handle stands for there.
struct Call {
  std::shared_ptr<const State> state;
  const Gpu* gpu = nullptr;                  // of the handle
  const MigInstance* instance = nullptr;     // where the handle is of an instance or a MIG device
  const ComputeInstance* compute = nullptr;  // likewise
  bool is_mig() const { return instance != nullptr; }
};

// A registration of a GPU in an event set.
struct Registration {
  std::string uuid;
  uint64_t types = 0;
  uint64_t since = 0;  // events up to this one were before
};
struct EventSetState {
  std::vector<Registration> registrations;
  uint64_t delivered = 0;  // events are delivered in their order, each once
};

// The process's one NVML: counts inits, follows the state file, knows the handles. Any thread; no lock is held
// while a call hangs or waits.
class Library {
 public:
  static Library& Get();

  nvml::Return Init(const char* function, unsigned flags);
  nvml::Return Shutdown();

  // Begins a call that concerns no GPU, or one that is found out later: UNINITIALIZED, faults.
  nvml::Return Enter(const char* function, Call& call);
  // Begins a call on a handle; INVALID_ARGUMENT where it is not of the kind or stands for nothing (any more),
  // GPU_IS_LOST.
  nvml::Return Enter(const char* function, const void* handle, Object::Kind kind, Call& call);
  // Faults that are set for the GPU alone, for calls that find it out late; and GPU_IS_LOST.
  nvml::Return Reach(const char* function, const Gpu& gpu);

  nvml::Device DeviceHandle(const std::string& uuid);
  nvml::Device MigHandle(const Gpu& gpu, unsigned gi, unsigned ci);
  nvml::GpuInstance InstanceHandle(const Gpu& gpu, unsigned gi);
  nvml::ComputeInstance ComputeHandle(const Gpu& gpu, unsigned gi, unsigned ci);

  // Changes the GPU in the state file; a change that does not answer success leaves it as it was. NO_PERMISSION
  // where the file cannot be written.
  nvml::Return Change(const std::string& uuid, const std::function<nvml::Return(Gpu&)>& change);

  nvml::EventSet CreateEventSet();
  nvml::Return FreeEventSet(nvml::EventSet set);
  // Calls with the set under the lock; UNINITIALIZED, or INVALID_ARGUMENT for no set.
  nvml::Return OnEventSet(nvml::EventSet set,
                          const std::function<nvml::Return(EventSetState&, const State&)>& use);

 private:
  std::shared_ptr<const State> Visible();  // mutex held, inits_ > 0
  nvml::Return Faults(const char* function, const std::string& uuid, bool of_this_gpu_only);
  bool Strikes(const Fault& fault);
  void Hang(const Fault& fault);
  std::string StatePath() const;
  void* HandleOf(const Object& object);                                         // mutex held
  std::optional<Object> ObjectOf(const void* handle, Object::Kind kind) const;  // mutex held

  mutable std::mutex mutex_;
  unsigned inits_ = 0;
  uint32_t generation_;
  StateFile file_;
  Visibility visibility_;
  std::vector<Object> objects_;  // by handle
  std::map<Object, size_t> handles_;
  std::map<unsigned, EventSetState> event_sets_;
  unsigned next_event_set_ = 1;
  std::map<unsigned, unsigned> struck_;  // by fault id, where the file cannot be written

  Library();
};

// NUL-terminated into the caller's buffer: INVALID_ARGUMENT for none, INSUFFICIENT_SIZE for a short one.
nvml::Return CopyText(const std::string& text, char* buffer, unsigned length);

// Runs a body that nothing may be thrown out of.
template <typename Body>
nvml::Return Guard(const Body& body) noexcept {
  try {
    return body();
  } catch (...) {
    return nvml::kUnknown;
  }
}

template <typename Body>
nvml::Return OnNode(const char* function, const Body& body) noexcept {
  return Guard([&] {
    Call call;
    const nvml::Return entered = Library::Get().Enter(function, call);
    return entered == nvml::kSuccess ? body(call) : entered;
  });
}

// Of a GPU or a MIG device.
template <typename Body>
nvml::Return OnDevice(const char* function, nvml::Device device, const Body& body) noexcept {
  return Guard([&] {
    Call call;
    const nvml::Return entered = Library::Get().Enter(function, device, Object::kDevice, call);
    return entered == nvml::kSuccess ? body(call) : entered;
  });
}

// Of a whole GPU; a MIG device does not support it.
template <typename Body>
nvml::Return OnGpu(const char* function, nvml::Device device, const Body& body) noexcept {
  return OnDevice(function, device, [&](const Call& call) {
    return call.is_mig() ? nvml::kNotSupported : body(call);
  });
}

template <typename Body>
nvml::Return OnMigDevice(const char* function, nvml::Device device, const Body& body) noexcept {
  return OnDevice(function, device, [&](const Call& call) {
    return call.is_mig() ? body(call) : nvml::kInvalidArgument;
  });
}

template <typename Body>
nvml::Return OnGpuInstance(const char* function, nvml::GpuInstance instance,
                           const Body& body) noexcept {
  return Guard([&] {
    Call call;
    const nvml::Return entered =
        Library::Get().Enter(function, instance, Object::kGpuInstance, call);
    return entered == nvml::kSuccess ? body(call) : entered;
  });
}

template <typename Body>
nvml::Return OnComputeInstance(const char* function, nvml::ComputeInstance instance,
                               const Body& body) noexcept {
  return Guard([&] {
    Call call;
    const nvml::Return entered =
        Library::Get().Enter(function, instance, Object::kComputeInstance, call);
    return entered == nvml::kSuccess ? body(call) : entered;
  });
}

}  // namespace nvidia_simulator
