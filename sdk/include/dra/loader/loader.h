#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/loader/backend_handle.h"

namespace dra::loader {

struct LoadOptions {
  // Threads for hooks; when all are busy a further hook waits within its time. Unprepare and destroy have
  // `reserved_threads` of their own.
  int hook_threads = 32;
  int reserved_threads = 8;
  // Hooks that overran their limit and have not returned. Beyond this many the backend gets no more calls
  // (Unavailable) until some return.
  int max_stuck_hooks = 8;
  // For tests: a limit for every hook, in place of the manifest's.
  absl::Duration hook_limit_override = absl::ZeroDuration();
};

// Loads a backend library into this process. It stays loaded until the process ends.
//
// path: absolute, a regular file of this machine's architecture, which not everybody may write.
// Errors, each with its own text that names the path and says what to do: InvalidArgument (relative path), NotFound,
//   FailedPrecondition (directory, not a library, other architecture, unresolved symbol with dlerror's text, no entry
//   symbol, other major, newer host needed, short table, missing function, manifest that is junk), PermissionDenied
//   (world-writable, or in a directory where everybody may replace it). Nothing thrown or junk gets through.
// The handle is safe to use from any thread. Host callbacks that arrive after it is gone are refused. Destroy the
// handle when no call is in progress.
absl::StatusOr<std::unique_ptr<BackendHandle>> LoadBackend(absl::string_view path,
                                                           const LoadOptions& options = {});

// One file of a directory of backends.
struct BackendFile {
  enum class State { kUsable, kRefused, kNotABackend };
  std::string path;
  std::string name;     // as the library declares it; "" if it could not be asked
  std::string version;  // of the backend
  State state = State::kNotABackend;
  std::string
      cause;  // why it is refused; for a usable one a warning (name differs from the file's), or ""
};

// Every file of `directory`, sorted by name; each *.so is loaded and asked. Nothing is cached: a changed file is judged
// anew, except that a library loaded before keeps its old code (the cause says so).
// Errors: NotFound, Unavailable if the directory cannot be listed.
absl::StatusOr<std::vector<BackendFile>> ListBackends(absl::string_view directory);

// What a file was when it was loaded.
struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t changed_ns = 0;  // st_mtim
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// OK while the file at `path` is the one loaded; FailedPrecondition if it was replaced or removed: the old code keeps
// running until the process is restarted. `handle` must come from LoadBackend.
absl::Status CheckUnchanged(const BackendHandle& handle);

}  // namespace dra::loader
