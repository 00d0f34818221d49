#include "test/crash/killing_file_system.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dra::crash {

KillingFileSystem::KillingFileSystem(KillPoints* points, std::string root, std::string boot_id)
    : points_(points), root_(std::move(root)), boot_id_(std::move(boot_id)) {}

std::string KillingFileSystem::Label(absl::string_view operation, absl::string_view path) const {
  if (!points_->armed()) return "";
  return absl::StrCat(operation, " ", PathClass(path, root_));
}

void KillingFileSystem::Reach(const std::string& label, absl::string_view when) {
  if (!label.empty()) points_->Reach(absl::StrCat(label, " ", when));
}

template <typename Result, typename Function>
Result KillingFileSystem::Change(absl::string_view operation, absl::string_view path,
                                 Function function) {
  const std::string label = Label(operation, path);
  Reach(label, "before");
  Result result = function();
  Reach(label, "after");
  return result;
}

absl::StatusOr<std::string> KillingFileSystem::ReadFile(absl::string_view path,
                                                        uint64_t max_bytes) {
  Reach(Label("ReadFile", path), "before");
  if (!boot_id_.empty() && absl::EndsWith(path, "/random/boot_id")) return boot_id_;
  return base_.ReadFile(path, max_bytes);
}

absl::StatusOr<std::string> KillingFileSystem::ReadOwnFile(absl::string_view path,
                                                           uint64_t max_bytes) {
  Reach(Label("ReadFile", path), "before");
  return base_.ReadOwnFile(path, max_bytes);
}

absl::Status KillingFileSystem::CreateFile(absl::string_view path, absl::string_view contents,
                                           uint32_t mode, bool sync) {
  const std::string label = Label("CreateFile", path);
  Reach(label, "before");
  if (!label.empty() && points_->IsTheOne(absl::StrCat(label, " torn"))) {
    // The mode too is only set when all is written.
    (void)base_.CreateFile(path, contents.substr(0, contents.size() / 2), 0600, false);
    KillPoints::Die();
  }
  absl::Status status = base_.CreateFile(path, contents, mode, sync);
  Reach(label, "after");
  return status;
}

absl::Status KillingFileSystem::Rename(absl::string_view from, absl::string_view to) {
  return Change<absl::Status>("Rename", to, [&] { return base_.Rename(from, to); });
}

absl::Status KillingFileSystem::Remove(absl::string_view path) {
  return Change<absl::Status>("Remove", path, [&] { return base_.Remove(path); });
}

absl::Status KillingFileSystem::RemoveDirectory(absl::string_view path) {
  return Change<absl::Status>("RemoveDirectory", path, [&] { return base_.RemoveDirectory(path); });
}

absl::Status KillingFileSystem::MakeDirectory(absl::string_view path, uint32_t mode) {
  return Change<absl::Status>("MakeDirectory", path,
                              [&] { return base_.MakeDirectory(path, mode); });
}

absl::StatusOr<std::vector<std::string>> KillingFileSystem::List(absl::string_view path) {
  Reach(Label("List", path), "before");
  return base_.List(path);
}

absl::Status KillingFileSystem::SyncDirectory(absl::string_view path) {
  return Change<absl::Status>("SyncDirectory", path, [&] { return base_.SyncDirectory(path); });
}

absl::StatusOr<FileInfo> KillingFileSystem::Stat(absl::string_view path, bool follow) {
  Reach(Label("Stat", path), "before");
  return base_.Stat(path, follow);
}

absl::StatusOr<std::string> KillingFileSystem::ReadLink(absl::string_view path) {
  Reach(Label("ReadLink", path), "before");
  return base_.ReadLink(path);
}

}  // namespace dra::crash
