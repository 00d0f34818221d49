#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::publisher {

// One pool as it shall be on the API server. Device and counter set names are unique in the pool; the order does not
// matter.
struct WantedPool {
  std::string name;
  std::vector<Json> devices;       // resource.k8s.io/v1 Device
  std::vector<Json> counter_sets;  // resource.k8s.io/v1 CounterSet
  Json slice_fields =
      Json::object();  // further ResourceSliceSpec members, for the slices that carry devices
};

struct PlanOptions {
  std::string driver_name;
  std::string node_name;
  std::string node_uid;        // of the owner reference
  bool never_tainted = false;  // 128 devices to a slice instead of 64
  // True if this stored slice is to be left alone although its spec differs from `wanted_spec` (an answer of the
  // server to just this spec, or a stranger's edit that is not repaired yet). May be empty.
  std::function<bool(const Json& stored_slice, const Json& wanted_spec)> tolerate;
};

// One call of the API. Bodies are complete: owner reference, generation and resourceSliceCount are filled in.
struct Operation {
  enum class Kind { kDelete, kUpdate, kCreate };
  Kind kind = Kind::kCreate;
  std::string pool;
  std::string name;              // of the stored slice; for kCreate the generateName
  std::string uid;               // precondition of kDelete
  std::string resource_version;  // precondition of kDelete; kUpdate has it in the body
  Json body;                     // null for kDelete
};

// How many devices of this pool go into one slice: 128 only for a backend whose devices never get taints, and only
// while no device consumes counters or has list attributes; else 64 (resource/limits.h).
size_t DevicesPerSlice(const WantedPool& pool, bool never_tainted);

// The calls that lead from `stored` (every slice of this driver and node, in any order) to `wanted`, pool by pool:
// obsolete slices are deleted first, then existing ones updated, then new ones created. Empty if nothing has to change.
// - A device stays in the slice that holds it; new devices fill free room. A slice that runs empty stays until the
//   pool is rewritten anyway, so that taking one device away is one call.
// - One slice differs and the number is the same: that slice is written, the generation stays. Else every slice is
//   written with a generation above all stored ones. An interrupted rewrite is completed, not begun again.
// - Counter sets have slices of their own, which count in resourceSliceCount. A wanted pool without devices is one
//   empty slice. A pool that is not wanted is deleted.
// - A taint keeps the timeAdded that is stored for the same device, key, value and effect.
// Pure; any thread. Source: kubernetes/kubernetes#127645 (generations), kubernetes/api:resource/v1 ResourcePool.
std::vector<Operation> Plan(const std::vector<WantedPool>& wanted, const std::vector<Json>& stored,
                            const PlanOptions& options);

// True if the two specs mean the same: order of devices and counter sets, quantities' spelling, and absent against
// empty make no difference.
bool SameSpec(const Json& a, const Json& b);

}  // namespace dra::publisher
