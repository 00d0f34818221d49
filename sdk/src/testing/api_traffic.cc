#include "dra/testing/api_traffic.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace dra::testing {
namespace {

bool Matches(const RequestMatcher& matcher, const RequestRecord& record) {
  const auto fits = [](const std::string& wanted, const std::string& value) {
    return wanted.empty() || wanted == value;
  };
  return fits(matcher.verb, record.verb) && fits(matcher.resource, record.resource) &&
         fits(matcher.name, record.name) && fits(matcher.namespace_name, record.namespace_name) &&
         fits(matcher.subresource, record.subresource) &&
         (matcher.include_dry_run || !record.dry_run);
}

}  // namespace

struct ApiTraffic::Impl {
  struct Entry {
    RequestRecord record;
    bool ended = false;
  };
  struct Planned {
    ApiFault fault;
    int passed = 0;
    int hit = 0;
  };
  mutable absl::Mutex mutex;
  mutable absl::CondVar changed;
  std::vector<Entry> log ABSL_GUARDED_BY(mutex);
  std::vector<Planned> faults ABSL_GUARDED_BY(mutex);
  int next_number ABSL_GUARDED_BY(mutex) = 1;
  int64_t release_epoch ABSL_GUARDED_BY(mutex) = 0;
};

ApiTraffic::ApiTraffic() : impl_(std::make_unique<Impl>()) {}
ApiTraffic::~ApiTraffic() = default;

void ApiTraffic::Inject(ApiFault fault) {
  absl::MutexLock lock(&impl_->mutex);
  impl_->faults.push_back({std::move(fault)});
}

void ApiTraffic::ClearFaults() {
  absl::MutexLock lock(&impl_->mutex);
  impl_->faults.clear();
  ++impl_->release_epoch;
  impl_->changed.SignalAll();
}

std::vector<RequestRecord> ApiTraffic::Requests(const RequestMatcher& matcher) const {
  absl::MutexLock lock(&impl_->mutex);
  std::vector<RequestRecord> matching;
  for (const Impl::Entry& entry : impl_->log) {
    if (Matches(matcher, entry.record)) matching.push_back(entry.record);
  }
  return matching;
}

int ApiTraffic::Count(const RequestMatcher& matcher) const {
  return static_cast<int>(Requests(matcher).size());
}

void ApiTraffic::ResetLog() {
  absl::MutexLock lock(&impl_->mutex);
  impl_->log.clear();
}

bool ApiTraffic::WaitForCount(const RequestMatcher& matcher, int count,
                              absl::Duration patience) const {
  const absl::Time until = absl::Now() + patience;
  absl::MutexLock lock(&impl_->mutex);
  const auto enough = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return std::count_if(impl_->log.begin(), impl_->log.end(), [&](const Impl::Entry& entry) {
             return entry.ended && Matches(matcher, entry.record);
           }) >= count;
  };
  while (!enough()) {
    if (impl_->changed.WaitWithDeadline(&impl_->mutex, until)) return enough();
  }
  return true;
}

std::pair<int, std::optional<ApiFault>> ApiTraffic::Begin(RequestRecord record) {
  absl::MutexLock lock(&impl_->mutex);
  record.number = impl_->next_number++;
  std::optional<ApiFault> fault;
  for (Impl::Planned& planned : impl_->faults) {
    if (!Matches(planned.fault.match, record)) continue;
    if (planned.fault.times > 0 && planned.hit >= planned.fault.times) continue;
    if (planned.passed < planned.fault.skip) {
      ++planned.passed;
      continue;
    }
    ++planned.hit;
    fault = planned.fault;
    break;
  }
  const int number = record.number;
  impl_->log.push_back({std::move(record), false});
  return {number, std::move(fault)};
}

void ApiTraffic::End(int number, int code) {
  absl::MutexLock lock(&impl_->mutex);
  for (auto entry = impl_->log.rbegin(); entry != impl_->log.rend(); ++entry) {
    if (entry->record.number != number) continue;
    entry->record.code = code;
    entry->ended = true;
    break;
  }
  impl_->changed.SignalAll();
}

bool ApiTraffic::Hold(absl::Duration duration, const std::stop_token& stop) const {
  const absl::Time until = absl::Now() + duration;
  std::stop_callback wake(stop, [this] {
    absl::MutexLock lock(&impl_->mutex);
    impl_->changed.SignalAll();
  });
  absl::MutexLock lock(&impl_->mutex);
  const int64_t epoch = impl_->release_epoch;
  while (impl_->release_epoch == epoch && !stop.stop_requested()) {
    if (impl_->changed.WaitWithDeadline(&impl_->mutex, until)) return true;
  }
  return false;
}

}  // namespace dra::testing
