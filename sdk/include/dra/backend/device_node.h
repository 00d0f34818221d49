#pragma once

#include <filesystem>
#include <string>
#include <system_error>

#include "dra/backend/error.h"
#include "nlohmann/json.hpp"

namespace dra {

using Json = nlohmann::json;

struct DeviceNodeOptions {
  std::string container_path = {};  // "": the same as on the host
  std::string permissions = {};     // of "r", "w", "m"; "": the runtime's default, all three
  std::string root = {};  // where the host's root is mounted for this process; only for the check
};

// One CDI deviceNodes entry for a device file of the host. No major and minor: the runtime reads
// them when the container starts, so they stay right after a reboot. Throws DRA_INVALID_ARGUMENT
// for a relative path or other permissions, DRA_NOT_FOUND if it is not there or no character or
// block device.
inline Json DeviceNode(const std::string& host_path, const DeviceNodeOptions& options = {}) {
  const std::string& container_path =
      options.container_path.empty() ? host_path : options.container_path;
  for (const std::string& path : {host_path, container_path}) {
    if (path.empty() || path.front() != '/') {
      throw BackendError(DRA_INVALID_ARGUMENT,
                         "device node \"" + path + "\": the path must be absolute");
    }
  }
  if (options.permissions.find_first_not_of("rwm") != std::string::npos) {
    throw BackendError(DRA_INVALID_ARGUMENT, "device node " + host_path + ": permissions \"" +
                                                 options.permissions +
                                                 "\" are not made of r, w, m");
  }
  std::error_code error;
  const std::filesystem::file_status status =
      std::filesystem::status(options.root + host_path, error);
  if (!std::filesystem::is_character_file(status) && !std::filesystem::is_block_file(status)) {
    throw BackendError(DRA_NOT_FOUND, "device node " + options.root + host_path +
                                          (std::filesystem::exists(status) ? " is no device file"
                                                                           : " is not there"));
  }
  Json node = {{"path", container_path}};
  if (container_path != host_path) node["hostPath"] = host_path;
  if (!options.permissions.empty()) node["permissions"] = options.permissions;
  return node;
}

// Adds it to CDI containerEdits. Adding the same container path twice changes nothing.
inline void AddDeviceNode(Json& edits, const std::string& host_path,
                          const DeviceNodeOptions& options = {}) {
  const Json node = DeviceNode(host_path, options);
  if (!edits.is_object()) edits = Json::object();
  Json& nodes = edits["deviceNodes"];
  if (!nodes.is_array()) nodes = Json::array();
  for (const Json& present : nodes) {
    if (present == node) return;
  }
  nodes.push_back(node);
}

}  // namespace dra
