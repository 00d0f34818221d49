#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "claims/prepare_steps.h"
#include "dra/base/status.h"

namespace dra::claims {
namespace {

Json ReservedFor(const resource::ResourceClaim& claim) {
  Json consumers = Json::array();
  for (const resource::ConsumerReference& consumer : claim.reserved_for) {
    Json entry = {{"resource", consumer.resource}, {"name", consumer.name}, {"uid", consumer.uid}};
    if (!consumer.api_group.empty()) entry["apiGroup"] = consumer.api_group;
    consumers.push_back(std::move(entry));
  }
  return consumers;
}

std::map<std::string, std::string> Values(const Json* object) {
  std::map<std::string, std::string> values;
  if (object == nullptr || !object->is_object()) return values;
  for (const auto& [name, entry] : object->items()) {
    const Json* value = Find(entry, "value");
    if (value == nullptr) continue;
    values[name] = value->is_string() ? value->get<std::string>() : DumpJson(*value);
  }
  return values;
}

// What the inventory says now about how far the device can be shared.
void AddLimits(PrepareWork& work, const records::RecordDevice& device, const Json& published) {
  records::HoldLimits::Device& limit = work.limits.devices[{device.pool, device.device}];
  limit.multiple_allocations = BoolOr(published, "allowMultipleAllocations");
  limit.capacity = Values(Find(published, "capacity"));
  if (!device.consumes_counters.is_array() || device.consumes_counters.empty()) return;
  const Json sets = work.core->deps.devices->CounterSets(device.pool);
  if (!sets.is_array()) return;
  for (const Json& set : sets) {
    const std::string key = records::CounterSetKey(device.pool, StringOr(set, "name"));
    work.limits.counter_sets[key] = Values(Find(set, "counters"));
  }
}

absl::StatusOr<Json> Configs(const PrepareWork& work, const resource::AllocationResult& result,
                             std::set<std::string>* validated, const Call& call) {
  DRA_ASSIGN_OR_RETURN(const std::vector<resource::ResolvedConfig> resolved,
                       resource::ResolveConfigs(work.claim, result));
  Json configs = Json::array();
  for (const resource::ResolvedConfig& config : resolved) {
    // Asked before anything is touched; one configuration often serves many results.
    if (validated->insert(absl::StrCat(config.source, DumpJson(config.parameters))).second) {
      const absl::Status valid =
          work.core->deps.backend->ValidateConfig(config.parameters, config.source, call);
      if (!valid.ok() && !absl::IsUnimplemented(valid)) {
        return Annotate(valid, absl::StrCat("configuration for request \"", result.request, "\" (",
                                            config.source, ")"));
      }
    }
    configs.push_back({{"source", config.source},
                       {"request", config.request},
                       {"parameters", config.parameters}});
  }
  return configs;
}

}  // namespace

absl::Status BuildDraft(PrepareWork& work) {
  ClaimCore& core = *work.core;
  records::Record& draft = work.draft;
  const Call call = Call::WithTimeout(core.options.answer_limit, work.operation->stop.get_token());
  draft.phase = records::Phase::kPreparing;
  draft.boot_id = core.options.boot_id;
  draft.claim = {work.claim.namespace_name, work.claim.name, work.claim.uid};
  draft.reserved_for = ReservedFor(work.claim);
  draft.backend = BackendText(*work.manifest);
  draft.since = core.deps.clock->Now();
  if (work.keeps_old) {
    draft.undo = work.old->undo;
    draft.has_undo = work.old->has_undo;
    if (draft.has_undo) draft.backend = work.old->backend;  // until this backend saves its own
    draft.shared_files = work.old->shared_files;
    draft.unknown = work.old->unknown;
    draft.format_minor = work.old->format_minor;
  }
  std::set<std::string> validated;
  for (const resource::AllocationResult& result : work.results) {
    records::RecordDevice device;
    device.result = result.raw;
    device.pool = result.id.pool;
    device.device = result.id.device;
    device.request = result.request;
    device.share_id = result.id.share_id;
    device.admin_access = result.admin_access;
    absl::StatusOr<DeviceFacts> facts =
        core.deps.devices->FindDevice(device.pool, device.device, call);
    if (!facts.ok()) {
      return Annotate(facts.status(),
                      absl::StrCat("find device ", device.pool, "/", device.device));
    }
    // Who has admin access may be there because it is sick.
    if (!facts->hidden_fault.empty() && !device.admin_access && !work.hidden_fault.has_value()) {
      work.hidden_fault = {device.pool, device.device, facts->hidden_fault};
    }
    device.identity = facts->identity;
    for (const loader::ExclusionKey& key : facts->exclusion_keys) {
      device.exclusion_keys.push_back({key.key, key.shape});
    }
    if (const Json* counters = Find(facts->device, "consumesCounters"); counters != nullptr) {
      device.consumes_counters = *counters;
    }
    DRA_ASSIGN_OR_RETURN(device.configs, Configs(work, result, &validated, call));
    AddLimits(work, device, facts->device);
    draft.devices.push_back(std::move(device));
  }
  work.holds = records::HoldsOf(draft);
  return absl::OkStatus();
}

}  // namespace dra::claims
