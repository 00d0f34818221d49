#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dra/base/file_system.h"
#include "dra/driver/config.h"

namespace dra::driver {

// Refuses to start a driver in directories where another user could put, replace or redirect its files: the kubelet's
// two, the driver's own with all that it keeps state in, and the CDI directory. One that is not there yet is fine, it is
// made in one that has been checked. Errors: those of CheckTrustedDirectory. A handful of lstat.
absl::Status CheckDriverPaths(FileSystem& fs, const DaemonConfig& config,
                              absl::string_view driver_name);

}  // namespace dra::driver
