#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dra/base/json.h"
#include "dra/publisher/planner.h"

// Which device stands in which slice of one pool.
namespace dra::publisher {

// One slice of the pool to be: a stored one that is kept, or a new one.
struct Slot {
  const Json* stored = nullptr;  // nullptr: to be created
  bool counters = false;         // carries counter sets, else devices
  std::vector<const Json*> items;
};

struct Layout {
  std::vector<Slot> slots;            // kept ones in the order of their names, then new ones
  std::vector<const Json*> obsolete;  // stored slices that are not kept
};

// `stored`: this pool's slices, newest generation first, then by name. `rewrite`: every slice will be written anyway,
// so empty slices go, and slices that fit into half their number are packed. The items point into `wanted`.
Layout LayOut(const WantedPool& wanted, const std::vector<const Json*>& stored, int64_t generation,
              size_t devices_per_slice, bool rewrite);

// spec.pool.<key> of a stored slice, 0 if absent: "generation" or "resourceSliceCount".
int64_t PoolNumber(const Json& slice, absl::string_view key);

}  // namespace dra::publisher
