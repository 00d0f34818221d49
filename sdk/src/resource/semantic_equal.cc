#include "dra/resource/semantic_equal.h"

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/resource/quantity.h"
#include "dra/resource/time.h"
#include "nlohmann/json.hpp"

namespace dra::resource {
namespace {

// What a value is; it decides which members below it are Quantities. Names alone do not: a taint has a `value`, an
// attribute may be called "capacity".
enum class What {
  kPlain,
  kVerbatim,  // opaque to us: no member below has a meaning
  kQuantity,
  kQuantityMap,  // name -> Quantity
  kCounterMap,   // name -> {value}
  kCapacityMap,  // name -> {value, requestPolicy}
  kValued,       // {value, requestPolicy}
  kPolicy,       // {default, validValues, validRange}
  kRange,        // {min, max, step}
  kResourceMap,  // name -> {mapping, overhead}
  kResource,
  kMapping,   // {capacityMultiplier, deviceMultiplier}
  kOverhead,  // {perPod, perContainer}
  kTaint,
};

What Below(What what, absl::string_view key) {
  switch (what) {
    case What::kPlain:
      if (key == "attributes" || key == "data" || key == "parameters" || key == "metadata")
        return What::kVerbatim;
      if (key == "capacity") return What::kCapacityMap;
      if (key == "counters") return What::kCounterMap;
      if (key == "consumedCapacity") return What::kQuantityMap;
      if (key == "nodeAllocatableResources") return What::kResourceMap;
      if (key == "taints") return What::kTaint;
      return What::kPlain;
    case What::kQuantityMap:
      return What::kQuantity;
    case What::kCounterMap:
    case What::kCapacityMap:
      return What::kValued;
    case What::kValued:
      if (key == "value") return What::kQuantity;
      return key == "requestPolicy" ? What::kPolicy : What::kPlain;
    case What::kPolicy:
      if (key == "default" || key == "validValues") return What::kQuantity;
      return key == "validRange" ? What::kRange : What::kPlain;
    case What::kRange:
      return key == "min" || key == "max" || key == "step" ? What::kQuantity : What::kPlain;
    case What::kResourceMap:
      return What::kResource;
    case What::kResource:
      if (key == "mapping") return What::kMapping;
      return key == "overhead" ? What::kOverhead : What::kPlain;
    case What::kMapping:
      return key == "capacityMultiplier" || key == "deviceMultiplier" ? What::kQuantity
                                                                      : What::kPlain;
    case What::kOverhead:
      return key == "perPod" || key == "perContainer" ? What::kQuantity : What::kPlain;
    case What::kVerbatim:
    case What::kQuantity:
    case What::kTaint:
      return What::kVerbatim;
  }
  return What::kVerbatim;
}

bool IsEmpty(const Json& value, What parent) {
  if (value.is_null()) return true;
  if (value.is_object() || value.is_array()) return value.empty();
  // A taint's value is a plain Go string, where "" and absent are one.
  return parent == What::kTaint && value.is_string() && value.get_ref<const std::string&>().empty();
}

bool SameTime(const Json& a, const Json& b) {
  if (!a.is_string() || !b.is_string()) return a == b;
  const std::optional<absl::Time> time_a = ParseTime(a.get_ref<const std::string&>());
  const std::optional<absl::Time> time_b = ParseTime(b.get_ref<const std::string&>());
  if (!time_a.has_value() || !time_b.has_value()) return a == b;
  return absl::AbsDuration(*time_a - *time_b) <= absl::Seconds(1);
}

bool Same(const Json& a, const Json& b, What what);

bool SameMembers(const Json& a, const Json& b, What what) {
  for (const auto& [key, value] : a.items()) {
    const Json* other = Find(b, key);
    if (what == What::kTaint && key == "timeAdded") {
      if (!IsEmpty(value, what) && other != nullptr && !IsEmpty(*other, what) &&
          !SameTime(value, *other))
        return false;
      continue;
    }
    if (IsEmpty(value, what)) {
      if (other != nullptr && !IsEmpty(*other, what)) return false;
      continue;
    }
    if (other == nullptr || !Same(value, *other, Below(what, key))) return false;
  }
  return true;
}

bool Same(const Json& a, const Json& b, What what) {
  if (what == What::kQuantity && !a.is_array() && !b.is_array()) {
    const absl::StatusOr<Quantity> left = Quantity::FromJson(a), right = Quantity::FromJson(b);
    return left.ok() && right.ok() ? *left == *right : a == b;
  }
  if (what == What::kVerbatim) return a == b;
  if (a.is_object() && b.is_object()) {
    if (!SameMembers(a, b, what)) return false;
    // What only b has must be empty.
    for (const auto& [key, value] : b.items()) {
      if (what == What::kTaint && key == "timeAdded") continue;
      if (Find(a, key) == nullptr && !IsEmpty(value, what)) return false;
    }
    return true;
  }
  if (a.is_array() && b.is_array()) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!Same(a[i], b[i], what)) return false;
    }
    return true;
  }
  if (IsEmpty(a, What::kPlain) && IsEmpty(b, What::kPlain)) return true;
  return a == b;
}

Json CanonicalAs(const Json& value, What what) {
  if (what == What::kVerbatim) return value;
  if (value.is_array()) {
    Json result = Json::array();
    for (const Json& item : value) result.push_back(CanonicalAs(item, what));
    return result;
  }
  if (what == What::kQuantity) {
    const absl::StatusOr<Quantity> quantity = Quantity::FromJson(value);
    // One family for all, so that "1024Mi" and "1073741824" become one text.
    return quantity.ok() ? Json((Quantity() + *quantity).ToString()) : value;
  }
  if (!value.is_object()) return value;
  Json result = Json::object();
  for (const auto& [key, member] : value.items()) {
    if (!IsEmpty(member, what)) result[key] = CanonicalAs(member, Below(what, key));
  }
  return result;
}

}  // namespace

bool SemanticallyEqual(const Json& a, const Json& b) { return Same(a, b, What::kPlain); }

Json Canonical(const Json& object) { return CanonicalAs(object, What::kPlain); }

}  // namespace dra::resource
