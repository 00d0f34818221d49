#include "publisher/completeness.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "publisher/slice_names.h"

namespace dra::publisher {
namespace {

int64_t PoolNumber(const Json& slice, const char* member) {
  const Json* spec = Find(slice, "spec");
  const Json* pool = spec == nullptr ? nullptr : Find(*spec, "pool");
  const Json* number = pool == nullptr ? nullptr : Find(*pool, member);
  return number != nullptr && number->is_number_integer() ? number->get<int64_t>() : 0;
}

bool IsComplete(const std::vector<const Json*>& slices) {
  int64_t generation = 0;
  for (const Json* slice : slices) {
    generation = std::max(generation, PoolNumber(*slice, "generation"));
  }
  int64_t current = 0;
  std::set<std::string> devices;
  for (const Json* slice : slices) {
    if (PoolNumber(*slice, "generation") != generation) continue;
    ++current;
    const Json* list = Find(slice->at("spec"), "devices");
    if (list == nullptr || !list->is_array()) continue;
    for (const Json& device : *list) {
      if (!devices.insert(StringOr(device, "name")).second) return false;
    }
  }
  for (const Json* slice : slices) {
    if (PoolNumber(*slice, "generation") == generation &&
        PoolNumber(*slice, "resourceSliceCount") != current) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool AreComplete(const std::vector<Json>& slices, const std::vector<std::string>& pools) {
  std::map<std::string, std::vector<const Json*>> by_pool;
  for (const Json& slice : slices) by_pool[PoolOf(slice)].push_back(&slice);
  for (const std::string& pool : pools) {
    if (by_pool.count(pool) == 0) return false;
  }
  for (const auto& [pool, members] : by_pool) {
    if (!IsComplete(members)) return false;
  }
  return true;
}

}  // namespace dra::publisher
