#include "dra/records/holds.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"

namespace dra::records {
namespace {

std::map<std::string, std::string> Quantities(const Json* object) {
  std::map<std::string, std::string> quantities;
  if (object == nullptr || !object->is_object()) return quantities;
  for (const auto& [name, value] : object->items()) {
    // A counter is {"value": "4Gi"}; a consumed capacity is the text itself. Numbers are legal Quantities too.
    const Json* text = value.is_object() ? Find(value, "value") : &value;
    if (text == nullptr) continue;
    if (text->is_string()) quantities[name] = text->get<std::string>();
    if (text->is_number()) quantities[name] = DumpJson(*text);
  }
  return quantities;
}

HeldDevice Base(const RecordDevice& device) {
  HeldDevice held;
  held.pool = device.pool;
  held.device = device.device;
  held.share_id = device.share_id;
  held.admin_access = device.admin_access;
  return held;
}

}  // namespace

std::string DeviceKey(absl::string_view pool, absl::string_view device) {
  return absl::StrCat("device/", pool, "/", device);
}

std::string CounterSetKey(absl::string_view pool, absl::string_view counter_set) {
  return absl::StrCat("counters/", pool, "/", counter_set);
}

std::string AnyPoolKey(absl::string_view device) { return absl::StrCat("device-name/", device); }

std::vector<Hold> HoldsOf(const Record& record) {
  std::map<std::string, Hold> by_key;
  const auto hold_for = [&](const std::string& key) -> Hold& {
    Hold& hold = by_key[key];
    hold.key = key;
    hold.claim = record.claim;
    return hold;
  };
  for (const RecordDevice& device : record.devices) {
    std::vector<KeyShape> keys = device.exclusion_keys;
    if (keys.empty()) keys.push_back({DeviceKey(device.pool, device.device), ""});
    for (const KeyShape& key : keys) {
      HeldDevice held = Base(device);
      held.shape = key.shape;
      held.consumed_capacity = Quantities(Find(device.result, "consumedCapacity"));
      hold_for(key.key).devices.push_back(std::move(held));
    }
    if (!device.consumes_counters.is_array()) continue;
    for (const Json& consumption : device.consumes_counters) {
      HeldDevice held = Base(device);
      held.counters = Quantities(Find(consumption, "counters"));
      hold_for(CounterSetKey(device.pool, StringOr(consumption, "counterSet")))
          .devices.push_back(std::move(held));
    }
  }
  std::vector<Hold> holds;
  holds.reserve(by_key.size());
  for (auto& [key, hold] : by_key) holds.push_back(std::move(hold));
  return holds;
}

std::vector<std::string> KeysOf(const std::vector<Hold>& holds) {
  std::vector<std::string> keys;
  keys.reserve(holds.size());
  for (const Hold& hold : holds) keys.push_back(hold.key);
  return keys;
}

std::string EncodeHold(const Hold& hold) {
  Json json = {{"key", hold.key},
               {"claim",
                {{"namespace", hold.claim.namespace_name},
                 {"name", hold.claim.name},
                 {"uid", hold.claim.uid}}}};
  Json devices = Json::array();
  for (const HeldDevice& held : hold.devices) {
    Json device = {{"pool", held.pool}, {"device", held.device}, {"shape", held.shape}};
    if (held.share_id.has_value()) device["shareID"] = *held.share_id;
    if (held.admin_access) device["adminAccess"] = true;
    if (!held.consumed_capacity.empty()) device["consumedCapacity"] = held.consumed_capacity;
    if (!held.counters.empty()) device["counters"] = held.counters;
    devices.push_back(std::move(device));
  }
  json["devices"] = std::move(devices);
  return absl::StrCat(DumpJson(json), "\n");
}

absl::StatusOr<Hold> DecodeHold(absl::string_view text) {
  const absl::StatusOr<Json> json = ParseJsonObject(text, "hold");
  if (!json.ok()) return absl::DataLossError(json.status().message());
  Hold hold;
  hold.key = StringOr(*json, "key");
  const Json* claim = Find(*json, "claim");
  const Json* devices = Find(*json, "devices");
  if (hold.key.empty() || claim == nullptr || devices == nullptr || !devices->is_array()) {
    return absl::DataLossError("hold: key, claim or devices missing");
  }
  hold.claim = {StringOr(*claim, "namespace"), StringOr(*claim, "name"), StringOr(*claim, "uid")};
  for (const Json& device : *devices) {
    HeldDevice held;
    held.pool = StringOr(device, "pool");
    held.device = StringOr(device, "device");
    held.shape = StringOr(device, "shape");
    const std::string share = StringOr(device, "shareID");
    if (!share.empty()) held.share_id = share;
    held.admin_access = BoolOr(device, "adminAccess");
    held.consumed_capacity = Quantities(Find(device, "consumedCapacity"));
    held.counters = Quantities(Find(device, "counters"));
    hold.devices.push_back(std::move(held));
  }
  return hold;
}

}  // namespace dra::records
