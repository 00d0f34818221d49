#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/file_system.h"

namespace dra::testing {

enum class FileOperation {
  kReadFile,
  kCreateFile,
  kRename,
  kRemove,
  kRemoveDirectory,
  kMakeDirectory,
  kList,
  kSyncDirectory,
  kStat,
  kReadLink,
};
// "ReadFile", "CreateFile", ...
std::string ToString(FileOperation operation);

// One operation on its way to another FileSystem.
struct FileCall {
  FileOperation operation = FileOperation::kReadFile;
  absl::string_view path = "";
  absl::string_view to = "";        // of a rename
  absl::string_view contents = "";  // of a create
  uint32_t mode = 0;                // of a create
  bool sync = false;                // of a create
};

// Passes every operation on to another FileSystem through one function, where a test counts it, fails it, or ends the
// process before or after it. As thread-safe as that function.
class ForwardingFileSystem : public FileSystem {
 public:
  // base outlives this.
  explicit ForwardingFileSystem(FileSystem* base) : base_(base) {}

  absl::StatusOr<std::string> ReadFile(absl::string_view path, uint64_t max_bytes) override;
  // A kReadFile for Pass.
  absl::StatusOr<std::string> ReadOwnFile(absl::string_view path, uint64_t max_bytes) override;
  absl::Status CreateFile(absl::string_view path, absl::string_view contents, uint32_t mode,
                          bool sync) override;
  absl::Status Rename(absl::string_view from, absl::string_view to) override;
  absl::Status Remove(absl::string_view path) override;
  absl::Status RemoveDirectory(absl::string_view path) override;
  absl::Status MakeDirectory(absl::string_view path, uint32_t mode) override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view path) override;
  absl::Status SyncDirectory(absl::string_view path) override;
  absl::StatusOr<FileInfo> Stat(absl::string_view path, bool follow) override;
  absl::StatusOr<std::string> ReadLink(absl::string_view path) override;

 protected:
  // `carry_out` does the operation on base and gives its status; at most one call. The caller gets what is answered
  // here, and with OK the result of `carry_out`, which must have been called then.
  virtual absl::Status Pass(const FileCall& call, absl::FunctionRef<absl::Status()> carry_out) = 0;
  FileSystem& base() { return *base_; }

 private:
  template <typename T>
  absl::StatusOr<T> PassResult(const FileCall& call,
                               absl::FunctionRef<absl::StatusOr<T>()> function);

  FileSystem* const base_;
};

}  // namespace dra::testing
