#include "test/crash/power_cut_file_system.h"

#include <cerrno>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "dra/base/status.h"

namespace dra::crash {
namespace {

absl::Status Failed(int error_number, absl::string_view operation, absl::string_view path) {
  return ErrnoStatus(error_number, absl::StrCat(operation, " ", path));
}

}  // namespace

PowerCutFileSystem::PowerCutFileSystem(std::string root, std::string tmpfs)
    : root_(std::move(root)), tmpfs_(std::move(tmpfs)) {
  const absl::MutexLock lock(&mutex_);
  top_ = NewNode(true, 0755);
  const NodePtr temporary = NewNode(true, 0755);
  const std::string name = BaseName(tmpfs_);
  top_->entries[name] = top_->durable[name] = temporary;
}

void PowerCutFileSystem::CutAt(int n) {
  const absl::MutexLock lock(&mutex_);
  count_ = 0;
  cut_at_ = n;
}

bool PowerCutFileSystem::cut() const {
  const absl::MutexLock lock(&mutex_);
  return cut_at_ > 0 && count_ >= cut_at_;
}

int PowerCutFileSystem::count() const {
  const absl::MutexLock lock(&mutex_);
  return count_;
}

absl::Status PowerCutFileSystem::Begin() {
  ++count_;
  if (cut_at_ > 0 && count_ >= cut_at_) return absl::AbortedError("the power is gone");
  return absl::OkStatus();
}

PowerCutFileSystem::NodePtr PowerCutFileSystem::NewNode(bool directory, uint32_t mode) {
  auto node = std::make_shared<Node>();
  node->directory = directory;
  node->mode = mode;
  node->inode = next_inode_++;
  node->mtime_ns = absl::ToUnixNanos(absl::Now());
  return node;
}

PowerCutFileSystem::NodePtr PowerCutFileSystem::Find(absl::string_view path) const {
  if (!absl::ConsumePrefix(&path, root_)) return nullptr;
  NodePtr node = top_;
  for (const absl::string_view name : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    const auto found = node->entries.find(std::string(name));
    if (found == node->entries.end()) return nullptr;
    node = found->second;
  }
  return node;
}

absl::StatusOr<std::pair<PowerCutFileSystem::NodePtr, std::string>> PowerCutFileSystem::Parent(
    absl::string_view path) const {
  NodePtr directory = Find(DirectoryName(path));
  if (directory == nullptr) return Failed(ENOENT, "look up", path);
  if (!directory->directory) return Failed(ENOTDIR, "look up", path);
  return std::make_pair(std::move(directory), BaseName(path));
}

void PowerCutFileSystem::Apply(Pending changes) {
  for (const Change& change : changes) {
    if (change.node == nullptr) {
      change.directory->entries.erase(change.name);
    } else {
      change.directory->entries[change.name] = change.node;
    }
  }
  pending_.push_back(std::move(changes));
}

void PowerCutFileSystem::Land(const Pending& changes, std::map<const Node*, Entries>* disk) {
  for (const Change& change : changes) {
    Entries& entries =
        disk->emplace(change.directory.get(), change.directory->durable).first->second;
    if (change.node == nullptr) {
      entries.erase(change.name);
    } else {
      entries[change.name] = change.node;
    }
  }
}

std::unique_ptr<PowerCutFileSystem> PowerCutFileSystem::AfterCut(const Survival& survival) const {
  const absl::MutexLock lock(&mutex_);
  std::mt19937 random(survival.seed);
  std::map<const Node*, Entries> disk;  // directories whose entries differ from `durable`
  const size_t prefix = pending_.empty() ? 0 : random() % (pending_.size() + 1);
  for (size_t i = 0; i < pending_.size(); ++i) {
    const bool lands = survival.kind == Survival::kAll ||
                       (survival.kind == Survival::kPrefix && i < prefix) ||
                       (survival.kind == Survival::kRandom && random() % 2 == 0);
    if (lands) Land(pending_[i], &disk);
  }
  auto after = std::make_unique<PowerCutFileSystem>(root_, tmpfs_);
  const absl::MutexLock after_lock(&after->mutex_);
  const std::function<void(const Node&, const std::string&, Node*)> copy =
      [&](const Node& from, const std::string& path, Node* to) ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const auto changed = disk.find(&from);
        for (const auto& [name, node] : changed == disk.end() ? from.durable : changed->second) {
          const std::string child = absl::StrCat(path, "/", name);
          if (child == tmpfs_) continue;
          const NodePtr made = after->NewNode(node->directory, node->mode);
          if (node->directory) copy(*node, child, made.get());
          made->content = node->content;
          made->synced = true;
          if (!node->synced && survival.kind != Survival::kAll) {
            const size_t size = node->content.size();
            const size_t kept[] = {0, size / 2, size};
            made->content.resize(kept[random() % 3]);
          }
          to->entries[name] = to->durable[name] = made;
        }
      };
  copy(*top_, root_, after->top_.get());
  return after;
}

std::vector<std::string> PowerCutFileSystem::Files() const {
  const absl::MutexLock lock(&mutex_);
  std::vector<std::string> files;
  const std::function<void(const Node&, const std::string&)> walk = [&](const Node& node,
                                                                        const std::string& path) {
    for (const auto& [name, child] : node.entries) {
      const std::string child_path = absl::StrCat(path, "/", name);
      if (child->directory) {
        walk(*child, child_path);
      } else {
        files.push_back(child_path);
      }
    }
  };
  walk(*top_, root_);
  return files;
}

absl::StatusOr<std::string> PowerCutFileSystem::ReadFile(absl::string_view path,
                                                         uint64_t max_bytes) {
  const absl::MutexLock lock(&mutex_);
  DRA_RETURN_IF_ERROR(Begin());
  const NodePtr node = Find(path);
  if (node == nullptr) return Failed(ENOENT, "open", path);
  if (node->directory) return Failed(EISDIR, "read", path);
  if (node->content.size() > max_bytes)
    return absl::ResourceExhaustedError(absl::StrCat(path, ": larger than ", max_bytes, " bytes"));
  return node->content;
}

absl::Status PowerCutFileSystem::CreateFile(absl::string_view path, absl::string_view contents,
                                            uint32_t mode, bool sync) {
  const absl::MutexLock lock(&mutex_);
  DRA_RETURN_IF_ERROR(Begin());
  DRA_ASSIGN_OR_RETURN(const auto parent, Parent(path));
  if (parent.first->entries.contains(parent.second)) return Failed(EEXIST, "create", path);
  const NodePtr node = NewNode(false, mode);
  node->content = std::string(contents);
  node->synced = sync;
  Apply({{parent.first, parent.second, node}});
  return absl::OkStatus();
}

absl::Status PowerCutFileSystem::Rename(absl::string_view from, absl::string_view to) {
  const absl::MutexLock lock(&mutex_);
  DRA_RETURN_IF_ERROR(Begin());
  DRA_ASSIGN_OR_RETURN(const auto source, Parent(from));
  DRA_ASSIGN_OR_RETURN(const auto target, Parent(to));
  const auto node = source.first->entries.find(source.second);
  if (node == source.first->entries.end()) return Failed(ENOENT, "rename", from);
  Apply({{source.first, source.second, nullptr}, {target.first, target.second, node->second}});
  return absl::OkStatus();
}

absl::Status PowerCutFileSystem::Remove(absl::string_view path) {
  const absl::MutexLock lock(&mutex_);
  DRA_RETURN_IF_ERROR(Begin());
  DRA_ASSIGN_OR_RETURN(const auto parent, Parent(path));
  const auto node = parent.first->entries.find(parent.second);
  if (node == parent.first->entries.end()) return Failed(ENOENT, "remove", path);
  if (node->second->directory) return Failed(EISDIR, "remove", path);
  Apply({{parent.first, parent.second, nullptr}});
  return absl::OkStatus();
}

absl::Status PowerCutFileSystem::RemoveDirectory(absl::string_view path) {
  const absl::MutexLock lock(&mutex_);
  DRA_RETURN_IF_ERROR(Begin());
  DRA_ASSIGN_OR_RETURN(const auto parent, Parent(path));
  const auto node = parent.first->entries.find(parent.second);
  if (node == parent.first->entries.end()) return Failed(ENOENT, "remove directory", path);
  if (!node->second->directory) return Failed(ENOTDIR, "remove directory", path);
  if (!node->second->entries.empty()) return Failed(ENOTEMPTY, "remove directory", path);
  Apply({{parent.first, parent.second, nullptr}});
  return absl::OkStatus();
}

absl::Status PowerCutFileSystem::MakeDirectory(absl::string_view path, uint32_t mode) {
  const absl::MutexLock lock(&mutex_);
  DRA_RETURN_IF_ERROR(Begin());
  DRA_ASSIGN_OR_RETURN(const auto parent, Parent(path));
  const auto node = parent.first->entries.find(parent.second);
  if (node != parent.first->entries.end()) {
    return node->second->directory ? absl::OkStatus() : Failed(EEXIST, "make directory", path);
  }
  Apply({{parent.first, parent.second, NewNode(true, mode)}});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> PowerCutFileSystem::List(absl::string_view path) {
  const absl::MutexLock lock(&mutex_);
  DRA_RETURN_IF_ERROR(Begin());
  const NodePtr node = Find(path);
  if (node == nullptr) return Failed(ENOENT, "list", path);
  if (!node->directory) return Failed(ENOTDIR, "list", path);
  std::vector<std::string> names;
  for (const auto& [name, child] : node->entries) names.push_back(name);
  return names;
}

absl::Status PowerCutFileSystem::SyncDirectory(absl::string_view path) {
  const absl::MutexLock lock(&mutex_);
  DRA_RETURN_IF_ERROR(Begin());
  const NodePtr node = Find(path);
  if (node == nullptr) return Failed(ENOENT, "sync", path);
  std::map<const Node*, Entries> disk;
  std::map<const Node*, NodePtr> touched;
  std::vector<Pending> left;
  for (Pending& changes : pending_) {
    bool here = false;
    for (const Change& change : changes) here = here || change.directory == node;
    if (!here) {
      left.push_back(std::move(changes));
      continue;
    }
    Land(changes, &disk);
    for (const Change& change : changes) touched[change.directory.get()] = change.directory;
  }
  for (auto& [directory, entries] : disk) touched[directory]->durable = std::move(entries);
  pending_ = std::move(left);
  return absl::OkStatus();
}

absl::StatusOr<FileInfo> PowerCutFileSystem::Stat(absl::string_view path, bool) {
  const absl::MutexLock lock(&mutex_);
  DRA_RETURN_IF_ERROR(Begin());
  const NodePtr node = Find(path);
  if (node == nullptr) return Failed(ENOENT, "stat", path);
  FileInfo info;
  info.type = node->directory ? FileType::kDirectory : FileType::kRegular;
  info.mode = node->mode;
  info.size = node->content.size();
  info.inode = node->inode;
  info.mtime_ns = node->mtime_ns;
  return info;
}

absl::StatusOr<std::string> PowerCutFileSystem::ReadLink(absl::string_view path) {
  const absl::MutexLock lock(&mutex_);
  DRA_RETURN_IF_ERROR(Begin());
  return Failed(EINVAL, "read link", path);
}

}  // namespace dra::crash
