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
  std::map<std::string, int> by_severity = {
      {"unset", 0}, {"minor", 0}, {"major", 0}, {"critical", 0}};
  std::map<Key, Sickness> sick;
  for (const inventory::Pool& pool : snapshot.pools) {
    for (const auto& device : pool.devices) {
      const loader::DeviceHealth& health = device->health;
      ++by_health[HealthName(health.state)];
      if (health.state != loader::HealthState::kUnhealthy) continue;
      ++by_severity[inventory::SeverityName(health.severity)];
      sick[{pool.name, device->name}] = {health.fault_class, health.severity};
    }
  }
  for (const auto& [health, count] : by_health) {
    metrics_->Set("dra_devices", count, {{"driver", driver_name_}, {"health", health}});
  }
  for (const auto& [severity, count] : by_severity) {
    metrics_->Set("dra_unhealthy_devices", count,
                  {{"driver", driver_name_}, {"severity", severity}});
  }
  metrics_->Set("dra_inventory_findings", static_cast<double>(snapshot.findings.size()),
                {{"driver", driver_name_}});

  std::vector<inventory::Finding> added;
  std::map<Key, Sickness> sick_before;
  {
    const absl::MutexLock lock(&mutex_);
    sick_before = std::exchange(sick_, sick);
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
  for (const auto& [key, sickness] : sick) {
    const auto before = sick_before.find(key);
    if (before != sick_before.end() && before->second == sickness) continue;
    const loader::DeviceHealth& health = snapshot.FindDevice(key.first, key.second)->health;
    events_->Record(observe::EventType::kWarning, node, "DeviceUnhealthy", "Observe",
                    absl::StrCat(driver_name_, ": device ", key.first, "/", key.second, ": ",
                                 health.fault_class, " (severity ",
                                 inventory::SeverityName(health.severity), "): ", health.message,
                                 health.remedy.empty() ? "" : "; remedy: ", health.remedy));
  }
  for (const auto& [key, sickness] : sick_before) {
    const inventory::Device* const device = snapshot.FindDevice(key.first, key.second);
    if (device == nullptr || device->health.state != loader::HealthState::kHealthy) continue;
    events_->Record(
        observe::EventType::kNormal, node, "DeviceHealthy", "Observe",
        absl::StrCat(driver_name_, ": device ", key.first, "/", key.second, " is healthy again"));
  }
}

}  // namespace dra::driver
