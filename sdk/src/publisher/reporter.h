#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "dra/base/logger.h"
#include "dra/inventory/inventory.h"
#include "dra/observe/events.h"
#include "dra/publisher/publisher.h"
#include "publisher/selection.h"

namespace dra::publisher {

// Tells people what is not published and why: a log line and an Event when it begins, the findings for the status
// socket while it lasts. Not thread-safe.
class Reporter {
 public:
  // events may be null; it outlives this.
  Reporter(const Options& options, observe::EventRecorder* events, Logger logger);

  // Everything that is wrong now; what is new in it is told.
  void Show(std::vector<Report> reports, const std::string& node_uid);
  // How the last pass ended; the first failure and the recovery are told.
  void PassEnded(const absl::Status& status, const std::string& node_uid);

  std::vector<inventory::Finding> findings() const;

 private:
  void Event(const std::string& node_uid, const std::string& reason, const std::string& note);

  const std::string driver_name_;
  const std::string node_name_;
  observe::EventRecorder* const events_;
  const Logger logger_;
  std::vector<Report> shown_;
  std::string failing_with_;
  bool failing_ = false;
};

}  // namespace dra::publisher
