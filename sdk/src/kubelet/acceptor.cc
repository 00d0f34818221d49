#include "kubelet/acceptor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>
#include <vector>

#include "dra/base/status.h"

namespace dra::kubelet {
namespace {

constexpr int kStarvedPauseMs = 100;

}  // namespace

Acceptor::Acceptor(Logger logger) : logger_(std::move(logger)) {}

absl::Status Acceptor::Start() {
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return ErrnoStatus(errno, "eventfd");
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

Acceptor::~Acceptor() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
}

void Acceptor::Wake() {
  const uint64_t one = 1;
  // Fails only when the counter is full, and then the thread wakes anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

void Acceptor::Add(int listening_fd, OnConnection on_connection) {
  {
    absl::MutexLock lock(&mutex_);
    listening_[listening_fd] = std::move(on_connection);
  }
  Wake();
}

void Acceptor::Remove(int listening_fd) {
  {
    // on_connection runs under the mutex, so it has returned when we have it.
    absl::MutexLock lock(&mutex_);
    listening_.erase(listening_fd);
  }
  Wake();
}

bool Acceptor::AcceptAll(int listening_fd, const OnConnection& on_connection) {
  for (;;) {
    UniqueFd connection(::accept4(listening_fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection) {
      on_connection(std::move(connection));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    return errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM;
  }
}

void Acceptor::Run() {
  for (;;) {
    std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}};
    int timeout_ms = -1;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      // A starved listener stays readable: leave it out for a moment instead of spinning.
      if (starved_) timeout_ms = kStarvedPauseMs;
      for (const auto& [fd, on_connection] : listening_) {
        if (!starved_) polled.push_back({fd, POLLIN, 0});
      }
    }
    (void)::poll(polled.data(), polled.size(), timeout_ms);
    uint64_t counter = 0;
    [[maybe_unused]] const ssize_t taken = ::read(wake_.get(), &counter, sizeof(counter));
    absl::MutexLock lock(&mutex_);
    bool starved = false;
    for (const auto& [fd, on_connection] : listening_) {
      starved |= !AcceptAll(fd, on_connection);
    }
    if (starved && !starved_)
      logger_.Error("no file descriptor left for the kubelet's connections");
    if (!starved && starved_) logger_.Info("the kubelet's connections are accepted again");
    starved_ = starved;
  }
}

}  // namespace dra::kubelet
