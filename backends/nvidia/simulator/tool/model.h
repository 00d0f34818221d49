#pragma once

#include <string>

#include "state.h"

namespace nvidia_simulator {

// A model, the YAML that a user writes, as the state of a node that has just booted: `model: H100-80GB, count: 8`
// becomes eight cards with everything that is known of them, and what else stands in the entry overrides that. `node`:
// the seed of UUIDs and serials. Throws std::invalid_argument with file, path, value and what is allowed.
State ReadModel(const std::string& path, const std::string& node);

}  // namespace nvidia_simulator
