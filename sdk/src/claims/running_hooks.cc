#include "claims/running_hooks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::claims {
namespace {

void MergeConditions(Json& recorded, const Json& reported, absl::Time now) {
  if (!recorded.is_array()) recorded = Json::array();
  for (Json condition : reported) {
    if (!condition.is_object()) continue;
    const std::string type = StringOr(condition, "type");
    const auto old = std::find_if(recorded.begin(), recorded.end(), [&](const Json& candidate) {
      return StringOr(candidate, "type") == type;
    });
    // The API server requires both members of every condition.
    if (StringOr(condition, "reason").empty()) condition["reason"] = "Reported";
    if (Find(condition, "message") == nullptr) condition["message"] = "";
    if (StringOr(condition, "lastTransitionTime").empty()) {
      const bool same = old != recorded.end() &&
                        StringOr(*old, "status") == StringOr(condition, "status") &&
                        !StringOr(*old, "lastTransitionTime").empty();
      condition["lastTransitionTime"] =
          same ? StringOr(*old, "lastTransitionTime")
               : absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", now, absl::UTCTimeZone());
    }
    if (old == recorded.end()) {
      recorded.push_back(std::move(condition));
    } else {
      *old = std::move(condition);
    }
  }
}

absl::Status Ended() {
  return absl::FailedPreconditionError(
      "the hook has overrun, and its claim has gone on without it");
}

}  // namespace

void MergeStatus(Json& recorded, const Json& status, absl::Time now) {
  if (!status.is_object()) return;
  if (!recorded.is_object()) recorded = Json::object();
  for (const auto& [name, value] : status.items()) {
    // Which device it is about is not the backend's to say.
    if (name == "driver" || name == "pool" || name == "device" || name == "shareID") continue;
    if (value.is_null()) {
      recorded.erase(name);
    } else if (name == "conditions" && value.is_array()) {
      MergeConditions(recorded["conditions"], value, now);
    } else {
      recorded[name] = value;
    }
  }
}

RunningHook::RunningHook(records::RecordStore* store, Clock* clock, records::Record draft,
                         std::string backend)
    : store_(store), clock_(clock), backend_(std::move(backend)), draft_(std::move(draft)) {}

absl::Status RunningHook::SaveUndo(absl::string_view undo) {
  records::Record record;
  {
    // Writes of one claim follow one another, without a lock held over the file system.
    const absl::MutexLock lock(&mutex_, absl::Condition(
                                            +[](bool* writing) { return !*writing; }, &writing_));
    if (taken_) return Ended();
    writing_ = true;
    record = draft_;
  }
  record.undo = std::string(undo);
  record.has_undo = true;
  if (!backend_.empty()) record.backend = backend_;
  const absl::Status saved = store_->Save(record);
  const absl::MutexLock lock(&mutex_);
  writing_ = false;
  if (!saved.ok()) return saved;
  draft_.undo = std::move(record.undo);
  draft_.backend = std::move(record.backend);
  draft_.has_undo = true;
  saved_ = true;
  return absl::OkStatus();
}

absl::Status RunningHook::UpdateDevice(absl::string_view pool, absl::string_view device,
                                       absl::string_view share_id, const Json& status) {
  const absl::MutexLock lock(&mutex_);
  if (taken_) return Ended();
  for (records::RecordDevice& candidate : draft_.devices) {
    if (pool != candidate.pool || device != candidate.device) continue;
    if (share_id != candidate.share_id.value_or("")) continue;
    MergeStatus(candidate.status, status, clock_->Now());
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat("claim uid ", draft_.claim.uid, " has no device ", pool, "/", device));
}

void RunningHook::AddSharedFile(const std::string& name) {
  const absl::MutexLock lock(&mutex_);
  auto& files = draft_.shared_files;
  if (std::find(files.begin(), files.end(), name) == files.end()) files.push_back(name);
}

records::Record RunningHook::draft() const {
  const absl::MutexLock lock(&mutex_);
  return draft_;
}

records::Record RunningHook::TakeDraft() {
  const absl::MutexLock lock(&mutex_, absl::Condition(
                                          +[](bool* writing) { return !*writing; }, &writing_));
  taken_ = true;
  return std::move(draft_);
}

bool RunningHook::saved() const {
  const absl::MutexLock lock(&mutex_);
  return saved_;
}

std::unique_ptr<RunningHooks::Registration> RunningHooks::Add(std::shared_ptr<RunningHook> hook,
                                                              const std::string& uid) {
  const absl::MutexLock lock(&mutex_);
  hooks_[uid] = std::move(hook);
  return std::make_unique<Registration>(this, uid);
}

std::shared_ptr<RunningHook> RunningHooks::Find(absl::string_view claim_uid) const {
  const absl::MutexLock lock(&mutex_);
  const auto found = hooks_.find(std::string(claim_uid));
  return found == hooks_.end() ? nullptr : found->second;
}

void RunningHooks::Remove(const std::string& uid) {
  const absl::MutexLock lock(&mutex_);
  hooks_.erase(uid);
}

}  // namespace dra::claims
