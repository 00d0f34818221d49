#include "driver/status_report.h"

namespace dra::driver {
namespace {

Json TimeJson(absl::Time time) {
  if (time == absl::InfinitePast() || time == absl::UnixEpoch()) return nullptr;
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

Json FindingsJson(const std::vector<inventory::Finding>& findings) {
  Json list = Json::array();
  for (const inventory::Finding& finding : findings) {
    list.push_back({{"pool", finding.pool},
                    {"device", finding.device},
                    {"field", finding.field},
                    {"value", finding.value},
                    {"problem", finding.problem},
                    {"action", finding.action}});
  }
  return list;
}

const char* HealthText(loader::HealthState state) {
  if (state == loader::HealthState::kHealthy) return "Healthy";
  if (state == loader::HealthState::kUnhealthy) return "Unhealthy";
  return "Unknown";
}

Json DeviceJson(const inventory::Device& device) {
  Json keys = Json::array();
  for (const loader::ExclusionKey& key : device.exclusion_keys)
    keys.push_back({{"key", key.key}, {"shape", key.shape}});
  return {{"name", device.name},
          {"identity", device.identity},
          {"exclusionKeys", keys},
          {"health", HealthText(device.health.state)},
          {"healthMessage", device.health.message},
          {"gone", device.gone},
          {"withheld", device.withheld}};
}

Json InventoryJson(const inventory::Snapshot& snapshot) {
  Json pools = Json::array();
  for (const inventory::Pool& pool : snapshot.pools) {
    Json devices = Json::array();
    for (const auto& device : pool.devices) devices.push_back(DeviceJson(*device));
    pools.push_back(
        {{"name", pool.name}, {"devices", devices}, {"counterSets", pool.counter_sets.size()}});
  }
  return {{"known", snapshot.known},
          {"lastSuccess", TimeJson(snapshot.last_success)},
          {"lastError", std::string(snapshot.last_error.message())},
          {"pools", pools},
          {"findings", FindingsJson(snapshot.findings)}};
}

Json ClaimsJson(const std::vector<claims::ClaimSummary>& claims) {
  Json list = Json::array();
  for (const claims::ClaimSummary& claim : claims) {
    Json devices = Json::array();
    for (const resource::DeviceId& id : claim.devices) {
      Json device = {{"pool", id.pool}, {"device", id.device}};
      if (id.share_id.has_value()) device["shareID"] = *id.share_id;
      devices.push_back(std::move(device));
    }
    list.push_back({{"namespace", claim.claim.namespace_name},
                    {"name", claim.claim.name},
                    {"uid", claim.claim.uid},
                    {"phase", claim.phase},
                    {"sameBoot", claim.same_boot},
                    {"devices", devices},
                    {"lastError", claim.last_error},
                    {"since", TimeJson(claim.since)}});
  }
  return list;
}

Json DrainJson(const std::optional<DrainRequest>& drain) {
  if (!drain.has_value()) return nullptr;
  return {{"mode", drain->mode == DrainRequest::Mode::kTaint ? "taint" : "withdraw"},
          {"since", TimeJson(drain->since)},
          {"by", drain->by}};
}

Json FaultsJson(const std::vector<inventory::Fault>& faults) {
  Json list = Json::array();
  for (const inventory::Fault& fault : faults) {
    list.push_back({{"pool", fault.pool},
                    {"device", fault.device},
                    {"faultClass", fault.fault_class},
                    {"severity", inventory::SeverityName(fault.severity)},
                    {"taintEffect", inventory::TaintEffectName(fault.effect)},
                    {"message", fault.message},
                    {"remedy", fault.remedy},
                    {"clearsWith", fault.clears_with},
                    {"since", TimeJson(fault.since)},
                    {"flaps", fault.flaps},
                    {"evidence", fault.evidence.text}});
  }
  return list;
}

Json RequestsJson(const std::vector<Requests::Result>& results) {
  Json list = Json::array();
  for (const Requests::Result& result : results) {
    list.push_back({{"request", result.file},
                    {"ok", result.ok},
                    {"message", result.message},
                    {"at", TimeJson(result.at)}});
  }
  return list;
}

}  // namespace

Json DriverStatus(const DriverView& view) {
  Json backend = {
      {"library", view.library.path},           {"abiMinor", view.library.abi_minor},
      {"created", view.backend.created},        {"alive", view.backend.alive},
      {"lastError", view.backend.error},        {"restartReason", view.backend.restart_reason},
      {"discoveries", view.backend.discoveries}};
  if (view.manifest.ok()) {
    backend["name"] = (*view.manifest)->name;
    backend["version"] = (*view.manifest)->version;
  }
  return {{"name", view.name},
          {"backend", backend},
          {"sockets",
           {{"registration", view.registration.registration_socket},
            {"service", view.registration.service_socket}}},
          {"registration",
           {{"registered", view.registration.registered},
            {"error", view.registration.error},
            {"lastGetInfo", TimeJson(view.registration.last_get_info)},
            {"lastCall", TimeJson(view.registration.last_call)}}},
          {"publication",
           {{"published", view.published.published},
            {"error", view.turn.error.empty() ? view.published.error : view.turn.error},
            {"owner", view.turn.owner},
            {"waitingFor", view.turn.waiting},
            {"otherInstances", view.turn.others},
            {"nodeUID", view.published.node_uid},
            {"creates", view.published.creates},
            {"updates", view.published.updates},
            {"deletes", view.published.deletes},
            {"findings", FindingsJson(view.published.findings)}}},
          {"drain", DrainJson(view.desk.drain)},
          {"faults", FaultsJson(view.desk.faults)},
          {"requests", RequestsJson(view.desk.requests)},
          {"inventory", InventoryJson(view.inventory)},
          {"claims", ClaimsJson(view.claims)}};
}

Json NotStartedStatus(const std::string& name, const std::string& library,
                      const std::string& error) {
  return {{"name", name},
          {"backend",
           {{"library", library}, {"created", false}, {"alive", false}, {"lastError", error}}}};
}

}  // namespace dra::driver
