#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nvml.h"
#include "state.h"

namespace nvidia_simulator {

// What a process sees of the node. In a container those GPUs whose device nodes it has and may open, as with the real
// driver; a MIG instance where it has its capability nodes besides. dev: its /dev ($NVIDIA_SIMULATOR_DEV).
class Visibility {
 public:
  explicit Visibility(std::string dev = "/dev") : dev_(std::move(dev)) {}

  // What init finds: DRIVER_NOT_LOADED without /dev/nvidiactl, UNKNOWN where it may not be opened.
  nvml::Return ControlNode(const State& state) const;
  // The state without what is not seen. The result is kept: asking again costs a look at the nodes.
  std::shared_ptr<const State> Of(const std::shared_ptr<const State>& state);

 private:
  bool ByNodes(const State& state) const;
  bool Openable(const std::string& name, int major, unsigned minor) const;

  std::string dev_;
  std::shared_ptr<const State> from_, visible_;
  std::vector<bool> seen_;  // of from_: each GPU, each of its compute instances
};

}  // namespace nvidia_simulator
