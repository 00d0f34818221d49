#pragma once

#include <string>

#include "state.h"

namespace rdma_simulator {

// Brings the tree below the root in step with the state: writes what differs, removes what it wrote before and is no
// longer there, and records both in the state and its file. Files are replaced by rename, so a reader never sees half
// of one; links that lead to a device come after it and go before it. Throws std::runtime_error, as where something
// that is not the simulator's is in the way.
void SyncTree(State& state, const std::string& root);

}  // namespace rdma_simulator
