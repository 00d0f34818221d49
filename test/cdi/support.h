#pragma once

#include <stdlib.h>

#include <map>
#include <string>

#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dra::cdi {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char pattern[] = "/tmp/cdi-test-XXXXXX";
    path_ = ::mkdtemp(pattern);
  }
  ~TemporaryDirectory() {
    PosixFileSystem fs;
    (void)RemoveTree(fs, path_);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A host whose device nodes are what the test says; the rest is the real file system's.
class DeviceHost final : public FileSystem {
 public:
  void AddNode(const std::string& path, FileType type, uint32_t major, uint32_t minor,
               uint32_t mode = 0660) {
    FileInfo& info = nodes_[path];
    info.type = type;
    info.mode = mode;
    info.major = major;
    info.minor = minor;
  }
  absl::StatusOr<FileInfo> Stat(absl::string_view path, bool) override {
    const auto node = nodes_.find(std::string(path));
    if (node == nodes_.end()) return absl::NotFoundError("no such file or directory");
    return node->second;
  }
  absl::StatusOr<std::string> ReadFile(absl::string_view, uint64_t) override { return Unused(); }
  absl::Status CreateFile(absl::string_view, absl::string_view, uint32_t, bool) override {
    return Unused();
  }
  absl::Status Rename(absl::string_view, absl::string_view) override { return Unused(); }
  absl::Status Remove(absl::string_view) override { return Unused(); }
  absl::Status RemoveDirectory(absl::string_view) override { return Unused(); }
  absl::Status MakeDirectory(absl::string_view, uint32_t) override { return Unused(); }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view) override { return Unused(); }
  absl::Status SyncDirectory(absl::string_view) override { return Unused(); }
  absl::StatusOr<std::string> ReadLink(absl::string_view) override { return Unused(); }

 private:
  static absl::Status Unused() { return absl::UnimplementedError("only Stat"); }
  std::map<std::string, FileInfo> nodes_;
};

inline Json Parsed(const char* text) { return Json::parse(text); }

}  // namespace dra::cdi
