#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/call.h"
#include "dra/base/file_system.h"
#include "dra/records/claim_locks.h"

namespace dra::records {

// Files that a backend keeps for claims, in the driver's data directory:
//   files/<claim uid>/                    a directory that goes with the record
//   shared-files/<sha256>/file            content-addressed, executable, the same path for every claim
//   shared-files/<sha256>/users/<uid>     one empty file for each claim that names it; with the last one all goes
// Any thread.
class ClaimFiles {
 public:
  // fs and locks outlive this.
  ClaimFiles(FileSystem* fs, const ClaimLocks* locks, std::string data_directory);

  // Makes the claim's directory (0700), if it is not there, and returns its path.
  absl::StatusOr<std::string> ClaimDirectory(absl::string_view claim_uid);

  // Stores the bytes (0755), unless they are there already whole, and enters the claim as a user. Returns the path.
  // named: called with the file's name before anything is written, to record the use: one that is recorded but absent
  // is harmless, the reverse would stay for ever.
  absl::StatusOr<std::string> AddShared(absl::string_view claim_uid, absl::string_view bytes,
                                        absl::FunctionRef<void(const std::string& name)> named,
                                        const Call& call);
  // The name of a shared file in a record: its SHA-256.
  static std::string SharedName(absl::string_view bytes);

  // Removes the claim's directory and its use of the shared files.
  absl::Status Remove(absl::string_view claim_uid, const std::vector<std::string>& shared_names,
                      const Call& call);

  // Claims that have a directory or use a shared file, sorted, unique: for the sweep of those without a record.
  absl::StatusOr<std::vector<std::string>> ListClaims();
  // Removes shared files that no claim names any more, and temporary files, that a killed writer left: each under the
  // file's lock, so that one that is being added stays. What is no shared file of ours by name stays as well. Goes on
  // after a failure and returns the first.
  absl::Status SweepShared(const Call& call);
  // Names of shared files that the claim uses. Cost grows with the number of shared files.
  absl::StatusOr<std::vector<std::string>> SharedOf(absl::string_view claim_uid);

 private:
  std::string SharedDirectory(absl::string_view name) const;
  std::string SharedFile(absl::string_view name) const;
  // The file of so many bytes that was added last: its name, "" if there is none.
  std::string LastOfSize(size_t bytes);
  void KeepLast(size_t bytes, const std::string& name);

  FileSystem* const fs_;
  const ClaimLocks* const locks_;
  const std::string files_;
  const std::string shared_;
  absl::Mutex mutex_;
  std::map<size_t, std::string> last_of_size_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::records
