#pragma once

#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "dra/base/logger.h"
#include "dra/driver/config.h"
#include "dra/driver/node_driver.h"
#include "dra/observe/http_endpoint.h"
#include "driver/driver_marker.h"
#include "nlohmann/json.hpp"

namespace dra::driver {

// Drivers that ran on this node as part of the same installation and are no longer configured. Another installation's
// are none of ours: its process may only be down for a moment. Their slices would attract pods that nobody prepares; so
// they are deleted, and the marker of the data directory with them: once no claim has a record or a hold there, and no
// other instance serves the driver. Until then nothing is touched, and a condition, an Event and one log line say what
// to do. Looked at once a minute: it heals by itself.
class RetiredDrivers {
 public:
  // Environment's parts outlive this.
  RetiredDrivers(const DaemonConfig& config, Environment environment,
                 absl::Duration interval = absl::Minutes(1));
  ~RetiredDrivers();  // stops

  void Start();
  void Stop();
  // One look, in the caller's thread; Start's thread does the same.
  void Look(const std::stop_token& stop);

  // One for each that is not gone yet, "retired", never ok. None is the good case.
  std::vector<observe::Condition> Conditions() const;

 private:
  // "" when the driver is gone for good, else what it waits for.
  std::string Retire(const DriverMarker& marker, const std::stop_token& stop);
  absl::StatusOr<int> DeleteSlices(const std::string& driver, const std::stop_token& stop);
  void Show(std::map<std::string, std::string> waiting);

  const std::string kubelet_root_;
  const std::string node_name_;
  const std::string installation_;
  const absl::Duration interval_;
  const Environment environment_;
  const Logger logger_;
  std::set<std::string> configured_;
  std::jthread thread_;

  mutable absl::Mutex mutex_;
  std::map<std::string, std::string> waiting_ ABSL_GUARDED_BY(mutex_);  // driver -> for what
};

}  // namespace dra::driver
