#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/logger.h"
#include "dra/inventory/inventory.h"
#include "dra/observe/events.h"
#include "dra/observe/metrics.h"

namespace dra::driver {

// Says what the inventory repaired, dropped or could not look at: each finding once in log and Event while it lasts,
// and in the gauge dra_inventory_findings. And which devices are unhealthy: an Event when one becomes so, or so in another
// way, and when it is healthy again; gauges. Any thread.
class FindingReporter {
 public:
  // events and metrics outlive this.
  FindingReporter(std::string driver_name, std::string node_name, observe::EventRecorder* events,
                  observe::Metrics* metrics, Logger logger);
  void Report(const inventory::Snapshot& snapshot);

 private:
  using Key = std::pair<std::string, std::string>;                 // pool, device
  using Sickness = std::pair<std::string, loader::FaultSeverity>;  // fault class
  const std::string driver_name_;
  const std::string node_name_;
  observe::EventRecorder* const events_;
  observe::Metrics* const metrics_;
  const Logger logger_;
  absl::Mutex mutex_;
  std::vector<inventory::Finding> reported_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, Sickness> sick_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::driver
