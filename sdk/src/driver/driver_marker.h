#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dra/base/file_system.h"

namespace dra::driver {

// <kubelet root>/plugins/<driver>/driver.json says that the directory is the data directory of a driver that dra-driver
// runs, or ran: docs/operations.md. Without it a directory is not ours, whatever is in it.
struct DriverMarker {
  std::string driver;
  std::string backend;       // path of the library it ran with
  std::string directory;     // the data directory
  std::string installation;  // DaemonConfig::installation of the process that wrote it
};

// Durable; written only if it says something else.
absl::Status WriteDriverMarker(FileSystem& fs, const DriverMarker& marker);

// The marked directories of this kubelet root, by name. Those with a marker that names another driver, is damaged, a
// link, or of another format are not ours and left out. Errors: the directory, or a marker, cannot be read.
absl::StatusOr<std::vector<DriverMarker>> FindDriverMarkers(FileSystem& fs,
                                                            const std::string& kubelet_root);

std::string DriverMarkerPath(const std::string& directory);

}  // namespace dra::driver
