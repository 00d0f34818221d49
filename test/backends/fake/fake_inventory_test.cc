#include <set>

#include "test/backends/fake/fixture.h"

namespace dra {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;
using Fixture = FakeBackendFixture;

TEST(FakeGpuInventory, PublishesWhatTheExampleDriverPublishes) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  const auto devices = ByName(fake.Discover());
  ASSERT_EQ(devices.size(), 8u);
  const Json& gpu = devices.at("gpu-7").device;
  EXPECT_EQ(gpu["attributes"]["index"], Json({{"int", 7}}));
  EXPECT_EQ(gpu["attributes"]["model"], Json({{"string", "LATEST-GPU-MODEL"}}));
  EXPECT_EQ(gpu["attributes"]["driverVersion"], Json({{"version", "1.0.0"}}));
  EXPECT_EQ(gpu["capacity"]["memory"], Json({{"value", "80Gi"}}));
  EXPECT_EQ(gpu["attributes"]["uuid"]["string"], devices.at("gpu-7").identity);
  EXPECT_FALSE(gpu.contains("allowMultipleAllocations"));
}

TEST(Inv01, NamesStayWhenALowerCardLeaves) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"numDevices", 2}}).ok());
  const std::string identity = ByName(fake.Discover()).at("gpu-1").identity;
  fake.Control({{"cards", {{"gpu-0", {{"absent", true}}}}}});
  const auto devices = ByName(fake.Discover());
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices.at("gpu-1").identity, identity);
}

TEST(Inv03, TheIndexIsDeclaredVolatile) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  const auto manifest = fake.backend().GetManifest();
  ASSERT_TRUE(manifest.ok());
  std::set<std::string> volatile_names;
  for (const auto& attribute : (*manifest)->attributes) {
    if (attribute.is_volatile) volatile_names.insert(attribute.name);
  }
  EXPECT_THAT(volatile_names, UnorderedElementsAre("index"));
}

TEST(Inv04, ALostCardStaysWithATaintAndAnotherInItsSlotHasAnotherIdentity) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"numDevices", 1}}).ok());
  const std::string before = ByName(fake.Discover()).at("gpu-0").identity;
  fake.Control({{"cards", {{"gpu-0", {{"lost", true}}}}}});
  EXPECT_EQ(ByName(fake.Discover()).at("gpu-0").device["taints"][0]["effect"], "NoSchedule");
  // A server that would drop the taint would show a sick card as a good one.
  EXPECT_TRUE(ByName(fake.Discover(loader::FieldSupport::kDropped)).empty());
  fake.Control({{"cards", {{"gpu-0", {{"replaced", 1}}}}}});
  const auto after = ByName(fake.Discover());
  EXPECT_NE(after.at("gpu-0").identity, before);
  EXPECT_FALSE(after.at("gpu-0").device.contains("taints"));
}

TEST(Inv12, EachPartitionIsADeviceAndOnlyOneShapeIsShownWithoutCounters) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"numDevices", 1}, {"partitions", 2}}).ok());
  const auto found = fake.Discover();
  const auto devices = ByName(found);
  ASSERT_EQ(devices.size(), 3u);
  ASSERT_EQ(found->counter_sets.size(), 1u);
  EXPECT_EQ(devices.at("gpu-0-full").exclusion_keys[0].key,
            devices.at("gpu-0-partition-1").exclusion_keys[0].key);
  EXPECT_EQ(devices.at("gpu-0-full").exclusion_keys[0].shape, "whole");
  EXPECT_EQ(devices.at("gpu-0-partition-1").exclusion_keys[0].shape, "partition");
  EXPECT_NE(devices.at("gpu-0-partition-0").identity, devices.at("gpu-0-partition-1").identity);
  EXPECT_EQ(devices.at("gpu-0-partition-1").device["capacity"]["memory"]["value"], "40Gi");
  for (const auto support : {loader::FieldSupport::kDropped, loader::FieldSupport::kUnknown}) {
    const auto whole = ByName(fake.Discover(support));
    ASSERT_EQ(whole.size(), 1u);
    EXPECT_FALSE(whole.at("gpu-0-full").device.contains("consumesCounters"));
  }
}

TEST(FakeGpuInventory, PartitionsAndWholeCardsAreSharedWhereBothAreAskedFor) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"numDevices", 1}, {"partitions", 4}, {"shared", true}}).ok());
  const auto devices = ByName(fake.Discover());
  ASSERT_EQ(devices.size(), 5u);
  const std::pair<const char*, std::pair<const char*, const char*>> cases[] = {
      {"gpu-0-full", {"80Gi", "100"}}, {"gpu-0-partition-3", {"20Gi", "25"}}};
  for (const auto& [name, amounts] : cases) {
    SCOPED_TRACE(name);
    const Json& device = devices.at(name).device;
    EXPECT_EQ(device["allowMultipleAllocations"], true);
    const auto capacity = [](const char* amount, const char* step) {
      return Json({{"value", amount},
                   {"requestPolicy",
                    {{"default", amount},
                     {"validRange", {{"min", step}, {"step", step}, {"max", amount}}}}}});
    };
    EXPECT_EQ(device["capacity"]["memory"], capacity(amounts.first, "1Gi"));
    EXPECT_EQ(device["capacity"]["compute"], capacity(amounts.second, "1"));
    EXPECT_EQ(device["consumesCounters"][0]["counters"]["memory"]["value"], amounts.first);
  }
}

TEST(FakeGpuInventory, ACardThatCannotBeLookedAtIsAnErrorOfItsOwn) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"numDevices", 2}}).ok());
  fake.Control({{"cards", {{"gpu-0", {{"error", "no answer on the bus"}}}}},
                {"partial", "one card resets"}});
  const auto found = fake.Discover();
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->complete);
  EXPECT_EQ(ByName(found).size(), 1u);
  bool named = false;
  for (const loader::DiscoverItem& item : found->items)
    named |= !item.device && item.error_subject == "gpu-0";
  EXPECT_TRUE(named);
}

TEST(FakeGpuInventory, AChangeOfTheControlFileTellsTheHost) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  fake.Control({{"cards", {{"gpu-0", {{"absent", true}}}}}});
  EXPECT_TRUE(fake.host().WaitForInventoryChanges(1, absl::Seconds(30)));
  fake.Control(
      {{"cards", {{"gpu-0", {{"absent", true}}}}},
       {"health",
        {{"gpu-1", {{"state", "unhealthy"}, {"faultClass", "ecc"}, {"message", "bits flip"}}}}}});
  EXPECT_TRUE(fake.host().WaitForHealthChanges(1, absl::Seconds(30)));
  EXPECT_EQ(fake.host().inventory_changes(), 1);
  const auto health = fake.backend().Health(Fixture::Limit());
  ASSERT_TRUE(health.ok());
  for (const loader::DeviceHealth& device : *health) {
    EXPECT_EQ(device.state, device.device == "gpu-1" ? loader::HealthState::kUnhealthy
                                                     : loader::HealthState::kHealthy);
  }
}

TEST(FakeGpuInventory, BusyIsWhatTheControlFileSays) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  fake.Control({{"busy", {{"gpu-0", "busy"}, {"gpu-1", "unknown"}}}});
  const auto busy = [&](const char* device) {
    return *fake.backend().IsBusy("", device, "", Fixture::Limit());
  };
  EXPECT_EQ(busy("gpu-0"), loader::Busy::kBusy);
  EXPECT_EQ(busy("gpu-1"), loader::Busy::kUnknown);
  EXPECT_EQ(busy("gpu-2"), loader::Busy::kIdle);
}

constexpr char kInventory[] = R"({
  "devices": [
    {"device": {"name": "d0", "attributes": {"newKind": {"tensor": [1]}}}, "identity": "id-0", "pool": "fast",
     "exclusionKeys": [{"key": "card", "shape": "whole"}],
     "edits": [{}, {"deviceNodes": [{"path": "/dev/fake0"}]}]},
    {"error": {"code": "UNAVAILABLE", "message": "still booting"}, "subject": "slot 2"}
  ],
  "sliceFields": {"fast": {"partitionTypeAttribute": "profile"}},
  "health": [{"device": "d0", "pool": "fast", "state": "unhealthy", "message": "hot"}],
  "configKinds": [{"apiVersion": "gpu.sdk.test/v1", "kind": "Config", "fields": ["a", "b"]}],
  "showConfig": true, "undo": "take it back"})";

TEST(FakeInventoryFile, ShowsAnyDeviceAndErrorOfTheFile) {
  Fixture fake;
  fake.Write("inventory.json", kInventory);
  ASSERT_TRUE(fake.Start({{"inventoryFile", fake.Path("inventory.json")}}).ok());
  const auto found = fake.Discover();
  ASSERT_TRUE(found.ok()) << found.status();
  const auto devices = ByName(found);
  EXPECT_EQ(devices.at("d0").device["attributes"]["newKind"]["tensor"], Json::array({1}));
  EXPECT_EQ(devices.at("d0").pool, "fast");
  EXPECT_EQ(devices.at("d0").exclusion_keys[0].shape, "whole");
  EXPECT_EQ(found->slice_fields.at("fast")["partitionTypeAttribute"], "profile");
  EXPECT_EQ((*fake.backend().Health(Fixture::Limit()))[0].state, loader::HealthState::kUnhealthy);
}

TEST(FakeInventoryFile, GivesTheEditsOfEachPrepareAndTheMergedConfiguration) {
  Fixture fake;
  fake.Write("inventory.json", kInventory);
  ASSERT_TRUE(fake.Start({{"inventoryFile", fake.Path("inventory.json")},
                          {"configPolicy", "merge"},
                          {"manifest", {{"noInjection", true}}}})
                  .ok());
  const auto config = [](const char* key, int value) {
    return Json({{"apiVersion", "gpu.sdk.test/v1"}, {"kind", "Config"}, {key, value}});
  };
  const auto claim = Fixture::Claim(
      "uid-1", {Fixture::Device(
                   "d0", Configs({{"FromClass", config("a", 1)}, {"FromClaim", config("b", 2)}}))});
  const auto first = fake.Prepare(claim);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(first->devices[0].edits.dump(), HasSubstr(R"(\"a\":1)"));
  EXPECT_THAT(first->devices[0].edits.dump(), HasSubstr(R"(\"b\":2)"));
  EXPECT_EQ(fake.host().Undo("uid-1"), "take it back");
  const auto second = fake.Prepare(claim);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->devices[0].edits["deviceNodes"][0]["path"], "/dev/fake0");
  EXPECT_EQ(
      fake.Prepare(Fixture::Claim(
                       "uid-2", {Fixture::Device("d0", Configs({{"FromClaim", config("c", 3)}}))}))
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
}

TEST(FakeInventoryFile, IsReadAnewWhenItChangesAndMissedWhenItGoes) {
  Fixture fake;
  fake.Write("inventory.json", R"({"devices": []})");
  ASSERT_TRUE(fake.Start({{"inventoryFile", fake.Path("inventory.json")}}).ok());
  EXPECT_TRUE(ByName(fake.Discover()).empty());
  fake.Write("inventory.json", R"({"devices": [{"device": {"name": "d9"}}]})");
  EXPECT_TRUE(fake.host().WaitForInventoryChanges(1, absl::Seconds(30)));
  EXPECT_EQ(ByName(fake.Discover()).count("d9"), 1u);
  std::filesystem::remove(fake.Path("inventory.json"));
  EXPECT_EQ(fake.Discover().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace dra
