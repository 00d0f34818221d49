#include "dra/resource/claim_status.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dra::resource {
namespace {

const Json kAllocation = Json::parse(R"({"devices": {"results": [
  {"request": "r", "driver": "gpu.sdk.test", "pool": "n1", "device": "d0"},
  {"request": "r", "driver": "gpu.sdk.test", "pool": "n1", "device": "d1",
   "shareID": "0c1e7c3e-5b1a-4c93-9d0e-3a4b5c6d7e8f"}]}})");

Json Statuses() {
  return Json::parse(R"([
    {"driver": "gpu.sdk.test", "pool": "n1", "device": "d0", "data": {"k": 1},
     "conditions": [{"type": "Ready", "status": "True", "reason": "Configured", "message": "",
                     "lastTransitionTime": "2026-01-01T00:00:00Z"}],
     "networkData": {"interfaceName": "eth0", "ips": ["10.0.0.1/24", "2001:db8::1/64"], "hardwareAddress": "aa"}},
    {"driver": "gpu.sdk.test", "pool": "n1", "device": "d1", "shareID": "0c1e7c3e-5b1a-4c93-9d0e-3a4b5c6d7e8f"}])");
}

TEST(ValidateDeviceStatuses, TakesAllocatedDevices) {
  EXPECT_EQ(JoinFieldErrors(ValidateDeviceStatuses(Statuses(), kAllocation)), "");
  EXPECT_TRUE(ValidateDeviceStatuses(nullptr, nullptr).empty());
}

TEST(ValidateDeviceStatuses, NamesTheFieldAsTheServerDoes) {
  const std::string long_text(32769, 'x');
  const struct {
    const char* pointer;
    Json value;
    const char* error;
  } kCases[] = {
      {"/0/device", "d7", "status.devices[0] FieldValueInvalid"},
      {"/1/shareID", nullptr, "status.devices[1] FieldValueInvalid"},
      {"/0/data", {{"k", std::string(10240, 'x')}}, "status.devices[0].data FieldValueTooLong"},
      {"/0/data", "x", "status.devices[0].data FieldValueTypeInvalid"},
      {"/0/conditions/0/type", nullptr, "status.devices[0].conditions[0].type FieldValueRequired"},
      {"/0/conditions/0/status", "Yes",
       "status.devices[0].conditions[0].status FieldValueNotSupported"},
      {"/0/conditions/0/reason", nullptr,
       "status.devices[0].conditions[0].reason FieldValueRequired"},
      {"/0/conditions/0/reason", "not a reason",
       "status.devices[0].conditions[0].reason FieldValueInvalid"},
      {"/0/conditions/0/message", long_text,
       "status.devices[0].conditions[0].message FieldValueTooLong"},
      {"/0/conditions/0/observedGeneration", -1,
       "status.devices[0].conditions[0].observedGeneration FieldValueInvalid"},
      {"/0/conditions/0/lastTransitionTime", nullptr,
       "status.devices[0].conditions[0].lastTransitionTime FieldValueRequired"},
      {"/0/networkData/ips/0", "10.0.0.1",
       "status.devices[0].networkData.ips[0] FieldValueInvalid"},
      {"/0/networkData/ips/0", "10.0.0.1/33",
       "status.devices[0].networkData.ips[0] FieldValueInvalid"},
      {"/0/networkData/ips/1", "2001:DB8::1/64",
       "status.devices[0].networkData.ips[1] FieldValueInvalid"},
      {"/0/networkData/ips/1", "10.0.0.1/24",
       "status.devices[0].networkData.ips[1] FieldValueDuplicate"},
      {"/0/networkData/interfaceName", std::string(257, 'x'),
       "status.devices[0].networkData.interfaceName FieldValueTooLong"},
      {"/0/networkData/hardwareAddress", std::string(129, 'x'),
       "status.devices[0].networkData.hardwareAddress FieldValueTooLong"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.error);
    Json statuses = Statuses();
    statuses[Json::json_pointer(c.pointer)] = c.value;
    const std::vector<FieldError> errors = ValidateDeviceStatuses(statuses, kAllocation);
    ASSERT_EQ(errors.size(), 1u) << JoinFieldErrors(errors);
    EXPECT_EQ(errors[0].field + " " + std::string(FieldReasonName(errors[0].reason)), c.error);
  }
}

TEST(ValidateDeviceStatuses, RefusesDuplicatesTooManyAndUnallocatedClaims) {
  Json statuses = Statuses();
  statuses.push_back(statuses[0]);
  EXPECT_EQ(ValidateDeviceStatuses(statuses, kAllocation)[0].field, "status.devices[2]");
  statuses = Statuses();
  Json& conditions = statuses[0]["conditions"];
  for (int i = 0; i < 8; ++i) {
    conditions.push_back(conditions[0]);
    conditions.back()["type"] = "T" + std::to_string(i);
  }
  EXPECT_EQ(ValidateDeviceStatuses(statuses, kAllocation)[0].field, "status.devices[0].conditions");
  conditions.erase(conditions.begin() + 2, conditions.end());
  conditions[1]["type"] = "Ready";
  EXPECT_EQ(ValidateDeviceStatuses(statuses, kAllocation)[0].field,
            "status.devices[0].conditions[1].type");
  EXPECT_EQ(ValidateDeviceStatuses(Statuses(), nullptr).size(), 2u);
}

}  // namespace
}  // namespace dra::resource
