#include "dra/records/claim_locks.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"

namespace dra::records {
namespace {

constexpr uint64_t kKeysBase = uint64_t{1} << 61;
constexpr int kPollMilliseconds = 5;

uint64_t Prefix(absl::string_view kind, absl::string_view name) {
  std::string text(kind);
  text.push_back('\0');
  text.append(name.data(), name.size());
  const auto digest = Sha256(text);
  uint64_t prefix = 0;
  for (size_t i = 0; i < 8; ++i) prefix = prefix << 8 | digest[i];
  return prefix >> 3;
}

struct flock ByteLock(uint64_t offset, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(offset);
  lock.l_len = 1;
  lock.l_pid = 0;  // required for open-file-description locks
  return lock;
}

// True if taken, false if another holds it.
absl::StatusOr<bool> Try(int fd, uint64_t offset, short type) {
  struct flock lock = ByteLock(offset, type);
  for (;;) {
    if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EACCES) return false;
    return ErrnoStatus(errno, "lock serialize.lock");
  }
}

// Between two tries. Errors: call has ended.
absl::Status Pause(const Call& call, absl::string_view what) {
  const absl::Status checked = call.Check("wait for a lock");
  if (absl::IsDeadlineExceeded(checked)) {
    return absl::UnavailableError(absl::StrCat(what, " is locked by another operation"));
  }
  DRA_RETURN_IF_ERROR(checked);
  // The kernel's blocking form can be neither cancelled nor given a deadline.
  ::poll(nullptr, 0, kPollMilliseconds);
  return absl::OkStatus();
}

absl::Status Wait(int fd, uint64_t offset, short type, const Call& call, absl::string_view what) {
  for (;;) {
    DRA_ASSIGN_OR_RETURN(const bool taken, Try(fd, offset, type));
    if (taken) return absl::OkStatus();
    DRA_RETURN_IF_ERROR(Pause(call, what));
  }
}

constexpr absl::string_view kReconcileName = "the driver's data (reconcile)";

// The reconcile byte for one operation. It passes through the waiting byte, which a reconcile that waits holds
// exclusively, and keeps that byte no longer than for one try: a reconcile finds it free between two tries.
absl::Status ShareReconcileByte(int fd, const Call& call) {
  for (;;) {
    DRA_RETURN_IF_ERROR(Wait(fd, kReconcileWaitingOffset, F_RDLCK, call, kReconcileName));
    const absl::StatusOr<bool> taken = Try(fd, kReconcileOffset, F_RDLCK);
    DRA_RETURN_IF_ERROR(Try(fd, kReconcileWaitingOffset, F_UNLCK).status());
    DRA_RETURN_IF_ERROR(taken.status());
    if (*taken) return absl::OkStatus();
    DRA_RETURN_IF_ERROR(Pause(call, kReconcileName));
  }
}

}  // namespace

uint64_t ClaimOffset(absl::string_view claim_uid) { return 1 + Prefix("claim", claim_uid); }

uint64_t KeyOffset(absl::string_view key) { return kKeysBase + 1 + Prefix("key", key); }

absl::Status OperationLock::LockKeys(const std::vector<std::string>& keys, const Call& call) {
  std::set<std::pair<uint64_t, std::string>> ordered;
  for (const std::string& key : keys) ordered.emplace(KeyOffset(key), key);
  std::vector<uint64_t> taken;
  for (const auto& [offset, key] : ordered) {
    absl::Status status =
        Wait(fd_.get(), offset, F_WRLCK, call, absl::StrCat("hardware \"", key, "\""));
    if (status.ok()) {
      taken.push_back(offset);
      continue;
    }
    for (const uint64_t held : taken) (void)Try(fd_.get(), held, F_UNLCK);
    return status;
  }
  return absl::OkStatus();
}

ClaimLocks::ClaimLocks(std::string path) : path_(std::move(path)) {}

absl::StatusOr<UniqueFd> ClaimLocks::Open() const {
  UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!fd) return ErrnoStatus(errno, absl::StrCat("open ", path_));
  return fd;
}

absl::StatusOr<OperationLock> ClaimLocks::LockClaim(absl::string_view claim_uid,
                                                    const Call& call) const {
  DRA_ASSIGN_OR_RETURN(UniqueFd fd, Open());
  DRA_RETURN_IF_ERROR(ShareReconcileByte(fd.get(), call));
  DRA_RETURN_IF_ERROR(
      Wait(fd.get(), ClaimOffset(claim_uid), F_WRLCK, call, absl::StrCat("claim uid ", claim_uid)));
  return OperationLock(std::move(fd));
}

absl::StatusOr<OperationLock> ClaimLocks::TryLockClaim(absl::string_view claim_uid) const {
  return LockClaim(claim_uid, Call().AtMost(absl::ZeroDuration()));
}

absl::StatusOr<OperationLock> ClaimLocks::LockReconcile(const Call& call) const {
  DRA_ASSIGN_OR_RETURN(UniqueFd fd, Open());
  DRA_RETURN_IF_ERROR(Wait(fd.get(), kReconcileWaitingOffset, F_WRLCK, call, kReconcileName));
  DRA_RETURN_IF_ERROR(Wait(fd.get(), kReconcileOffset, F_WRLCK, call, kReconcileName));
  DRA_RETURN_IF_ERROR(Try(fd.get(), kReconcileWaitingOffset, F_UNLCK).status());
  return OperationLock(std::move(fd));
}

absl::StatusOr<OperationLock> ClaimLocks::LockKey(absl::string_view key, const Call& call) const {
  DRA_ASSIGN_OR_RETURN(UniqueFd fd, Open());
  DRA_RETURN_IF_ERROR(Wait(fd.get(), KeyOffset(key), F_WRLCK, call, absl::StrCat("\"", key, "\"")));
  return OperationLock(std::move(fd));
}

absl::StatusOr<bool> ClaimLocks::IsFree(absl::string_view claim_uid,
                                        const std::vector<std::string>& keys) const {
  DRA_ASSIGN_OR_RETURN(const UniqueFd fd, Open());
  std::vector<uint64_t> offsets = {ClaimOffset(claim_uid)};
  for (const std::string& key : keys) offsets.push_back(KeyOffset(key));
  for (const uint64_t offset : offsets) {
    struct flock lock = ByteLock(offset, F_WRLCK);
    if (::fcntl(fd.get(), F_OFD_GETLK, &lock) != 0)
      return ErrnoStatus(errno, "look at serialize.lock");
    if (lock.l_type != F_UNLCK) return false;
  }
  return true;
}

}  // namespace dra::records
