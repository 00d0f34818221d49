#include "dra/base/file_system.h"

#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"

namespace dra {

absl::StatusOr<std::string> FileSystem::ReadOwnFile(absl::string_view path, uint64_t max_bytes) {
  DRA_ASSIGN_OR_RETURN(const FileInfo info, Stat(path));
  if (info.type == FileType::kSymlink) {
    return absl::FailedPreconditionError(
        absl::StrCat("read ", path, ": is a symbolic link, which is not followed here"));
  }
  return ReadFile(path, max_bytes);
}

absl::StatusOr<bool> FileSystem::OwnFileIs(absl::string_view path, absl::string_view contents,
                                           uint32_t mode) {
  const absl::StatusOr<FileInfo> info = Stat(path);
  if (absl::IsNotFound(info.status())) return false;
  DRA_RETURN_IF_ERROR(info.status());
  if (info->type != FileType::kRegular || info->mode != mode || info->uid != ::geteuid() ||
      info->size != contents.size()) {
    return false;
  }
  DRA_ASSIGN_OR_RETURN(const std::string stored, ReadOwnFile(path, contents.size() + 1));
  return stored == contents;
}

absl::Status WriteFileAtomically(FileSystem& fs, absl::string_view path, absl::string_view contents,
                                 uint32_t mode, Durability durability) {
  const std::string directory = DirectoryName(path);
  const std::string temporary =
      JoinPath(directory, absl::StrCat(".", BaseName(path), ".", RandomHex(8), ".tmp"));
  const bool durable = durability == Durability::kDurable;
  absl::Status status = fs.CreateFile(temporary, contents, mode, durable);
  if (status.ok()) status = fs.Rename(temporary, path);
  if (!status.ok()) {
    (void)fs.Remove(temporary);  // the first error is the one to report
    return status;
  }
  return durable ? fs.SyncDirectory(directory) : absl::OkStatus();
}

bool IsTemporaryName(absl::string_view name) {
  return absl::StartsWith(name, ".") && absl::EndsWith(name, ".tmp");
}

absl::Status MakeDirectories(FileSystem& fs, absl::string_view path, uint32_t mode) {
  const absl::StatusOr<FileInfo> info = fs.Stat(path, /*follow=*/true);
  if (info.ok()) {
    if (info->type == FileType::kDirectory) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(path, ": exists and is not a directory"));
  }
  if (!absl::IsNotFound(info.status())) return info.status();
  const std::string parent = DirectoryName(path);
  if (parent != path) DRA_RETURN_IF_ERROR(MakeDirectories(fs, parent, 0755));
  return fs.MakeDirectory(path, mode);
}

absl::Status RemoveIfExists(FileSystem& fs, absl::string_view path) {
  const absl::Status removed = fs.Remove(path);
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

absl::Status RemoveTree(FileSystem& fs, absl::string_view path) {
  const absl::StatusOr<FileInfo> info = fs.Stat(path);
  if (absl::IsNotFound(info.status())) return absl::OkStatus();
  DRA_RETURN_IF_ERROR(info.status());
  if (info->type != FileType::kDirectory) return RemoveIfExists(fs, path);
  DRA_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(path));
  for (const std::string& name : names) DRA_RETURN_IF_ERROR(RemoveTree(fs, JoinPath(path, name)));
  const absl::Status removed = fs.RemoveDirectory(path);
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

std::string JoinPath(absl::string_view directory, absl::string_view name) {
  while (directory.size() > 1 && absl::EndsWith(directory, "/")) directory.remove_suffix(1);
  while (absl::StartsWith(name, "/")) name.remove_prefix(1);
  if (directory == "/") return absl::StrCat("/", name);
  return absl::StrCat(directory, "/", name);
}

std::string BaseName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == absl::string_view::npos ? path : path.substr(slash + 1));
}

std::string DirectoryName(absl::string_view path) {
  while (path.size() > 1 && absl::EndsWith(path, "/")) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

}  // namespace dra
