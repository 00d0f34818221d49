#pragma once

#include <string>

#include "nlohmann/json.hpp"
#include "tree.h"

namespace rdma_simulator {

using Json = nlohmann::json;

// A node as JSON and back, with the keys that README.md lists. Reading is strict: unknown keys, wrong kinds and values
// that cannot be are refused with their path; throws std::invalid_argument.
Json ToJson(const Node& node);
Node NodeFromJson(const Json& json, const std::string& path);

}  // namespace rdma_simulator
