#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/logger.h"
#include "driver/lock_file.h"

namespace dra::driver {

// Which of a driver's instances on this node publishes slices and reports health: one at a time, the newest that can
// (design 3.2, docs/publication.md "Two instances"). Decided by locks on bytes of publish.lock, which end with their
// process. A stopped or hung owner keeps its locks, so nobody writes beside it.
// Any thread.
class PublishTurn {
 public:
  // The bytes of the file. Its size is the number of the next instance.
  static constexpr uint64_t kOwnerByte = 0;      // of the owner
  static constexpr uint64_t kNextByte = 1;       // of the one that wants to be the owner
  static constexpr uint64_t kNumberingByte = 2;  // while an instance takes its number
  // Byte n, from here on: instance n lives. Later instances have higher numbers.
  static constexpr uint64_t kFirstInstance = 16;
  // Byte kOwnerMarks + n: instance n is the owner.
  static constexpr uint64_t kOwnerMarks = uint64_t{1} << 40;

  struct Options {
    std::string path;
    // How often the file is looked at, by a lone owner half as often: at most four calls of the system, and one more for
    // each further instance.
    absl::Duration poll = absl::Milliseconds(250);
  };
  // They run on this object's thread and must not call it.
  struct Callbacks {
    std::function<void()> begin;  // this instance is the owner: write and report
    // Ends writing and reporting: when it returns nothing is under way any more. Then the next may begin.
    std::function<void()> end;
    // The owner is to report its full health list again: each `poll` while another instance lives, and for some seconds
    // after its end. The kubelet forgets all when a stream of any instance ends, and says to nobody when it does.
    std::function<void()> report_again;
    // Another instance has ended and may have left files. Called for some seconds, whether or not this is the owner.
    std::function<void()> clean_up;
  };
  struct State {
    bool owner = false;
    size_t others = 0;    // living instances beside this one
    std::string waiting;  // what a ready instance waits for; "" for the owner
    std::string error;    // why the locks cannot be used: nothing is written then
  };

  // clock outlives this.
  PublishTurn(Options options, Clock* clock, Logger logger, Callbacks callbacks);
  ~PublishTurn();  // stops

  void Start();
  // From now on this instance can be the owner: its inventory is known.
  void SetReady();
  // Gives up for good, within `bound` if `end` returns by then; the others still see this instance live.
  void Resign(absl::Duration bound);
  // Resigns, waits for `end`, and lives no longer.
  void Stop();

  State GetState() const;

 private:
  enum class Role { kWaiting, kNext, kOwner };

  void Run();
  // One look at the file. On an error nothing is owned any more and the file is opened anew at the next look.
  absl::Status Look(bool ready, bool resigning);
  absl::Status Open();
  absl::Status FindOthers(uint64_t begin);
  absl::Status LookAtOthers();
  absl::Status Ask();
  absl::Status YieldIfAsked(bool resigning);
  // Ends what the owner does. The locks are still held.
  void EndTurn();
  void Publish(const absl::Status& looked);
  std::string Waiting() const;

  const Options options_;
  Clock* const clock_;
  const Logger logger_;
  const Callbacks callbacks_;
  std::thread thread_;

  // The thread's own.
  LockFile file_;
  uint64_t number_ = 0;   // 0: none yet
  uint64_t highest_ = 0;  // of all instances seen
  std::set<uint64_t> others_;
  MonotonicTime other_lived_;  // when another was last known to live
  bool other_seen_ = false;
  MonotonicTime other_ended_;
  bool ended_seen_ = false;
  Role role_ = Role::kWaiting;
  bool gave_up_ = false;  // was asked to let another: asks no living owner again
  MonotonicTime asked_;
  std::string logged_error_;

  mutable absl::Mutex mutex_;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool resigning_ ABSL_GUARDED_BY(mutex_) = false;
  bool resigned_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool wake_ ABSL_GUARDED_BY(mutex_) = false;
  State state_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::driver
