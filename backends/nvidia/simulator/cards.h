#pragma once

#include <string>
#include <vector>

#include "state.h"

namespace nvidia_simulator {

// The cards that can be named in a model: "A100-40GB", "A100-80GB", "H100-80GB", "H200", "B200", "GB200", "L4", "T4".
std::vector<std::string> CardNames();

// The index-th card of the node, as it is after a boot: MIG off, healthy, nothing holds it. UUID and serial follow
// from node and index, the minor is the index, bus ids run over two PCIe roots per NUMA node. Throws
// std::invalid_argument, with the names that there are, if the model is not known.
Gpu MakeCard(const std::string& model, unsigned index, const std::string& node = "simulated");

}  // namespace nvidia_simulator
