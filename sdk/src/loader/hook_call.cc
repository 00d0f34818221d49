#include "loader/hook_call.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace dra::loader {
namespace {

// Never used twice in a process: a late id of an earlier call, or of an earlier instance, must not name a new one.
uint64_t NextCallId() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

int32_t IsCancelled(void* ctx) noexcept {
  return static_cast<std::stop_source*>(ctx)->stop_requested() ? 1 : 0;
}

}  // namespace

void RunningHook::Signal::operator()() const {
  const uint64_t one = 1;
  // Cannot fail usefully: the counter is far from full, and a missing descriptor leaves the poll function.
  if (fd >= 0) static_cast<void>(!::write(fd, &one, sizeof(one)));
}

RunningHook::RunningHook(std::string claim_uid, MonotonicTime deadline, const std::stop_token& stop)
    : claim_uid_(std::move(claim_uid)),
      deadline_(deadline),
      cancel_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      signal_(source_.get_token(), Signal{cancel_fd_.get()}),
      forward_(stop, Forward{&source_}) {
  call_.struct_size = sizeof(call_);
  call_.cancel_fd = cancel_fd_.get();  // -1 when the process is out of descriptors
  call_.id = NextCallId();
  // steady_clock is CLOCK_MONOTONIC in libstdc++.
  call_.deadline_ns = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count());
  call_.ctx = &source_;
  call_.cancelled = &IsCancelled;
}

}  // namespace dra::loader
