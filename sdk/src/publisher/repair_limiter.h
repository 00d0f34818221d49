#pragma once

#include <map>
#include <string>

#include "absl/time/time.h"
#include "dra/base/clock.h"

namespace dra::publisher {

// Slows down the repair of a slice that a stranger keeps changing: the first two repairs are immediate, the next ones
// wait 1 s, 2 s, 4 s ... up to `max`. Five quiet minutes forgive everything. Not thread-safe.
class RepairLimiter {
 public:
  explicit RepairLimiter(absl::Duration max) : max_(max) {}

  // How long the next repair of `key` has to wait; zero if it may go ahead.
  absl::Duration Wait(const std::string& key, MonotonicTime now) const;
  // A repair was made.
  void Note(const std::string& key, MonotonicTime now);

 private:
  struct Entry {
    int repairs = 0;
    MonotonicTime last;
  };
  absl::Duration DelayAfter(int repairs) const;

  const absl::Duration max_;
  std::map<std::string, Entry> entries_;
};

}  // namespace dra::publisher
