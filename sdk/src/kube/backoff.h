#pragma once

#include <optional>
#include <random>

#include "absl/time/time.h"

namespace dra::kube {

// Waits that grow: the first `min`, doubled each time up to `max`, each drawn from [d, 2d] so that a thousand nodes do
// not come back at once. Not thread safe.
class Backoff {
 public:
  Backoff(absl::Duration min, absl::Duration max);
  // The next wait; at least `retry_after`.
  absl::Duration Next(std::optional<absl::Duration> retry_after = std::nullopt);
  void Reset() { next_ = min_; }

 private:
  const absl::Duration min_;
  const absl::Duration max_;
  absl::Duration next_;
  std::mt19937_64 random_;
};

}  // namespace dra::kube
