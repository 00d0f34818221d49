#include "driver/publish_turn.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"

namespace dra::driver {
namespace {

// The kubelet sees the end of a stream later than we see the end of its process, by its own doing or because the
// process answers its last calls.
constexpr absl::Duration kAfterEnd = absl::Seconds(3);
// An owner lets go within a look and a write under way; after that it is worth a word.
constexpr absl::Duration kOwnerPatience = absl::Seconds(5);

}  // namespace

PublishTurn::PublishTurn(Options options, Clock* clock, Logger logger, Callbacks callbacks)
    : options_(std::move(options)),
      clock_(clock),
      logger_(std::move(logger)),
      callbacks_(std::move(callbacks)) {}

PublishTurn::~PublishTurn() { Stop(); }

void PublishTurn::Start() {
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
}

void PublishTurn::SetReady() {
  const absl::MutexLock lock(&mutex_);
  wake_ = wake_ || !ready_;
  ready_ = true;
}

void PublishTurn::Resign(absl::Duration bound) {
  if (!thread_.joinable()) return;
  const absl::MutexLock lock(&mutex_);
  resigning_ = wake_ = true;
  (void)mutex_.AwaitWithTimeout(absl::Condition(&resigned_), bound);
}

void PublishTurn::Stop() {
  {
    const absl::MutexLock lock(&mutex_);
    resigning_ = stopping_ = wake_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

PublishTurn::State PublishTurn::GetState() const {
  const absl::MutexLock lock(&mutex_);
  return state_;
}

void PublishTurn::Run() {
  for (;;) {
    bool ready = false;
    bool resigning = false;
    bool stopping = false;
    {
      const absl::MutexLock lock(&mutex_);
      ready = ready_;
      resigning = resigning_;
      stopping = stopping_;
      wake_ = false;
    }
    const absl::Status looked = Look(ready, resigning);
    if (!looked.ok()) {
      // Whether the locks still stand is not known, so this instance counts as one without them.
      EndTurn();
      role_ = Role::kWaiting;
      file_ = LockFile();
    }
    Publish(looked);
    if (stopping) break;
    // A lone owner only waits to be asked.
    const bool alone = role_ == Role::kOwner && others_.empty();
    const absl::MutexLock lock(&mutex_);
    resigned_ = resigning && role_ == Role::kWaiting;
    (void)mutex_.AwaitWithTimeout(absl::Condition(&wake_),
                                  alone ? 2 * options_.poll : options_.poll);
  }
  file_ = LockFile();
}

void PublishTurn::EndTurn() {
  if (role_ == Role::kOwner) callbacks_.end();
}

void PublishTurn::Publish(const absl::Status& looked) {
  const std::string error(looked.message());
  if (error != logged_error_) {
    if (error.empty()) {
      logger_.Info("the lock of publishing can be used again");
    } else {
      logger_.Error("slices and health are not published: the lock cannot be used",
                    {{"error", error}});
    }
    logged_error_ = error;
  }
  const absl::MutexLock lock(&mutex_);
  state_.owner = role_ == Role::kOwner;
  state_.others = others_.size();
  state_.error = error;
  state_.waiting = Waiting();
}

std::string PublishTurn::Waiting() const {
  if (role_ == Role::kOwner) return "";
  if (role_ == Role::kWaiting) return "another instance publishes, or none can yet";
  const absl::Duration waited = absl::FromChrono(clock_->Monotonic() - asked_);
  if (waited < kOwnerPatience) return "the instance that publishes has been asked to let this one";
  return absl::StrCat(
      "the instance that publishes was asked ", absl::ToInt64Seconds(waited),
      " s ago to let this one and has not: its process is stopped or hangs, or the API server does "
      "not answer it");
}

absl::Status PublishTurn::Look(bool ready, bool resigning) {
  if (file_) {
    DRA_ASSIGN_OR_RETURN(const bool still_there, file_.IsStillAtPath());
    if (!still_there) {
      // Another instance would lock another file.
      logger_.Warn(absl::StrCat("somebody replaced or removed ", options_.path));
      EndTurn();
      role_ = Role::kWaiting;
      file_ = LockFile();
    }
  }
  if (!file_) DRA_RETURN_IF_ERROR(Open());
  if (number_ == 0) return absl::OkStatus();
  DRA_RETURN_IF_ERROR(LookAtOthers());
  if (role_ == Role::kOwner) return YieldIfAsked(resigning);
  if (resigning) {
    if (role_ == Role::kNext) DRA_RETURN_IF_ERROR(file_.Release(kNextByte));
    role_ = Role::kWaiting;
    return absl::OkStatus();
  }
  return ready ? Ask() : absl::OkStatus();
}

absl::Status PublishTurn::Open() {
  number_ = 0;
  others_.clear();
  DRA_ASSIGN_OR_RETURN(LockFile file, LockFile::Open(options_.path));
  // Held by another for some microseconds; the next look tries again.
  DRA_ASSIGN_OR_RETURN(const bool alone, file.Try(kNumberingByte));
  if (!alone) return absl::OkStatus();
  file_ = std::move(file);
  highest_ = kFirstInstance - 1;
  DRA_RETURN_IF_ERROR(FindOthers(kFirstInstance));
  DRA_ASSIGN_OR_RETURN(const uint64_t size, file_.Size());
  const uint64_t number = std::max(size, highest_ + 1);
  if (number >= kOwnerMarks) {
    return absl::ResourceExhaustedError(absl::StrCat(
        options_.path, " has ", size,
        " bytes, more than instances can have started: ", "remove it while no instance runs"));
  }
  DRA_ASSIGN_OR_RETURN(const bool taken, file_.Try(number));
  if (!taken)
    return absl::AbortedError(absl::StrCat(options_.path, ": number ", number, " is taken"));
  // If the size cannot be stored, a number can come again once its instance is gone: then only the end of an instance
  // that is replaced between two looks goes unseen.
  (void)file_.Grow(number + 1);
  DRA_RETURN_IF_ERROR(file_.Release(kNumberingByte));
  number_ = highest_ = number;
  return absl::OkStatus();
}

absl::Status PublishTurn::FindOthers(uint64_t begin) {
  // The kernel names one lock of a range, not the first, so what lies on both sides of it is asked for as well.
  std::vector<std::pair<uint64_t, uint64_t>> ranges = {{begin, kOwnerMarks}};
  while (!ranges.empty()) {
    const auto [from, to] = ranges.back();
    ranges.pop_back();
    if (from >= to) continue;
    DRA_ASSIGN_OR_RETURN(const std::optional<uint64_t> found, file_.HeldByOther(from, to));
    if (!found.has_value()) continue;
    others_.insert(*found);
    highest_ = std::max(highest_, *found);
    ranges.emplace_back(from, *found);
    ranges.emplace_back(*found + 1, to);
  }
  return absl::OkStatus();
}

absl::Status PublishTurn::LookAtOthers() {
  const MonotonicTime now = clock_->Monotonic();
  const bool lived = !others_.empty();
  for (auto other = others_.begin(); other != others_.end();) {
    DRA_ASSIGN_OR_RETURN(const std::optional<uint64_t> alive,
                         file_.HeldByOther(*other, *other + 1));
    if (alive.has_value()) {
      ++other;
      continue;
    }
    other = others_.erase(other);
    ended_seen_ = true;
    other_ended_ = now;
  }
  DRA_RETURN_IF_ERROR(FindOthers(highest_ + 1));
  if (lived || !others_.empty()) {
    other_seen_ = true;
    other_lived_ = now;
  }
  const auto recent = [now](MonotonicTime then) {
    return absl::FromChrono(now - then) < kAfterEnd;
  };
  // More than once: a process that dies lets go of its locks and of its sockets one after the other.
  if (callbacks_.clean_up != nullptr && ended_seen_ && recent(other_ended_)) callbacks_.clean_up();
  if (role_ == Role::kOwner && other_seen_ && recent(other_lived_)) callbacks_.report_again();
  return absl::OkStatus();
}

absl::Status PublishTurn::YieldIfAsked(bool resigning) {
  if (!resigning) {
    DRA_ASSIGN_OR_RETURN(const std::optional<uint64_t> asked,
                         file_.HeldByOther(kNextByte, kNextByte + 1));
    if (!asked.has_value()) return absl::OkStatus();
    gave_up_ = true;
  }
  EndTurn();
  role_ = Role::kWaiting;
  DRA_RETURN_IF_ERROR(file_.Release(kOwnerMarks + number_));
  DRA_RETURN_IF_ERROR(file_.Release(kOwnerByte));
  logger_.Info(resigning ? "publishing ends with this instance"
                         : "a newer instance publishes from now on");
  return absl::OkStatus();
}

absl::Status PublishTurn::Ask() {
  if (role_ == Role::kWaiting) {
    // A living owner is asked only by an instance that started later, and by each at most once.
    bool older = false;
    if (!gave_up_) {
      DRA_ASSIGN_OR_RETURN(const std::optional<uint64_t> mark,
                           file_.HeldByOther(kOwnerMarks, kOwnerMarks + number_));
      older = mark.has_value();
    }
    if (!older) {
      DRA_ASSIGN_OR_RETURN(const std::optional<uint64_t> owner,
                           file_.HeldByOther(kOwnerByte, kOwnerByte + 1));
      if (owner.has_value()) return absl::OkStatus();
    }
    DRA_ASSIGN_OR_RETURN(const bool next, file_.Try(kNextByte));
    if (!next) return absl::OkStatus();
    role_ = Role::kNext;
    asked_ = clock_->Monotonic();
  }
  DRA_ASSIGN_OR_RETURN(const bool owner, file_.Try(kOwnerByte));
  if (!owner) return absl::OkStatus();
  // The mark is nobody else's, as the number is not.
  DRA_RETURN_IF_ERROR(file_.Try(kOwnerMarks + number_).status());
  DRA_RETURN_IF_ERROR(file_.Release(kNextByte));
  role_ = Role::kOwner;
  logger_.Info("this instance publishes", {{"others", absl::StrCat(others_.size())}});
  callbacks_.begin();
  return absl::OkStatus();
}

}  // namespace dra::driver
