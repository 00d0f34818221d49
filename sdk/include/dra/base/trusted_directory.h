#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dra/base/file_system.h"

namespace dra {

enum class DirectoryUse {
  kOurs,  // made and written by us alone: no symbolic link, and neither group nor others may write
  kShared,  // others have files in it too (CDI): no symbolic link; others may write if it is sticky
  kAbove,  // the kubelet's: as kShared, but it may be a symbolic link to elsewhere, as relocated roots are
};

// Refuses a directory in which another user could put, replace or redirect a file of ours: not a directory, a symbolic
// link, an owner that is neither root nor this process's user, or a mode that lets others write. Symbolic links further
// up are followed: who can change those is root. Errors: FailedPrecondition that names path, owner, mode and the cure;
// NotFound and the like as the file system says them. Any thread.
absl::Status CheckTrustedDirectory(FileSystem& fs, absl::string_view path, DirectoryUse use);

}  // namespace dra
