#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dra/backend/abi.h"
#include "dra/loader/backend_handle.h"

namespace dra::loader {

// The host's ends of the sinks. Each checks what a hook hands back as it comes and keeps the first fault; `Take` gives
// the result or that fault. Emitting: any thread, inside the hook. Take: after the hook returned.

// One text, at most `max_bytes`.
class TextCollector {
 public:
  explicit TextCollector(size_t max_bytes) : max_bytes_(max_bytes) {}
  dra_text_sink Sink();
  absl::StatusOr<std::string> Take();

 private:
  const size_t max_bytes_;
  std::mutex mutex_;
  std::optional<absl::StatusOr<std::string>> text_;
};

// A device that is wrong becomes an item error; the others stay.
class DiscoverCollector {
 public:
  dra_discover_sink Sink();
  DiscoverResult Take() { return std::move(result_); }

 private:
  void AddDevice(const dra_device& device);
  void AddError(std::string subject, absl::Status error);
  absl::Status ReadDevice(const dra_device& device, DiscoveredDevice& into);

  std::mutex mutex_;
  DiscoverResult result_;
  std::set<std::pair<std::string, std::string>> names_;  // pool, device
  size_t refused_ = 0;
};

class PrepareCollector {
 public:
  explicit PrepareCollector(size_t devices) : devices_(devices) {}
  dra_prepare_sink Sink();
  // Errors: Internal if a device is missing, given twice or unknown, or an object is junk.
  absl::StatusOr<PrepareResult> Take();

 private:
  void Fault(const absl::Status& status);

  std::mutex mutex_;
  absl::Status fault_;
  std::vector<std::optional<PreparedDevice>> devices_;
  Json claim_edits_;
  std::optional<std::string> undo_;
};

class ReconcileCollector {
 public:
  explicit ReconcileCollector(size_t devices) : edits_(devices) {}
  dra_reconcile_sink Sink();
  absl::StatusOr<ReconcileResult> Take();

 private:
  void Fault(const absl::Status& status);

  std::mutex mutex_;
  absl::Status fault_;
  std::optional<int32_t> verdict_;
  std::vector<std::optional<Json>> edits_;
  Json claim_edits_;
};

class BusyCollector {
 public:
  dra_busy_sink Sink();
  absl::StatusOr<Busy> Take();

 private:
  std::mutex mutex_;
  std::optional<int32_t> busy_;
};

class HealthCollector {
 public:
  dra_health_sink Sink();
  absl::StatusOr<std::vector<DeviceHealth>> Take();

 private:
  absl::Status Read(const dra_device_health& health, DeviceHealth& into);

  std::mutex mutex_;
  absl::Status fault_;
  std::vector<DeviceHealth> reports_;
};

}  // namespace dra::loader
