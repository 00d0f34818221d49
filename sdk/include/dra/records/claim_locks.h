#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/call.h"
#include "dra/base/unique_fd.h"

namespace dra::records {

// Byte offsets in serialize.lock. With p = the first 8 bytes of SHA-256(name), big endian, shifted right by 3:
//   0              the reconcile byte
//   1 + p          a claim, name = "claim" NUL <claim uid>
//   2^61 + 1 + p   an exclusion key, name = "key" NUL <key>
//   2^62 + 1       somebody waits for the reconcile byte
// Two names on one byte only wait for each other without need.
inline constexpr uint64_t kReconcileOffset = 0;
inline constexpr uint64_t kReconcileWaitingOffset = (uint64_t{1} << 62) + 1;
uint64_t ClaimOffset(absl::string_view claim_uid);
uint64_t KeyOffset(absl::string_view key);

// The locks that one operation holds; they end with this object, or with the process. One thread at a time.
// Order, for every operation: waiting byte, reconcile byte, claim byte, then keys ascending. The waiting byte is let go
// once the reconcile byte is had. So nobody waits in a circle.
class OperationLock {
 public:
  OperationLock() = default;
  OperationLock(OperationLock&&) = default;
  OperationLock& operator=(OperationLock&&) = default;

  // Adds the keys' bytes, in ascending order, each once. At most one call for an operation. On failure the bytes
  // taken by this call are let go again. Errors: as ClaimLocks::LockClaim.
  absl::Status LockKeys(const std::vector<std::string>& keys, const Call& call);

  explicit operator bool() const { return static_cast<bool>(fd_); }

 private:
  friend class ClaimLocks;
  explicit OperationLock(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

// Locks between the operations of all instances of a driver: design 3.2. They are open-file-description locks
// (F_OFD_SETLK) on bytes of one file; every operation opens the file anew, so that the threads of one process exclude
// each other as well. A whole-file lock, as the Go helper's, excludes us and is excluded.
// Waiting means trying every few milliseconds until `call` ends; a free lock is taken without any wait. Any thread.
class ClaimLocks {
 public:
  // The file is made (0600) by the first operation.
  explicit ClaimLocks(std::string path);

  // The reconcile byte shared, then the claim's byte; behind a reconcile that waits. Errors: Unavailable if another holds it until call's deadline;
  // Cancelled when call's stop is requested; else what the kernel said of the file.
  absl::StatusOr<OperationLock> LockClaim(absl::string_view claim_uid, const Call& call) const;
  // The same without waiting: Unavailable at once if it is not free.
  absl::StatusOr<OperationLock> TryLockClaim(absl::string_view claim_uid) const;
  // The reconcile byte, exclusively: waits for the operations that run, and new ones wait behind it from the start, so
  // that a stream of operations cannot keep it waiting for ever.
  absl::StatusOr<OperationLock> LockReconcile(const Call& call) const;
  // One key alone, for a short piece of work that takes nothing further.
  absl::StatusOr<OperationLock> LockKey(absl::string_view key, const Call& call) const;

  // True if nobody holds the claim's byte, or any of the keys' bytes, right now.
  absl::StatusOr<bool> IsFree(absl::string_view claim_uid,
                              const std::vector<std::string>& keys = {}) const;

 private:
  absl::StatusOr<UniqueFd> Open() const;

  const std::string path_;
};

}  // namespace dra::records
