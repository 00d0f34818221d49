#include "driver/path_safety.h"

#include <string>

#include "dra/base/trusted_directory.h"

namespace dra::driver {
namespace {

// What the records layer keeps in a driver's directory.
constexpr absl::string_view kStateDirectories[] = {"claims", "held", "notes", "files",
                                                   "shared-files"};

absl::Status CheckUnlessAbsent(FileSystem& fs, const std::string& path, DirectoryUse use) {
  const absl::Status checked = CheckTrustedDirectory(fs, path, use);
  return absl::IsNotFound(checked) ? absl::OkStatus() : checked;
}

}  // namespace

absl::Status CheckDriverPaths(FileSystem& fs, const DaemonConfig& config,
                              absl::string_view driver_name) {
  const std::string plugins = JoinPath(config.kubelet_root, "plugins");
  const std::string data = JoinPath(plugins, driver_name);
  absl::Status status = CheckUnlessAbsent(fs, JoinPath(config.kubelet_root, "plugins_registry"),
                                          DirectoryUse::kAbove);
  if (status.ok()) status = CheckUnlessAbsent(fs, plugins, DirectoryUse::kAbove);
  if (status.ok()) status = CheckUnlessAbsent(fs, data, DirectoryUse::kOurs);
  for (const absl::string_view name : kStateDirectories) {
    if (status.ok()) status = CheckUnlessAbsent(fs, JoinPath(data, name), DirectoryUse::kOurs);
  }
  if (status.ok()) status = CheckUnlessAbsent(fs, config.cdi_directory, DirectoryUse::kShared);
  return status;
}

}  // namespace dra::driver
