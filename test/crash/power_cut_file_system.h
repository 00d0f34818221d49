#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/file_system.h"

namespace dra::crash {

// How much of what was not synced reaches the disk before the power goes.
struct Survival {
  enum Kind { kAll, kNone, kPrefix, kRandom };
  Kind kind = kAll;
  uint32_t seed = 0;  // of kPrefix and kRandom, and of what is left of unsynced files
};

// A file system in memory that knows what an fsync has made durable. A file that was created without sync may be empty,
// half or whole after a cut. The entries of a directory (creations, renames, removals) are durable once the directory
// was synced; until then a cut keeps any of them, whatever their order: each is atomic, no more. A directory whose own
// entry is not durable goes with all that is in it. Any thread.
class PowerCutFileSystem final : public FileSystem {
 public:
  // `tmpfs` (below `root`) is empty after a cut. Both are there at once, and durable.
  PowerCutFileSystem(std::string root, std::string tmpfs);

  // Operation number `n` from now (1: the next) and all later ones answer Aborted: the power went before it.
  void CutAt(int n);
  bool cut() const;
  // Operations since the construction or CutAt.
  int count() const;

  // A disk as it may be found after the power has come back; this one stays as it is.
  std::unique_ptr<PowerCutFileSystem> AfterCut(const Survival& survival) const;
  // Paths of all files.
  std::vector<std::string> Files() const;

  absl::StatusOr<std::string> ReadFile(absl::string_view path, uint64_t max_bytes) override;
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
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  using Entries = std::map<std::string, NodePtr, std::less<>>;
  struct Node {
    bool directory = false;
    uint32_t mode = 0;
    uint64_t inode = 0;
    int64_t mtime_ns = 0;
    std::string content;
    bool synced = false;
    Entries entries;  // as programs see them
    Entries durable;  // as the disk has them
  };
  struct Change {
    NodePtr directory;
    std::string name;
    NodePtr node;  // null: the entry goes
  };
  using Pending = std::vector<Change>;  // one atomic operation

  absl::Status Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  NodePtr Find(absl::string_view path) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The directory of `path` and the last component.
  absl::StatusOr<std::pair<NodePtr, std::string>> Parent(absl::string_view path) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  NodePtr NewNode(bool directory, uint32_t mode) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Apply(Pending changes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Land(const Pending& changes, std::map<const Node*, Entries>* disk);

  const std::string root_;
  const std::string tmpfs_;
  mutable absl::Mutex mutex_;
  NodePtr top_ ABSL_GUARDED_BY(mutex_);
  std::vector<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_inode_ ABSL_GUARDED_BY(mutex_) = 1;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  int cut_at_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: never
};

}  // namespace dra::crash
