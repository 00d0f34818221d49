#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "dra/base/unique_fd.h"
#include "dra/observe/http_endpoint.h"

namespace dra::observe {
namespace {

constexpr int kBacklog = 16;
// A client that only reads sends nothing: after this much silence it gets the bare document.
constexpr int kRequestSilenceMs = 200;
constexpr size_t kMaxRequestBytes = 4096;
constexpr int kAnswerLimitMs = 2000;  // of one client that does not read

absl::StatusOr<sockaddr_un> Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("status socket '", path, "': the path must be 1 to ",
                     sizeof(address.sun_path) - 1, " bytes, is ", path.size()));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Removes the socket file at `path` if nobody listens there. False: somebody does, or it cannot be told.
absl::StatusOr<bool> RemoveIfDead(const std::string& path) {
  DRA_ASSIGN_OR_RETURN(const sockaddr_un address, Address(path));
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return ErrnoStatus(errno, "make a socket");
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
    return false;
  if (errno != ECONNREFUSED) return false;
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, absl::StrCat("remove stale status socket ", path));
  }
  return true;
}

}  // namespace

void RemoveDeadStatusSockets(const std::string& directory, absl::Time made_before) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename();
    if (!absl::StartsWith(name, "status") || !absl::EndsWith(name, ".sock")) continue;
    struct stat found {};
    if (::lstat(entry.path().c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) continue;
    if (absl::TimeFromTimespec(found.st_mtim) < made_before) (void)RemoveIfDead(entry.path());
  }
}

struct StatusSocket::Impl {
  const std::string path;
  const StatusFunction status;
  const Logger logger;
  UniqueFd listener;
  UniqueFd wake;
  ino_t inode = 0;
  dev_t device = 0;
  std::thread thread;

  Impl(std::string socket_path, StatusFunction status_function, Logger used_logger)
      : path(std::move(socket_path)),
        status(std::move(status_function)),
        logger(std::move(used_logger)) {}

  // True once `fd` is ready; false after the time, or when the socket is being closed.
  bool WaitFor(int fd, short events, int timeout_ms) const {
    pollfd fds[2] = {{fd, events, 0}, {wake.get(), POLLIN, 0}};
    int ready = 0;
    do {
      ready = ::poll(fds, 2, timeout_ms);
    } while (ready < 0 && errno == EINTR);
    return ready > 0 && fds[1].revents == 0;
  }

  void Serve(int client) const {
    std::string request;
    while (request.size() < kMaxRequestBytes && request.find('\n') == std::string::npos) {
      if (!WaitFor(client, POLLIN, kRequestSilenceMs)) break;
      char buffer[512];
      const ssize_t got = ::recv(client, buffer, sizeof(buffer), MSG_DONTWAIT);
      if (got <= 0) break;
      request.append(buffer, static_cast<size_t>(got));
    }
    std::string answer = status();
    if (absl::StartsWith(request, "GET")) {
      answer = absl::StrCat("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: ",
                            answer.size(), "\r\nConnection: close\r\n\r\n", answer);
    }
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kAnswerLimitMs);
    size_t sent = 0;
    while (sent < answer.size() && std::chrono::steady_clock::now() < until) {
      const ssize_t put =
          ::send(client, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put > 0) {
        sent += static_cast<size_t>(put);
      } else if (put < 0 && errno == EAGAIN) {
        if (!WaitFor(client, POLLOUT, kAnswerLimitMs)) return;
      } else if (errno != EINTR) {
        return;
      }
    }
    // What the client still sends must not turn the close into a reset that takes the answer with it.
    ::shutdown(client, SHUT_WR);
    char rest[512];
    while (WaitFor(client, POLLIN, kRequestSilenceMs) &&
           ::recv(client, rest, sizeof(rest), MSG_DONTWAIT) > 0) {
    }
  }

  void Run() const {
    pollfd closing{wake.get(), POLLIN, 0};
    while (::poll(&closing, 1, 0) == 0) {
      if (!WaitFor(listener.get(), POLLIN, -1)) continue;
      const UniqueFd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (client) {
        Serve(client.get());
      } else if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED) {
        // Out of descriptors: the connection stays pending, so wait instead of spinning.
        ::poll(&closing, 1, kRequestSilenceMs);
      }
    }
  }

  absl::Status RemoveStale() const {
    struct stat found {};
    if (::lstat(path.c_str(), &found) != 0) {
      return errno == ENOENT ? absl::OkStatus()
                             : ErrnoStatus(errno, absl::StrCat("stat status socket ", path));
    }
    if (!S_ISSOCK(found.st_mode)) {
      return absl::AlreadyExistsError(
          absl::StrCat("status socket ", path, ": the path is no socket, choose another"));
    }
    DRA_ASSIGN_OR_RETURN(const bool removed, RemoveIfDead(path));
    if (!removed) {
      return absl::AlreadyExistsError(
          absl::StrCat("status socket ", path, ": another process listens there"));
    }
    return absl::OkStatus();
  }

  absl::Status Listen() {
    DRA_ASSIGN_OR_RETURN(const sockaddr_un address, Address(path));
    DRA_RETURN_IF_ERROR(RemoveStale());
    UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return ErrnoStatus(errno, "make a socket");
    // The mode of a bound socket is that of its descriptor under the umask: 0600 before anybody can connect.
    if (::fchmod(socket.get(), 0600) != 0) return ErrnoStatus(errno, "set the mode of a socket");
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      if (errno == EADDRINUSE) {
        return absl::AlreadyExistsError(
            absl::StrCat("status socket ", path, ": another process listens there"));
      }
      return ErrnoStatus(errno, absl::StrCat("bind status socket ", path));
    }
    struct stat made {};
    if (::lstat(path.c_str(), &made) != 0)
      return ErrnoStatus(errno, absl::StrCat("stat status socket ", path));
    inode = made.st_ino;
    device = made.st_dev;
    if (::listen(socket.get(), kBacklog) != 0)
      return ErrnoStatus(errno, absl::StrCat("listen at ", path));
    wake = UniqueFd(::eventfd(0, EFD_CLOEXEC));
    if (!wake) return ErrnoStatus(errno, "make an eventfd");
    listener = std::move(socket);
    thread = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  void Stop() {
    if (thread.joinable()) {
      const uint64_t one = 1;
      [[maybe_unused]] const ssize_t written = ::write(wake.get(), &one, sizeof(one));
      thread.join();
    }
    struct stat found {};
    if (inode != 0 && ::lstat(path.c_str(), &found) == 0 && found.st_ino == inode &&
        found.st_dev == device) {
      ::unlink(path.c_str());
    }
  }
};

StatusSocket::StatusSocket(std::string path, StatusFunction status, Logger logger)
    : impl_(std::make_unique<Impl>(std::move(path), std::move(status), std::move(logger))) {}

StatusSocket::~StatusSocket() { impl_->Stop(); }

absl::Status StatusSocket::Start() { return impl_->Listen(); }

}  // namespace dra::observe
