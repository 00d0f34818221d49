#include "dra/inventory/inventory.h"

#include "test/inventory/inventory_fixture.h"

namespace dra::inventory {
namespace {

using loader::FieldSupport;

class Inv01 : public InventoryTest {};
class Inv04 : public InventoryTest {};
class Inv05 : public InventoryTest {};
class Inv10 : public InventoryTest {};
class Inv12 : public InventoryTest {};
class Inv13 : public InventoryTest {};
class Inv14 : public InventoryTest {};
class Slc09 : public InventoryTest {};

TEST_F(InventoryTest, IsUnknownUntilADiscoverySucceeds) {
  EXPECT_FALSE(inventory_.Get()->known);
  EXPECT_TRUE(inventory_.Get()->pools.empty());
  EXPECT_FALSE(inventory_.UpdateFailed(absl::UnavailableError("no driver"))->known);
  const auto snapshot = inventory_.Update(Found({}), AllKept(), {});
  EXPECT_TRUE(snapshot->known);
  ASSERT_EQ(snapshot->pools.size(), 1u);
  EXPECT_EQ(snapshot->pools[0].name, "n1");
}

TEST_F(InventoryTest, SortsPoolsAndDevicesAndFindsThem) {
  std::vector<loader::DiscoverItem> items;
  for (int i = 99; i >= 0; --i) items.push_back(Item(absl::StrCat("d", i), absl::StrCat("id", i)));
  items.push_back(Item("d1", "other", Json::object(), {}, "b.x"));
  const auto snapshot = inventory_.Update(Found(std::move(items)), AllKept(), {});
  ASSERT_EQ(snapshot->pools.size(), 2u);
  EXPECT_EQ(snapshot->pools[1].name, "n1/b.x");
  for (int i = 0; i < 100; ++i) {
    const Device* device = snapshot->FindDevice("n1", absl::StrCat("d", i));
    ASSERT_NE(device, nullptr);
    EXPECT_EQ(device->identity, absl::StrCat("id", i));
    EXPECT_EQ(device->exclusion_keys.size(), 1u);
  }
  EXPECT_EQ(snapshot->FindDevice("n1/b.x", "d1")->identity, "other");
  EXPECT_EQ(snapshot->FindDevice("n1", "d100"), nullptr);
  EXPECT_EQ(snapshot->FindDevice("n2", "d1"), nullptr);
}

TEST_F(InventoryTest, VersionGrowsOnlyWithContent) {
  const auto first = inventory_.Update(
      Found({Item("d0", "A", {{"capacity", {{"m", {{"value", "1Gi"}}}}}})}), AllKept(), {});
  clock_.now += absl::Minutes(1);
  const auto second = inventory_.Update(
      Found({Item("d0", "A", {{"capacity", {{"m", {{"value", "1024Mi"}}}}}})}), AllKept(), {});
  EXPECT_EQ(second->version, first->version);
  EXPECT_EQ(second->last_success, clock_.now);
  EXPECT_EQ(second->pools[0].devices[0], first->pools[0].devices[0]);
  const auto third = inventory_.Update(
      Found({Item("d0", "A", {{"capacity", {{"m", {{"value", "2Gi"}}}}}})}), AllKept(), {});
  EXPECT_GT(third->version, second->version);
}

TEST_F(Inv01, RemovingOneDeviceChangesNoOtherName) {
  inventory_.Update(Found({Item("gpu-0", "A"), Item("gpu-1", "B")}), AllKept(), {});
  EXPECT_EQ(Listed(*inventory_.Update(Found({Item("gpu-1", "B")}), AllKept(), {})),
            Names{"n1/gpu-1=B"});
}

TEST_F(Inv01, AHeldNameIsNotGivenToOtherHardware) {
  inventory_.Update(Found({Item("gpu-0", "A"), Item("gpu-1", "B")}), AllKept(), {});
  // A left, and B slid into its name while a claim holds A.
  auto snapshot = inventory_.Update(Found({Item("gpu-0", "B")}), AllKept(), {{"n1", "gpu-0"}});
  EXPECT_EQ(Listed(*snapshot), (Names{"n1/gpu-0=A!", "n1/gpu-1=B"}));
  ASSERT_EQ(snapshot->findings.size(), 1u);
  EXPECT_NE(snapshot->findings[0].action.find("refused"), std::string::npos);
  // The claim ended: the new report counts.
  snapshot = inventory_.Update(Found({Item("gpu-0", "B")}), AllKept(), {});
  EXPECT_EQ(Listed(*snapshot), Names{"n1/gpu-0=B"});
}

TEST_F(Inv01, AHeldDeviceKeepsItsName) {
  inventory_.Update(Found({Item("gpu-0", "A"), Item("gpu-1", "B")}), AllKept(), {});
  const auto snapshot =
      inventory_.Update(Found({Item("gpu-0", "B")}), AllKept(), {{"n1", "gpu-1"}});
  EXPECT_EQ(Listed(*snapshot), Names{"n1/gpu-1=B"});
  EXPECT_NE(snapshot->findings.at(0).action.find("kept as \"gpu-1\""), std::string::npos);
}

TEST_F(Inv04, ABrokenSlotThatIsReportedStaysTaintedAndASwapKeepsItsName) {
  const auto uuid = [](const char* id) {
    return Json{{"attributes", {{"uuid", {{"string", id}}}}}};
  };
  inventory_.Update(Found({Item("s0", "A", uuid("A"))}), AllKept(), {});
  inventory_.UpdateHealth({Health("s0", loader::HealthState::kUnhealthy, "off-bus")});
  auto snapshot = inventory_.Update(Found({Item("s0", "A", uuid("A"))}), AllKept(), {});
  EXPECT_EQ(snapshot->FindDevice("n1", "s0")->device.at("taints")[0].at("effect"), "NoSchedule");
  snapshot = inventory_.Update(Found({Item("s0", "B", uuid("B"))}), AllKept(), {});
  ASSERT_NE(snapshot->FindDevice("n1", "s0"), nullptr);
  EXPECT_EQ(snapshot->FindDevice("n1", "s0")->device,
            (Json{{"name", "s0"}, {"attributes", {{"uuid", {{"string", "B"}}}}}}));
  EXPECT_EQ(snapshot->FindDevice("n1", "s0")->health.state, loader::HealthState::kUnknown);
}

TEST_F(Inv05, ABadAttributeIsAFindingAndTheRestIsPublished) {
  const auto snapshot = inventory_.Update(
      Found({Item("d0", "A",
                  {{"attributes", {{"v", {{"version", "junk"}}}, {"m", {{"string", "M"}}}}}}),
             Item("d1", "B")}),
      AllKept(), {});
  EXPECT_EQ(Listed(*snapshot), (Names{"n1/d0=A", "n1/d1=B"}));
  ASSERT_EQ(snapshot->findings.size(), 1u);
  EXPECT_EQ(snapshot->findings[0].device, "d0");
  EXPECT_EQ(snapshot->findings[0].field, "attributes[v]");
}

TEST_F(Inv10, AnEmptyIdentityCostsThatDeviceOnly) {
  const auto snapshot = inventory_.Update(Found({Item("region-0", ""), Item("region-1", "38d7"),
                                                 ErrorItem("dfl-fme.0 interface_id", "empty")}),
                                          AllKept(), {});
  EXPECT_EQ(Listed(*snapshot), Names{"n1/region-1=38d7"});
  ASSERT_EQ(snapshot->findings.size(), 2u);
  EXPECT_EQ(snapshot->findings[0].device, "dfl-fme.0 interface_id");
  EXPECT_EQ(snapshot->findings[1].field, "identity");
}

TEST_F(Inv12, EveryFunctionIsADeviceAndAModeSwitchLeavesNothing) {
  auto snapshot =
      inventory_.Update(Found({Item("afu-a", "p0/a"), Item("afu-b", "p0/b")}), AllKept(), {});
  EXPECT_EQ(Listed(*snapshot), (Names{"n1/afu-a=p0/a", "n1/afu-b=p0/b"}));
  snapshot = inventory_.Update(Found({Item("region-0", "r0")}), AllKept(), {});
  EXPECT_EQ(Listed(*snapshot), Names{"n1/region-0=r0"});
}

TEST_F(Inv13, CapabilitiesFollowEachDiscovery) {
  const auto rdma = [](bool value) { return Json{{"attributes", {{"rdma", {{"bool", value}}}}}}; };
  inventory_.Update(Found({Item("d0", "A", rdma(false))}), AllKept(), {});
  const auto snapshot = inventory_.Update(Found({Item("d0", "A", rdma(true))}), AllKept(), {});
  EXPECT_EQ(snapshot->FindDevice("n1", "d0")->device.at("attributes").at("rdma").at("bool"), true);
}

TEST_F(Inv14, AFailedDiscoveryKeepsWhatIsKnownAndShowsTheError) {
  inventory_.Update(Found({Item("d0", "A")}), AllKept(), {});
  const auto failed = inventory_.UpdateFailed(absl::UnavailableError("library mismatch"));
  EXPECT_EQ(Listed(*failed), Names{"n1/d0=A"});
  EXPECT_EQ(failed->last_error.message(), "library mismatch");
  EXPECT_TRUE(inventory_.Update(Found({Item("d0", "A")}), AllKept(), {})->last_error.ok());
}

// A node without the vendor's driver is asked again and again.
TEST_F(Inv14, AFailureThatLastsIsLoggedOnceAndSoIsItsEnd) {
  std::vector<std::string> lines;
  const auto keep = [](void* context, absl::string_view line) {
    static_cast<std::vector<std::string>*>(context)->push_back(std::string(line));
  };
  Inventory inventory({"gpu.sdk.test", "n1", false, ""}, &clock_,
                      Logger::ToFunction(LogLevel::kInfo, LogFormat::kText, keep, &lines));
  for (int i = 0; i < 5; ++i) inventory.UpdateFailed(absl::UnavailableError("no driver"));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("no driver"), std::string::npos) << lines[0];
  for (int i = 0; i < 5; ++i) inventory.Update(Found({Item("d0", "A")}), AllKept(), {});
  EXPECT_EQ(lines.size(), 2u);
}

TEST_F(Slc09, AHeldDeviceStaysListedWithItsLastAttributes) {
  inventory_.Update(
      Found({Item("d0", "A", {{"attributes", {{"m", {{"int", 1}}}}}}), Item("d1", "B")}), AllKept(),
      {});
  auto snapshot = inventory_.Update(Found({Item("d1", "B")}), AllKept(), {{"n1", "d0"}});
  EXPECT_EQ(Listed(*snapshot), (Names{"n1/d0=A!", "n1/d1=B"}));
  EXPECT_EQ(snapshot->FindDevice("n1", "d0")->device.at("attributes").at("m").at("int"), 1);
  snapshot =
      inventory_.Update(Found({Item("d0", "A"), Item("d1", "B")}), AllKept(), {{"n1", "d0"}});
  EXPECT_EQ(Listed(*snapshot), (Names{"n1/d0=A", "n1/d1=B"}));
  EXPECT_EQ(Listed(*inventory_.Update(Found({Item("d1", "B")}), AllKept(), {})), Names{"n1/d1=B"});
}

TEST_F(InventoryTest, APartialDiscoveryTakesNothingAway) {
  inventory_.Update(Found({Item("d0", "A"), Item("d1", "B")}), AllKept(), {});
  EXPECT_EQ(Listed(*inventory_.Update(Found({Item("d2", "C")}, false), AllKept(), {})),
            (Names{"n1/d0=A", "n1/d1=B", "n1/d2=C"}));
  // A complete one that could not look at B says nothing about B.
  EXPECT_EQ(
      Listed(*inventory_.Update(Found({Item("d2", "C"), ErrorItem("B", "EIO")}), AllKept(), {})),
      (Names{"n1/d1=B", "n1/d2=C"}));
}

TEST_F(InventoryTest, DuplicatesAreResolvedWhateverTheOrder) {
  for (const bool swapped : {false, true}) {
    std::vector<loader::DiscoverItem> items = {Item("d0", "A"), Item("d0", "B"), Item("d1", "A")};
    if (swapped) std::reverse(items.begin(), items.end());
    Inventory inventory({"gpu.sdk.test", "n1", false, ""}, &clock_, Logger());
    const auto snapshot = inventory.Update(Found(std::move(items)), AllKept(), {});
    EXPECT_EQ(Listed(*snapshot), Names{"n1/d0=A"});
    EXPECT_EQ(snapshot->findings.size(), 2u);
  }
  // Shapes of one card that say so by a common key may share its identity.
  const auto snapshot =
      inventory_.Update(Found({Item("gpu-0", "A", Json::object(), {{"A", "whole"}}),
                               Item("gpu-0-mig", "A", Json::object(), {{"A", "mig"}})}),
                        AllKept(), {});
  EXPECT_EQ(snapshot->pools[0].devices.size(), 2u);
}

TEST_F(InventoryTest, ADeviceWithoutItsCountersIsDroppedUnlessHeld) {
  const Json consumes = Json::parse(
      R"({"consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1"}}}]})");
  loader::DiscoverResult result = Found({Item("p0", "A", consumes)});
  EXPECT_TRUE(Listed(*inventory_.Update(result, AllKept(), {})).empty());
  result.counter_sets.push_back(
      {"", Json::parse(R"({"name": "c", "counters": {"m": {"value": "4"}}})")});
  EXPECT_EQ(Listed(*inventory_.Update(result, AllKept(), {})), Names{"n1/p0=A"});
  // Held and no longer reported: its counters stay with it.
  const auto snapshot = inventory_.Update(Found({}), AllKept(), {{"n1", "p0"}});
  EXPECT_EQ(Listed(*snapshot), Names{"n1/p0=A!"});
  EXPECT_EQ(snapshot->pools[0].counter_sets.size(), 1u);
}

TEST_F(InventoryTest, WithholdsWhatLeansOnAFieldThatIsNotKnownToBeKept) {
  const struct {
    const char* device;
    FieldSupport loader::ServerFields::*field;
  } kCases[] = {
      {R"({"allowMultipleAllocations": true})", &loader::ServerFields::multiple_allocations},
      {R"({"bindingConditions": ["a"], "bindingFailureConditions": ["b"]})",
       &loader::ServerFields::binding_conditions},
      {R"({"taints": [{"key": "k", "effect": "NoSchedule"}]})", &loader::ServerFields::taints},
      {R"({"consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1"}}}]})",
       &loader::ServerFields::counters},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.device);
    Inventory inventory({"gpu.sdk.test", "n1", false, ""}, &clock_, Logger());
    loader::DiscoverResult result =
        Found({Item("d0", "A", Json::parse(c.device)), Item("d1", "B")});
    result.counter_sets.push_back(
        {"", Json::parse(R"({"name": "c", "counters": {"m": {"value": "4"}}})")});
    loader::ServerFields fields = AllKept();
    fields.*c.field = FieldSupport::kUnknown;
    auto snapshot = inventory.Update(result, fields, {});
    EXPECT_EQ(Listed(*snapshot), (Names{"n1/d0=A?", "n1/d1=B"}));
    EXPECT_TRUE(snapshot->findings.empty());
    fields.*c.field = FieldSupport::kDropped;
    snapshot = inventory.Update(result, fields, {});
    EXPECT_EQ(Listed(*snapshot), (Names{"n1/d0=A?", "n1/d1=B"}));
    ASSERT_EQ(snapshot->findings.size(), 1u);
    EXPECT_NE(snapshot->findings[0].problem.find("feature gate DRA"), std::string::npos);
    EXPECT_NE(snapshot->FindDevice("n1", "d0"), nullptr);
    snapshot = inventory.Update(result, fields, {{"n1", "d0"}});
    EXPECT_EQ(Listed(*snapshot), (Names{"n1/d0=A", "n1/d1=B"}));
    // Published only for its claim: whoever publishes has to look who holds what.
    EXPECT_TRUE(snapshot->FindDevice("n1", "d0")->leans);
    EXPECT_FALSE(snapshot->FindDevice("n1", "d1")->leans);
    EXPECT_EQ(Listed(*inventory.Update(result, AllKept(), {})), (Names{"n1/d0=A", "n1/d1=B"}));
  }
}

// The publisher takes the field away; the device means the same without.
TEST_F(InventoryTest, ListsAndNodeAllocatableResourcesWithholdNothing) {
  loader::ServerFields fields = AllKept();
  fields.list_attributes = fields.node_allocatable = FieldSupport::kDropped;
  const auto snapshot =
      inventory_.Update(Found({Item("d0", "A", Json::parse(R"({"attributes": {"l": {"ints": [1]}},
          "nodeAllocatableResources": {"cpu": {"overhead": {"perPod": "1"}}}})"))}),
                        fields, {});
  EXPECT_EQ(Listed(*snapshot), (Names{"n1/d0=A"}));
  EXPECT_TRUE(snapshot->findings.empty());
}

TEST_F(InventoryTest, SliceFieldsOfTheCoreAreNotTheBackends) {
  loader::DiscoverResult result = Found({});
  result.slice_fields[""] =
      Json::parse(R"({"nodeName": "x", "newMember": 1, "skipNodeOperations": ["*"]})");
  const auto snapshot = inventory_.Update(result, AllKept(), {});
  EXPECT_EQ(snapshot->pools[0].slice_fields,
            Json::parse(R"({"newMember": 1, "skipNodeOperations": ["*"]})"));
  EXPECT_EQ(snapshot->findings.at(0).field, "nodeName");
}

}  // namespace
}  // namespace dra::inventory
