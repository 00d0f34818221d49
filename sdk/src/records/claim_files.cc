#include "dra/records/claim_files.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"

namespace dra::records {
namespace {

constexpr uint32_t kSharedMode = 0755;
constexpr size_t kMaxSizes = 64;  // of shared files whose last name is remembered

absl::Status CheckDirectoryName(absl::string_view claim_uid) {
  if (IsSafeFileId(claim_uid)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("claim uid \"", claim_uid, "\" may name no directory"));
}

// The key under which uses of one shared file come and go; always the last lock of an operation.
std::string SharedKey(absl::string_view name) { return absl::StrCat("shared-file/", name); }

// A SHA-256 in hexadecimal: what SharedName gives.
bool IsSharedName(absl::string_view name) {
  return name.size() == 64 && name.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

}  // namespace

ClaimFiles::ClaimFiles(FileSystem* fs, const ClaimLocks* locks, std::string data_directory)
    : fs_(fs),
      locks_(locks),
      files_(JoinPath(data_directory, "files")),
      shared_(JoinPath(data_directory, "shared-files")) {}

std::string ClaimFiles::SharedName(absl::string_view bytes) { return Sha256Hex(bytes); }

std::string ClaimFiles::SharedDirectory(absl::string_view name) const {
  return JoinPath(shared_, name);
}

std::string ClaimFiles::SharedFile(absl::string_view name) const {
  return JoinPath(SharedDirectory(name), "file");
}

absl::StatusOr<std::string> ClaimFiles::ClaimDirectory(absl::string_view claim_uid) {
  DRA_RETURN_IF_ERROR(CheckDirectoryName(claim_uid));
  const std::string path = JoinPath(files_, claim_uid);
  DRA_RETURN_IF_ERROR(MakeDirectories(*fs_, path, 0700));
  return path;
}

std::string ClaimFiles::LastOfSize(size_t bytes) {
  const absl::MutexLock lock(&mutex_);
  const auto found = last_of_size_.find(bytes);
  return found == last_of_size_.end() ? std::string() : found->second;
}

void ClaimFiles::KeepLast(size_t bytes, const std::string& name) {
  const absl::MutexLock lock(&mutex_);
  if (last_of_size_.size() >= kMaxSizes) last_of_size_.clear();
  last_of_size_[bytes] = name;
}

absl::StatusOr<std::string> ClaimFiles::AddShared(
    absl::string_view claim_uid, absl::string_view bytes,
    absl::FunctionRef<void(const std::string& name)> named, const Call& call) {
  DRA_RETURN_IF_ERROR(CheckDirectoryName(claim_uid));
  // The content is compared, not only looked for: a power cut may have left a file of the right name with no bytes, and
  // somebody may have changed it. Mostly it is the program of the claim before, so that one is compared first: with
  // bytes that are the same the name is right, and a digest of them would cost several times as much.
  std::string name = LastOfSize(bytes.size());
  OperationLock lock;
  bool whole = false;
  if (!name.empty()) {
    DRA_ASSIGN_OR_RETURN(lock, locks_->LockKey(SharedKey(name), call));
    whole = fs_->OwnFileIs(SharedFile(name), bytes, kSharedMode).value_or(false);
  }
  if (std::string digest = whole ? name : SharedName(bytes); digest != name) {
    name = std::move(digest);
    lock = OperationLock();
    DRA_ASSIGN_OR_RETURN(lock, locks_->LockKey(SharedKey(name), call));
    whole = fs_->OwnFileIs(SharedFile(name), bytes, kSharedMode).value_or(false);
  }
  named(name);
  const std::string users = JoinPath(SharedDirectory(name), "users");
  DRA_RETURN_IF_ERROR(MakeDirectories(*fs_, users, 0755));
  if (!whole) {
    DRA_RETURN_IF_ERROR(
        WriteFileAtomically(*fs_, SharedFile(name), bytes, kSharedMode, Durability::kDurable));
  }
  const absl::Status entered =
      fs_->CreateFile(JoinPath(users, claim_uid), "", 0600, /*sync=*/false);
  if (!entered.ok() && !absl::IsAlreadyExists(entered)) return entered;
  KeepLast(bytes.size(), name);
  return SharedFile(name);
}

absl::Status ClaimFiles::Remove(absl::string_view claim_uid,
                                const std::vector<std::string>& shared_names, const Call& call) {
  DRA_RETURN_IF_ERROR(CheckDirectoryName(claim_uid));
  absl::Status first = RemoveTree(*fs_, JoinPath(files_, claim_uid));
  for (const std::string& name : shared_names) {
    if (!IsSafeFileId(name)) continue;
    const absl::StatusOr<OperationLock> lock = locks_->LockKey(SharedKey(name), call);
    if (!lock.ok()) {
      if (first.ok()) first = lock.status();
      continue;
    }
    const std::string directory = SharedDirectory(name);
    const std::string users = JoinPath(directory, "users");
    absl::Status removed = RemoveIfExists(*fs_, JoinPath(users, claim_uid));
    if (removed.ok()) {
      const absl::StatusOr<std::vector<std::string>> left = fs_->List(users);
      if (left.ok() && left->empty()) {
        // By name first: nobody waits for the space of a large file.
        removed = fs_->RemoveName(SharedFile(name));
        if (removed.ok() || absl::IsNotFound(removed)) removed = RemoveTree(*fs_, directory);
      }
      if (!left.ok() && !absl::IsNotFound(left.status())) removed = left.status();
    }
    if (first.ok()) first = removed;
  }
  return Annotate(first, "remove files of the claim");
}

absl::StatusOr<std::vector<std::string>> ClaimFiles::ListClaims() {
  std::set<std::string> claims;
  const absl::StatusOr<std::vector<std::string>> directories = fs_->List(files_);
  if (directories.ok()) claims.insert(directories->begin(), directories->end());
  if (!directories.ok() && !absl::IsNotFound(directories.status())) return directories.status();
  const absl::StatusOr<std::vector<std::string>> shared = fs_->List(shared_);
  if (!shared.ok() && !absl::IsNotFound(shared.status())) return shared.status();
  if (shared.ok()) {
    for (const std::string& name : *shared) {
      if (!IsSharedName(name)) continue;
      const absl::StatusOr<std::vector<std::string>> users =
          fs_->List(JoinPath(SharedDirectory(name), "users"));
      if (users.ok()) claims.insert(users->begin(), users->end());
    }
  }
  return std::vector<std::string>(claims.begin(), claims.end());
}

absl::Status ClaimFiles::SweepShared(const Call& call) {
  const absl::StatusOr<std::vector<std::string>> shared = fs_->List(shared_);
  if (absl::IsNotFound(shared.status())) return absl::OkStatus();
  DRA_RETURN_IF_ERROR(shared.status());
  absl::Status first;
  for (const std::string& name : *shared) {
    const std::string directory = SharedDirectory(name);
    const absl::StatusOr<FileInfo> info = fs_->Stat(directory);
    if (!IsSharedName(name) || !info.ok() || info->type != FileType::kDirectory) continue;
    const absl::StatusOr<OperationLock> lock = locks_->LockKey(SharedKey(name), call);
    if (!lock.ok()) continue;  // in use
    const absl::StatusOr<std::vector<std::string>> users = fs_->List(JoinPath(directory, "users"));
    if (absl::IsNotFound(users.status()) || (users.ok() && users->empty())) {
      first.Update(RemoveTree(*fs_, directory));
      continue;
    }
    first.Update(users.status());
    const absl::StatusOr<std::vector<std::string>> files = fs_->List(directory);
    if (!files.ok()) continue;
    for (const std::string& file : *files) {
      if (IsTemporaryName(file)) first.Update(RemoveIfExists(*fs_, JoinPath(directory, file)));
    }
  }
  return Annotate(first, "sweep shared files");
}

absl::StatusOr<std::vector<std::string>> ClaimFiles::SharedOf(absl::string_view claim_uid) {
  std::vector<std::string> names;
  const absl::StatusOr<std::vector<std::string>> shared = fs_->List(shared_);
  if (absl::IsNotFound(shared.status())) return names;
  DRA_RETURN_IF_ERROR(shared.status());
  for (const std::string& name : *shared) {
    if (!IsSharedName(name)) continue;
    const absl::StatusOr<FileInfo> user =
        fs_->Stat(JoinPath(JoinPath(SharedDirectory(name), "users"), claim_uid));
    if (user.ok()) names.push_back(name);
    if (!user.ok() && !absl::IsNotFound(user.status())) return user.status();
  }
  return names;
}

}  // namespace dra::records
