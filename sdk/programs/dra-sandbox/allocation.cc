#include "allocation.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"

namespace dra::sandbox {
namespace {

using resource::Quantity;

const Json& EmptyArray() {
  static const Json empty = Json::array();
  return empty;
}

// The array at the path, empty if any part of it is absent.
const Json& ArrayAt(const Json& object, std::initializer_list<absl::string_view> path) {
  const Json* value = &object;
  for (const absl::string_view key : path) {
    value = Find(*value, key);
    if (value == nullptr) return EmptyArray();
  }
  return value->is_array() ? *value : EmptyArray();
}

std::string DeviceKey(const std::string& driver, const std::string& pool,
                      const std::string& device) {
  return absl::StrCat(driver, "/", pool, "/", device);
}

Quantity ToQuantity(const Json& value) {
  const absl::StatusOr<Quantity> quantity = Quantity::FromJson(value);
  return quantity.ok() ? *quantity : Quantity();
}

// The driver of the one selector the sandbox can do without CEL: device.driver == "<driver>"; "" for any other.
std::string DriverOfSelector(const std::string& expression) {
  const std::string text = absl::StrReplaceAll(expression, {{" ", ""}, {"\n", ""}, {"'", "\""}});
  constexpr absl::string_view kStart = "device.driver==\"";
  if (!absl::StartsWith(text, kStart) || !absl::EndsWith(text, "\"")) return "";
  const std::string driver = text.substr(kStart.size(), text.size() - kStart.size() - 1);
  return driver.find('"') == std::string::npos ? driver : "";
}

absl::StatusOr<std::string> DriverOfSelectors(const Json& selectors, const std::string& path) {
  std::string driver;
  for (size_t i = 0; i < selectors.size(); ++i) {
    const Json* cel = Find(selectors[i], "cel");
    const std::string expression = cel == nullptr ? "" : StringOr(*cel, "expression");
    const std::string found = DriverOfSelector(expression);
    if (found.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ".selectors[", i,
                       "]: the sandbox allocates by driver and count; it takes no selector but ",
                       "device.driver == \"<driver>\", not: ", expression));
    }
    driver = found;
  }
  return driver;
}

bool Tolerates(const Json& taint, const Json& tolerations) {
  const std::string effect = StringOr(taint, "effect");
  if (effect != "NoSchedule" && effect != "NoExecute") return true;
  for (const Json& toleration : tolerations) {
    const std::string key = StringOr(toleration, "key");
    const std::string wanted_effect = StringOr(toleration, "effect");
    if (!key.empty() && key != StringOr(taint, "key")) continue;
    if (!wanted_effect.empty() && wanted_effect != effect) continue;
    if (StringOr(toleration, "operator", "Equal") == "Exists" ||
        StringOr(toleration, "value") == StringOr(taint, "value")) {
      return true;
    }
  }
  return false;
}

// What a share takes of one capacity: the request, rounded up as the policy says; the policy's default or the whole
// value without one. Source: structured allocator, consumable capacity.
absl::StatusOr<Quantity> Consumption(const std::string& name, const Json& capacity,
                                     const Json& requests) {
  const Quantity value = ToQuantity(capacity.value("value", Json("0")));
  const Json* policy = Find(capacity, "requestPolicy");
  const Json* wanted = Find(requests, name);
  if (wanted == nullptr) {
    const Json* fallback = policy == nullptr ? nullptr : Find(*policy, "default");
    return fallback == nullptr ? value : ToQuantity(*fallback);
  }
  Quantity quantity = ToQuantity(*wanted);
  if (policy == nullptr) return quantity;
  if (const Json* values = Find(*policy, "validValues"); values != nullptr && values->is_array()) {
    for (const Json& valid : *values) {
      if (ToQuantity(valid) >= quantity) return ToQuantity(valid);
    }
    return absl::OutOfRangeError(
        absl::StrCat(name, " has no valid value of at least ", quantity.ToString()));
  }
  if (const Json* range = Find(*policy, "validRange"); range != nullptr && range->is_object()) {
    const Quantity min = ToQuantity(range->value("min", Json("0")));
    if (quantity < min) quantity = min;
    if (const Json* step = Find(*range, "step"); step != nullptr) {
      const int64_t size = std::max<int64_t>(ToQuantity(*step).Value(), 1);
      const int64_t over = quantity.Value() - min.Value();
      quantity = min + Quantity::FromInt((over + size - 1) / size * size);
    }
    if (const Json* max = Find(*range, "max"); max != nullptr && quantity > ToQuantity(*max)) {
      return absl::OutOfRangeError(absl::StrCat(name, " is at most ", ToQuantity(*max).ToString()));
    }
  }
  return quantity;
}

}  // namespace

Allocator::Allocator(std::vector<Json> slices, std::map<std::string, Json> classes,
                     std::string node_name)
    : classes_(std::move(classes)), node_name_(std::move(node_name)) {
  const auto place = [](const Json& slice) {
    const Json* spec = Find(slice, "spec");
    const Json* pool = spec == nullptr ? nullptr : Find(*spec, "pool");
    const Json* metadata = Find(slice, "metadata");
    return std::make_pair(pool == nullptr ? "" : StringOr(*pool, "name"),
                          metadata == nullptr ? "" : StringOr(*metadata, "name"));
  };
  std::sort(slices.begin(), slices.end(),
            [&](const Json& a, const Json& b) { return place(a) < place(b); });
  for (const Json& slice : slices) {
    const Json* spec = Find(slice, "spec");
    if (spec == nullptr) continue;
    const std::string driver = StringOr(*spec, "driver");
    const std::string pool = place(slice).first;
    for (const Json& device : ArrayAt(*spec, {"devices"}))
      candidates_.push_back({driver, pool, device});
    for (const Json& set : ArrayAt(*spec, {"sharedCounters"})) {
      const Json* counters = Find(set, "counters");
      if (counters == nullptr || !counters->is_object()) continue;
      for (const auto& [name, counter] : counters->items()) {
        counters_[absl::StrCat(driver, "/", pool, "/", StringOr(set, "name"), "/", name)] =
            ToQuantity(counter.value("value", Json("0")));
      }
    }
  }
}

absl::StatusOr<Allocator::Request> Allocator::ReadRequest(const Json& request,
                                                          const std::string& name,
                                                          const std::string& path) const {
  Request result;
  result.name = name;
  result.class_name = StringOr(request, "deviceClassName");
  const auto device_class = classes_.find(result.class_name);
  if (device_class == classes_.end()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ".deviceClassName: DeviceClass \"",
                                                   result.class_name,
                                                   "\" is in none of the applied files"));
  }
  DRA_ASSIGN_OR_RETURN(result.driver,
                       DriverOfSelectors(ArrayAt(device_class->second, {"spec", "selectors"}),
                                         absl::StrCat("DeviceClass ", result.class_name, " spec")));
  DRA_ASSIGN_OR_RETURN(const std::string own,
                       DriverOfSelectors(ArrayAt(request, {"selectors"}), path));
  if (!own.empty()) result.driver = own;
  const std::string mode = StringOr(request, "allocationMode", "ExactCount");
  if (mode != "ExactCount" && mode != "All") {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ".allocationMode: \"", mode, "\" is not one of ExactCount, All"));
  }
  result.all = mode == "All";
  result.count = IntOr(request, "count", 1);
  result.admin_access = BoolOr(request, "adminAccess");
  result.tolerations = ArrayAt(request, {"tolerations"});
  const Json* capacity = Find(request, "capacity");
  const Json* requests = capacity == nullptr ? nullptr : Find(*capacity, "requests");
  result.capacity = requests == nullptr ? Json::object() : *requests;
  return result;
}

std::string Allocator::WhyNot(const Candidate& candidate, const Request& request,
                              Json* consumed) const {
  if (!request.driver.empty() && candidate.driver != request.driver) return "another driver";
  const std::string key =
      DeviceKey(candidate.driver, candidate.pool, StringOr(candidate.device, "name"));
  for (const Json& taint : ArrayAt(candidate.device, {"taints"})) {
    if (!Tolerates(taint, request.tolerations))
      return absl::StrCat("taint ", StringOr(taint, "key"));
  }
  if (request.admin_access) return "";
  const bool shared = BoolOr(candidate.device, "allowMultipleAllocations");
  const auto taken = taken_.find(key);
  const bool first = taken == taken_.end() || taken->second == 0;
  if (!first && !shared) return "in use";
  if (shared) {
    *consumed = Json::object();
    const Json* capacities = Find(candidate.device, "capacity");
    if (capacities != nullptr && capacities->is_object()) {
      for (const auto& [name, capacity] : capacities->items()) {
        const absl::StatusOr<Quantity> quantity = Consumption(name, capacity, request.capacity);
        if (!quantity.ok()) return std::string(quantity.status().message());
        const auto used = consumed_.find(absl::StrCat(key, "/", name));
        const Quantity before = used == consumed_.end() ? Quantity() : used->second;
        if (before + *quantity > ToQuantity(capacity.value("value", Json("0")))) {
          return absl::StrCat("capacity ", name, " is used up");
        }
        (*consumed)[name] = quantity->ToString();
      }
    }
    if (!first) return "";  // the counters were paid with the first share
  }
  for (const Json& consumption : ArrayAt(candidate.device, {"consumesCounters"})) {
    const Json* counters = Find(consumption, "counters");
    if (counters == nullptr || !counters->is_object()) continue;
    for (const auto& [name, counter] : counters->items()) {
      const auto left =
          counters_.find(absl::StrCat(candidate.driver, "/", candidate.pool, "/",
                                      StringOr(consumption, "counterSet"), "/", name));
      if (left == counters_.end() || left->second < ToQuantity(counter.value("value", Json("0")))) {
        return absl::StrCat("counter ", name, " is used up");
      }
    }
  }
  return "";
}

void Allocator::Account(const Json& result, int sign) {
  if (BoolOr(result, "adminAccess")) return;
  const std::string driver = StringOr(result, "driver");
  const std::string pool = StringOr(result, "pool");
  const std::string key = DeviceKey(driver, pool, StringOr(result, "device"));
  const auto add = [sign](Quantity* total, const Quantity& amount) {
    *total = sign > 0 ? *total + amount : *total - amount;
  };
  if (const Json* consumed = Find(result, "consumedCapacity");
      consumed != nullptr && consumed->is_object()) {
    for (const auto& [name, amount] : consumed->items()) {
      add(&consumed_[absl::StrCat(key, "/", name)], ToQuantity(amount));
    }
  }
  const int before = taken_[key];
  taken_[key] += sign;
  const bool counters_change = sign > 0 ? before == 0 : before == 1;
  if (!counters_change) return;
  for (const Candidate& candidate : candidates_) {
    if (DeviceKey(candidate.driver, candidate.pool, StringOr(candidate.device, "name")) != key)
      continue;
    for (const Json& consumption : ArrayAt(candidate.device, {"consumesCounters"})) {
      const Json* counters = Find(consumption, "counters");
      if (counters == nullptr || !counters->is_object()) continue;
      for (const auto& [name, counter] : counters->items()) {
        Quantity& left = counters_[absl::StrCat(driver, "/", pool, "/",
                                                StringOr(consumption, "counterSet"), "/", name)];
        const Quantity amount = ToQuantity(counter.value("value", Json("0")));
        left = sign > 0 ? left - amount : left + amount;
      }
    }
  }
}

absl::StatusOr<std::vector<Json>> Allocator::Take(const Request& request) {
  std::vector<Json> results;
  std::set<std::string> reasons;
  for (const Candidate& candidate : candidates_) {
    if (!request.all && static_cast<int64_t>(results.size()) == request.count) break;
    Json consumed;
    const std::string why_not = WhyNot(candidate, request, &consumed);
    if (!why_not.empty()) {
      reasons.insert(absl::StrCat(StringOr(candidate.device, "name"), ": ", why_not));
      continue;
    }
    Json result = {{"request", request.name},
                   {"driver", candidate.driver},
                   {"pool", candidate.pool},
                   {"device", StringOr(candidate.device, "name")}};
    if (request.admin_access) result["adminAccess"] = true;
    if (!consumed.is_null()) {
      result["shareID"] = NewUuid();
      result["consumedCapacity"] = consumed;
    }
    if (!request.tolerations.empty()) result["tolerations"] = request.tolerations;
    Account(result, +1);
    results.push_back(std::move(result));
  }
  if (request.all ? results.empty() : static_cast<int64_t>(results.size()) < request.count) {
    for (const Json& result : results) Account(result, -1);
    return absl::ResourceExhaustedError(absl::StrCat(
        "request \"", request.name, "\" wants ", request.all ? "all" : absl::StrCat(request.count),
        " of class \"", request.class_name, "\", ", results.size(),
        " fit; not these: ", absl::StrJoin(reasons, "; ")));
  }
  return results;
}

// status.allocation.devices.config as the scheduler assembles it: class entries first, then the claim's.
Json Allocator::Config(const Json& claim, const std::vector<Request>& requests) const {
  Json config = Json::array();
  std::map<std::string, std::vector<std::string>> by_class;
  std::vector<std::string> class_order;
  for (const Request& request : requests) {
    if (by_class[request.class_name].empty()) class_order.push_back(request.class_name);
    by_class[request.class_name].push_back(request.name);
  }
  for (const std::string& name : class_order) {
    for (Json entry : ArrayAt(classes_.at(name), {"spec", "config"})) {
      entry["source"] = "FromClass";
      if (by_class[name].size() < requests.size()) entry["requests"] = by_class[name];
      config.push_back(std::move(entry));
    }
  }
  for (Json entry : ArrayAt(claim, {"spec", "devices", "config"})) {
    const Json& names = ArrayAt(entry, {"requests"});
    const bool applies =
        names.empty() || std::any_of(requests.begin(), requests.end(), [&](const Request& request) {
          const std::string base = request.name.substr(0, request.name.find('/'));
          return std::find(names.begin(), names.end(), Json(request.name)) != names.end() ||
                 std::find(names.begin(), names.end(), Json(base)) != names.end();
        });
    if (!applies) continue;
    entry["source"] = "FromClaim";
    config.push_back(std::move(entry));
  }
  return config;
}

absl::StatusOr<Json> Allocator::Allocate(const Json& claim) {
  if (!ArrayAt(claim, {"spec", "devices", "constraints"}).empty()) {
    return absl::InvalidArgumentError(
        "spec.devices.constraints[0]: the sandbox allocates by driver and count; it takes no "
        "constraint");
  }
  std::vector<Request> taken_requests;
  Json results = Json::array();
  const auto give_back = [&] {
    for (const Json& result : results) Account(result, -1);
  };
  const Json& requests = ArrayAt(claim, {"spec", "devices", "requests"});
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::string name = StringOr(requests[i], "name");
    const std::string path = absl::StrCat("spec.devices.requests[", i, "]");
    std::vector<std::pair<std::string, const Json*>> alternatives;
    if (const Json* exactly = Find(requests[i], "exactly"); exactly != nullptr) {
      alternatives.emplace_back(name, exactly);
    }
    for (const Json& alternative : ArrayAt(requests[i], {"firstAvailable"})) {
      alternatives.emplace_back(absl::StrCat(name, "/", StringOr(alternative, "name")),
                                &alternative);
    }
    absl::Status last =
        absl::InvalidArgumentError(absl::StrCat(path, ": needs exactly or firstAvailable"));
    for (const auto& [full_name, spec] : alternatives) {
      const absl::StatusOr<Request> request = ReadRequest(*spec, full_name, path);
      if (!request.ok()) {
        last = request.status();
        break;  // a request that is wrong is not one that does not fit
      }
      const absl::StatusOr<std::vector<Json>> taken = Take(*request);
      last = taken.status();
      if (!taken.ok()) continue;
      for (const Json& result : *taken) results.push_back(result);
      taken_requests.push_back(*request);
      break;
    }
    if (!last.ok()) {
      give_back();
      return last;
    }
  }
  const Json field = {
      {"key", "metadata.name"}, {"operator", "In"}, {"values", Json::array({node_name_})}};
  const Json term = {{"matchFields", Json::array({field})}};
  return Json{{"devices", {{"results", results}, {"config", Config(claim, taken_requests)}}},
              {"nodeSelector", {{"nodeSelectorTerms", Json::array({term})}}}};
}

void Allocator::Release(const Json& allocation) {
  for (const Json& result : ArrayAt(allocation, {"devices", "results"})) Account(result, -1);
}

}  // namespace dra::sandbox
