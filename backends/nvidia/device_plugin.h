#pragma once

#include <optional>
#include <string>
#include <utility>

namespace nvidia {

// NVIDIA's device plugin beside this driver on one node: the kubelet and the scheduler count its GPUs apart from ours, so
// that one GPU goes to two pods (ai-dynamo/dynamo#13536).
class DevicePlugin {
 public:
  // directory: the kubelet's device-plugins, as this process sees it.
  explicit DevicePlugin(std::string directory) : directory_(std::move(directory)) {}

  // The name of a socket nvidia*.sock there that accepts connections; a socket of a plugin that has gone does not.
  // nullopt if there is none. Throws DRA_UNAVAILABLE if that cannot be told.
  std::optional<std::string> Serving() const;

 private:
  const std::string directory_;
};

}  // namespace nvidia
