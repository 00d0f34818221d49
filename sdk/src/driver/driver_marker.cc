#include "driver/driver_marker.h"

#include <utility>

#include "dra/base/json.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"

namespace dra::driver {
namespace {

constexpr uint64_t kMaxBytes = 64u << 10;

}  // namespace

std::string DriverMarkerPath(const std::string& directory) {
  return JoinPath(directory, "driver.json");
}

absl::Status WriteDriverMarker(FileSystem& fs, const DriverMarker& marker) {
  const std::string text = DumpJsonPretty({{"format", 1},
                                           {"driver", marker.driver},
                                           {"backend", marker.backend},
                                           {"installation", marker.installation}});
  const std::string path = DriverMarkerPath(marker.directory);
  const absl::StatusOr<std::string> stored = fs.ReadOwnFile(path, kMaxBytes);
  if (stored.ok() && *stored == text) return absl::OkStatus();
  return Annotate(WriteFileAtomically(fs, path, text, 0644, Durability::kDurable),
                  "write the driver's marker");
}

absl::StatusOr<std::vector<DriverMarker>> FindDriverMarkers(FileSystem& fs,
                                                            const std::string& kubelet_root) {
  const std::string plugins = JoinPath(kubelet_root, "plugins");
  std::vector<DriverMarker> markers;
  const absl::StatusOr<std::vector<std::string>> names = fs.List(plugins);
  if (absl::IsNotFound(names.status())) return markers;
  DRA_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    const std::string directory = JoinPath(plugins, name);
    const absl::StatusOr<FileInfo> info = fs.Stat(directory);
    if (absl::IsNotFound(info.status())) continue;
    DRA_RETURN_IF_ERROR(info.status());
    if (info->type != FileType::kDirectory) continue;
    const absl::StatusOr<std::string> text = fs.ReadOwnFile(DriverMarkerPath(directory), kMaxBytes);
    // A link in its place is somebody else's.
    if (absl::IsNotFound(text.status()) || absl::IsFailedPrecondition(text.status())) continue;
    DRA_RETURN_IF_ERROR(text.status());
    const absl::StatusOr<Json> json = ParseJsonObject(*text, name);
    if (!json.ok() || IntOr(*json, "format") != 1 || StringOr(*json, "driver") != name) continue;
    markers.push_back(
        {name, StringOr(*json, "backend"), directory, StringOr(*json, "installation")});
  }
  return markers;
}

}  // namespace dra::driver
