#pragma once

#include <chrono>
#include <stop_token>

#include "absl/time/time.h"

namespace dra {

// Deadlines are monotonic: a jump of the wall clock neither hurries nor stalls an operation.
using MonotonicTime = std::chrono::steady_clock::time_point;

// Time as the code sees it. Any thread.
class Clock {
 public:
  virtual ~Clock() = default;

  // Wall time, for time stamps in objects and logs only.
  virtual absl::Time Now() = 0;
  // Monotonic time, for deadlines and intervals.
  virtual MonotonicTime Monotonic() = 0;
  // Waits for `duration` or until `stop` is requested. True if the whole duration has passed.
  virtual bool Sleep(absl::Duration duration, const std::stop_token& stop) = 0;
};

// The system's clocks. Never destroyed before its users; a process needs one.
class SystemClock final : public Clock {
 public:
  absl::Time Now() override;
  MonotonicTime Monotonic() override;
  bool Sleep(absl::Duration duration, const std::stop_token& stop) override;
};

}  // namespace dra
