#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cards.h"

namespace fake {

constexpr char kGpuModel[] = "LATEST-GPU-MODEL";
constexpr char kGpuDriverVersion[] = "1.0.0";

// The GPUs of the simulated machine.
struct GpuLayout {
  int64_t cards = 8;
  int64_t partitions = 0;  // for each card; 0: cards cannot be partitioned
  bool shared = false;     // devices may be allocated several times
};

// "gpu-3-partition-0" -> "gpu-3"; nullopt for a name that `layout` has not.
std::optional<std::string> CardOfGpu(const GpuLayout& layout, const std::string& device);

// Adds the card `whole` in slot `index` as devices of resource.k8s.io/v1. ..._kept: the API server keeps those fields.
// Without counters only the whole card is shown, without multiple allocations nothing is shared. Pure.
void AddGpu(const GpuLayout& layout, int64_t index, const CardDevice& whole, bool configurable,
            bool counters_kept, bool shares_kept, CardInventory& inventory);

}  // namespace fake
