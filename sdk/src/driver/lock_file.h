#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dra/base/unique_fd.h"

namespace dra::driver {

// Byte locks on one file, opened once: open-file-description locks (F_OFD_SETLK), so they exclude other openings of the
// file, in this process as in others, and end with this object or the process. Nothing waits. Not thread-safe.
class LockFile {
 public:
  LockFile() = default;
  // Made (0600) if it is not there. Errors: of the system, with the path.
  static absl::StatusOr<LockFile> Open(const std::string& path);

  explicit operator bool() const { return static_cast<bool>(fd_); }

  // Takes the byte exclusively: false if somebody else has it.
  absl::StatusOr<bool> Try(uint64_t byte);
  absl::Status Release(uint64_t byte);
  // A byte in [begin, end) that somebody else has, if there is one: any of them.
  absl::StatusOr<std::optional<uint64_t>> HeldByOther(uint64_t begin, uint64_t end) const;
  // False if another file, or none, is at the path by now.
  absl::StatusOr<bool> IsStillAtPath() const;

  absl::StatusOr<uint64_t> Size() const;
  absl::Status Grow(uint64_t size);

 private:
  LockFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  UniqueFd fd_;
  std::string path_;
};

}  // namespace dra::driver
