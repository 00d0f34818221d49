// A device as a backend reports it: whatever comes, what is left of it is accepted by the API server.
#include <set>
#include <string>

#include "dra/base/json.h"
#include "dra/resource/device_repair.h"
#include "dra/resource/slice.h"
#include "test/fuzz/fuzz.h"

namespace {

// Attributes of a type that this build does not know pass through the repair, for a newer server may know it.
dra::Json WithKnownTypes(dra::Json device) {
  static const std::set<std::string> kTypes = {"bool",   "bools",   "int",     "ints",
                                               "string", "strings", "version", "versions"};
  const dra::Json* attributes = dra::Find(device, "attributes");
  if (attributes == nullptr || !attributes->is_object()) return device;
  dra::Json kept = dra::Json::object();
  for (const auto& [name, value] : attributes->items()) {
    const bool known =
        value.is_object() && value.size() == 1 && kTypes.count(value.items().begin().key()) == 1;
    if (known) kept[name] = value;
  }
  device["attributes"] = kept;
  return device;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = dra::ParseJson(dra::fuzz::Text(data, size), "device");
  if (!json.ok()) return 0;
  constexpr char kDriver[] = "gpu.sdk.test";
  const dra::resource::RepairedDevice repaired = dra::resource::RepairDevice(kDriver, *json);
  if (!repaired.device.has_value()) {
    dra::fuzz::Require(!repaired.problems.empty(), "a device that is dropped has a problem");
    return 0;
  }
  const auto faults = dra::resource::ValidateDevice(WithKnownTypes(*repaired.device), "device");
  dra::fuzz::Require(faults.empty(), "a repaired device is valid");
  const dra::resource::RepairedDevice again =
      dra::resource::RepairDevice(kDriver, *repaired.device);
  dra::fuzz::Require(again.device.has_value() && *again.device == *repaired.device,
                     "repairing twice changes nothing");
  (void)dra::resource::MaxDevicesBeside(*repaired.device);
  return 0;
}
