#include "dra/testing/faulty_file_system.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/base/status.h"

namespace dra::testing {
namespace {

bool Matches(const FileMatcher& matcher, const FileCall& call) {
  if (matcher.operation.has_value() && *matcher.operation != call.operation) return false;
  return absl::StrContains(call.path, matcher.path_contains) ||
         (!call.to.empty() && absl::StrContains(call.to, matcher.path_contains));
}

}  // namespace

void FaultyFileSystem::FailNth(int n, const FileMatcher& matcher, int error_number) {
  absl::MutexLock lock(&mutex_);
  faults_.push_back({matcher, error_number, n < 1 ? 1 : n});
}

void FaultyFileSystem::FailAlways(const FileMatcher& matcher, int error_number) {
  absl::MutexLock lock(&mutex_);
  faults_.push_back({matcher, error_number, 0});
}

void FaultyFileSystem::ClearFaults() {
  absl::MutexLock lock(&mutex_);
  faults_.clear();
  stop_at_ = 0;
}

void FaultyFileSystem::StopAt(int n, Stop stop) {
  absl::MutexLock lock(&mutex_);
  stop_at_ = n;
  stop_ = stop;
}

bool FaultyFileSystem::stopped() const {
  absl::MutexLock lock(&mutex_);
  return stop_at_ > 0 && count_ >= stop_at_;
}

int FaultyFileSystem::count() const {
  absl::MutexLock lock(&mutex_);
  return count_;
}

int FaultyFileSystem::Count(const FileMatcher& matcher) const {
  absl::MutexLock lock(&mutex_);
  int matching = 0;
  for (const FileOperationRecord& record : log_) {
    if (Matches(matcher, {record.operation, record.path, record.to})) ++matching;
  }
  return matching;
}

void FaultyFileSystem::ResetCount() {
  absl::MutexLock lock(&mutex_);
  count_ = 0;
  log_.clear();
}

std::vector<FileOperationRecord> FaultyFileSystem::Log() const {
  absl::MutexLock lock(&mutex_);
  return log_;
}

FaultyFileSystem::Verdict FaultyFileSystem::Begin(const FileCall& call) {
  absl::MutexLock lock(&mutex_);
  Verdict verdict;
  verdict.number = ++count_;
  const std::string what = absl::StrCat(ToString(call.operation), " ", call.path);
  if (stop_at_ > 0 && count_ >= stop_at_) {
    verdict.failure = absl::AbortedError(absl::StrCat(what, ": stopped at operation ", stop_at_));
    verdict.stop = count_ == stop_at_ ? stop_ : Stop::kBefore;
  } else {
    for (size_t i = 0; i < faults_.size(); ++i) {
      Fault& fault = faults_[i];
      if (!Matches(fault.matcher, call)) continue;
      if (fault.remaining > 1) {
        --fault.remaining;
        continue;
      }
      verdict.failure = ErrnoStatus(fault.error_number, what);
      if (fault.remaining == 1) faults_.erase(faults_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  log_.push_back({verdict.number, call.operation, std::string(call.path), std::string(call.to),
                  call.sync, verdict.failure});
  return verdict;
}

void FaultyFileSystem::End(int number, const absl::Status& result) {
  absl::MutexLock lock(&mutex_);
  // From the end, where it is: a log may have tens of thousands.
  for (auto record = log_.rbegin(); record != log_.rend(); ++record) {
    if (record->number != number) continue;
    record->result = result;
    return;
  }
}

absl::Status FaultyFileSystem::Pass(const FileCall& call,
                                    absl::FunctionRef<absl::Status()> carry_out) {
  const Verdict verdict = Begin(call);
  if (verdict.stop == Stop::kAfter) {
    (void)carry_out();
    return verdict.failure;
  }
  if (verdict.stop == Stop::kTorn && call.operation == FileOperation::kCreateFile) {
    const absl::string_view half = call.contents.substr(0, call.contents.size() / 2);
    (void)base().CreateFile(call.path, half, call.mode, false);
    return verdict.failure;
  }
  if (!verdict.failure.ok()) return verdict.failure;
  absl::Status result = carry_out();
  End(verdict.number, result);
  return result;
}

}  // namespace dra::testing
