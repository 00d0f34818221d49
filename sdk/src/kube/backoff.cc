#include "kube/backoff.h"

#include <algorithm>

namespace dra::kube {

Backoff::Backoff(absl::Duration min, absl::Duration max)
    : min_(min), max_(max), next_(min), random_(std::random_device{}()) {}

absl::Duration Backoff::Next(std::optional<absl::Duration> retry_after) {
  const absl::Duration base = next_;
  next_ = std::min(max_, next_ * 2);
  const absl::Duration wait = base * std::uniform_real_distribution<double>(1.0, 2.0)(random_);
  return std::max(wait, retry_after.value_or(absl::ZeroDuration()));
}

}  // namespace dra::kube
