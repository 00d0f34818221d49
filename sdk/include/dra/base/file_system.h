#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dra {

enum class FileType {
  kRegular,
  kDirectory,
  kSymlink,
  kSocket,
  kCharDevice,
  kBlockDevice,
  kFifo,
  kOther
};

struct FileInfo {
  FileType type = FileType::kOther;
  uint32_t mode = 0;  // permission bits only, as 0644
  uint64_t size = 0;  // bytes
  uint64_t inode = 0;
  uint64_t device = 0;  // st_dev
  uint32_t uid = 0;
  int64_t mtime_ns = 0;  // since the epoch
  uint32_t major = 0;    // of a device node
  uint32_t minor = 0;
};

// The file operations of the SDK, one virtual each, so that a test can fail or stop the process at any of them.
// Paths are absolute. Errors are ErrnoStatus with the path in the text: NotFound only for ENOENT (and ENOTDIR on
// look-ups is an error, not "absent"). Any thread.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // The whole file. Refuses anything but a regular file, and files over `max_bytes` (ResourceExhausted).
  virtual absl::StatusOr<std::string> ReadFile(absl::string_view path,
                                               uint64_t max_bytes = 64u << 20) = 0;
  // The same for a file that is ours alone: a symbolic link in its place is refused (FailedPrecondition), not followed.
  // By default an lstat and a ReadFile.
  virtual absl::StatusOr<std::string> ReadOwnFile(absl::string_view path,
                                                  uint64_t max_bytes = 64u << 20);
  // Whether a file that is ours alone (see ReadOwnFile), of our user and with these permission bits, has exactly these
  // contents. False also if it is absent, or something else lies in its place. By default a Stat and a ReadOwnFile.
  virtual absl::StatusOr<bool> OwnFileIs(absl::string_view path, absl::string_view contents,
                                         uint32_t mode);
  // Creates `path` (it must not exist; no symlink is followed), writes, and with `sync` fsyncs, before the mode is final.
  virtual absl::Status CreateFile(absl::string_view path, absl::string_view contents, uint32_t mode,
                                  bool sync) = 0;
  // rename(2): replaces `to`.
  virtual absl::Status Rename(absl::string_view from, absl::string_view to) = 0;
  virtual absl::Status Remove(absl::string_view path) = 0;
  // As Remove, for a file whose space nobody waits for: it is given back by FreeRemoved, which whoever has removed
  // something calls once it has answered. Freeing blocks can take longer than all the rest (a disk mounted with
  // `discard`). By default a Remove.
  virtual absl::Status RemoveName(absl::string_view path) { return Remove(path); }
  virtual void FreeRemoved() {}
  virtual absl::Status RemoveDirectory(absl::string_view path) = 0;
  // Makes one directory; OK if it is there already as a directory.
  virtual absl::Status MakeDirectory(absl::string_view path, uint32_t mode) = 0;
  // Entry names without "." and "..", sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(absl::string_view path) = 0;
  // fsync of a directory. Callers who meet share one, which starts after the last of them has come.
  virtual absl::Status SyncDirectory(absl::string_view path) = 0;
  // lstat, or stat with `follow`.
  virtual absl::StatusOr<FileInfo> Stat(absl::string_view path, bool follow = false) = 0;
  virtual absl::StatusOr<std::string> ReadLink(absl::string_view path) = 0;
};

// The kernel's file system.
class PosixFileSystem final : public FileSystem {
 public:
  PosixFileSystem();
  ~PosixFileSystem() override;

  absl::StatusOr<std::string> ReadFile(absl::string_view path,
                                       uint64_t max_bytes = 64u << 20) override;
  absl::StatusOr<std::string> ReadOwnFile(absl::string_view path,
                                          uint64_t max_bytes = 64u << 20) override;
  absl::StatusOr<bool> OwnFileIs(absl::string_view path, absl::string_view contents,
                                 uint32_t mode) override;
  absl::Status CreateFile(absl::string_view path, absl::string_view contents, uint32_t mode,
                          bool sync) override;
  absl::Status Rename(absl::string_view from, absl::string_view to) override;
  absl::Status Remove(absl::string_view path) override;
  absl::Status RemoveName(absl::string_view path) override;
  void FreeRemoved() override;
  absl::Status RemoveDirectory(absl::string_view path) override;
  absl::Status MakeDirectory(absl::string_view path, uint32_t mode) override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view path) override;
  absl::Status SyncDirectory(absl::string_view path) override;
  absl::StatusOr<FileInfo> Stat(absl::string_view path, bool follow = false) override;
  absl::StatusOr<std::string> ReadLink(absl::string_view path) override;

 private:
  struct Shared;
  const std::unique_ptr<Shared> shared_;
};

enum class Durability {
  kDurable,   // fsync of the file and of its directory: survives a power cut when the call returns
  kVolatile,  // renamed into place only: never half written, may be gone after a power cut
};

// Writes `contents` to `path` so that a reader sees the old file or the new one, never a part: a temporary file
// ".<name>.<random>.tmp" in the same directory (ignored by CDI scanners), then rename. The temporary file is removed
// when a step fails; IsTemporaryName finds the ones a kill left.
absl::Status WriteFileAtomically(FileSystem& fs, absl::string_view path, absl::string_view contents,
                                 uint32_t mode, Durability durability);

// True for the names WriteFileAtomically gives its temporary files.
bool IsTemporaryName(absl::string_view name);

// mkdir -p: parents 0755, the last with `mode`. OK if all are there.
absl::Status MakeDirectories(FileSystem& fs, absl::string_view path, uint32_t mode);

// OK also if the file is absent.
absl::Status RemoveIfExists(FileSystem& fs, absl::string_view path);

// Removes a directory and what is in it (symlinks are removed, not followed). OK if it is absent.
absl::Status RemoveTree(FileSystem& fs, absl::string_view path);

// "a/b" + "c" -> "a/b/c", with exactly one slash between.
std::string JoinPath(absl::string_view directory, absl::string_view name);
// "/a/b/c" -> "c"; "/a/b/c" -> "/a/b".
std::string BaseName(absl::string_view path);
std::string DirectoryName(absl::string_view path);

}  // namespace dra
