#include "dra/publisher/publisher.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "dra/kube/reflector.h"
#include "publisher/reconciler.h"
#include "publisher/slice_names.h"
#include "publisher/slice_store.h"
#include "publisher/waker.h"
#include "publisher/write_gate.h"

namespace dra::publisher {
namespace {

constexpr uint64_t kFirstTurn = 1;

class WatchingPublisher final : public Publisher {
 public:
  WatchingPublisher(Options options, kube::ApiClient* api, Clock* clock,
                    observe::EventRecorder* events, observe::Metrics* metrics, Logger logger,
                    std::function<void(const loader::ServerFields&)> on_fields)
      : options_(std::move(options)),
        options_status_(ValidateOptions(options_)),
        clock_(clock),
        reconciler_(options_, api, clock, events, metrics, logger, &store_, &gate_,
                    std::move(on_fields)) {
    wanted_.turn = kFirstTurn;
    gate_.Open(kFirstTurn);
    kube::ReflectorOptions watch;
    watch.resource = kube::ResourceSlices();
    watch.selector.field_selector = SelectorOf(options_.driver_name, options_.node_name);
    reflector_ = std::make_unique<kube::Reflector>(
        api, clock, logger, watch, [this](const kube::Change& change) { OnChange(change); });
  }

  ~WatchingPublisher() override { Stop(); }

  void Start() override {
    if (!options_status_.ok() || writer_.joinable()) return;
    writer_ = std::thread([this] { Loop(); });
    reflector_->Start();
  }

  void SetInventory(std::shared_ptr<const inventory::Snapshot> snapshot) override {
    if (snapshot == nullptr || !snapshot->known) return;
    absl::MutexLock lock(&mutex_);
    if (wanted_.snapshot == snapshot) return;
    wanted_.snapshot = std::move(snapshot);
    DirtySoon();
  }

  void SetHeld(std::vector<std::pair<std::string, std::string>> held) override {
    HeldDevices devices(held.begin(), held.end());
    absl::MutexLock lock(&mutex_);
    if (wanted_.held == devices) return;
    wanted_.held = std::move(devices);
    DirtySoon();
  }

  void SetWithdrawn(bool withdrawn) override {
    absl::MutexLock lock(&mutex_);
    if (wanted_.withdrawn == withdrawn) return;
    wanted_.withdrawn = withdrawn;
    DirtySoon();
  }

  void SetWriting(bool writing) override {
    {
      absl::MutexLock lock(&mutex_);
      if ((wanted_.turn != 0) == writing) return;
      wanted_.turn = writing ? ++turns_ : 0;
      if (writing) gate_.Open(wanted_.turn);
      failing_ = false;  // what failed was another task
      DirtyNow();
    }
    if (!writing) gate_.Close();
  }

  void Resync() override {
    {
      absl::MutexLock lock(&mutex_);
      check_node_ = true;
    }
    reflector_->Relist();
  }

  State GetState() const override {
    const absl::Status watching = reflector_->LastError();
    const bool synced = reflector_->Synced();
    absl::MutexLock lock(&mutex_);
    State state = state_;
    state.published = equal_ && !dirty_;
    if (!options_status_.ok()) {
      state.error = std::string(options_status_.message());
    } else if (state.error.empty() && !synced && !watching.ok()) {
      state.error = absl::StrCat("list resource slices: ", watching.message());
    }
    return state;
  }

  void Stop() override {
    stop_.request_stop();
    reflector_->Stop();
    if (writer_.joinable()) writer_.join();
  }

 private:
  // In the reflector's thread.
  void OnChange(const kube::Change& change) {
    if (change.type == kube::Change::Type::kSynced) {
      std::vector<std::string> open = store_.MissingIn(reflector_->Snapshot());
      absl::MutexLock lock(&mutex_);
      unverified_.insert(open.begin(), open.end());
      if (synced_)
        probe_again_ = true;  // the connection was lost: perhaps to another server version
      synced_ = true;
      DirtyNow();
      return;
    }
    if (!store_.Apply(change)) return;
    absl::MutexLock lock(&mutex_);
    // The garbage collector deletes slices when their node is gone; the next one has another UID.
    if (change.type == kube::Change::Type::kDeleted) check_node_ = true;
    if (synced_) DirtyNow();
  }

  // A change of ours: wait a little for more of a burst, and never hurry a server that asked for patience.
  void DirtySoon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!dirty_) {
      const MonotonicTime now = clock_->Monotonic();
      const MonotonicTime soon = now + absl::ToChronoNanoseconds(options_.coalesce);
      due_ = failing_ ? std::max(due_, soon) : soon;
    }
    dirty_ = true;
    waker_.Wake();
  }

  // A change of the server: it is there, and somebody may be waiting for the slice.
  void DirtyNow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    dirty_ = true;
    if (!failing_) due_ = clock_->Monotonic();
    waker_.Wake();
  }

  void Loop() {
    const std::stop_token stop = stop_.get_token();
    {
      absl::MutexLock lock(&mutex_);
      due_ = clock_->Monotonic();
    }
    while (!stop.stop_requested()) {
      absl::Duration wait = absl::InfiniteDuration();
      {
        absl::MutexLock lock(&mutex_);
        if (synced_) wait = absl::FromChrono(due_ - clock_->Monotonic());
      }
      if (wait > absl::ZeroDuration()) {
        waker_.Wait(*clock_, wait, stop);
        continue;
      }
      Pass(stop);
    }
  }

  void Pass(const std::stop_token& stop) {
    Wanted wanted;
    std::vector<std::string> verify;
    bool refresh = false;
    {
      absl::MutexLock lock(&mutex_);
      wanted = wanted_;
      refresh = wanted.turn != 0 && wanted.turn != listed_turn_;
      if (std::exchange(dirty_, false)) equal_ = false;  // until this pass has shown it
      if (std::exchange(check_node_, false)) reconciler_.ForgetNode();
      if (std::exchange(probe_again_, false)) reconciler_.WantProbe();
      verify.assign(unverified_.begin(), unverified_.end());
      // While this pass runs its end is not known; what comes in sets an earlier one.
      due_ = clock_->Monotonic() + std::chrono::hours(24);
      failing_ = false;
    }
    PassResult result;
    result.status = reconciler_.Verify(verify, stop);
    // What another instance wrote last may not have come by the watch yet.
    if (result.status.ok() && refresh) result.status = reconciler_.Refresh(stop);
    if (result.status.ok()) {
      if (refresh) listed_turn_ = wanted.turn;
      result = reconciler_.Run(wanted, stop);
    } else {
      result.again = options_.retry_min;
    }

    absl::MutexLock lock(&mutex_);
    if (result.status.ok()) {
      for (const std::string& name : verify) unverified_.erase(name);
    }
    equal_ = result.equal;
    // A write that was not this instance's any more; the next pass is for the new state.
    const bool turn_over = wanted.turn != wanted_.turn && absl::IsCancelled(result.status);
    failing_ = !result.status.ok() && !turn_over;
    if (turn_over) due_ = clock_->Monotonic();
    if (result.again < absl::Hours(24)) {
      const MonotonicTime again = clock_->Monotonic() + absl::ToChronoNanoseconds(result.again);
      due_ = failing_ ? again : std::min(due_, again);
    }
    state_.error = failing_ && !absl::IsCancelled(result.status)
                       ? std::string(result.status.message())
                       : std::string();
    state_.node_uid = reconciler_.node_uid();
    state_.creates = reconciler_.creates();
    state_.updates = reconciler_.updates();
    state_.deletes = reconciler_.deletes();
    state_.findings = reconciler_.findings();
  }

  const Options options_;
  const absl::Status options_status_;
  Clock* const clock_;
  SliceStore store_;
  WriteGate gate_;
  Reconciler reconciler_;  // the writer thread's, once it runs
  uint64_t listed_turn_ =
      kFirstTurn;  // the writer thread's; the first one begins with the reflector's list
  std::unique_ptr<kube::Reflector> reflector_;
  Waker waker_;
  std::stop_source stop_;
  std::thread writer_;

  mutable absl::Mutex mutex_;
  Wanted wanted_ ABSL_GUARDED_BY(mutex_);
  uint64_t turns_ ABSL_GUARDED_BY(mutex_) = kFirstTurn;
  std::set<std::string> unverified_ ABSL_GUARDED_BY(mutex_);
  MonotonicTime due_ ABSL_GUARDED_BY(mutex_);
  bool dirty_ ABSL_GUARDED_BY(mutex_) = false;    // something happened since the last pass began
  bool failing_ ABSL_GUARDED_BY(mutex_) = false;  // the last pass failed: due_ is its retry
  bool synced_ ABSL_GUARDED_BY(mutex_) = false;
  bool equal_ ABSL_GUARDED_BY(mutex_) = false;
  bool check_node_ ABSL_GUARDED_BY(mutex_) = false;
  bool probe_again_ ABSL_GUARDED_BY(mutex_) = false;
  State state_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::Status ValidateOptions(const Options& options) {
  if (options.driver_name.empty()) {
    return absl::InvalidArgumentError("the driver name is not set: slices cannot be published");
  }
  if (options.node_name.empty()) {
    return absl::InvalidArgumentError(
        "the node name is not set: slices cannot be published; set NODE_NAME from spec.nodeName");
  }
  return absl::OkStatus();
}

std::unique_ptr<Publisher> Publisher::Create(
    Options options, kube::ApiClient* api, Clock* clock, observe::EventRecorder* events,
    observe::Metrics* metrics, Logger logger,
    std::function<void(const loader::ServerFields&)> on_fields) {
  return std::make_unique<WatchingPublisher>(std::move(options), api, clock, events, metrics,
                                             std::move(logger), std::move(on_fields));
}

}  // namespace dra::publisher
