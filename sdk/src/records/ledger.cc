#include "dra/records/ledger.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"

namespace dra::records {
namespace {

constexpr uint64_t kMaxHoldBytes = 1u << 20;
constexpr size_t kKeyHashDigits = 32;

}  // namespace

Ledger::Ledger(FileSystem* fs, std::string held_directory, std::string boot_id, IsAlive is_alive)
    : fs_(fs),
      root_(std::move(held_directory)),
      directory_(JoinPath(root_, boot_id)),
      boot_id_(std::move(boot_id)),
      is_alive_(std::move(is_alive)) {}

std::string Ledger::DirectoryFor(absl::string_view key) const {
  return JoinPath(directory_, Sha256Hex(key).substr(0, kKeyHashDigits));
}

std::string Ledger::PathFor(absl::string_view key, absl::string_view claim_uid) const {
  return JoinPath(DirectoryFor(key), claim_uid);
}

absl::Status Ledger::Open() {
  DRA_RETURN_IF_ERROR(MakeDirectories(*fs_, root_, 0700));
  DRA_RETURN_IF_ERROR(fs_->MakeDirectory(directory_, 0700));
  DRA_ASSIGN_OR_RETURN(const std::vector<std::string> boots, fs_->List(root_));
  for (const std::string& boot : boots) {
    if (boot == boot_id_) continue;
    // Nothing survives a reboot as held; a directory that cannot be removed does no harm.
    (void)RemoveTree(*fs_, JoinPath(root_, boot));
  }
  DRA_ASSIGN_OR_RETURN(const std::vector<std::string> keys, fs_->List(directory_));
  for (const std::string& key : keys) {
    // One with holds in it does not go; a writer whose directory goes makes it again.
    (void)fs_->RemoveDirectory(JoinPath(directory_, key));
  }
  return All().status();
}

absl::StatusOr<std::optional<Hold>> Ledger::ReadHold(const std::string& path) {
  const absl::StatusOr<FileInfo> info = fs_->Stat(path);
  if (absl::IsNotFound(info.status())) return std::optional<Hold>();
  DRA_RETURN_IF_ERROR(info.status());
  {
    const absl::MutexLock lock(&mutex_);
    const auto cached = cache_.find(path);
    if (cached != cache_.end() && cached->second.inode == info->inode &&
        cached->second.mtime_ns == info->mtime_ns) {
      return std::optional<Hold>(cached->second.hold);
    }
  }
  const absl::StatusOr<std::string> text = fs_->ReadOwnFile(path, kMaxHoldBytes);
  if (absl::IsNotFound(text.status())) return std::optional<Hold>();
  DRA_RETURN_IF_ERROR(text.status());
  DRA_ASSIGN_OR_RETURN(Hold hold, DecodeHold(*text));
  const absl::MutexLock lock(&mutex_);
  cache_[path] = {info->inode, info->mtime_ns, hold};
  keys_of_claim_[hold.claim.uid].insert(hold.key);
  return std::optional<Hold>(std::move(hold));
}

absl::StatusOr<std::vector<Hold>> Ledger::ReadDirectory(const std::string& directory,
                                                        absl::string_view without) {
  const absl::StatusOr<std::vector<std::string>> names = fs_->List(directory);
  if (absl::IsNotFound(names.status())) return std::vector<Hold>();
  DRA_RETURN_IF_ERROR(names.status());
  std::vector<Hold> holds;
  for (const std::string& name : *names) {
    if (IsTemporaryName(name) || without == absl::string_view(name)) continue;
    absl::StatusOr<std::optional<Hold>> hold = ReadHold(JoinPath(directory, name));
    if (absl::IsDataLoss(hold.status())) {
      // Renamed whole into place, so only a stranger's hand can do this. It holds all there is, until its claim goes.
      Hold damaged;
      damaged.claim.uid = name;
      HeldDevice everything;
      everything.shape = "unknown (damaged hold)";
      damaged.devices.push_back(std::move(everything));
      holds.push_back(std::move(damaged));
      continue;
    }
    DRA_RETURN_IF_ERROR(hold.status());
    if (hold->has_value()) holds.push_back(*std::move(*hold));
  }
  return holds;
}

absl::StatusOr<std::optional<HoldConflict>> Ledger::Check(const std::vector<Hold>& holds,
                                                          const HoldLimits& limits,
                                                          bool remove_stale,
                                                          std::vector<Hold>* others_out) {
  for (const Hold& wanted : holds) {
    DRA_ASSIGN_OR_RETURN(std::vector<Hold> others, Others(wanted.claim.uid, {wanted.key}));
    std::optional<HoldConflict> conflict;
    // Each round takes one stale hold out of the way, so the loop ends.
    while ((conflict = FindConflict(wanted, others, limits)).has_value()) {
      const std::string uid = conflict->holder.uid;
      if (uid.empty()) return conflict;
      DRA_ASSIGN_OR_RETURN(const bool alive, is_alive_(uid));
      if (alive) return conflict;
      if (remove_stale) DRA_RETURN_IF_ERROR(Remove(uid, {wanted.key}));
      std::erase_if(others, [&](const Hold& hold) { return hold.claim.uid == uid; });
    }
    if (others_out != nullptr)
      std::move(others.begin(), others.end(), std::back_inserter(*others_out));
  }
  return CheckNames(holds, remove_stale);
}

absl::StatusOr<std::optional<HoldConflict>> Ledger::CheckNames(const std::vector<Hold>& holds,
                                                               bool remove_stale) {
  std::map<std::string, const HeldDevice*> wanted;
  for (const Hold& hold : holds) {
    for (const HeldDevice& device : hold.devices) {
      if (!device.admin_access) wanted.emplace(device.device, &device);
    }
  }
  for (const auto& [name, device] : wanted) {
    DRA_ASSIGN_OR_RETURN(const std::vector<Hold> others,
                         Others(holds.front().claim.uid, {AnyPoolKey(name)}));
    for (const Hold& hold : others) {
      DRA_ASSIGN_OR_RETURN(const bool alive, is_alive_(hold.claim.uid));
      if (alive) {
        HoldConflict conflict;
        conflict.text = absl::StrCat("device ", device->pool, "/", name, " is held by claim ",
                                     hold.claim.ToString(),
                                     ", whose record is damaged: its CDI file names the device");
        conflict.holder = hold.claim;
        return std::optional<HoldConflict>(std::move(conflict));
      }
      if (remove_stale) DRA_RETURN_IF_ERROR(Remove(hold.claim.uid, {AnyPoolKey(name)}));
    }
  }
  return std::optional<HoldConflict>();
}

absl::Status Ledger::Write(const std::vector<Hold>& holds) {
  std::vector<std::string> written;
  for (const Hold& hold : holds) {
    const std::string directory = DirectoryFor(hold.key);
    const std::string path = JoinPath(directory, hold.claim.uid);
    const std::string text = EncodeHold(hold);
    const auto write = [&] {
      return WriteFileAtomically(*fs_, path, text, 0600, Durability::kVolatile);
    };
    absl::Status status = write();
    // The first hold on this key; once more, because an instance that starts takes empty directories away.
    for (int attempt = 0; attempt < 2 && absl::IsNotFound(status); ++attempt) {
      status = fs_->MakeDirectory(directory, 0700);
      if (status.ok()) status = write();
    }
    if (!status.ok()) {
      (void)Remove(hold.claim.uid, written);
      return Annotate(status, "write hold");
    }
    written.push_back(hold.key);
    const absl::MutexLock lock(&mutex_);
    keys_of_claim_[hold.claim.uid].insert(hold.key);
    cache_.erase(path);
  }
  return absl::OkStatus();
}

absl::Status Ledger::Remove(absl::string_view claim_uid, const std::vector<std::string>& keys) {
  absl::Status first;
  for (const std::string& key : keys) {
    const std::string path = PathFor(key, claim_uid);
    const absl::Status removed = RemoveIfExists(*fs_, path);
    if (!removed.ok()) {
      if (first.ok()) first = Annotate(removed, "remove hold");
      continue;
    }
    Forget(claim_uid, key, path);
  }
  return first;
}

void Ledger::Forget(absl::string_view claim_uid, absl::string_view key, const std::string& path) {
  const absl::MutexLock lock(&mutex_);
  cache_.erase(path);
  const auto known = keys_of_claim_.find(std::string(claim_uid));
  if (known == keys_of_claim_.end()) return;
  known->second.erase(std::string(key));
  if (known->second.empty()) keys_of_claim_.erase(known);
}

absl::StatusOr<std::vector<Hold>> Ledger::Others(absl::string_view claim_uid,
                                                 const std::vector<std::string>& keys) {
  std::vector<Hold> others;
  for (const std::string& key : keys) {
    DRA_ASSIGN_OR_RETURN(std::vector<Hold> holds, ReadDirectory(DirectoryFor(key), claim_uid));
    std::move(holds.begin(), holds.end(), std::back_inserter(others));
  }
  return others;
}

absl::StatusOr<std::vector<Hold>> Ledger::All() {
  DRA_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs_->List(directory_));
  std::vector<Hold> all;
  for (const std::string& name : names) {
    DRA_ASSIGN_OR_RETURN(std::vector<Hold> holds, ReadDirectory(JoinPath(directory_, name)));
    std::move(holds.begin(), holds.end(), std::back_inserter(all));
  }
  return all;
}

std::vector<std::string> Ledger::KnownKeys(absl::string_view claim_uid) const {
  const absl::MutexLock lock(&mutex_);
  const auto known = keys_of_claim_.find(std::string(claim_uid));
  if (known == keys_of_claim_.end()) return {};
  return {known->second.begin(), known->second.end()};
}

absl::StatusOr<std::vector<Ledger::Temporary>> Ledger::ListTemporaries() {
  DRA_ASSIGN_OR_RETURN(const std::vector<std::string> directories, fs_->List(directory_));
  std::vector<Temporary> temporaries;
  for (const std::string& directory : directories) {
    const std::string path = JoinPath(directory_, directory);
    const absl::StatusOr<std::vector<std::string>> names = fs_->List(path);
    if (absl::IsNotFound(names.status())) continue;
    DRA_RETURN_IF_ERROR(names.status());
    for (const std::string& name : *names) {
      if (!IsTemporaryName(name)) continue;
      // ".<uid>.<random>.tmp"; the random part has no dot.
      const size_t end = name.rfind('.', name.size() - 5);
      if (end == std::string::npos || end < 2) continue;
      temporaries.push_back({JoinPath(path, name), name.substr(1, end - 1)});
    }
  }
  return temporaries;
}

}  // namespace dra::records
