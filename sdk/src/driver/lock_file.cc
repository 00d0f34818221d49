#include "driver/lock_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"

namespace dra::driver {
namespace {

constexpr uint32_t kMode = 0600;

struct flock Bytes(uint64_t begin, uint64_t end, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(begin);
  lock.l_len = static_cast<off_t>(end - begin);
  lock.l_pid = 0;  // required for open-file-description locks
  return lock;
}

}  // namespace

absl::StatusOr<LockFile> LockFile::Open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kMode));
  if (!fd) return ErrnoStatus(errno, absl::StrCat("open ", path));
  return LockFile(std::move(fd), path);
}

absl::StatusOr<bool> LockFile::Try(uint64_t byte) {
  struct flock lock = Bytes(byte, byte + 1, F_WRLCK);
  for (;;) {
    if (::fcntl(fd_.get(), F_OFD_SETLK, &lock) == 0) return true;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EACCES) return false;
    return ErrnoStatus(errno, absl::StrCat("lock byte ", byte, " of ", path_));
  }
}

absl::Status LockFile::Release(uint64_t byte) {
  struct flock lock = Bytes(byte, byte + 1, F_UNLCK);
  if (::fcntl(fd_.get(), F_OFD_SETLK, &lock) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("unlock byte ", byte, " of ", path_));
}

absl::StatusOr<std::optional<uint64_t>> LockFile::HeldByOther(uint64_t begin, uint64_t end) const {
  struct flock lock = Bytes(begin, end, F_WRLCK);
  if (::fcntl(fd_.get(), F_OFD_GETLK, &lock) != 0) {
    return ErrnoStatus(errno, absl::StrCat("look at the locks of ", path_));
  }
  if (lock.l_type == F_UNLCK) return std::optional<uint64_t>();
  // A lock over more than was asked for (the whole file, say) is told with its own start.
  return std::optional<uint64_t>(std::max(begin, static_cast<uint64_t>(lock.l_start)));
}

absl::StatusOr<bool> LockFile::IsStillAtPath() const {
  struct stat ours {};
  struct stat there {};
  if (::fstat(fd_.get(), &ours) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", path_));
  if (::lstat(path_.c_str(), &there) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return ErrnoStatus(errno, absl::StrCat("look at ", path_));
  }
  return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

absl::StatusOr<uint64_t> LockFile::Size() const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", path_));
  return static_cast<uint64_t>(info.st_size);
}

absl::Status LockFile::Grow(uint64_t size) {
  if (::ftruncate(fd_.get(), static_cast<off_t>(size)) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("grow ", path_));
}

}  // namespace dra::driver
