#pragma once

#include <optional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"

namespace dra {

// What every call that may block is told: until when, and how it learns that nobody wants the answer any more.
// Copyable, cheap. A default Call has no deadline and is never cancelled.
struct Call {
  std::optional<MonotonicTime> deadline;
  std::stop_token stop;

  // A call that ends `timeout` from now (system clock), or when `stop` is requested.
  static Call WithTimeout(absl::Duration timeout, std::stop_token stop = {});

  // The same call, ending at `timeout` from now at the latest.
  Call AtMost(absl::Duration timeout) const;

  // Time left; InfiniteDuration without a deadline; never negative.
  absl::Duration Remaining() const;

  // OK, Cancelled("<what>: cancelled") or DeadlineExceeded("<what>: deadline exceeded").
  absl::Status Check(absl::string_view what) const;
};

}  // namespace dra
