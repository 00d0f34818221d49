// A device as a backend reports it: whatever comes, what is left of it is accepted by the API server.
#include "dra/base/json.h"
#include "dra/resource/device_repair.h"
#include "dra/resource/slice.h"
#include "test/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = dra::ParseJson(dra::fuzz::Text(data, size), "device");
  if (!json.ok()) return 0;
  constexpr char kDriver[] = "gpu.sdk.test";
  const dra::resource::RepairedDevice repaired = dra::resource::RepairDevice(kDriver, *json);
  if (!repaired.device.has_value()) {
    dra::fuzz::Require(!repaired.problems.empty(), "a device that is dropped has a problem");
    return 0;
  }
  const auto faults = dra::resource::ValidateDevice(*repaired.device, "device");
  dra::fuzz::Require(faults.empty(), "a repaired device is valid");
  const dra::resource::RepairedDevice again =
      dra::resource::RepairDevice(kDriver, *repaired.device);
  dra::fuzz::Require(again.device.has_value() && *again.device == *repaired.device,
                     "repairing twice changes nothing");
  (void)dra::resource::MaxDevicesBeside(*repaired.device);
  return 0;
}
