#include "driver/operator_desk.h"

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"

namespace dra::driver {

OperatorDesk::OperatorDesk(Options options, FileSystem* fs, inventory::Inventory* inventory,
                           Clock* clock, observe::EventRecorder* events, observe::Metrics* metrics,
                           const Logger& logger, Callbacks callbacks)
    : options_(std::move(options)),
      inventory_(inventory),
      clock_(clock),
      events_(events),
      metrics_(metrics),
      logger_(logger),
      callbacks_(std::move(callbacks)),
      notes_({options_.driver_name, options_.node_name, JoinPath(options_.data_directory, "notes")},
             fs, inventory, clock, metrics, logger),
      requests_(
          fs, JoinPath(options_.data_directory, "requests"), clock, logger,
          [this](const ClearFaultRequest& request) { return ClearFault(request); },
          [this](const Requests::Result& result) { OnResult(result); }) {}

void OperatorDesk::SetServerFields(const loader::ServerFields& fields) {
  const absl::MutexLock lock(&mutex_);
  fields_ = fields;
}

void OperatorDesk::Poll() {
  requests_.Poll();
  ApplyDrain();
}

OperatorDesk::Effect OperatorDesk::EffectOf(const DrainRequest& request) const {
  if (request.mode == DrainRequest::Mode::kWithdraw || options_.never_tainted)
    return Effect::kWithdraw;
  const absl::MutexLock lock(&mutex_);
  return fields_.taints == loader::FieldSupport::kDropped ? Effect::kWithdraw : Effect::kTaint;
}

void OperatorDesk::ApplyDrain() {
  const std::optional<DrainRequest> drain = requests_.Drain();
  const std::pair<Effect, absl::Time> wanted = drain.has_value()
                                                   ? std::pair(EffectOf(*drain), drain->since)
                                                   : std::pair(Effect::kNone, absl::Time());
  if (wanted == applied_) return;
  const Effect before = applied_.first;
  applied_ = wanted;
  const std::shared_ptr<const inventory::Snapshot> snapshot =
      inventory_->SetDrain(wanted.first == Effect::kTaint, wanted.second);
  callbacks_.set_withdrawn(wanted.first == Effect::kWithdraw);
  if (snapshot->known) callbacks_.on_snapshot(snapshot);
  metrics_->Set("dra_drained", wanted.first == Effect::kNone ? 0 : 1,
                {{"driver", options_.driver_name}});
  if (wanted.first == before) return;
  if (wanted.first == Effect::kNone) {
    logger_.Info("drain ended, devices are offered again");
    Record(observe::EventType::kNormal, "DrainEnded", "devices are offered again");
    return;
  }
  std::string text = wanted.first == Effect::kTaint ? "every device is tainted NoSchedule"
                                                    : "every slice is withdrawn";
  if (wanted.first == Effect::kWithdraw && drain->mode == DrainRequest::Mode::kTaint) {
    absl::StrAppend(&text, ", because ",
                    options_.never_tainted ? "the backend declares that its devices get no taints"
                                           : "the API server drops taints");
  }
  logger_.Warn("drained at an operator's request", {{"by", drain->by}, {"effect", text}});
  Record(observe::EventType::kNormal, "DrainStarted", text);
}

absl::StatusOr<std::string> OperatorDesk::ClearFault(const ClearFaultRequest& request) {
  const std::string pool = request.pool.empty() ? options_.node_name : request.pool;
  const std::pair<std::string, std::string> device = {pool, request.device};
  const auto unsaved = unsaved_.find(device);
  std::string answer;
  if (unsaved != unsaved_.end()) {
    answer = unsaved->second;
  } else {
    const inventory::Evidence evidence = {
        request.evidence, request.by.empty() ? "operator" : request.by,
        request.at == absl::UnixEpoch() ? clock_->Now() : request.at};
    DRA_ASSIGN_OR_RETURN(const inventory::Fault fault,
                         inventory_->ClearFault(pool, request.device, evidence));
    answer = absl::StrCat("device ", pool, "/", request.device, ": fault \"", fault.fault_class,
                          fault.sick ? "\": evidence is recorded; the device is still reported "
                                       "unhealthy and stays tainted until it is not"
                                     : "\" is cleared");
  }
  const absl::Status saved = notes_.Save();
  callbacks_.on_snapshot(inventory_->Get());
  if (!saved.ok()) {
    unsaved_[device] = answer;
    return absl::UnavailableError(saved.message());
  }
  unsaved_.erase(device);
  return answer;
}

void OperatorDesk::OnResult(const Requests::Result& result) {
  metrics_->Increment("dra_operator_requests_total", {{"driver", options_.driver_name},
                                                      {"result", result.ok ? "done" : "refused"}});
  Record(result.ok ? observe::EventType::kNormal : observe::EventType::kWarning,
         result.ok ? "FaultCleared" : "RequestRefused",
         absl::StrCat(result.file, ": ", result.message));
}

void OperatorDesk::Record(observe::EventType type, const char* reason, const std::string& note) {
  const observe::ObjectReference node = {"v1", "Node", "", options_.node_name, options_.node_name};
  events_->Record(type, node, reason, "Operate", absl::StrCat(options_.driver_name, ": ", note));
}

OperatorView OperatorDesk::View() const {
  OperatorView view = {requests_.Drain(), inventory_->Faults(), requests_.Results()};
  if (view.drain.has_value() && EffectOf(*view.drain) == Effect::kWithdraw)
    view.drain->mode = DrainRequest::Mode::kWithdraw;
  return view;
}

}  // namespace dra::driver
