#include "loader/collectors.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "loader/payload.h"
#include "nlohmann/json.hpp"

namespace dra::loader {
namespace {

// A fault of the backend, whatever the helper called it: not the user's object is wrong.
absl::Status BackendFault(const absl::Status& status) {
  return absl::InternalError(
      absl::StrCat("backend answered junk: ", std::string(status.message())));
}

std::optional<FaultSeverity> SeverityOf(int32_t value) {
  switch (value) {
    case DRA_SEVERITY_UNSET:
      return FaultSeverity::kUnset;
    case DRA_SEVERITY_MINOR:
      return FaultSeverity::kMinor;
    case DRA_SEVERITY_MAJOR:
      return FaultSeverity::kMajor;
    case DRA_SEVERITY_CRITICAL:
      return FaultSeverity::kCritical;
    default:
      return std::nullopt;
  }
}

}  // namespace

// ---- text

dra_text_sink TextCollector::Sink() {
  dra_text_sink sink = {};
  sink.struct_size = sizeof(sink);
  sink.ctx = this;
  sink.set = [](void* ctx, dra_str text) noexcept {
    auto* self = static_cast<TextCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    self->text_ = CheckedText(text, self->max_bytes_, "text");
  };
  return sink;
}

absl::StatusOr<std::string> TextCollector::Take() {
  if (!text_) return absl::InternalError("backend answered nothing");
  if (!text_->ok()) return BackendFault(text_->status());
  return **std::move(text_);
}

// ---- discover

dra_discover_sink DiscoverCollector::Sink() {
  dra_discover_sink sink = {};
  sink.struct_size = sizeof(sink);
  sink.ctx = this;
  sink.emit_device = [](void* ctx, const dra_device* device) noexcept {
    auto* self = static_cast<DiscoverCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    if (device != nullptr) self->AddDevice(*device);
  };
  sink.emit_error = [](void* ctx, const dra_item_error* error) noexcept {
    auto* self = static_cast<DiscoverCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    if (error == nullptr || !DRA_HAS(error, dra_item_error, message)) {
      self->AddError("item",
                     BackendFault(absl::InvalidArgumentError("an error without a subject")));
      return;
    }
    const bool known = error->code > DRA_OK && error->code <= DRA_UNAUTHENTICATED;
    self->AddError(ShownText(error->subject),
                   absl::Status(known ? static_cast<absl::StatusCode>(error->code)
                                      : absl::StatusCode::kUnknown,
                                ShownText(error->message)));
  };
  sink.emit_counter_set = [](void* ctx, dra_str pool, dra_str json) noexcept {
    auto* self = static_cast<DiscoverCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    const absl::StatusOr<std::string> name = CheckedText(pool, kMaxTextBytes, "counter set: pool");
    absl::StatusOr<Json> set = CheckedObject(json, "counter set");
    if (!name.ok() || !set.ok() || !set->is_object() ||
        self->result_.counter_sets.size() >= kMaxItems) {
      self->AddError(
          absl::StrCat("counter set of pool \"", ShownText(pool, 64), "\""),
          BackendFault(!name.ok()  ? name.status()
                       : !set.ok() ? set.status()
                                   : absl::InvalidArgumentError("no object, or too many")));
      return;
    }
    self->result_.counter_sets.push_back({*name, *std::move(set)});
  };
  sink.set_slice_fields = [](void* ctx, dra_str pool, dra_str json) noexcept {
    auto* self = static_cast<DiscoverCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    const absl::StatusOr<std::string> name = CheckedText(pool, kMaxTextBytes, "slice fields: pool");
    absl::StatusOr<Json> fields = CheckedObject(json, "slice fields");
    if (!name.ok() || !fields.ok() || !fields->is_object()) {
      self->AddError(absl::StrCat("slice fields of pool \"", ShownText(pool, 64), "\""),
                     BackendFault(!name.ok()     ? name.status()
                                  : !fields.ok() ? fields.status()
                                                 : absl::InvalidArgumentError("no object")));
      return;
    }
    self->result_.slice_fields[*name] = *std::move(fields);
  };
  sink.set_partial = [](void* ctx, dra_str reason) noexcept {
    auto* self = static_cast<DiscoverCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    self->result_.complete = false;
    if (reason.size != 0) self->AddError("discovery", absl::UnavailableError(ShownText(reason)));
  };
  return sink;
}

void DiscoverCollector::AddDevice(const dra_device& device) {
  DiscoverItem item;
  item.device.emplace();
  const absl::Status read = ReadDevice(device, *item.device);
  if (read.ok() && result_.items.size() < kMaxItems) {
    result_.items.push_back(std::move(item));
    return;
  }
  std::string subject = StringOr(item.device->device, "name");
  if (subject.empty() && DRA_HAS(&device, dra_device, identity))
    subject = ShownText(device.identity, 64);
  if (subject.empty()) subject = absl::StrCat("device ", result_.items.size());
  AddError(absl::StrCat("device ", subject),
           read.ok() ? absl::ResourceExhaustedError(absl::StrCat("more than ", kMaxItems, " items"))
                     : BackendFault(read));
}

void DiscoverCollector::AddError(std::string subject, absl::Status error) {
  // A flood of errors must not fill the memory; what is left out makes the result partial.
  if (++refused_ > kMaxItems) {
    result_.complete = false;
    return;
  }
  DiscoverItem item;
  item.error_subject = subject.empty() ? "item" : std::move(subject);
  item.error = std::move(error);
  result_.items.push_back(std::move(item));
}

absl::Status DiscoverCollector::ReadDevice(const dra_device& device, DiscoveredDevice& into) {
  if (!DRA_HAS(&device, dra_device, identity))
    return absl::InvalidArgumentError("the struct is too short");
  DRA_ASSIGN_OR_RETURN(into.device, CheckedObject(device.device_json, "device_json"));
  const std::string name = StringOr(into.device, "name");
  if (!IsDnsLabel(name)) {
    return absl::InvalidArgumentError(absl::StrCat("device_json: name \"",
                                                   ShownText(View(name), 64),
                                                   "\" is not a DNS label of at most 63 bytes"));
  }
  DRA_ASSIGN_OR_RETURN(into.identity, CheckedText(device.identity, kMaxTextBytes, "identity"));
  if (into.identity.empty()) {
    return absl::InvalidArgumentError(
        "identity is empty: give what stays with the hardware, or emit_error");
  }
  if (DRA_HAS(&device, dra_device, pool)) {
    DRA_ASSIGN_OR_RETURN(into.pool, CheckedText(device.pool, kMaxTextBytes, "pool"));
  }
  if (DRA_HAS(&device, dra_device, exclusion_keys_json)) {
    DRA_ASSIGN_OR_RETURN(const Json keys,
                         CheckedJson(device.exclusion_keys_json, "exclusion_keys_json"));
    if (!keys.is_null() && !keys.is_array())
      return absl::InvalidArgumentError("exclusion_keys_json: must be an array");
    for (const Json& key : keys) {
      ExclusionKey read{StringOr(key, "key"), StringOr(key, "shape")};
      if (read.key.empty())
        return absl::InvalidArgumentError("exclusion_keys_json: an entry without a key");
      into.exclusion_keys.push_back(std::move(read));
    }
  }
  if (!names_.emplace(into.pool, name).second) {
    return absl::InvalidArgumentError(absl::StrCat(
        "name \"", name, "\" was given before in pool \"", into.pool, "\": the first one counts"));
  }
  return absl::OkStatus();
}

// ---- prepare

dra_prepare_sink PrepareCollector::Sink() {
  dra_prepare_sink sink = {};
  sink.struct_size = sizeof(sink);
  sink.ctx = this;
  sink.emit_device = [](void* ctx, const dra_prepared_device* device) noexcept {
    auto* self = static_cast<PrepareCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    if (device == nullptr || !DRA_HAS(device, dra_prepared_device, edits_json)) {
      return self->Fault(absl::InvalidArgumentError("emit_device: the struct is too short"));
    }
    const std::string what = absl::StrCat("device ", device->index);
    if (device->index >= self->devices_.size()) {
      return self->Fault(absl::InvalidArgumentError(absl::StrCat(
          what, ": the claim has ", self->devices_.size(), " devices, counted from 0")));
    }
    std::optional<PreparedDevice>& slot = self->devices_[device->index];
    if (slot) return self->Fault(absl::InvalidArgumentError(absl::StrCat(what, ": emitted twice")));
    slot.emplace();
    absl::StatusOr<Json> edits =
        CheckedObject(device->edits_json, absl::StrCat(what, ": edits_json"));
    if (!edits.ok()) return self->Fault(edits.status());
    slot->edits = *std::move(edits);
    if (!DRA_HAS(device, dra_prepared_device, status_json)) return;
    absl::StatusOr<Json> status =
        CheckedObject(device->status_json, absl::StrCat(what, ": status_json"));
    if (!status.ok()) return self->Fault(status.status());
    slot->status = *std::move(status);
  };
  sink.set_claim_edits = [](void* ctx, dra_str text) noexcept {
    auto* self = static_cast<PrepareCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    absl::StatusOr<Json> edits = CheckedObject(text, "claim edits");
    if (!edits.ok()) return self->Fault(edits.status());
    self->claim_edits_ = *std::move(edits);
  };
  sink.set_undo = [](void* ctx, dra_str bytes) noexcept {
    auto* self = static_cast<PrepareCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    absl::StatusOr<std::string> undo = CheckedBytes(bytes, kMaxUndoBytes, "undo");
    if (!undo.ok()) return self->Fault(undo.status());
    self->undo_ = *std::move(undo);
  };
  return sink;
}

void PrepareCollector::Fault(const absl::Status& status) {
  if (fault_.ok()) fault_ = BackendFault(status);
}

absl::StatusOr<PrepareResult> PrepareCollector::Take() {
  DRA_RETURN_IF_ERROR(fault_);
  PrepareResult result;
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (!devices_[i]) {
      return absl::InternalError(absl::StrCat(
          "backend answered for too few devices: none for device ", i, " of ", devices_.size()));
    }
    result.devices.push_back(*std::move(devices_[i]));
  }
  result.claim_edits = std::move(claim_edits_);
  result.has_undo = undo_.has_value();
  if (undo_) result.undo = *std::move(undo_);
  return result;
}

// ---- reconcile

dra_reconcile_sink ReconcileCollector::Sink() {
  dra_reconcile_sink sink = {};
  sink.struct_size = sizeof(sink);
  sink.ctx = this;
  sink.set_verdict = [](void* ctx, int32_t verdict) noexcept {
    auto* self = static_cast<ReconcileCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    if (self->verdict_) return self->Fault(absl::InvalidArgumentError("two verdicts"));
    self->verdict_ = verdict;
  };
  sink.emit_device_edits = [](void* ctx, uint32_t index, dra_str text) noexcept {
    auto* self = static_cast<ReconcileCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    if (index >= self->edits_.size() || self->edits_[index]) {
      return self->Fault(absl::InvalidArgumentError(
          absl::StrCat("edits of device ", index, ": given twice, or the claim has only ",
                       self->edits_.size())));
    }
    absl::StatusOr<Json> edits = CheckedObject(text, absl::StrCat("edits of device ", index));
    if (!edits.ok()) return self->Fault(edits.status());
    self->edits_[index] = *std::move(edits);
  };
  sink.set_claim_edits = [](void* ctx, dra_str text) noexcept {
    auto* self = static_cast<ReconcileCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    absl::StatusOr<Json> edits = CheckedObject(text, "claim edits");
    if (!edits.ok()) return self->Fault(edits.status());
    self->claim_edits_ = *std::move(edits);
  };
  return sink;
}

void ReconcileCollector::Fault(const absl::Status& status) {
  if (fault_.ok()) fault_ = BackendFault(status);
}

absl::StatusOr<ReconcileResult> ReconcileCollector::Take() {
  DRA_RETURN_IF_ERROR(fault_);
  if (!verdict_) return absl::InternalError("backend gave no verdict");
  ReconcileResult result;
  switch (*verdict_) {
    case DRA_RECONCILE_TRUE:
      result.verdict = ReconcileVerdict::kTrue;
      return result;
    case DRA_RECONCILE_REDO:
      result.verdict = ReconcileVerdict::kRedo;
      return result;
    case DRA_RECONCILE_LOST:
      result.verdict = ReconcileVerdict::kLost;
      return result;
    case DRA_RECONCILE_TRUE_WITH_EDITS:
      break;
    default:
      return absl::InternalError(
          absl::StrCat("backend answered junk: verdict ", *verdict_, " is not one of abi.h"));
  }
  result.verdict = ReconcileVerdict::kTrueWithEdits;
  for (size_t i = 0; i < edits_.size(); ++i) {
    if (!edits_[i]) {
      return absl::InternalError(absl::StrCat(
          "backend answered for too few devices: no edits for device ", i, " of ", edits_.size()));
    }
    result.device_edits.push_back(*std::move(edits_[i]));
  }
  result.claim_edits = std::move(claim_edits_);
  return result;
}

// ---- busy

dra_busy_sink BusyCollector::Sink() {
  dra_busy_sink sink = {};
  sink.struct_size = sizeof(sink);
  sink.ctx = this;
  sink.set = [](void* ctx, int32_t busy) noexcept {
    auto* self = static_cast<BusyCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    self->busy_ = busy;
  };
  return sink;
}

absl::StatusOr<Busy> BusyCollector::Take() {
  if (!busy_) return absl::InternalError("backend answered nothing");
  switch (*busy_) {
    case DRA_BUSY_IDLE:
      return Busy::kIdle;
    case DRA_BUSY_BUSY:
      return Busy::kBusy;
    case DRA_BUSY_UNKNOWN:
      return Busy::kUnknown;
    default:
      return absl::InternalError(
          absl::StrCat("backend answered junk: busy ", *busy_, " is not one of abi.h"));
  }
}

// ---- health

dra_health_sink HealthCollector::Sink() {
  dra_health_sink sink = {};
  sink.struct_size = sizeof(sink);
  sink.ctx = this;
  sink.emit = [](void* ctx, const dra_device_health* health) noexcept {
    auto* self = static_cast<HealthCollector*>(ctx);
    const std::lock_guard lock(self->mutex_);
    DeviceHealth report;
    absl::Status read = health == nullptr ? absl::InvalidArgumentError("a report that is NULL")
                                          : self->Read(*health, report);
    if (read.ok() && self->reports_.size() >= kMaxItems) {
      read = absl::InvalidArgumentError(absl::StrCat("more than ", kMaxItems, " reports"));
    }
    if (read.ok()) {
      self->reports_.push_back(std::move(report));
    } else if (self->fault_.ok()) {
      self->fault_ = BackendFault(read);
    }
  };
  return sink;
}

absl::Status HealthCollector::Read(const dra_device_health& health, DeviceHealth& into) {
  if (!DRA_HAS(&health, dra_device_health, device))
    return absl::InvalidArgumentError("the struct is too short");
  DRA_ASSIGN_OR_RETURN(into.pool, CheckedText(health.pool, kMaxTextBytes, "health: pool"));
  DRA_ASSIGN_OR_RETURN(into.device, CheckedText(health.device, kMaxTextBytes, "health: device"));
  if (into.device.empty()) return absl::InvalidArgumentError("health: a report without a device");
  // A state that this host does not know is not "healthy".
  into.state = health.state == DRA_HEALTH_HEALTHY     ? HealthState::kHealthy
               : health.state == DRA_HEALTH_UNHEALTHY ? HealthState::kUnhealthy
                                                      : HealthState::kUnknown;
  if (DRA_HAS(&health, dra_device_health, fault_class))
    into.fault_class = ShownText(health.fault_class, 63);
  if (DRA_HAS(&health, dra_device_health, message)) into.message = ShownText(health.message);
  if (DRA_HAS(&health, dra_device_health, remedy)) into.remedy = ShownText(health.remedy);
  if (DRA_HAS(&health, dra_device_health, clears_with))
    into.clears_with = ShownText(health.clears_with);
  if (DRA_HAS(&health, dra_device_health, severity)) {
    if (const std::optional<FaultSeverity> known = SeverityOf(health.severity)) {
      into.severity = *known;
    } else {
      into.unknown_severity = health.severity;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<DeviceHealth>> HealthCollector::Take() {
  DRA_RETURN_IF_ERROR(fault_);
  return std::move(reports_);
}

}  // namespace dra::loader
