#pragma once

#include <string>
#include <utility>
#include <vector>

#include "dra/base/file_system.h"

namespace dra::fuzz {

// A machine on which there is at most one file.
class AbsentFileSystem final : public FileSystem {
 public:
  AbsentFileSystem() = default;
  AbsentFileSystem(std::string path, std::string contents)
      : path_(std::move(path)), contents_(std::move(contents)) {}

  absl::StatusOr<std::string> ReadFile(absl::string_view path, uint64_t) override {
    if (!path_.empty() && path == path_) return contents_;
    return Absent(path);
  }
  absl::Status CreateFile(absl::string_view path, absl::string_view, uint32_t, bool) override {
    return Absent(path);
  }
  absl::Status Rename(absl::string_view from, absl::string_view) override { return Absent(from); }
  absl::Status Remove(absl::string_view path) override { return Absent(path); }
  absl::Status RemoveDirectory(absl::string_view path) override { return Absent(path); }
  absl::Status MakeDirectory(absl::string_view path, uint32_t) override { return Absent(path); }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view path) override {
    return Absent(path);
  }
  absl::Status SyncDirectory(absl::string_view path) override { return Absent(path); }
  absl::StatusOr<FileInfo> Stat(absl::string_view path, bool) override { return Absent(path); }
  absl::StatusOr<std::string> ReadLink(absl::string_view path) override { return Absent(path); }

 private:
  static absl::Status Absent(absl::string_view path) { return absl::NotFoundError(path); }

  const std::string path_;
  const std::string contents_;
};

}  // namespace dra::fuzz
