#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/records/ledger.h"
#include "dra/resource/quantity.h"

namespace dra::records {
namespace {

using resource::Quantity;

// One device beside which another is wanted, and whose it is.
struct Neighbour {
  const HeldDevice* device;
  const RecordClaim* claim;  // null: the wanted claim itself
};

std::string Name(const HeldDevice& device) {
  std::string name = absl::StrCat("device ", device.pool, "/", device.device);
  if (device.share_id.has_value()) absl::StrAppend(&name, " share ", *device.share_id);
  return name;
}

HoldConflict Because(const Neighbour& neighbour, std::string text) {
  HoldConflict conflict;
  if (neighbour.claim == nullptr) {
    conflict.text = absl::StrCat(text, " by the same claim");
  } else {
    conflict.text = absl::StrCat(text, " by claim ", neighbour.claim->ToString());
    conflict.holder = *neighbour.claim;
  }
  return conflict;
}

bool SameDevice(const HeldDevice& a, const HeldDevice& b) {
  return a.pool == b.pool && a.device == b.device;
}

std::optional<HoldConflict> DeviceConflict(const HeldDevice& wanted, const Neighbour& neighbour,
                                           const HoldLimits& limits, const std::string& key) {
  const HeldDevice& held = *neighbour.device;
  if (SameDevice(wanted, held)) {
    const auto limit = limits.devices.find({wanted.pool, wanted.device});
    const bool multiple = limit != limits.devices.end() && limit->second.multiple_allocations;
    const bool two_shares = wanted.share_id.has_value() && held.share_id.has_value() &&
                            *wanted.share_id != *held.share_id;
    if (!two_shares) return Because(neighbour, absl::StrCat(Name(wanted), " is held"));
    if (!multiple) {
      return Because(neighbour,
                     absl::StrCat(Name(wanted),
                                  ": the device does not allow multiple allocations and is held"));
    }
  }
  if (wanted.shape != held.shape) {
    return Because(neighbour,
                   absl::StrCat(Name(wanted), " takes hardware \"", key, "\" as \"", wanted.shape,
                                "\", but it is held as \"", held.shape, "\" through ", Name(held)));
  }
  return std::nullopt;
}

// Adds amounts up; what is no Quantity is an error, never a zero.
class Sum {
 public:
  void Add(const std::string& text) {
    const absl::StatusOr<Quantity> amount = Quantity::Parse(text);
    if (amount.ok()) {
      total_ = *amount + total_;  // in the notation of what was added last
    } else {
      bad_ = text;
    }
  }
  // "" if it fits, else why not.
  std::string Exceeds(const std::string& limit_text) const {
    const absl::StatusOr<Quantity> limit = Quantity::Parse(limit_text);
    if (!bad_.empty() || !limit.ok()) {
      return absl::StrCat("\"", bad_.empty() ? limit_text : bad_, "\" is not a quantity");
    }
    if (total_ <= *limit) return "";
    return absl::StrCat("would use ", total_.ToString(), " of ", limit_text);
  }

 private:
  Quantity total_;
  std::string bad_;
};

std::optional<HoldConflict> CapacityConflict(const HeldDevice& wanted,
                                             const std::vector<Neighbour>& neighbours,
                                             const HoldLimits& limits) {
  const auto limit = limits.devices.find({wanted.pool, wanted.device});
  if (!wanted.share_id.has_value() || limit == limits.devices.end()) return std::nullopt;
  for (const auto& [name, capacity] : limit->second.capacity) {
    const auto own = wanted.consumed_capacity.find(name);
    if (own == wanted.consumed_capacity.end()) continue;
    Sum sum;
    sum.Add(own->second);
    const Neighbour* last = nullptr;
    for (const Neighbour& neighbour : neighbours) {
      if (!SameDevice(*neighbour.device, wanted) || neighbour.device == &wanted) continue;
      const auto used = neighbour.device->consumed_capacity.find(name);
      // A capacity that an older share does not list was added later: the share was promised nothing of it.
      if (used == neighbour.device->consumed_capacity.end()) continue;
      sum.Add(used->second);
      if (last == nullptr || neighbour.claim != nullptr) last = &neighbour;
    }
    const std::string why = sum.Exceeds(capacity);
    if (why.empty()) continue;
    const std::string text = absl::StrCat(Name(wanted), ": capacity \"", name, "\" ", why);
    if (last == nullptr) return HoldConflict{text, {}};
    return Because(*last, absl::StrCat(text, ", the rest is held"));
  }
  return std::nullopt;
}

std::optional<HoldConflict> CounterConflict(const Hold& wanted,
                                            const std::vector<Neighbour>& neighbours,
                                            const HoldLimits& limits) {
  const auto set = limits.counter_sets.find(wanted.key);
  std::map<std::string, Sum> sums;
  // A device that allows multiple allocations pays its counters once, however many shares of it are held.
  std::set<std::pair<std::string, std::string>> paid;
  const HeldDevice* first = nullptr;
  for (const HeldDevice& device : wanted.devices) {
    if (device.admin_access) continue;
    if (first == nullptr) first = &device;
    if (!paid.insert({device.pool, device.device}).second) continue;
    for (const auto& [counter, amount] : device.counters) sums[counter].Add(amount);
  }
  if (first == nullptr) return std::nullopt;
  if (set == limits.counter_sets.end()) {
    return HoldConflict{absl::StrCat(Name(*first), " consumes \"", wanted.key,
                                     "\", which the inventory does not know"),
                        {}};
  }
  const Neighbour* last = nullptr;
  for (const Neighbour& neighbour : neighbours) {
    if (neighbour.claim == nullptr) continue;  // the own devices are counted above
    if (!paid.insert({neighbour.device->pool, neighbour.device->device}).second) continue;
    for (const auto& [counter, amount] : neighbour.device->counters) {
      const auto sum = sums.find(counter);
      if (sum == sums.end()) continue;
      sum->second.Add(amount);
      last = &neighbour;
    }
  }
  for (const auto& [counter, sum] : sums) {
    const auto limit = set->second.find(counter);
    const std::string why =
        limit == set->second.end() ? "is not one of the counter set" : sum.Exceeds(limit->second);
    if (why.empty()) continue;
    const std::string text =
        absl::StrCat(Name(*first), ": counter \"", counter, "\" of \"", wanted.key, "\" ", why);
    if (last == nullptr) return HoldConflict{text, {}};
    return Because(*last, absl::StrCat(text, ", the rest is held"));
  }
  return std::nullopt;
}

}  // namespace

std::optional<HoldConflict> FindConflict(const Hold& wanted, const std::vector<Hold>& others,
                                         const HoldLimits& limits) {
  // Admin access stands beside everything: it neither refuses nor is refused, and consumes nothing (PRP-05).
  std::vector<Neighbour> foreign;
  for (const Hold& hold : others) {
    for (const HeldDevice& device : hold.devices) {
      if (!device.admin_access) foreign.push_back({&device, &hold.claim});
    }
  }
  if (absl::StartsWith(wanted.key, "counters/")) return CounterConflict(wanted, foreign, limits);
  std::vector<Neighbour> all = foreign;
  for (const HeldDevice& device : wanted.devices) {
    if (!device.admin_access) all.push_back({&device, nullptr});
  }
  for (size_t i = 0; i < wanted.devices.size(); ++i) {
    const HeldDevice& device = wanted.devices[i];
    if (device.admin_access) continue;
    for (const Neighbour& neighbour : all) {
      if (neighbour.device == &device) continue;
      std::optional<HoldConflict> conflict = DeviceConflict(device, neighbour, limits, wanted.key);
      if (conflict.has_value()) return conflict;
    }
    std::optional<HoldConflict> conflict = CapacityConflict(device, all, limits);
    if (conflict.has_value()) return conflict;
  }
  return std::nullopt;
}

}  // namespace dra::records
