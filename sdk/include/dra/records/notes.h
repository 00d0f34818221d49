#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/base/file_system.h"

namespace dra::records {

// Whose keys a note belongs to; they never meet.
enum class NoteOwner { kHost, kBackend };

// Small durable values per device identity and key (last health, loaded image, previous setting): one file each,
// <directory>/<host|backend>/<identity hash>/<key hash>.json. They outlive claims, restarts and reboots. Any thread;
// of two writers at once the last wins.
class Notes {
 public:
  // fs outlives this. Directories are made by the first Put; that in which `directory` is must be durable already.
  Notes(FileSystem* fs, std::string directory);

  // The value. Errors: NotFound if none was stored; DataLoss if the file is damaged; InvalidArgument for an empty
  // identity or key.
  absl::StatusOr<std::string> Get(NoteOwner owner, absl::string_view identity,
                                  absl::string_view key) const;
  // Durable when it returns. An empty value is a value. Errors: InvalidArgument for an empty identity or key, or more
  // than 64 KiB.
  absl::Status Put(NoteOwner owner, absl::string_view identity, absl::string_view key,
                   absl::string_view value) const;

  // The paths of temporary files: left by a killed writer, or being written now. Notes have no lock that would tell; a
  // name is never used twice, so one that is still there after a while was left.
  absl::StatusOr<std::vector<std::string>> ListTemporaries() const;

 private:
  std::string DirectoryFor(NoteOwner owner, absl::string_view identity) const;
  // Makes the entry of the identity's directory durable, and those of its parents up to `directory`.
  absl::Status SyncWayTo(const std::string& identity_directory) const;

  FileSystem* const fs_;
  const std::string directory_;
};

}  // namespace dra::records
