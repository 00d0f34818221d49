#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "dra/inventory/inventory.h"
#include "inventory/accept.h"
#include "inventory/entry.h"
#include "inventory/fault_state.h"

namespace dra::inventory {

using FaultKey = std::pair<std::string, DeviceKey>;  // identity, device

struct Inventory::State {
  const Options options;
  Clock* const clock;  // outlives this
  const Logger logger;

  absl::Mutex mutex;
  std::map<DeviceKey, Entry> entries ABSL_GUARDED_BY(mutex);
  std::map<std::string, std::map<std::string, Json>> counter_sets ABSL_GUARDED_BY(mutex);
  std::map<std::string, Json> slice_fields ABSL_GUARDED_BY(mutex);
  std::map<DeviceKey, loader::DeviceHealth> health ABSL_GUARDED_BY(mutex);  // the last report
  loader::ServerFields fields ABSL_GUARDED_BY(mutex);
  std::vector<Finding> discovery_findings ABSL_GUARDED_BY(mutex);
  absl::Status health_error ABSL_GUARDED_BY(mutex);
  absl::Status last_error ABSL_GUARDED_BY(mutex);
  absl::Time last_success ABSL_GUARDED_BY(mutex) = absl::InfinitePast();
  bool known ABSL_GUARDED_BY(mutex) = false;
  Drain drain ABSL_GUARDED_BY(mutex);
  std::map<DeviceKey, std::string> lost ABSL_GUARDED_BY(mutex);
  absl::Time lost_since ABSL_GUARDED_BY(mutex);
  std::map<FaultKey, Fault> restored ABSL_GUARDED_BY(mutex);  // until the next discovery
  std::map<FaultKey, Fault> changed ABSL_GUARDED_BY(mutex);   // notes to be written
  std::shared_ptr<const Snapshot> snapshot ABSL_GUARDED_BY(mutex) =
      std::make_shared<const Snapshot>();

  State(Options given, Clock* time, Logger log)
      : options(std::move(given)),
        clock(time),
        logger(log.With({{"driver", options.driver_name}})) {}

  void Merge(AcceptedDiscovery accepted, bool complete, const std::set<DeviceKey>& held)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  std::set<std::string> RefuseSlides(AcceptedDiscovery* accepted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void TakeDevice(const DeviceKey& key, Candidate candidate) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void ReportNewDevices() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void ReportHealth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void ShowHealth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void NoteFault(const DeviceKey& key, const Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  Moment Now() const { return {clock->Now(), clock->Monotonic()}; }
  void LogHealth(const Entry& entry) const;
  std::shared_ptr<const Snapshot> Rebuild() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void LogChanges(const Snapshot& before, const Snapshot& now) const;
};

// A device that seems well, but whose fault asks for more than that.
Finding MissingEvidence(const Entry& entry);
// A report with a severity that this host does not know.
Finding UnknownSeverity(const Entry& entry);

}  // namespace dra::inventory
