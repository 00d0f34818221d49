#include "publisher/pool_layout.h"

#include <algorithm>

#include "dra/resource/limits.h"
#include "nlohmann/json.hpp"
#include "publisher/slice_names.h"

namespace dra::publisher {
namespace {

using ItemMap = std::map<std::string, const Json*>;  // by name, not yet placed

const Json* SpecList(const Json& slice, absl::string_view key) {
  const Json* spec = Find(slice, "spec");
  const Json* list = spec == nullptr ? nullptr : Find(*spec, key);
  return list != nullptr && list->is_array() && !list->empty() ? list : nullptr;
}

bool ByName(const Json* a, const Json* b) { return StringOr(*a, "name") < StringOr(*b, "name"); }

// Takes the items that the stored slice holds out of `open`, up to `limit`.
std::vector<const Json*> TakeStored(const Json& slice, bool counters, size_t limit, ItemMap& open) {
  std::vector<const Json*> taken;
  const Json* list = SpecList(slice, counters ? "sharedCounters" : "devices");
  if (list == nullptr) return taken;
  for (const Json& item : *list) {
    if (taken.size() == limit) break;
    const auto found = open.find(StringOr(item, "name"));
    if (found == open.end()) continue;
    taken.push_back(found->second);
    open.erase(found);
  }
  return taken;
}

void FillSlot(Slot& slot, size_t limit, ItemMap& open) {
  while (!open.empty() && slot.items.size() < limit) {
    slot.items.push_back(open.begin()->second);
    open.erase(open.begin());
  }
}

void AddSlot(bool counters, size_t limit, ItemMap& open, std::vector<Slot>& slots) {
  Slot& slot = slots.emplace_back();
  slot.counters = counters;
  FillSlot(slot, limit, open);
}

// Puts what is still open into slots of its kind: into new ones for slices that are missing (then the others need no
// write), else all into the first that has room for all (one write), else wherever there is room, else into new ones.
void Fill(bool counters, size_t limit, ItemMap& open, std::vector<Slot>& slots, int64_t& missing) {
  for (; missing > 0 && !open.empty(); --missing) AddSlot(counters, limit, open, slots);
  const auto has_room_for = [&](const Slot& slot, size_t count) {
    return slot.counters == counters && slot.items.size() + count <= limit;
  };
  while (!open.empty()) {
    auto slot = std::find_if(slots.begin(), slots.end(),
                             [&](const Slot& s) { return has_room_for(s, open.size()); });
    if (slot == slots.end()) {
      slot = std::find_if(slots.begin(), slots.end(),
                          [&](const Slot& s) { return has_room_for(s, 1); });
    }
    if (slot == slots.end()) {
      AddSlot(counters, limit, open, slots);
    } else {
      FillSlot(*slot, limit, open);
    }
  }
}

// Removes empty slots of one kind, and when the items fit into half of the rest, empties the last ones.
void Consolidate(bool counters, size_t limit, Layout& layout) {
  std::vector<Slot*> used;
  size_t total = 0;
  for (Slot& slot : layout.slots) {
    if (slot.counters != counters || slot.items.empty()) continue;
    used.push_back(&slot);
    total += slot.items.size();
  }
  const size_t needed = (total + limit - 1) / limit;
  if (needed > 0 && needed * 2 <= used.size()) {
    ItemMap open;
    for (size_t i = needed; i < used.size(); ++i) {
      for (const Json* item : used[i]->items) open.emplace(StringOr(*item, "name"), item);
      used[i]->items.clear();
    }
    for (size_t i = 0; i < needed; ++i) FillSlot(*used[i], limit, open);
  }
  std::vector<Slot> kept;
  for (Slot& slot : layout.slots) {
    if (slot.counters != counters || !slot.items.empty()) {
      kept.push_back(std::move(slot));
    } else if (slot.stored != nullptr) {
      layout.obsolete.push_back(slot.stored);
    }
  }
  layout.slots = std::move(kept);
}

}  // namespace

int64_t PoolNumber(const Json& slice, absl::string_view key) {
  const Json* spec = Find(slice, "spec");
  const Json* pool = spec == nullptr ? nullptr : Find(*spec, "pool");
  return pool == nullptr ? 0 : IntOr(*pool, key);
}

Layout LayOut(const WantedPool& wanted, const std::vector<const Json*>& stored, int64_t generation,
              size_t devices_per_slice, bool rewrite) {
  ItemMap devices, sets;
  for (const Json& device : wanted.devices) devices.emplace(StringOr(device, "name"), &device);
  for (const Json& set : wanted.counter_sets) sets.emplace(StringOr(set, "name"), &set);

  Layout layout;
  for (const Json* slice : stored) {
    Slot slot;
    slot.stored = slice;
    slot.counters =
        SpecList(*slice, "sharedCounters") != nullptr && SpecList(*slice, "devices") == nullptr;
    slot.items = TakeStored(*slice, slot.counters,
                            slot.counters ? resource::kMaxCounterSetsPerSlice : devices_per_slice,
                            slot.counters ? sets : devices);
    // Counters that are not wanted any more leave an empty slice, which is as good as one for devices.
    if (slot.items.empty()) slot.counters = false;
    // A slice of an older generation is a leftover, unless an interrupted rewrite still owes it its devices.
    if (slot.items.empty() && PoolNumber(*slice, "generation") != generation) {
      layout.obsolete.push_back(slice);
    } else {
      layout.slots.push_back(std::move(slot));
    }
  }
  std::sort(layout.slots.begin(), layout.slots.end(), [](const Slot& a, const Slot& b) {
    return Meta(*a.stored, "name") < Meta(*b.stored, "name");
  });
  int64_t missing = 0;  // slices that the kept ones count and that are not there
  for (const Slot& slot : layout.slots) {
    if (PoolNumber(*slot.stored, "generation") != generation) continue;
    missing = std::max(missing, PoolNumber(*slot.stored, "resourceSliceCount"));
  }
  missing -= static_cast<int64_t>(layout.slots.size());
  Fill(/*counters=*/false, devices_per_slice, devices, layout.slots, missing);
  Fill(/*counters=*/true, resource::kMaxCounterSetsPerSlice, sets, layout.slots, missing);
  if (rewrite) {
    const std::vector<Slot> before = layout.slots;
    Consolidate(/*counters=*/false, devices_per_slice, layout);
    Consolidate(/*counters=*/true, resource::kMaxCounterSetsPerSlice, layout);
    if (layout.slots.empty() && !before.empty()) {
      // An empty pool keeps one empty slice: "the driver is here and has no devices".
      layout.slots.push_back(before.front());
      std::erase(layout.obsolete, before.front().stored);
    }
  }
  if (layout.slots.empty()) layout.slots.emplace_back();
  for (Slot& slot : layout.slots) std::sort(slot.items.begin(), slot.items.end(), ByName);
  return layout;
}

}  // namespace dra::publisher
