#include "dra/testing/forwarding_file_system.h"

namespace dra::testing {

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

template <typename T>
absl::StatusOr<T> ForwardingFileSystem::PassResult(
    const FileCall& call, absl::FunctionRef<absl::StatusOr<T>()> function) {
  absl::StatusOr<T> result = absl::InternalError("the operation was not carried out");
  const absl::Status status = Pass(call, [&] {
    result = function();
    return result.status();
  });
  if (!status.ok()) return status;
  return result;
}

absl::StatusOr<std::string> ForwardingFileSystem::ReadFile(absl::string_view path,
                                                           uint64_t max_bytes) {
  return PassResult<std::string>({FileOperation::kReadFile, path},
                                 [&] { return base_->ReadFile(path, max_bytes); });
}

absl::StatusOr<std::string> ForwardingFileSystem::ReadOwnFile(absl::string_view path,
                                                              uint64_t max_bytes) {
  return PassResult<std::string>({FileOperation::kReadFile, path},
                                 [&] { return base_->ReadOwnFile(path, max_bytes); });
}

absl::Status ForwardingFileSystem::CreateFile(absl::string_view path, absl::string_view contents,
                                              uint32_t mode, bool sync) {
  return Pass({FileOperation::kCreateFile, path, "", contents, mode, sync},
              [&] { return base_->CreateFile(path, contents, mode, sync); });
}

absl::Status ForwardingFileSystem::Rename(absl::string_view from, absl::string_view to) {
  return Pass({FileOperation::kRename, from, to}, [&] { return base_->Rename(from, to); });
}

absl::Status ForwardingFileSystem::Remove(absl::string_view path) {
  return Pass({FileOperation::kRemove, path}, [&] { return base_->Remove(path); });
}

absl::Status ForwardingFileSystem::RemoveDirectory(absl::string_view path) {
  return Pass({FileOperation::kRemoveDirectory, path},
              [&] { return base_->RemoveDirectory(path); });
}

absl::Status ForwardingFileSystem::MakeDirectory(absl::string_view path, uint32_t mode) {
  return Pass({FileOperation::kMakeDirectory, path},
              [&] { return base_->MakeDirectory(path, mode); });
}

absl::StatusOr<std::vector<std::string>> ForwardingFileSystem::List(absl::string_view path) {
  return PassResult<std::vector<std::string>>({FileOperation::kList, path},
                                              [&] { return base_->List(path); });
}

absl::Status ForwardingFileSystem::SyncDirectory(absl::string_view path) {
  return Pass({FileOperation::kSyncDirectory, path}, [&] { return base_->SyncDirectory(path); });
}

absl::StatusOr<FileInfo> ForwardingFileSystem::Stat(absl::string_view path, bool follow) {
  return PassResult<FileInfo>({FileOperation::kStat, path},
                              [&] { return base_->Stat(path, follow); });
}

absl::StatusOr<std::string> ForwardingFileSystem::ReadLink(absl::string_view path) {
  return PassResult<std::string>({FileOperation::kReadLink, path},
                                 [&] { return base_->ReadLink(path); });
}

}  // namespace dra::testing
