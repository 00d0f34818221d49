#include "leftovers.h"

#include "absl/status/status.h"
#include "dra/base/file_system.h"
#include "dra/base/status.h"

namespace dra::sandbox {
namespace {

absl::Status AddFiles(FileSystem& fs, const std::string& directory,
                      std::vector<std::string>* found) {
  const absl::StatusOr<std::vector<std::string>> names = fs.List(directory);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  DRA_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    const std::string path = JoinPath(directory, name);
    DRA_ASSIGN_OR_RETURN(const FileInfo info, fs.Stat(path));
    if (info.type == FileType::kDirectory) {
      DRA_RETURN_IF_ERROR(AddFiles(fs, path, found));
    } else {
      found->push_back(path);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindClaimLeftovers(const std::string& cdi_directory,
                                                            const std::string& data_directory) {
  PosixFileSystem fs;
  std::vector<std::string> found;
  DRA_RETURN_IF_ERROR(AddFiles(fs, cdi_directory, &found));
  for (const char* name : {"claims", "held", "files"}) {
    DRA_RETURN_IF_ERROR(AddFiles(fs, JoinPath(data_directory, name), &found));
  }
  return found;
}

absl::StatusOr<std::vector<std::string>> FindSockets(const std::string& directory) {
  PosixFileSystem fs;
  std::vector<std::string> sockets;
  DRA_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(directory));
  for (const std::string& name : names) {
    DRA_ASSIGN_OR_RETURN(const FileInfo info, fs.Stat(JoinPath(directory, name)));
    if (info.type == FileType::kSocket) sockets.push_back(name);
  }
  return sockets;
}

}  // namespace dra::sandbox
