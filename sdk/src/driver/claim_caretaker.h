#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/logger.h"
#include "dra/claims/claim_manager.h"

namespace dra::driver {

// The thread that looks after what claims leave behind: restores files at start, reconciles after each create of the
// backend, prepares again what the backend asks for, and from time to time looks for claims that are gone and tries
// again what could not be done. It may be busy for minutes; nothing waits for it. Any thread may call.
class ClaimCaretaker {
 public:
  struct Options {
    std::string driver_name;
    absl::Duration check_interval;  // between two looks for orphans, give or take a tenth
    absl::Duration retry_min = absl::Seconds(1);
    absl::Duration retry_max = absl::Minutes(5);
  };
  // claims and clock outlive this. on_reconciled: the hardware may look different now.
  ClaimCaretaker(Options options, claims::ClaimManager* claims, std::function<void()> on_reconciled,
                 Clock* clock, Logger logger);
  ~ClaimCaretaker();

  void Start();
  // Cancels what runs and waits for the thread. Idempotent.
  void Stop();

  // There is a new instance of the backend.
  void BackendCreated();

 private:
  void Run(const std::stop_token& stop);
  // Each returns when it wants to run next.
  MonotonicTime Reconcile(const Call& call);
  MonotonicTime PrepareAgain(const Call& call);
  MonotonicTime LookForOrphans(const Call& call);

  const Options options_;
  claims::ClaimManager* const claims_;
  const std::function<void()> on_reconciled_;
  Clock* const clock_;
  const Logger logger_;

  // Of the thread.
  absl::Duration reconcile_backoff_;
  absl::Duration prepare_backoff_;
  std::string reconcile_error_;

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  bool created_ = false;  // guarded by mutex_: since the last reconcile
  std::jthread thread_;
};

}  // namespace dra::driver
