#pragma once

#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace dra::crash {

// Where this process can be killed. A point is a label and how often it has been passed since Arm: what other threads
// do meanwhile then moves no number, unless they do the very same thing. Any thread.
class KillPoints {
 public:
  // Counts from now on, from zero.
  void Arm();
  // The same, and at the `occurrence`-th time (1: the first) at `label` the process dies.
  void ArmToKill(absl::string_view label, int occurrence);
  void Disarm();

  // False when nobody counts: then no label needs to be made.
  bool armed() const;
  // Counts the point. True if this is the one to die at.
  bool IsTheOne(absl::string_view label);
  // Counts the point, and dies there if it is the one.
  void Reach(absl::string_view label);
  // Ends this process as a power switch would: no destructor, no handler.
  [[noreturn]] static void Die();

  // Passes of each label since Arm.
  std::map<std::string, int> Counts() const;

 private:
  mutable absl::Mutex mutex_;
  bool armed_ ABSL_GUARDED_BY(mutex_) = false;
  std::string kill_label_ ABSL_GUARDED_BY(mutex_);
  int kill_occurrence_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int, std::less<>> counts_ ABSL_GUARDED_BY(mutex_);
};

// What a path stands for: `root` is left out, UIDs, hashes and the random part of temporary names are replaced.
// "<root>/kubelet/plugins/<driver>/claims/.4f...e1.json.x7.tmp" -> "data/claims/.<uid>.json.*.tmp".
std::string PathClass(absl::string_view path, absl::string_view root);

}  // namespace dra::crash
