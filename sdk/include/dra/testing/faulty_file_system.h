#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/file_system.h"
#include "dra/testing/forwarding_file_system.h"

namespace dra::testing {

// Which operations a fault is for. Unset members match all.
struct FileMatcher {
  std::optional<FileOperation> operation;
  std::string path_contains;  // of the path, or of the target of a rename
};

struct FileOperationRecord {
  int number = 0;  // counts all operations from 1
  FileOperation operation = FileOperation::kReadFile;
  std::string path;
  std::string to;     // of a rename
  bool sync = false;  // of a create
  absl::Status result;
};

// Passes operations on to another FileSystem, records them, and fails or stops where a test says.
// Any thread.
class FaultyFileSystem final : public ForwardingFileSystem {
 public:
  // base outlives this.
  explicit FaultyFileSystem(FileSystem* base) : ForwardingFileSystem(base) {}

  // The n-th operation from now that matches (1: the next one) fails with `error_number` and is not
  // carried out.
  void FailNth(int n, const FileMatcher& matcher, int error_number);
  // Every matching operation fails from now on.
  void FailAlways(const FileMatcher& matcher, int error_number);
  // Takes back all faults and the stop.
  void ClearFaults();

  // How the process "dies" at an operation.
  enum class Stop {
    kBefore,  // the operation does not happen
    kTorn,    // a CreateFile leaves half of its bytes; others do not happen
    kAfter,   // the operation happens, but nobody learns of it
  };
  // Operation number `n` (counted from the construction or ResetCount) and every later one answer
  // Aborted: for what is under test the process has ended there; what is on disk stays. A new
  // FaultyFileSystem over the same base is the restarted process.
  void StopAt(int n, Stop stop = Stop::kBefore);
  bool stopped() const;

  int count() const;
  // Operations that match, failed ones included.
  int Count(const FileMatcher& matcher) const;
  void ResetCount();  // also empties the log
  std::vector<FileOperationRecord> Log() const;

 private:
  absl::Status Pass(const FileCall& call, absl::FunctionRef<absl::Status()> carry_out) override;

  struct Fault {
    FileMatcher matcher;
    int error_number = 0;
    int remaining = 0;  // 0: always
  };
  // What is to happen with an operation: pass, fail, or stop in one of the ways.
  struct Verdict {
    int number = 0;
    absl::Status failure;
    std::optional<Stop> stop;
  };
  Verdict Begin(const FileCall& call);
  void End(int number, const absl::Status& result);

  mutable absl::Mutex mutex_;
  std::vector<Fault> faults_ ABSL_GUARDED_BY(mutex_);
  std::vector<FileOperationRecord> log_ ABSL_GUARDED_BY(mutex_);
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  int stop_at_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: never
  Stop stop_ ABSL_GUARDED_BY(mutex_) = Stop::kBefore;
};

}  // namespace dra::testing
