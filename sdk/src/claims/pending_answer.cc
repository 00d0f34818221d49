#include "claims/pending_answer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dra::claims {

PendingAnswer::PendingAnswer(std::string what, TimerQueue* timers,
                             std::function<void(Outcome)> done)
    : what_(std::move(what)), timers_(timers), done_(std::move(done)) {}

std::shared_ptr<PendingAnswer> PendingAnswer::Create(std::string what, const Call& call,
                                                     absl::Duration limit, TimerQueue* timers,
                                                     std::function<void(Outcome)> done) {
  std::shared_ptr<PendingAnswer> answer(
      new PendingAnswer(std::move(what), timers, std::move(done)));
  answer->call_ = call.AtMost(limit);
  // Weak: an answered call is not kept until its time would have been up.
  const std::weak_ptr<PendingAnswer> weak = answer;
  answer->timer_ = timers->At(*answer->call_.deadline, [weak] {
    if (const auto alive = weak.lock()) alive->TimeIsUp();
  });
  answer->on_stop_.emplace(call.stop, [weak] {
    if (const auto alive = weak.lock()) {
      alive->Give(absl::CancelledError(absl::StrCat(alive->what_, ": the caller has gone")));
    }
  });
  return answer;
}

PendingAnswer::~PendingAnswer() { timers_->Cancel(timer_); }

void PendingAnswer::Give(Outcome outcome) {
  std::function<void(Outcome)> done;
  {
    const absl::MutexLock lock(&mutex_);
    done = std::exchange(done_, nullptr);
  }
  if (done) done(std::move(outcome));
}

bool PendingAnswer::open() const {
  const absl::MutexLock lock(&mutex_);
  return static_cast<bool>(done_);
}

void PendingAnswer::SetBlocked(absl::Status blocked) {
  const absl::MutexLock lock(&mutex_);
  blocked_ = std::move(blocked);
}

void PendingAnswer::TimeIsUp() {
  absl::Status status;
  {
    const absl::MutexLock lock(&mutex_);
    status = blocked_;
  }
  if (status.ok()) {
    status = absl::UnavailableError(
        absl::StrCat(what_, ": still working; a repeated call joins the running operation"));
  }
  Give(std::move(status));
}

}  // namespace dra::claims
