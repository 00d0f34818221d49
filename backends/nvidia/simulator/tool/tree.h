#pragma once

#include "layout.h"
#include "state.h"

namespace nvidia_simulator {

// Brings the tree below the root in step with layout and state: writes what differs, removes what it wrote before and
// is no longer there, and records both. Files are replaced by rename, so a reader never sees half of one.
void SyncTree(Layout& layout, const State& state);

}  // namespace nvidia_simulator
