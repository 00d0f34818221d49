#pragma once

#include <string>

#include "state.h"

namespace rdma_simulator {

// A model, the YAML that a user writes, as a host that has just booted: cards bring what is known of them, virtual
// functions are made, and addresses, GUIDs, GIDs and numbers that the model does not give are filled in. seed: two
// hosts of one model differ by it. Throws std::invalid_argument with file, path, value and what is allowed.
State ReadModel(const std::string& path, const std::string& seed);

// Of a physical function of the state: so many virtual ones, the first ones kept. Throws std::invalid_argument.
void SetVirtualFunctions(State& state, const std::string& address, int count);

// Fills in what is not given, and refuses what cannot be together: two of one name, address or number.
void Complete(Node& node, const std::string& seed);

}  // namespace rdma_simulator
