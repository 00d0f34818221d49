#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dra/base/call.h"
#include "dra/loader/backend_handle.h"

namespace dra::loader {

// Output kept of a helper; the rest is read and dropped, so that it does not block.
inline constexpr size_t kMaxHelperOutputBytes = 64 << 10;

// Runs a child process to its end, for HostServices::RunHelper.
//
// argv[0]: absolute path; no shell, no PATH. The child has its own process group, empty stdin, no other descriptor of
// ours, default signals and our environment; stdout and stderr come back in one. When it ends, when `call` ends or is
// cancelled, its whole group is killed: a daemon that is to stay must leave the group (setsid).
// Result: exit code, or 128 + signal. Errors: InvalidArgument (no or relative argv[0]), NotFound, PermissionDenied,
//   DeadlineExceeded and Cancelled with the program's name, Internal.
// Any thread. posix_spawn, never fork: the daemon runs gRPC.
absl::StatusOr<HostServices::HelperResult> RunHelperProcess(const std::vector<std::string>& argv,
                                                            const Call& call);

}  // namespace dra::loader
