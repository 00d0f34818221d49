#include "dra/resource/device_repair.h"

#include <string>
#include <vector>

#include "dra/resource/slice.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dra::resource {
namespace {

constexpr char kDriver[] = "gpu.sdk.test";

RepairedDevice Repaired(const char* text) { return RepairDevice(kDriver, Json::parse(text)); }

Json DeviceWith(const std::string& attribute, const Json& value) {
  return {{"name", "d0"}, {"attributes", {{"model", {{"string", "M"}}}, {attribute, value}}}};
}

TEST(RepairDevice, LeavesAGoodDeviceAndUnknownMembersAlone) {
  const Json device = Json::parse(R"({"name": "d0", "newMember": {"a": [1]}, "attributes": {
      "model": {"string": "M"}, "future": {"float": 1.5}, "resource.kubernetes.io/pcieRoot": {"string": "pci0000:00"},
      "resource.kubernetes.io/pciBusID": {"string": "0000:17:00.0"}, "resource.kubernetes.io/numaNode": {"int": 0}},
      "capacity": {"memory": {"value": "80Gi", "newMember": 1}}})");
  const RepairedDevice repaired = RepairDevice(kDriver, device);
  EXPECT_EQ(repaired.device, device);
  EXPECT_TRUE(repaired.problems.empty());
}

TEST(Inv05, OneBadVersionCostsOnlyThatAttribute) {
  RepairedDevice repaired =
      RepairDevice(kDriver, DeviceWith("driverVersion", {{"version", "6.19.14.31400000"}}));
  ASSERT_TRUE(repaired.device.has_value());
  EXPECT_EQ(repaired.device->at("attributes").at("model").at("string"), "M");
  EXPECT_EQ(repaired.device->at("attributes").at("driverVersion").at("version"),
            "6.19.14+31400000");
  ASSERT_EQ(repaired.problems.size(), 1u);
  EXPECT_EQ(repaired.problems[0].field, "attributes[driverVersion]");
  EXPECT_NE(repaired.problems[0].value.find("6.19.14.31400000"), std::string::npos);
  EXPECT_NE(repaired.problems[0].action.find("repaired to"), std::string::npos);

  repaired = RepairDevice(kDriver, DeviceWith("driverVersion", {{"version", "unknown"}}));
  ASSERT_TRUE(repaired.device.has_value());
  EXPECT_EQ(repaired.device->at("attributes"), (Json{{"model", {{"string", "M"}}}}));
  ASSERT_EQ(repaired.problems.size(), 1u);
  EXPECT_EQ(repaired.problems[0].action, "attribute dropped");
}

TEST(Inv07, AJoinedListOverTheLimitIsLeftOut) {
  std::string list = "10.0.0.1/32";
  for (int i = 2; i <= 40; ++i) list += ",10.0.0." + std::to_string(i) + "/32";
  for (const std::string& text : {list, "10.0.0.1/32, " + list}) {
    const RepairedDevice repaired = RepairDevice(kDriver, DeviceWith("ipv4", {{"string", text}}));
    ASSERT_TRUE(repaired.device.has_value());
    EXPECT_FALSE(repaired.device->at("attributes").contains("ipv4"));
    EXPECT_TRUE(repaired.device->at("attributes").contains("model"));
    ASSERT_EQ(repaired.problems.size(), 1u);
    EXPECT_NE(repaired.problems[0].problem.find("64 bytes"), std::string::npos);
    EXPECT_LE(repaired.problems[0].value.size(), 128u);
  }
}

TEST(Inv08, AnOverlongTextIsCutAtA64ByteUtf8BoundaryTheSameEachTime) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "Ä";
  RepairedDevice repaired = RepairDevice(kDriver, DeviceWith("pciVendor", {{"string", text}}));
  ASSERT_TRUE(repaired.device.has_value());
  EXPECT_EQ(repaired.device->at("attributes").at("pciVendor").at("string"), text.substr(0, 64));
  EXPECT_EQ(RepairDevice(kDriver, DeviceWith("pciVendor", {{"string", text}})).device,
            repaired.device);
  // Cut once, never again.
  EXPECT_TRUE(RepairDevice(kDriver, *repaired.device).problems.empty());
  // Prose with a comma is not a list; an odd boundary gives 63 bytes.
  const std::string prose =
      "Advanced Micro Devices, Inc. [AMD/ATI] Radeon Instinct Series x" + text;
  repaired = RepairDevice(kDriver, DeviceWith("pciVendor", {{"string", prose}}));
  EXPECT_EQ(repaired.device->at("attributes").at("pciVendor").at("string"), prose.substr(0, 63));
}

TEST(Inv09, AKeyThatIsNoIdentifierCostsThatAttribute) {
  const RepairedDevice repaired = RepairDevice(kDriver, DeviceWith("numa-1", {{"int", 3}}));
  ASSERT_TRUE(repaired.device.has_value());
  EXPECT_EQ(repaired.device->at("attributes").size(), 1u);
  ASSERT_EQ(repaired.problems.size(), 1u);
  EXPECT_NE(repaired.problems[0].problem.find("C identifier"), std::string::npos);
}

TEST(Inv15, TheReservedDomainCarriesOnlyTheStandardNames) {
  const struct {
    const char *name, *value;
    bool kept;
  } kCases[] = {
      {"foo", R"({"int":1})", false},
      {"numaNode", R"({"int":-1})", false},
      {"numaNode", R"({"int":1})", true},
      {"numaNode", R"({"string":"1"})", false},
      {"numaNode", R"({"ints":[0,1]})", true},
      {"numaNode", R"({"ints":[0,-1]})", false},
      {"pcieRoot", R"({"string":"pci0000:00"})", true},
      {"pcieRoot", R"({"string":"0000:00"})", false},
      {"pcieRoot", R"({"string":"pci0000:0G"})", false},
      {"pciBusID", R"({"string":"0000:17:00.0"})", true},
      {"pciBusID", R"({"string":"00000000:17:00.0"})", false},
      {"pciBusID", R"({"string":"0000:AB:00.0"})", false},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(std::string(c.name) + c.value);
    const std::string name = std::string("resource.kubernetes.io/") + c.name;
    const RepairedDevice repaired = RepairDevice(kDriver, DeviceWith(name, Json::parse(c.value)));
    ASSERT_TRUE(repaired.device.has_value());
    EXPECT_EQ(repaired.device->at("attributes").contains(name), c.kept);
    EXPECT_EQ(repaired.problems.size(), c.kept ? 0u : 1u);
  }
}

TEST(Slc12, OwnDomainAttributesAreWrittenWithoutItAndNeverTwice) {
  RepairedDevice repaired =
      Repaired(R"({"name": "d0", "attributes": {"gpu.sdk.test/model": {"string": "M"}}})");
  ASSERT_TRUE(repaired.device.has_value());
  EXPECT_EQ(repaired.device->at("attributes"), (Json{{"model", {{"string", "M"}}}}));
  repaired = Repaired(
      R"({"name": "d0", "attributes": {"gpu.sdk.test/model": {"string": "Q"}, "model": {"string": "M"}}})");
  EXPECT_EQ(repaired.device->at("attributes"), (Json{{"model", {{"string", "M"}}}}));
  ASSERT_EQ(repaired.problems.size(), 1u);
  EXPECT_EQ(repaired.problems[0].field, "attributes[gpu.sdk.test/model]");
}

// The allocator looks requested capacities up as they are written.
TEST(Slc12, OwnDomainCapacitiesKeepTheirNamesAndAreNeverTwice) {
  RepairedDevice repaired =
      Repaired(R"({"name": "d0", "capacity": {"gpu.sdk.test/memory": {"value": "1"}}})");
  ASSERT_TRUE(repaired.device.has_value());
  EXPECT_EQ(repaired.device->at("capacity"), (Json{{"gpu.sdk.test/memory", {{"value", "1"}}}}));
  EXPECT_TRUE(repaired.problems.empty());
  repaired = Repaired(
      R"({"name": "d0", "capacity": {"gpu.sdk.test/memory": {"value": "1"}, "memory": {"value": "2"}}})");
  EXPECT_EQ(repaired.device->at("capacity"), (Json{{"memory", {{"value", "2"}}}}));
  ASSERT_EQ(repaired.problems.size(), 1u);
  EXPECT_EQ(repaired.problems[0].field, "capacity[gpu.sdk.test/memory]");
}

TEST(RepairDevice, DropsOnlyTheAttributeThatHasNoValueOrAWrongOne) {
  for (const char* value :
       {"{}", "5", R"({"int":"x"})", R"({"int":1.5})", R"({"bool":1})", R"({"string":7})",
        R"({"int":1,"bool":true})", R"({"ints":[]})", R"({"ints":[1,"x"]})", "[]", "null",
        R"({"versions":["1.0.0","x"]})", R"({"int":18446744073709551615})"}) {
    SCOPED_TRACE(value);
    const RepairedDevice repaired = RepairDevice(kDriver, DeviceWith("bad", Json::parse(value)));
    ASSERT_TRUE(repaired.device.has_value());
    EXPECT_EQ(repaired.device->at("attributes"), (Json{{"model", {{"string", "M"}}}}));
    EXPECT_EQ(repaired.problems.size(), 1u);
  }
  const RepairedDevice lists =
      RepairDevice(kDriver, DeviceWith("l", {{"versions", {"v1.2", "1.2.3"}}}));
  EXPECT_EQ(lists.device->at("attributes").at("l").at("versions"), Json::array({"1.2.0", "1.2.3"}));
  Json bad_utf8 = DeviceWith("t", {{"string", "a\xff"}});
  EXPECT_FALSE(RepairDevice(kDriver, bad_utf8).device->at("attributes").contains("t"));
}

TEST(RepairDevice, DropsTheLastAttributesByNameNeverACapacity) {
  Json device = {{"name", "d0"}};
  for (char c = 'a'; c <= 'z'; ++c) {
    device["attributes"][std::string(1, c)] = {{"int", 1}};
    if (c < 'k') device["capacity"][std::string(1, c)] = {{"value", "1"}};
  }
  const RepairedDevice repaired = RepairDevice(kDriver, device);
  ASSERT_TRUE(repaired.device.has_value());
  EXPECT_EQ(repaired.device->at("capacity").size(), 10u);
  EXPECT_EQ(repaired.device->at("attributes").size(), 22u);
  EXPECT_FALSE(repaired.device->at("attributes").contains("w"));
  EXPECT_EQ(repaired.problems.size(), 4u);
  EXPECT_TRUE(ValidateDevice(*repaired.device, "").empty());
}

TEST(RepairDevice, DropsABadPolicyOrCapacityButNotASharedDevicesLimit) {
  RepairedDevice repaired =
      Repaired(R"({"name": "d0", "allowMultipleAllocations": true, "capacity": {
      "m": {"value": "4", "requestPolicy": {"default": "9"}}}})");
  ASSERT_TRUE(repaired.device.has_value());
  EXPECT_EQ(repaired.device->at("capacity"), (Json{{"m", {{"value", "4"}}}}));
  EXPECT_EQ(repaired.problems[0].field, "capacity[m].requestPolicy");
  repaired = Repaired(R"({"name": "d0", "capacity": {"m": {"value": "x"}, "n": {"value": "1"}}})");
  EXPECT_EQ(repaired.device->at("capacity"), (Json{{"n", {{"value", "1"}}}}));
  repaired = Repaired(
      R"({"name": "d0", "allowMultipleAllocations": true, "capacity": {"m": {"value": "x"}}})");
  EXPECT_FALSE(repaired.device.has_value());
  EXPECT_EQ(repaired.problems[0].action, "device dropped");
}

TEST(RepairDevice, DropsADeviceThatWouldOfferSomethingElse) {
  for (const char* text :
       {"7", R"({"name": "D0"})", "{}",
        R"({"name": "d0", "taints": [{"key": "k", "effect": "Evict"}]})",
        R"({"name": "d0", "taints": [{"key": "a b", "effect": "NoSchedule"}]})",
        R"({"name": "d0", "bindingConditions": ["a"]})", R"({"name": "d0", "nodeName": "n1"})",
        R"({"name": "d0", "consumesCounters": [{"counterSet": "c"}]})",
        R"({"name": "d0", "nodeAllocatableResources": {"gpu": {"overhead": {"perPod": "1"}}}})"}) {
    SCOPED_TRACE(text);
    const RepairedDevice repaired = Repaired(text);
    EXPECT_FALSE(repaired.device.has_value());
    ASSERT_FALSE(repaired.problems.empty());
    EXPECT_EQ(repaired.problems.back().action, "device dropped");
  }
}

TEST(RepairDevice, NeverLeavesAnInvalidDevice) {
  const Json good = Json::parse(R"({"name": "d0", "allowMultipleAllocations": true,
      "attributes": {"a": {"string": "x"}, "b": {"ints": [1]}}, "capacity": {"m": {"value": "4", "requestPolicy":
      {"default": "1", "validRange": {"min": "1", "step": "1"}}}}, "taints": [{"key": "k", "effect": "NoSchedule"}],
      "consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1"}}}]})");
  const Json flat = good.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    for (Json::json_pointer at(pointer); !at.empty(); at = at.parent_pointer()) {
      for (const Json& junk :
           {Json(), Json(true), Json(-1), Json("a b"), Json::array({1}), Json{{"x", 1}}}) {
        Json device = good;
        device[at] = junk;
        const RepairedDevice repaired = RepairDevice(kDriver, device);
        if (!repaired.device.has_value()) continue;
        Json checked = *repaired.device;
        if (checked.contains("attributes")) {
          // An attribute of a type this build does not know passes on purpose.
          Json& attributes = checked["attributes"];
          for (auto it = attributes.begin(); it != attributes.end();) {
            it = it->contains("x") ? attributes.erase(it) : std::next(it);
          }
        }
        EXPECT_EQ(JoinFieldErrors(ValidateDevice(checked, "")), "") << pointer << " " << junk;
      }
    }
  }
}

TEST(Utf8, IsToldFromOtherBytes) {
  for (const char* text : {"", "a", "Ä", "€", "😀"}) EXPECT_TRUE(IsUtf8(text)) << text;
  for (const char* text :
       {"\x80", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xc3", "a\xff"}) {
    EXPECT_FALSE(IsUtf8(text));
  }
  EXPECT_EQ(CutUtf8("a€b", 3), "a");
  EXPECT_EQ(CutUtf8("a€b", 4), "a€");
  EXPECT_EQ(CutUtf8("ab", 9), "ab");
}

}  // namespace
}  // namespace dra::resource
