#include "driver/claim_caretaker.h"

#include <algorithm>
#include <random>
#include <utility>

namespace dra::driver {
namespace {

constexpr MonotonicTime kNever = MonotonicTime::max();

// A part of `whole` from `from` to `to`, by chance.
absl::Duration PartOf(absl::Duration whole, double from, double to) {
  std::random_device source;
  return whole * std::uniform_real_distribution<double>(from, to)(source);
}

}  // namespace

ClaimCaretaker::ClaimCaretaker(Options options, claims::ClaimManager* claims,
                               std::function<void()> on_reconciled, Clock* clock, Logger logger)
    : options_(std::move(options)),
      claims_(claims),
      on_reconciled_(std::move(on_reconciled)),
      clock_(clock),
      logger_(std::move(logger)),
      reconcile_backoff_(options_.retry_min),
      prepare_backoff_(options_.retry_min) {}

ClaimCaretaker::~ClaimCaretaker() { Stop(); }

void ClaimCaretaker::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

void ClaimCaretaker::Stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void ClaimCaretaker::BackendCreated() {
  const std::lock_guard<std::mutex> lock(mutex_);
  created_ = true;
  wake_.notify_all();
}

MonotonicTime ClaimCaretaker::Reconcile(const Call& call) {
  const absl::Status reconciled = claims_->Reconcile(call);
  if (reconciled.ok()) {
    if (!reconcile_error_.empty()) logger_.Info("the claims are reconciled with the hardware now");
    reconcile_error_.clear();
    reconcile_backoff_ = options_.retry_min;
    on_reconciled_();
    return kNever;
  }
  if (reconcile_error_ != reconciled.message() && !call.stop.stop_requested()) {
    logger_.Warn("the claims could not be reconciled with the hardware, will be tried again",
                 {{"error", reconciled.ToString()}});
  }
  reconcile_error_ = std::string(reconciled.message());
  // Every try keeps operations waiting, so a backend that hangs is asked less and less often.
  const absl::Duration wait = reconcile_backoff_;
  reconcile_backoff_ = std::min(reconcile_backoff_ * 4, options_.retry_max);
  return clock_->Monotonic() + absl::ToChronoNanoseconds(wait);
}

MonotonicTime ClaimCaretaker::PrepareAgain(const Call& call) {
  if (claims_->PrepareAgain(call) == 0) {
    prepare_backoff_ = options_.retry_min;
    return kNever;
  }
  const absl::Duration wait = prepare_backoff_;
  prepare_backoff_ = std::min(prepare_backoff_ * 2, options_.retry_max);
  return clock_->Monotonic() + absl::ToChronoNanoseconds(wait);
}

MonotonicTime ClaimCaretaker::LookForOrphans(const Call& call) {
  (void)claims_->CollectOrphans(call);  // says, counts and reports what it finds
  claims_->Restore(call);
  return clock_->Monotonic() + absl::ToChronoNanoseconds(PartOf(options_.check_interval, 0.9, 1.1));
}

void ClaimCaretaker::Run(const std::stop_token& stop) {
  Call call;
  call.stop = stop;
  claims_->Restore(call);
  MonotonicTime reconcile = kNever;
  // What an earlier process was asked to prepare again is in its records.
  MonotonicTime prepare = clock_->Monotonic();
  // Spread from the start: the nodes of a cluster are often rolled out together.
  MonotonicTime orphans =
      clock_->Monotonic() + absl::ToChronoNanoseconds(PartOf(options_.check_interval, 0, 1));
  while (!stop.stop_requested()) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (std::exchange(created_, false)) reconcile = clock_->Monotonic();
    }
    if (clock_->Monotonic() >= reconcile) {
      reconcile = Reconcile(call);
      prepare = clock_->Monotonic();
    }
    if (clock_->Monotonic() >= prepare) prepare = PrepareAgain(call);
    if (clock_->Monotonic() >= orphans) orphans = LookForOrphans(call);
    const absl::Duration wait =
        absl::FromChrono(std::min({reconcile, prepare, orphans}) - clock_->Monotonic());
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait_for(lock, stop, absl::ToChronoNanoseconds(std::max(wait, absl::ZeroDuration())),
                   [this] { return created_; });
  }
}

}  // namespace dra::driver
