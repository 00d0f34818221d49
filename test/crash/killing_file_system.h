#pragma once

#include <string>
#include <vector>

#include "dra/base/file_system.h"
#include "test/crash/kill_points.h"

namespace dra::crash {

// The kernel's file system with a kill point before and after each operation, and one with half of the bytes written for
// the creation of a file. Reading operations have only the point before: what is on disk after them is the same.
// Serves another boot id than the machine's, for a "reboot" of this process alone. Any thread.
class KillingFileSystem final : public FileSystem {
 public:
  // points outlives this. root: see PathClass. boot_id: "" = the machine's.
  KillingFileSystem(KillPoints* points, std::string root, std::string boot_id);

  absl::StatusOr<std::string> ReadFile(absl::string_view path, uint64_t max_bytes) override;
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

 private:
  // "<operation> <path class>", or "" when nobody counts.
  std::string Label(absl::string_view operation, absl::string_view path) const;
  void Reach(const std::string& label, absl::string_view when);
  template <typename Result, typename Function>
  Result Change(absl::string_view operation, absl::string_view path, Function function);

  KillPoints* const points_;
  const std::string root_;
  const std::string boot_id_;
  PosixFileSystem base_;
};

}  // namespace dra::crash
