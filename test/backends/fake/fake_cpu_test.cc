#include "test/backends/fake/fixture.h"

namespace dra {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Fixture = FakeBackendFixture;

// One discovery by what the server does with node allocatable resources; it keeps everything else.
Json DeviceWhere(Fixture& fake, loader::FieldSupport node_allocatable) {
  loader::ServerFields fields;
  fields.multiple_allocations = loader::FieldSupport::kKept;
  fields.node_allocatable = node_allocatable;
  return ByName(fake.backend().Discover(fields, {}, Fixture::Limit())).at("numa-1").device;
}

TEST(FakeCpuInventory, PublishesWhatTheExampleDriverPublishesUnderTheNameOfKubernetes137) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "cpu"}, {"numaNodes", 2}, {"cpusPerNUMANode", 16}}).ok());
  const auto devices = ByName(fake.Discover());
  ASSERT_EQ(devices.size(), 2u);
  const Json expected = {
      {"name", "numa-1"},
      {"allowMultipleAllocations", true},
      {"attributes", {{"numaNodeID", {{"int", 1}}}}},
      {"capacity", {{"cpu.example.com/cpu", {{"value", "16"}}}}},
      {"nodeAllocatableResources",
       {{"cpu",
         {{"mapping", {{"capacityKey", "cpu.example.com/cpu"}, {"capacityMultiplier", "1"}}}}}}}};
  EXPECT_EQ(devices.at("numa-1").device, expected);
  EXPECT_FALSE(devices.at("numa-1").identity.empty());
}

TEST(FakeCpuInventory, HasEightNodesOfFourCpusByDefault) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "cpu"}}).ok());
  const auto devices = ByName(fake.Discover());
  ASSERT_EQ(devices.size(), 8u);
  EXPECT_EQ(devices.at("numa-7").device["capacity"]["cpu.example.com/cpu"]["value"], "4");
}

TEST(FakeCpuInventory, AServerThatDropsTheFieldGetsTheNameOfKubernetes136) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "cpu"}, {"numaNodes", 2}}).ok());
  const Json numa = DeviceWhere(fake, loader::FieldSupport::kDropped);
  EXPECT_FALSE(numa.contains("nodeAllocatableResources"));
  EXPECT_EQ(
      numa["nodeAllocatableResourceMappings"],
      Json({{"cpu", {{"capacityKey", "cpu.example.com/cpu"}, {"allocationMultiplier", "1"}}}}));
}

TEST(FakeCpuInventory, NeitherNameIsShownWhileTheServerIsNotKnown) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "cpu"}, {"numaNodes", 2}}).ok());
  const Json numa = DeviceWhere(fake, loader::FieldSupport::kUnknown);
  EXPECT_FALSE(numa.contains("nodeAllocatableResources"));
  EXPECT_FALSE(numa.contains("nodeAllocatableResourceMappings"));
  EXPECT_EQ(numa["allowMultipleAllocations"], true);
}

TEST(FakeCpuInventory, TheCapacityHasTheNameOfTheDriver) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "cpu"}, {"driverName", "dra-x1.example.com"}}).ok());
  const Json numa = DeviceWhere(fake, loader::FieldSupport::kKept);
  EXPECT_TRUE(numa["capacity"].contains("dra-x1.example.com/cpu"));
  EXPECT_EQ(numa["nodeAllocatableResources"]["cpu"]["mapping"]["capacityKey"],
            "dra-x1.example.com/cpu");
}

TEST(FakeCpuClaim, TellsTheDeviceAndItsCpusForEachShare) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "cpu"}}).ok());
  const auto share = [](const char* request, const char* id) {
    return Fixture::Device("numa-0", Json::array(),
                           {{"request", request},
                            {"driver", "cpu.example.com"},
                            {"shareID", id},
                            {"consumedCapacity", {{"cpu.example.com/cpu", "1"}}}});
  };
  const auto result =
      fake.Prepare(Fixture::Claim("uid-1", {share("cpu0", "a-1"), share("cpu1", "b-2")}));
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->devices.size(), 2u);
  EXPECT_THAT(Environment(result->devices[0].edits),
              ElementsAre("CPU_DEVICE_NUMA_0_RESOURCE_CLAIM=uid-1", "DRA_ADMIN_ACCESS=false",
                          "CPU_DEVICE_0=numa-0", "CPU_DEVICE_0_CONSUMED_CPU=1",
                          "CPU_DEVICE_0_SHARE_A_1_CONSUMED_CPU=1"));
  EXPECT_EQ(Environment(result->devices[1].edits).back(), "CPU_DEVICE_0_SHARE_B_2_CONSUMED_CPU=1");
}

TEST(FakeCpuClaim, AnyConfigurationIsRefused) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "cpu"}}).ok());
  const Json parameters = {{"apiVersion", "cpu.resource.example.com/v1alpha1"},
                           {"kind", "CpuConfig"}};
  const absl::Status status =
      fake.backend().ValidateConfig(parameters, "FromClaim", Fixture::Limit());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const auto refused = fake.Prepare(
      Fixture::Claim("uid-1", {Fixture::Device("numa-0", Configs({{"FromClass", parameters}}))}));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().ToString(),
              AllOf(HasSubstr("FromClass"), HasSubstr("takes no configuration")));
}

TEST(FakeCpuClaim, ANodeThatIsNotThereIsRefusedWithWhatThereIs) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "cpu"}, {"numaNodes", 1}}).ok());
  const auto refused = fake.Prepare(Fixture::Claim("uid-1", {Fixture::Device("numa-1")}));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(refused.status().ToString(),
              AllOf(HasSubstr("numa-1"), HasSubstr("1 NUMA nodes, numa-0 and up")));
}

TEST(FakeCpuReconcile, ARecordIsTrueInEveryBootAndLostWithItsNode) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "cpu"}}).ok());
  const auto claim = Fixture::Claim("uid-1", {Fixture::Device("numa-0")});
  ASSERT_TRUE(fake.Prepare(claim).ok());
  ASSERT_TRUE(fake.Restart().ok());
  loader::ReconcileRecord record;
  record.record.claim = claim.claim;
  record.record.devices = claim.devices;
  for (const bool same_boot : {true, false}) {
    record.same_boot = same_boot;
    EXPECT_EQ(fake.backend().ReconcileRecordHook(record, Fixture::Limit())->verdict,
              loader::ReconcileVerdict::kTrue);
  }
  fake.Control({{"cards", {{"numa-0", {{"absent", true}}}}}});
  EXPECT_EQ(fake.backend().ReconcileRecordHook(record, Fixture::Limit())->verdict,
            loader::ReconcileVerdict::kLost);
  EXPECT_TRUE(fake.Unprepare(claim).ok());
}

}  // namespace
}  // namespace dra
