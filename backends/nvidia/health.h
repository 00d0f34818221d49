#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dra/backend/backend.h"
#include "faults.h"
#include "hardware.h"
#include "nvml_library.h"

namespace nvidia {

struct HealthOptions {
  std::set<int64_t> ignored_xids;  // beside those that applications cause
  std::chrono::milliseconds poll = std::chrono::seconds(10);
  // An event is reported as a fault for this long, and until Health() has told it once. Then it is for the host to
  // remember: what counts is what is true now.
  std::chrono::milliseconds event_shown = std::chrono::seconds(60);
  // Without an answer of NVML for this long (and three polls) nothing is known.
  std::chrono::milliseconds stale = std::chrono::seconds(60);
  // Of the driver that runs now, see DriverEpoch. "": no fault is ended by a new one.
  std::string epoch;
  // A small durable text for a device's identity: what its last fault waits for. Both may throw; then it is tried
  // again.
  std::function<std::optional<std::string>(const std::string& identity)> read_note;
  std::function<void(const std::string& identity, const std::string& text)> write_note;
  std::function<void()> changed;  // called when an answer changed, on a thread of the watch
  // Called when a GPU's MIG mode or instances are no longer those that Watch was told, at once where the driver has an
  // event for it, else within `poll`; on a thread of the watch, and at most once in `layout_pause`.
  std::function<void()> inventory_changed;
  std::chrono::milliseconds layout_pause = std::chrono::seconds(1);
  std::function<void(const std::string&)> log;
};

// Watches one open library: events of all GPUs on one thread, states by polling on another. Health() answers from
// memory and never blocks on NVML. A GPU whose events cannot be registered is unknown, not healthy; so is every GPU
// when NVML does not answer in time. The state of a card is that of all its shapes; an event of a MIG instance is
// that instance's alone. A fault that ends with evidence (kClearsWithReset) is reported healthy with that evidence
// once the note of it is of another epoch, or the GPU's error counters have begun anew, or a reset that NVML asked
// for has been made. Any thread.
class HealthWatch {
 public:
  HealthWatch(std::shared_ptr<const NvmlLibrary> nvml, HealthOptions options);
  ~HealthWatch();  // stops and joins; waits for a call of NVML that hangs

  // The devices to watch, as discovered last. A GPU that was there and now cannot be looked at goes on being watched.
  void Watch(const NodeHardware& node);
  std::vector<dra::HealthReport> Health() const;
  // Why the library must be opened anew (driver unloaded, or replaced); all devices are unknown then.
  std::optional<std::string> LibraryLost() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace nvidia
