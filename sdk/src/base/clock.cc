#include "dra/base/clock.h"

#include <condition_variable>
#include <mutex>

#include "absl/time/clock.h"

namespace dra {

absl::Time SystemClock::Now() { return absl::Now(); }

MonotonicTime SystemClock::Monotonic() { return std::chrono::steady_clock::now(); }

bool SystemClock::Sleep(absl::Duration duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock<std::mutex> lock(mutex);
  const auto until = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(duration);
  wake.wait_until(lock, stop, until, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace dra
