#include "publisher/repair_limiter.h"

#include <algorithm>

namespace dra::publisher {
namespace {

constexpr absl::Duration kForgetAfter = absl::Minutes(5);
constexpr int kFreeRepairs = 2;
constexpr int kMaxDoublings = 20;

}  // namespace

absl::Duration RepairLimiter::DelayAfter(int repairs) const {
  if (repairs < kFreeRepairs) return absl::ZeroDuration();
  const int doublings = std::min(repairs - kFreeRepairs, kMaxDoublings);
  return std::min(max_, absl::Seconds(1) * (1 << doublings));
}

absl::Duration RepairLimiter::Wait(const std::string& key, MonotonicTime now) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return absl::ZeroDuration();
  const absl::Duration passed = absl::FromChrono(now - found->second.last);
  if (passed >= kForgetAfter) return absl::ZeroDuration();
  return std::max(absl::ZeroDuration(), DelayAfter(found->second.repairs) - passed);
}

void RepairLimiter::Note(const std::string& key, MonotonicTime now) {
  std::erase_if(entries_, [&](const auto& entry) {
    return absl::FromChrono(now - entry.second.last) >= kForgetAfter;
  });
  Entry& entry = entries_[key];
  ++entry.repairs;
  entry.last = now;
}

}  // namespace dra::publisher
