#include "dra/base/call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dra {

Call Call::WithTimeout(absl::Duration timeout, std::stop_token stop) {
  Call call;
  call.stop = std::move(stop);
  return call.AtMost(timeout);
}

Call Call::AtMost(absl::Duration timeout) const {
  Call call = *this;
  if (timeout == absl::InfiniteDuration()) return call;
  const MonotonicTime limit = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(timeout);
  call.deadline = call.deadline.has_value() ? std::min(*call.deadline, limit) : limit;
  return call;
}

absl::Duration Call::Remaining() const {
  if (!deadline.has_value()) return absl::InfiniteDuration();
  const auto left = *deadline - std::chrono::steady_clock::now();
  return std::max(absl::ZeroDuration(), absl::FromChrono(left));
}

absl::Status Call::Check(absl::string_view what) const {
  if (stop.stop_requested()) return absl::CancelledError(absl::StrCat(what, ": cancelled"));
  if (Remaining() <= absl::ZeroDuration()) {
    return absl::DeadlineExceededError(absl::StrCat(what, ": deadline exceeded"));
  }
  return absl::OkStatus();
}

}  // namespace dra
