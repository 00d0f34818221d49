#pragma once

#include <string>
#include <vector>

#include "node_json.h"

namespace rdma_simulator {

// What is known of a card: a function as NodeFromJson reads it, without address, with one interface and one RDMA device
// as patterns for those that a model names; "vf" is what differs on its virtual functions. Throws std::invalid_argument
// with the names that there are.
Json CardOf(const std::string& name);
std::vector<std::string> CardNames();

}  // namespace rdma_simulator
