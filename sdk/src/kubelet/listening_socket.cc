#include "kubelet/listening_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dra/base/file_system.h"
#include "dra/base/status.h"
#include "dra/kubelet/sockets.h"

namespace dra::kubelet {
namespace {

constexpr int kBacklog = 128;
constexpr int kBindTries = 3;
constexpr absl::string_view kMarkerPrefix = "socket-";

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  return address;
}

bool IsSocket(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
}

// Unlinks a socket that nobody listens at. It cannot be one that is about to listen: see ListeningSocket.
bool RemoveIfDead(const std::string& path) {
  return IsSocket(path) && ProbeSocket(path) == Peer::kDead && ::unlink(path.c_str()) == 0;
}

void SweepMarked(FileSystem& fs, const StaleSocketSweep& sweep, const std::string& marker,
                 std::vector<std::string>& removed) {
  absl::string_view name = marker;
  if (!absl::ConsumePrefix(&name, kMarkerPrefix)) return;
  const std::string path = JoinPath(sweep.registry_directory, name);
  if (path == sweep.keep_registration || path == sweep.keep_service) return;
  if (RemoveIfDead(path)) removed.push_back(path);
  if (absl::IsNotFound(fs.Stat(path).status())) {
    (void)fs.Remove(JoinPath(sweep.plugin_directory, marker));
  }
}

}  // namespace

ListeningSocket::ListeningSocket(std::string path, UniqueFd fd, uint64_t device, uint64_t inode)
    : path_(std::move(path)), fd_(std::move(fd)), device_(device), inode_(inode) {}

absl::StatusOr<std::unique_ptr<ListeningSocket>> ListeningSocket::Bind(const std::string& path,
                                                                       absl::string_view driver) {
  const std::string directory = DirectoryName(path);
  const std::string name = BaseName(path);
  UniqueFd directory_fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory_fd) return ErrnoStatus(errno, absl::StrCat("open ", directory));
  for (int tries = 1;; ++tries) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return ErrnoStatus(errno, "socket");
    // The mode of a bound socket is that of its descriptor under the umask: never wider than 0600, whatever the umask.
    if (::fchmod(fd.get(), 0600) != 0) return ErrnoStatus(errno, "set the mode of a socket");
    // Through the directory's descriptor, because the hidden name may be longer than the final one.
    const std::string temporary = TemporarySocketName(driver);
    const sockaddr_un address =
        AddressOf(absl::StrCat("/proc/self/fd/", directory_fd.get(), "/", temporary));
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      return ErrnoStatus(errno, absl::StrCat("bind a socket in ", directory));
    }
    struct stat info {};
    int error = 0;
    if (::fstatat(directory_fd.get(), temporary.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        ::listen(fd.get(), kBacklog) != 0 ||
        ::renameat(directory_fd.get(), temporary.c_str(), directory_fd.get(), name.c_str()) != 0) {
      error = errno;
    }
    if (error == 0) {
      return std::unique_ptr<ListeningSocket>(
          new ListeningSocket(path, std::move(fd), info.st_dev, info.st_ino));
    }
    (void)::unlinkat(directory_fd.get(), temporary.c_str(), 0);
    // Another instance that starts now may have taken the hidden name for a left-over.
    if (error != ENOENT || tries == kBindTries) {
      return ErrnoStatus(error, absl::StrCat("put socket in place at ", path));
    }
  }
}

ListeningSocket::File ListeningSocket::Look() const {
  struct stat info {};
  if (::lstat(path_.c_str(), &info) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? File::kMissing : File::kUnknown;
  }
  return info.st_dev == device_ && info.st_ino == inode_ ? File::kOurs : File::kOther;
}

absl::Status ListeningSocket::RemoveFile() {
  if (Look() != File::kOurs) return absl::OkStatus();
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, absl::StrCat("remove ", path_));
  }
  return absl::OkStatus();
}

Peer ProbeSocket(const std::string& path) {
  if (path.size() > kMaxSocketPath) return Peer::kUnknown;
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return Peer::kUnknown;
  const sockaddr_un address = AddressOf(path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return Peer::kListening;
  }
  if (errno == EAGAIN) return Peer::kListening;  // its backlog is full
  return errno == ECONNREFUSED ? Peer::kDead : Peer::kUnknown;
}

std::string MarkerPath(absl::string_view plugin_directory, absl::string_view socket_path) {
  return JoinPath(plugin_directory, absl::StrCat(kMarkerPrefix, BaseName(socket_path)));
}

std::vector<std::string> RemoveStaleSockets(const StaleSocketSweep& sweep) {
  PosixFileSystem fs;
  std::vector<std::string> removed;
  if (const auto names = fs.List(sweep.registry_directory); names.ok()) {
    for (const std::string& name : *names) {
      const std::string path = JoinPath(sweep.registry_directory, name);
      if (path == sweep.keep_registration || path == sweep.keep_service) continue;
      if (!IsRegistrationSocketName(name, sweep.driver) &&
          !IsTemporarySocketName(name, sweep.driver)) {
        continue;
      }
      if (RemoveIfDead(path)) removed.push_back(path);
    }
  }
  if (const auto names = fs.List(sweep.plugin_directory); names.ok()) {
    for (const std::string& name : *names) {
      SweepMarked(fs, sweep, name, removed);
      const std::string path = JoinPath(sweep.plugin_directory, name);
      if (path == sweep.keep_service) continue;
      if (!IsServiceSocketName(name) && !IsTemporarySocketName(name, sweep.driver)) continue;
      if (RemoveIfDead(path)) removed.push_back(path);
    }
  }
  return removed;
}

}  // namespace dra::kubelet
