#include "loader/hook_call.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace dra::loader {
namespace {

// A hook may save undo data, up to its limit in bytes, as often as it likes: of so many, the newest, it is kept secret.
constexpr size_t kMaxSavedUndo = 8;

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

RunningHook::RunningHook(std::string claim_uid, GivenSecrets secrets, MonotonicTime deadline,
                         const std::stop_token& stop)
    : claim_uid_(std::move(claim_uid)),
      secrets_(std::move(secrets)),
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

void RunningHook::AddSavedUndo(std::string undo) {
  const std::lock_guard lock(mutex_);
  if (saved_undo_.size() == kMaxSavedUndo) saved_undo_.erase(saved_undo_.begin());
  saved_undo_.push_back(std::move(undo));
}

Withheld RunningHook::Secrets() const {
  Withheld withheld;
  if (secrets_ != nullptr) secrets_(withheld);
  const std::lock_guard lock(mutex_);
  for (const std::string& undo : saved_undo_) withheld.AddUndo(undo);
  return withheld;
}

absl::Status RunningHook::Scrub(const absl::Status& status) const {
  return status.ok() ? status : Secrets().Scrub(status);
}

std::string RunningHook::Scrub(std::string text) const { return Secrets().Scrub(std::move(text)); }

}  // namespace dra::loader
