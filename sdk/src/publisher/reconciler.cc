#include "publisher/reconciler.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "dra/observe/metrics.h"
#include "dra/publisher/probe.h"
#include "dra/resource/slice.h"
#include "publisher/lost_fields.h"
#include "publisher/slice_names.h"

namespace dra::publisher {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(30);
constexpr absl::Duration kNodeCheckInterval = absl::Minutes(5);
constexpr absl::Duration kProbeInterval = absl::Hours(1);
// Rounds of one pass: each leaves something out, or takes in what a conflict has shown. More means that something
// turns in circles, which is then slowed down as a failure.
constexpr int kMaxRounds = 100;

MonotonicTime After(MonotonicTime now, absl::Duration duration) {
  return now + absl::ToChronoNanoseconds(duration);
}

}  // namespace

Reconciler::Reconciler(const Options& options, kube::ApiClient* api, Clock* clock,
                       observe::EventRecorder* events, observe::Metrics* metrics, Logger logger,
                       SliceStore* store, WriteGate* gate, OnFields on_fields)
    : options_(options),
      api_(api),
      clock_(clock),
      metrics_(metrics),
      logger_(logger),
      store_(store),
      gate_(gate),
      on_fields_(std::move(on_fields)),
      reporter_(options, events, std::move(logger)),
      limiter_(options.retry_max) {}

Call Reconciler::CallFor(const std::stop_token& stop) const {
  return Call::WithTimeout(kCallTimeout, stop);
}

PassResult Reconciler::Run(const Wanted& wanted, const std::stop_token& stop) {
  PassResult result;
  const bool known = wanted.snapshot != nullptr && wanted.snapshot->known;
  if (!known && !wanted.withdrawn) return result;
  if (known) refusals_.Prune(*wanted.snapshot);
  held_back_ = absl::InfiniteDuration();
  if (!wanted.withdrawn) {
    result.status = ResolveNode(stop);
    if (result.status.ok()) Probe(stop);
  }
  if (result.status.ok()) {
    if (wanted.turn == 0) {
      result.equal = Observe(wanted);
    } else {
      result.status = Converge(wanted, stop, result.equal);
    }
  }
  reporter_.PassEnded(result.status, node_uid_);
  if (!result.status.ok()) {
    result.again = Backoff(result.status);
    return result;
  }
  failures_ = 0;
  result.again = std::min(held_back_, kNodeCheckInterval);
  const MonotonicTime now = clock_->Monotonic();
  if (!probe_error_.ok()) {
    result.again = std::min(result.again, absl::FromChrono(probe_retry_at_ - now));
  } else if (probe_wanted_) {
    result.again =
        std::min(result.again, absl::FromChrono(After(probed_at_, kProbeInterval) - now));
  }
  result.again = std::max(result.again, absl::Milliseconds(1));
  return result;
}

absl::Status Reconciler::ResolveNode(const std::stop_token& stop) {
  const MonotonicTime now = clock_->Monotonic();
  if (node_checked_ && absl::FromChrono(now - node_checked_at_) < kNodeCheckInterval) {
    return absl::OkStatus();
  }
  const auto node = api_->Get(kube::Nodes(), "", options_.node_name, CallFor(stop));
  if (!node.ok()) {
    return Annotate(node.status(), absl::StrCat("read node \"", options_.node_name,
                                                "\", the owner of its resource slices"));
  }
  const std::string uid = Meta(*node, "uid");
  if (uid.empty()) {
    return absl::DataLossError(absl::StrCat("node \"", options_.node_name, "\" has no UID"));
  }
  if (!node_uid_.empty() && node_uid_ != uid) {
    logger_.Info("node was recreated; its slices get the new owner",
                 {{"driver", options_.driver_name}});
  }
  node_uid_ = uid;
  node_checked_ = true;
  node_checked_at_ = now;
  return absl::OkStatus();
}

void Reconciler::Probe(const std::stop_token& stop) {
  const MonotonicTime now = clock_->Monotonic();
  const bool first = !probed_;
  const bool retry = !probe_error_.ok() && now >= probe_retry_at_;
  const bool again = probe_error_.ok() && probe_wanted_ && now >= After(probed_at_, kProbeInterval);
  if (!first && !retry && !again) return;
  ProbeResult probe =
      ProbeServerFields(*api_, options_.driver_name, options_.node_name, CallFor(stop));
  if (absl::IsCancelled(probe.error)) return;
  probed_ = true;
  probed_at_ = now;
  probe_error_ = probe.error;
  if (!probe_error_.ok()) {
    const absl::Duration wait =
        std::min(options_.retry_max, options_.retry_min * (1 << std::min(probe_failures_, 20)));
    if (probe_failures_++ == 0) {
      logger_.Warn("could not ask the API server which fields it keeps; it is tried again",
                   {{"driver", options_.driver_name}, {"error", probe_error_.ToString()}});
    }
    probe_retry_at_ = After(now, wait);
  } else {
    probe_failures_ = 0;
    probe_wanted_ = false;
    lost_.clear();
  }
  // What one question could not find out stays as it was known.
  loader::ServerFields fields = fields_;
  for (auto member :
       {&loader::ServerFields::counters, &loader::ServerFields::multiple_allocations,
        &loader::ServerFields::taints, &loader::ServerFields::binding_conditions,
        &loader::ServerFields::list_attributes, &loader::ServerFields::node_allocatable,
        &loader::ServerFields::skip_node_operations, &loader::ServerFields::taint_effect_none}) {
    if (probe.fields.*member != loader::FieldSupport::kUnknown) {
      fields.*member = probe.fields.*member;
    }
  }
  SetFields(fields);
}

void Reconciler::SetFields(const loader::ServerFields& fields) {
  if (fields == fields_ && fields_told_) return;
  fields_ = fields;
  fields_told_ = true;
  if (on_fields_) on_fields_(fields_);
}

Selection Reconciler::SelectWanted(const Wanted& wanted) {
  Selection selection;
  if (!wanted.withdrawn) {
    selection = Select(*wanted.snapshot, wanted.held, fields_, refusals_);
    // Somebody waits for a field: ask again once an hour whether its gate is on now.
    if (selection.lacks_fields) probe_wanted_ = true;
  }
  std::vector<Report> reports = selection.reports;
  for (const auto& [field, report] : lost_) reports.push_back(report);
  reporter_.Show(std::move(reports), node_uid_);
  return selection;
}

std::vector<Operation> Reconciler::MakePlan(const Selection& selection) {
  const std::vector<Json> stored = store_->All();
  std::set<std::string> names;
  for (const Json& slice : stored) names.insert(Meta(slice, "name"));
  std::erase_if(written_, [&](const auto& entry) { return names.count(entry.first) == 0; });

  PlanOptions plan;
  plan.driver_name = options_.driver_name;
  plan.node_name = options_.node_name;
  plan.node_uid = node_uid_;
  plan.never_tainted = options_.never_tainted;
  plan.tolerate = [this](const Json& slice, const Json& spec) { return Tolerate(slice, spec); };
  return Plan(selection.pools, stored, plan);
}

bool Reconciler::Tolerate(const Json& stored, const Json& wanted_spec) {
  const std::string name = Meta(stored, "name");
  const auto written = written_.find(name);
  if (written == written_.end() || !SameSpec(written->second.sent, wanted_spec)) return false;
  if (SameSpec(stored.at("spec"), written->second.answered)) return true;
  const absl::Duration wait = limiter_.Wait(name, clock_->Monotonic());
  held_back_ = std::min(held_back_, wait > absl::ZeroDuration() ? wait : held_back_);
  return wait > absl::ZeroDuration();
}

absl::Status Reconciler::Converge(const Wanted& wanted, const std::stop_token& stop, bool& equal) {
  absl::Status error;
  for (int round = 0; round < kMaxRounds; ++round) {
    if (stop.stop_requested()) return absl::CancelledError("publishing: stopped");
    held_back_ = absl::InfiniteDuration();
    const Selection selection = SelectWanted(wanted);
    const std::vector<Operation> plan = MakePlan(selection);
    Step step = Check(plan, wanted, error);
    bool wrote = false;
    for (size_t i = 0; step == Step::kDone && i < plan.size(); ++i) {
      if (IsRepair(plan[i])) {
        const absl::Duration wait = limiter_.Wait(RepairKey(plan[i]), clock_->Monotonic());
        if (wait > absl::ZeroDuration()) {
          held_back_ = std::min(held_back_, wait);
          continue;
        }
      }
      step = Execute(plan[i], wanted, stop, error);
      wrote = true;
    }
    if (step == Step::kFailed) {
      ShowGauges(selection, /*equal=*/false);
      return error;
    }
    // After writes the store is compared once more: the watch may have told something meanwhile.
    if (step == Step::kDone && !wrote) {
      equal = held_back_ == absl::InfiniteDuration();
      ShowGauges(selection, equal);
      return absl::OkStatus();
    }
  }
  return absl::AbortedError(absl::StrCat("publishing: still not as wanted after ", kMaxRounds,
                                         " rounds; somebody else writes these slices"));
}

Reconciler::Step Reconciler::Check(const std::vector<Operation>& plan, const Wanted& wanted,
                                   absl::Status& error) {
  bool learned = false;
  for (const Operation& operation : plan) {
    if (operation.kind == Operation::Kind::kDelete) continue;
    const auto faults = resource::ValidateResourceSlice(operation.body);
    if (faults.empty()) continue;
    std::vector<Refusals::Cause> causes;
    for (const auto& fault : faults) causes.push_back({fault.field, fault.Detail()});
    if (refusals_.Learn(operation.pool, operation.body.at("spec"), causes, *wanted.snapshot,
                        wanted.held)) {
      learned = true;
      continue;
    }
    error = absl::InvalidArgumentError(absl::StrCat(
        "pool \"", operation.pool, "\" cannot be published: ", resource::JoinFieldErrors(faults)));
    return Step::kFailed;
  }
  return learned ? Step::kReplan : Step::kDone;
}

Reconciler::Step Reconciler::Execute(const Operation& operation, const Wanted& wanted,
                                     const std::stop_token& stop, absl::Status& error) {
  if (!gate_->Enter(wanted.turn)) {
    error = absl::CancelledError("publishing: another instance publishes now");
    return Step::kFailed;
  }
  const Step step = Write(operation, wanted, stop, error);
  gate_->Leave();
  return step;
}

Reconciler::Step Reconciler::Write(const Operation& operation, const Wanted& wanted,
                                   const std::stop_token& stop, absl::Status& error) {
  switch (operation.kind) {
    case Operation::Kind::kDelete: {
      kube::DeleteOptions options;
      options.uid = operation.uid;
      options.resource_version = operation.resource_version;
      const absl::Status status =
          api_->Delete(kube::ResourceSlices(), "", operation.name, options, CallFor(stop));
      Count("delete", status, "200");
      if (!status.ok() && !absl::IsNotFound(status)) {
        return Refused(operation, status, wanted, stop, error);
      }
      if (status.ok()) ++deletes_;
      if (const auto index = IndexOf(operation.name)) {
        created_keys_.erase(absl::StrCat(operation.pool, " ", *index));
      }
      store_->Remove(operation.name);
      return Step::kDone;
    }
    case Operation::Kind::kUpdate: {
      const auto answer = api_->Update(kube::ResourceSlices(), "", operation.name, operation.body,
                                       {}, CallFor(stop));
      Count("update", answer.status(), "200");
      if (!answer.ok()) return Refused(operation, answer.status(), wanted, stop, error);
      ++updates_;
      return Answered(operation, *answer);
    }
    case Operation::Kind::kCreate: {
      const auto answer =
          api_->Create(kube::ResourceSlices(), "", operation.body, {}, CallFor(stop));
      Count("create", answer.status(), "201");
      if (!answer.ok()) return Refused(operation, answer.status(), wanted, stop, error);
      ++creates_;
      return Answered(operation, *answer);
    }
  }
  return Step::kDone;
}

Reconciler::Step Reconciler::Answered(const Operation& operation, const Json& answer) {
  if (IsRepair(operation)) limiter_.Note(RepairKey(operation), clock_->Monotonic());
  if (operation.kind == Operation::Kind::kCreate) created_keys_.insert(RepairKey(operation));
  const Json& sent = operation.body.at("spec");
  const Json* stored = Find(answer, "spec");
  const Json answered = stored == nullptr ? Json::object() : *stored;
  written_[Meta(answer, "name")] = {sent, answered};
  store_->Put(answer);

  loader::ServerFields fields = fields_;
  bool news = false;
  for (const LostField& lost : LostFields(sent, answered)) {
    if (MarkDropped(lost, fields)) news = true;
    lost_.emplace(lost.gate.empty() ? lost.field : lost.gate, ReportOf(operation.pool, lost));
  }
  if (!news) return Step::kDone;
  probe_wanted_ = true;
  SetFields(fields);
  return Step::kReplan;
}

Reconciler::Step Reconciler::Refused(const Operation& operation, const absl::Status& status,
                                     const Wanted& wanted, const std::stop_token& stop,
                                     absl::Status& error) {
  const bool create = operation.kind == Operation::Kind::kCreate;
  if (absl::IsAlreadyExists(status) && create) return Step::kReplan;  // a generated name collided
  if (!create && (absl::IsAborted(status) || absl::IsNotFound(status))) {
    return ReadAgain(operation.name, stop, error);
  }
  const std::optional<kube::ApiError> api_error = kube::ApiErrorOf(status);
  if (absl::IsInvalidArgument(status) && api_error.has_value() && !operation.body.is_null() &&
      wanted.snapshot != nullptr) {
    std::vector<Refusals::Cause> causes;
    for (const auto& cause : api_error->causes) causes.push_back({cause.field, cause.message});
    if (refusals_.Learn(operation.pool, operation.body.at("spec"), causes, *wanted.snapshot,
                        wanted.held)) {
      return Step::kReplan;
    }
  }
  const char* verb = create ? "create" : operation.body.is_null() ? "delete" : "update";
  error = Annotate(status, absl::StrCat(verb, " resource slice \"", operation.name, "\" of pool \"",
                                        operation.pool, "\""));
  if (absl::IsNotFound(status)) {
    error = Annotate(error,
                     "the API server does not serve resource.k8s.io/v1 (Kubernetes 1.34 "
                     "or newer does)");
  }
  return Step::kFailed;
}

bool Reconciler::IsRepair(const Operation& operation) const {
  if (operation.kind == Operation::Kind::kDelete) return false;
  if (operation.kind == Operation::Kind::kCreate) {
    return created_keys_.count(RepairKey(operation)) != 0;
  }
  const auto written = written_.find(operation.name);
  return written != written_.end() && SameSpec(written->second.sent, operation.body.at("spec"));
}

std::string Reconciler::RepairKey(const Operation& operation) const {
  if (operation.kind != Operation::Kind::kCreate) return operation.name;
  return absl::StrCat(operation.pool, " ", IndexOf(operation.name).value_or(0));
}

absl::Duration Reconciler::Backoff(const absl::Status& status) {
  const int doublings = std::min(failures_++, 20);
  const absl::Duration full = std::min(options_.retry_max, options_.retry_min * (1 << doublings));
  // Many nodes lose and find the API server together, so each waits its own half to whole of the time.
  const size_t draw = absl::HashOf(options_.node_name, options_.driver_name, ++backoffs_) % 512;
  absl::Duration wait = full / 2 + full / 1024 * static_cast<int64_t>(draw);
  const std::optional<kube::ApiError> error = kube::ApiErrorOf(status);
  if (error.has_value() && error->retry_after.has_value()) {
    wait = std::max(wait, *error->retry_after);
  }
  return wait;
}

void Reconciler::Count(const char* verb, const absl::Status& status, const char* ok_code) {
  if (metrics_ == nullptr) return;
  std::string code = ok_code;
  if (!status.ok()) {
    const std::optional<kube::ApiError> error = kube::ApiErrorOf(status);
    code = absl::StrCat(error.has_value() ? error->http_code : 0);
  }
  metrics_->Increment("dra_slice_writes_total",
                      {{"driver", options_.driver_name}, {"verb", verb}, {"code", code}});
}

void Reconciler::ShowGauges(const Selection& selection, bool equal) {
  if (metrics_ == nullptr) return;
  size_t slices = 0;
  for (const Json& slice : store_->All()) {
    if (IsOurs(slice, options_.driver_name, options_.node_name)) ++slices;
  }
  const auto set = [&](absl::string_view gauge, size_t value) {
    metrics_->Set(gauge, static_cast<double>(value), {{"driver", options_.driver_name}});
  };
  set("dra_slices", slices);
  set("dra_devices_dropped", selection.devices_dropped);
  if (equal) set("dra_devices_published", selection.devices);
}

}  // namespace dra::publisher
