#include "test/conformance/memory_host.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"

namespace dra::conformance {

void MemoryHost::Log(int level, absl::string_view text) {
  absl::MutexLock lock(&mutex_);
  logs_.push_back(absl::StrCat(level, " ", text));
}

void MemoryHost::InventoryChanged() {
  absl::MutexLock lock(&mutex_);
  ++inventory_changes_;
}

void MemoryHost::HealthChanged() {
  absl::MutexLock lock(&mutex_);
  ++health_changes_;
}

absl::Status MemoryHost::SaveUndo(absl::string_view claim_uid, absl::string_view undo) {
  absl::MutexLock lock(&mutex_);
  if (!save_undo_status_.ok()) return save_undo_status_;
  undo_[std::string(claim_uid)] = std::string(undo);
  return absl::OkStatus();
}

absl::Status MemoryHost::UpdateDevice(absl::string_view claim_uid, absl::string_view,
                                      absl::string_view device, absl::string_view,
                                      const Json& status) {
  absl::MutexLock lock(&mutex_);
  statuses_[{std::string(claim_uid), std::string(device)}] = status;
  return absl::OkStatus();
}

Json MemoryHost::DeviceStatus(absl::string_view claim_uid, absl::string_view device) const {
  absl::MutexLock lock(&mutex_);
  const auto found = statuses_.find({std::string(claim_uid), std::string(device)});
  return found == statuses_.end() ? Json() : found->second;
}

absl::StatusOr<std::string> MemoryHost::NoteGet(absl::string_view identity, absl::string_view key) {
  absl::MutexLock lock(&mutex_);
  const auto found = notes_.find({std::string(identity), std::string(key)});
  if (found == notes_.end())
    return absl::NotFoundError(absl::StrCat("no note ", key, " of ", identity));
  return found->second;
}

absl::Status MemoryHost::NotePut(absl::string_view identity, absl::string_view key,
                                 absl::string_view value) {
  absl::MutexLock lock(&mutex_);
  notes_[{std::string(identity), std::string(key)}] = std::string(value);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<loader::OtherClaim>> MemoryHost::Held(absl::string_view,
                                                                 absl::string_view,
                                                                 absl::string_view) {
  return std::vector<loader::OtherClaim>();
}

absl::StatusOr<std::string> MemoryHost::ClaimDirectory(absl::string_view claim_uid) {
  const std::string path = JoinPath(directory_, absl::StrCat("claim-", claim_uid));
  DRA_RETURN_IF_ERROR(MakeDirectories(fs_, path, 0755));
  return path;
}

absl::StatusOr<std::string> MemoryHost::SharedFile(absl::string_view, absl::string_view bytes) {
  const std::string path = JoinPath(directory_, absl::StrCat("shared-", Sha256Hex(bytes)));
  DRA_RETURN_IF_ERROR(WriteFileAtomically(fs_, path, bytes, 0555, Durability::kVolatile));
  return path;
}

absl::StatusOr<loader::HostServices::HelperResult> MemoryHost::RunHelper(
    const std::vector<std::string>& argv, const Call&) {
  return absl::UnimplementedError(absl::StrCat("this host starts no programs",
                                               argv.empty() ? "" : absl::StrCat(": ", argv[0])));
}

void MemoryHost::RequestRestart(absl::string_view reason) {
  Log(2, absl::StrCat("restart requested: ", reason));
}

std::string MemoryHost::Undo(absl::string_view claim_uid) const {
  absl::MutexLock lock(&mutex_);
  const auto found = undo_.find(std::string(claim_uid));
  return found == undo_.end() ? "" : found->second;
}

void MemoryHost::ForgetClaim(absl::string_view claim_uid) {
  absl::MutexLock lock(&mutex_);
  undo_.erase(std::string(claim_uid));
  std::erase_if(statuses_, [&](const auto& told) { return told.first.first == claim_uid; });
}

std::string MemoryHost::Note(absl::string_view identity, absl::string_view key) const {
  absl::MutexLock lock(&mutex_);
  const auto found = notes_.find({std::string(identity), std::string(key)});
  return found == notes_.end() ? "" : found->second;
}

std::vector<std::string> MemoryHost::Logs() const {
  absl::MutexLock lock(&mutex_);
  return logs_;
}

int MemoryHost::inventory_changes() const {
  absl::MutexLock lock(&mutex_);
  return inventory_changes_;
}

int MemoryHost::health_changes() const {
  absl::MutexLock lock(&mutex_);
  return health_changes_;
}

bool MemoryHost::WaitForInventoryChanges(int count, absl::Duration timeout) const {
  const auto reached = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return inventory_changes_ >= count;
  };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&reached), timeout);
}

bool MemoryHost::WaitForHealthChanges(int count, absl::Duration timeout) const {
  const auto reached = [&]()
                           ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return health_changes_ >= count; };
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithTimeout(absl::Condition(&reached), timeout);
}

void MemoryHost::FailSaveUndo(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  save_undo_status_ = std::move(status);
}

}  // namespace dra::conformance
