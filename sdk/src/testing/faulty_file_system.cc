#include "dra/testing/faulty_file_system.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/base/status.h"

namespace dra::testing {
namespace {

absl::Status StatusOf(const absl::Status& status) { return status; }
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

bool Matches(const FileMatcher& matcher, FileOperation operation, absl::string_view path,
             absl::string_view to) {
  if (matcher.operation.has_value() && *matcher.operation != operation) return false;
  return absl::StrContains(path, matcher.path_contains) ||
         (!to.empty() && absl::StrContains(to, matcher.path_contains));
}

}  // namespace

std::string ToString(FileOperation operation) {
  switch (operation) {
    case FileOperation::kReadFile:
      return "ReadFile";
    case FileOperation::kCreateFile:
      return "CreateFile";
    case FileOperation::kRename:
      return "Rename";
    case FileOperation::kRemove:
      return "Remove";
    case FileOperation::kRemoveDirectory:
      return "RemoveDirectory";
    case FileOperation::kMakeDirectory:
      return "MakeDirectory";
    case FileOperation::kList:
      return "List";
    case FileOperation::kSyncDirectory:
      return "SyncDirectory";
    case FileOperation::kStat:
      return "Stat";
    case FileOperation::kReadLink:
      return "ReadLink";
  }
  return "?";
}

FaultyFileSystem::FaultyFileSystem(FileSystem* base) : base_(base) {}

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
    if (Matches(matcher, record.operation, record.path, record.to)) ++matching;
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

FaultyFileSystem::Verdict FaultyFileSystem::Begin(FileOperation operation, absl::string_view path,
                                                  absl::string_view to, bool sync) {
  absl::MutexLock lock(&mutex_);
  Verdict verdict;
  verdict.number = ++count_;
  const std::string what = absl::StrCat(ToString(operation), " ", path);
  if (stop_at_ > 0 && count_ >= stop_at_) {
    verdict.failure = absl::AbortedError(absl::StrCat(what, ": stopped at operation ", stop_at_));
    verdict.stop = count_ == stop_at_ ? stop_ : Stop::kBefore;
  } else {
    for (size_t i = 0; i < faults_.size(); ++i) {
      Fault& fault = faults_[i];
      if (!Matches(fault.matcher, operation, path, to)) continue;
      if (fault.remaining > 1) {
        --fault.remaining;
        continue;
      }
      verdict.failure = ErrnoStatus(fault.error_number, what);
      if (fault.remaining == 1) faults_.erase(faults_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
  log_.push_back(
      {verdict.number, operation, std::string(path), std::string(to), sync, verdict.failure});
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

template <typename Result, typename Function>
Result FaultyFileSystem::Run(FileOperation operation, absl::string_view path, absl::string_view to,
                             Function function) {
  const Verdict verdict = Begin(operation, path, to, false);
  if (verdict.stop == Stop::kAfter) {
    (void)function();
    return verdict.failure;
  }
  if (!verdict.failure.ok()) return verdict.failure;
  Result result = function();
  End(verdict.number, StatusOf(result));
  return result;
}

absl::StatusOr<std::string> FaultyFileSystem::ReadFile(absl::string_view path, uint64_t max_bytes) {
  return Run<absl::StatusOr<std::string>>(FileOperation::kReadFile, path, "",
                                          [&] { return base_->ReadFile(path, max_bytes); });
}

absl::StatusOr<std::string> FaultyFileSystem::ReadOwnFile(absl::string_view path,
                                                          uint64_t max_bytes) {
  return Run<absl::StatusOr<std::string>>(FileOperation::kReadFile, path, "",
                                          [&] { return base_->ReadOwnFile(path, max_bytes); });
}

absl::Status FaultyFileSystem::CreateFile(absl::string_view path, absl::string_view contents,
                                          uint32_t mode, bool sync) {
  const Verdict verdict = Begin(FileOperation::kCreateFile, path, "", sync);
  if (verdict.stop == Stop::kTorn) {
    (void)base_->CreateFile(path, contents.substr(0, contents.size() / 2), mode, false);
    return verdict.failure;
  }
  if (verdict.stop == Stop::kAfter) {
    (void)base_->CreateFile(path, contents, mode, sync);
    return verdict.failure;
  }
  if (!verdict.failure.ok()) return verdict.failure;
  const absl::Status result = base_->CreateFile(path, contents, mode, sync);
  End(verdict.number, result);
  return result;
}

absl::Status FaultyFileSystem::Rename(absl::string_view from, absl::string_view to) {
  return Run<absl::Status>(FileOperation::kRename, from, to,
                           [&] { return base_->Rename(from, to); });
}

absl::Status FaultyFileSystem::Remove(absl::string_view path) {
  return Run<absl::Status>(FileOperation::kRemove, path, "", [&] { return base_->Remove(path); });
}

absl::Status FaultyFileSystem::RemoveDirectory(absl::string_view path) {
  return Run<absl::Status>(FileOperation::kRemoveDirectory, path, "",
                           [&] { return base_->RemoveDirectory(path); });
}

absl::Status FaultyFileSystem::MakeDirectory(absl::string_view path, uint32_t mode) {
  return Run<absl::Status>(FileOperation::kMakeDirectory, path, "",
                           [&] { return base_->MakeDirectory(path, mode); });
}

absl::StatusOr<std::vector<std::string>> FaultyFileSystem::List(absl::string_view path) {
  return Run<absl::StatusOr<std::vector<std::string>>>(FileOperation::kList, path, "",
                                                       [&] { return base_->List(path); });
}

absl::Status FaultyFileSystem::SyncDirectory(absl::string_view path) {
  return Run<absl::Status>(FileOperation::kSyncDirectory, path, "",
                           [&] { return base_->SyncDirectory(path); });
}

absl::StatusOr<FileInfo> FaultyFileSystem::Stat(absl::string_view path, bool follow) {
  return Run<absl::StatusOr<FileInfo>>(FileOperation::kStat, path, "",
                                       [&] { return base_->Stat(path, follow); });
}

absl::StatusOr<std::string> FaultyFileSystem::ReadLink(absl::string_view path) {
  return Run<absl::StatusOr<std::string>>(FileOperation::kReadLink, path, "",
                                          [&] { return base_->ReadLink(path); });
}

}  // namespace dra::testing
