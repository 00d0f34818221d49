#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "base/shared_syncs.h"
#include "dra/base/file_system.h"
#include "dra/base/status.h"
#include "dra/base/unique_fd.h"

namespace dra {
namespace {

absl::Status Failed(absl::string_view operation, absl::string_view path) {
  const int error_number = errno;
  return ErrnoStatus(error_number, absl::StrCat(operation, " ", path));
}

FileType TypeOf(mode_t mode) {
  if (S_ISREG(mode)) return FileType::kRegular;
  if (S_ISDIR(mode)) return FileType::kDirectory;
  if (S_ISLNK(mode)) return FileType::kSymlink;
  if (S_ISSOCK(mode)) return FileType::kSocket;
  if (S_ISCHR(mode)) return FileType::kCharDevice;
  if (S_ISBLK(mode)) return FileType::kBlockDevice;
  if (S_ISFIFO(mode)) return FileType::kFifo;
  return FileType::kOther;
}

absl::Status WriteAll(int fd, absl::string_view contents, absl::string_view path) {
  while (!contents.empty()) {
    const ssize_t written = ::write(fd, contents.data(), contents.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return Failed("write", path);
    }
    contents.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

// O_NONBLOCK: opening a FIFO that somebody put in our place must not hang.
UniqueFd OpenToRead(absl::string_view path, int open_flags) {
  return UniqueFd(
      ::open(std::string(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | open_flags));
}

absl::StatusOr<std::string> Read(absl::string_view path, uint64_t max_bytes, int open_flags) {
  const UniqueFd fd = OpenToRead(path, open_flags);
  if (!fd) {
    // The last component is a link. (Or there are too many above it: refused as well.)
    if (errno == ELOOP && (open_flags & O_NOFOLLOW) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("read ", path, ": is a symbolic link, which is not followed here"));
    }
    return Failed("open", path);
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return Failed("stat", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat("read ", path, ": not a regular file"));
  }
  std::string contents;
  // Files in /proc and /sys report a size of 0 or one page: read until the end whatever the size says.
  char buffer[16384];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof(buffer));
    if (got < 0) {
      if (errno == EINTR) continue;
      return Failed("read", path);
    }
    if (got == 0) return contents;
    if (contents.size() + static_cast<size_t>(got) > max_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("read ", path, ": larger than ", max_bytes, " bytes"));
    }
    contents.append(buffer, static_cast<size_t>(got));
  }
}

absl::Status Sync(const std::string& directory) {
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return Failed("open", directory);
  if (::fsync(fd.get()) != 0) return Failed("fsync", directory);
  return absl::OkStatus();
}

}  // namespace

struct PosixFileSystem::Shared {
  // More than so many are closed at once, so that no burst takes all descriptors.
  static constexpr size_t kMaxRemoved = 32;

  SharedSyncs syncs{&Sync};
  absl::Mutex mutex;
  std::vector<UniqueFd> removed ABSL_GUARDED_BY(mutex);  // files without a name
};

PosixFileSystem::PosixFileSystem() : shared_(std::make_unique<Shared>()) {}
PosixFileSystem::~PosixFileSystem() = default;

absl::StatusOr<std::string> PosixFileSystem::ReadFile(absl::string_view path, uint64_t max_bytes) {
  return Read(path, max_bytes, 0);
}

absl::StatusOr<std::string> PosixFileSystem::ReadOwnFile(absl::string_view path,
                                                         uint64_t max_bytes) {
  return Read(path, max_bytes, O_NOFOLLOW);
}

absl::StatusOr<bool> PosixFileSystem::OwnFileIs(absl::string_view path, absl::string_view contents,
                                                uint32_t mode) {
  const UniqueFd fd = OpenToRead(path, O_NOFOLLOW);
  if (!fd) {
    // Absent; a link; a socket.
    if (errno == ENOENT || errno == ELOOP || errno == ENXIO) return false;
    return Failed("open", path);
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return Failed("stat", path);
  if (!S_ISREG(info.st_mode) || (info.st_mode & 07777) != mode || info.st_uid != ::geteuid() ||
      static_cast<uint64_t>(info.st_size) != contents.size()) {
    return false;
  }
  // Piece by piece: room for all of a large file costs more than reading it.
  char buffer[65536];
  while (!contents.empty()) {
    const ssize_t got = ::read(fd.get(), buffer, std::min<size_t>(sizeof(buffer), contents.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Failed("read", path);
    if (got == 0 ||
        !absl::ConsumePrefix(&contents, absl::string_view(buffer, static_cast<size_t>(got))))
      return false;
  }
  return true;
}

absl::Status PosixFileSystem::CreateFile(absl::string_view path, absl::string_view contents,
                                         uint32_t mode, bool sync) {
  const std::string name(path);
  UniqueFd fd(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) return Failed("create", path);
  absl::Status status = WriteAll(fd.get(), contents, path);
  // The mode is set on the descriptor: independent of the umask, and before any reader can see the final name.
  if (status.ok() && ::fchmod(fd.get(), mode) != 0) status = Failed("chmod", path);
  if (status.ok() && sync && ::fsync(fd.get()) != 0) status = Failed("fsync", path);
  if (::close(fd.Release()) != 0 && status.ok()) status = Failed("close", path);
  if (!status.ok()) ::unlink(name.c_str());
  return status;
}

absl::Status PosixFileSystem::Rename(absl::string_view from, absl::string_view to) {
  if (::rename(std::string(from).c_str(), std::string(to).c_str()) != 0)
    return Failed("rename to", to);
  return absl::OkStatus();
}

absl::Status PosixFileSystem::Remove(absl::string_view path) {
  if (::unlink(std::string(path).c_str()) != 0) return Failed("remove", path);
  return absl::OkStatus();
}

absl::Status PosixFileSystem::RemoveName(absl::string_view path) {
  // As long as somebody has the file open, removing its name frees nothing.
  UniqueFd file(::open(std::string(path).c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!file && errno == ENOENT) return Failed("remove", path);
  absl::Status removed = Remove(path);
  if (!file || !removed.ok()) return removed;
  const absl::MutexLock lock(&shared_->mutex);
  if (shared_->removed.size() < Shared::kMaxRemoved) shared_->removed.push_back(std::move(file));
  return removed;
}

void PosixFileSystem::FreeRemoved() {
  std::vector<UniqueFd> removed;
  const absl::MutexLock lock(&shared_->mutex);
  removed.swap(shared_->removed);
}

absl::Status PosixFileSystem::RemoveDirectory(absl::string_view path) {
  if (::rmdir(std::string(path).c_str()) != 0) return Failed("remove directory", path);
  return absl::OkStatus();
}

absl::Status PosixFileSystem::MakeDirectory(absl::string_view path, uint32_t mode) {
  const std::string name(path);
  if (::mkdir(name.c_str(), mode) == 0) return absl::OkStatus();
  const int error_number = errno;
  struct stat info {};
  if (error_number == EEXIST && ::stat(name.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
    return absl::OkStatus();
  return ErrnoStatus(error_number, absl::StrCat("make directory ", path));
}

absl::StatusOr<std::vector<std::string>> PosixFileSystem::List(absl::string_view path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(std::string(path).c_str()),
                                                      ::closedir);
  if (directory == nullptr) return Failed("list", path);
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) {
      if (errno != 0) return Failed("list", path);
      break;
    }
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status PosixFileSystem::SyncDirectory(absl::string_view path) {
  return shared_->syncs.Run(path);
}

absl::StatusOr<FileInfo> PosixFileSystem::Stat(absl::string_view path, bool follow) {
  const std::string name(path);
  struct stat info {};
  if ((follow ? ::stat(name.c_str(), &info) : ::lstat(name.c_str(), &info)) != 0)
    return Failed("stat", path);
  FileInfo result;
  result.type = TypeOf(info.st_mode);
  result.mode = info.st_mode & 07777u;
  result.size = static_cast<uint64_t>(info.st_size);
  result.inode = info.st_ino;
  result.device = info.st_dev;
  result.uid = info.st_uid;
  result.mtime_ns =
      static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
  result.major = major(info.st_rdev);
  result.minor = minor(info.st_rdev);
  return result;
}

absl::StatusOr<std::string> PosixFileSystem::ReadLink(absl::string_view path) {
  char buffer[4096];
  const ssize_t size = ::readlink(std::string(path).c_str(), buffer, sizeof(buffer));
  if (size < 0) return Failed("read link", path);
  return std::string(buffer, static_cast<size_t>(size));
}

}  // namespace dra
