#include <algorithm>
#include <chrono>
#include <thread>

#include "exports.h"
#include "library.h"

// Event sets. Waiting looks at the state file every 20 ms; no lock is held between the looks.
using nvidia_simulator::Call;
using nvidia_simulator::Event;
using nvidia_simulator::EventSetState;
using nvidia_simulator::Gpu;
using nvidia_simulator::Library;
using nvidia_simulator::OnGpu;
using nvidia_simulator::OnNode;
using nvidia_simulator::Registration;
using nvidia_simulator::State;

namespace {

constexpr std::chrono::milliseconds kLookInterval{20};

// Which types a card has differs between drivers; these are the ones that matter here.
uint64_t SupportedTypes(const Gpu& gpu) {
  uint64_t types = nvml::kEventXid | nvml::kEventPState | nvml::kEventClock;
  if (gpu.ecc.supported && gpu.ecc.enabled)
    types |= nvml::kEventSingleBitEcc | nvml::kEventDoubleBitEcc;
  if (gpu.mig_capable) types |= nvml::kEventMigConfigChange;
  if (gpu.architecture >= nvidia_simulator::kHopper) {
    types |= nvml::kEventNonFatalPoison | nvml::kEventFatalPoison | nvml::kEventGpuUnavailable |
             nvml::kEventGpuRecoveryAction;
  }
  return types;
}

// The next event of the set, if there is one: TIMEOUT if not.
nvml::Return Next(EventSetState& set, const State& state, Event& next) {
  for (const Registration& registration : set.registrations) {
    const Gpu* gpu = state.FindGpu(registration.uuid);
    if (gpu == nullptr || gpu->lost) return nvml::kGpuIsLost;
  }
  const Event* found = nullptr;
  for (const Event& event : state.events) {
    if (event.id <= set.delivered || (found != nullptr && event.id > found->id)) continue;
    const bool wanted = std::any_of(
        set.registrations.begin(), set.registrations.end(), [&](const Registration& registration) {
          return registration.uuid == event.gpu && (registration.types & event.type) != 0 &&
                 event.id > registration.since;
        });
    if (wanted) found = &event;
  }
  if (found == nullptr) return nvml::kTimeout;
  set.delivered = found->id;
  next = *found;
  return nvml::kSuccess;
}

nvml::Return Wait(nvml::EventSet set, unsigned timeout_ms, nvml::EventData& data) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    Event event;
    const nvml::Return result = Library::Get().OnEventSet(
        set, [&](EventSetState& of_set, const State& state) { return Next(of_set, state, event); });
    if (result == nvml::kSuccess) {
      data = {Library::Get().DeviceHandle(event.gpu), event.type, event.value,
              event.gi.value_or(nvml::kNoInstance), event.ci.value_or(nvml::kNoInstance)};
    }
    if (result != nvml::kTimeout) return result;
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return nvml::kTimeout;
    std::this_thread::sleep_for(
        std::min<std::chrono::steady_clock::duration>(kLookInterval, end - now));
  }
}

}  // namespace

nvml::Return nvmlEventSetCreate(nvml::EventSet* set) {
  return OnNode("nvmlEventSetCreate", [&](const Call&) {
    if (set == nullptr) return nvml::kInvalidArgument;
    *set = Library::Get().CreateEventSet();
    return nvml::kSuccess;
  });
}

nvml::Return nvmlEventSetFree(nvml::EventSet set) {
  return OnNode("nvmlEventSetFree", [&](const Call&) { return Library::Get().FreeEventSet(set); });
}

nvml::Return nvmlDeviceGetSupportedEventTypes(nvml::Device device, unsigned long long* types) {
  return OnGpu("nvmlDeviceGetSupportedEventTypes", device, [&](const Call& call) {
    if (types == nullptr) return nvml::kInvalidArgument;
    *types = SupportedTypes(*call.gpu);
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceRegisterEvents(nvml::Device device, unsigned long long types,
                                      nvml::EventSet set) {
  return OnGpu("nvmlDeviceRegisterEvents", device, [&](const Call& call) {
    if (types == 0) return nvml::kInvalidArgument;
    if ((types & ~SupportedTypes(*call.gpu)) != 0) return nvml::kNotSupported;
    return Library::Get().OnEventSet(set, [&](EventSetState& of_set, const State& state) {
      of_set.registrations.push_back({call.gpu->uuid, types, state.next_event - 1});
      return nvml::kSuccess;
    });
  });
}

nvml::Return nvmlEventSetWait_v2(nvml::EventSet set, nvml::EventData* data, unsigned timeout_ms) {
  return OnNode("nvmlEventSetWait_v2", [&](const Call&) {
    if (data == nullptr) return nvml::kInvalidArgument;
    return Wait(set, timeout_ms, *data);
  });
}

nvml::Return nvmlEventSetWait(nvml::EventSet set, nvml::EventDataV1* data, unsigned timeout_ms) {
  return OnNode("nvmlEventSetWait", [&](const Call&) {
    if (data == nullptr) return nvml::kInvalidArgument;
    nvml::EventData full{};
    const nvml::Return result = Wait(set, timeout_ms, full);
    if (result == nvml::kSuccess) *data = {full.device, full.event_type, full.event_data};
    return result;
  });
}
