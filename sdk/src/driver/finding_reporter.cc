#include "driver/finding_reporter.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dra::driver {
namespace {

const char* HealthName(loader::HealthState state) {
  switch (state) {
    case loader::HealthState::kHealthy:
      return "healthy";
    case loader::HealthState::kUnhealthy:
      return "unhealthy";
    case loader::HealthState::kUnknown:
      break;
  }
  return "unknown";
}

}  // namespace

FindingReporter::FindingReporter(std::string driver_name, std::string node_name,
                                 observe::EventRecorder* events, observe::Metrics* metrics,
                                 Logger logger)
    : driver_name_(std::move(driver_name)),
      node_name_(std::move(node_name)),
      events_(events),
      metrics_(metrics),
      logger_(std::move(logger)) {}

void FindingReporter::Report(const inventory::Snapshot& snapshot) {
  std::map<std::string, int> by_health = {{"healthy", 0}, {"unhealthy", 0}, {"unknown", 0}};
  for (const inventory::Pool& pool : snapshot.pools) {
    for (const auto& device : pool.devices) ++by_health[HealthName(device->health.state)];
  }
  for (const auto& [health, count] : by_health) {
    metrics_->Set("dra_devices", count, {{"driver", driver_name_}, {"health", health}});
  }
  metrics_->Set("dra_inventory_findings", static_cast<double>(snapshot.findings.size()),
                {{"driver", driver_name_}});

  std::vector<inventory::Finding> added;
  {
    const absl::MutexLock lock(&mutex_);
    for (const inventory::Finding& finding : snapshot.findings) {
      if (std::find(reported_.begin(), reported_.end(), finding) == reported_.end())
        added.push_back(finding);
    }
    reported_ = snapshot.findings;
  }
  // The kubelet's own Events about a node carry the node's name as its UID; ours stand beside them.
  const observe::ObjectReference node = {"v1", "Node", "", node_name_, node_name_};
  for (const inventory::Finding& finding : added) {
    logger_.Warn("inventory finding", {{"pool", finding.pool},
                                       {"device", finding.device},
                                       {"field", finding.field},
                                       {"value", finding.value},
                                       {"problem", finding.problem},
                                       {"action", finding.action}});
    events_->Record(observe::EventType::kWarning, node, "InventoryFinding", "Discover",
                    absl::StrCat(driver_name_, ": device \"", finding.device, "\" ", finding.field,
                                 ": ", finding.problem, "; ", finding.action));
  }
}

}  // namespace dra::driver
