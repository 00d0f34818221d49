#pragma once

#include <string>
#include <vector>

#include "state.h"

namespace rdma_simulator {

// What `set` can do to a host that runs, in the order of these members.
struct Changes {
  std::vector<std::string> unbind;                   // addresses
  std::vector<std::string> bind;                     // "0000:8d:00.1=vfio-pci"
  std::vector<std::string> vfs;                      // "0000:8d:00.0=4"
  std::vector<std::string> unplug, plug;             // addresses
  std::vector<std::string> remove_rdma, add_rdma;    // "mlx5_0"
  std::vector<std::string> remove_nodes, add_nodes;  // "uverbs0", "rdma_cm"
  std::vector<std::string> ports;                    // "mlx5_0=DOWN", "mlx4_0/2=ACTIVE"
  std::vector<std::string> links;                    // "ens1f0np0=down"
  std::vector<std::string> renames;                  // "ens1f0np0=gpu0rail"
};

// Throws std::invalid_argument for what is not understood or not there, with what there is.
void Apply(const Changes& changes, State& state);

// Everywhere that the name stands. Throws std::invalid_argument.
void RenameInterface(State& state, const std::string& from, const std::string& to);

// "name=value" in two; throws std::invalid_argument with option and form.
std::pair<std::string, std::string> SplitPair(const std::string& option, const std::string& text,
                                              const std::string& form);

}  // namespace rdma_simulator
