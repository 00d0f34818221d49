#include "test/backends/fake/fixture.h"

namespace dra {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Fixture = FakeBackendFixture;

Json NetConfig(const Json& burst) {
  return {{"apiVersion", "net.resource.example.com/v1alpha1"},
          {"kind", "NetConfig"},
          {"bwBurst", burst}};
}

// A share of a NIC, as a scheduler writes it: it counts in powers of two.
loader::PrepareDevice Share(const std::string& nic, const Json& configs = Json::array()) {
  return Fixture::Device(nic, configs,
                         {{"driver", "net.example.com"},
                          {"shareID", "5b0c-1"},
                          {"consumedCapacity",
                           {{"ingressBandwidth", "9765625Ki"},
                            {"net.example.com/egressBandwidth", "5G"},
                            {"vfs", "1"}}}});
}

TEST(FakeNetInventory, PublishesWhatTheExampleDriverPublishes) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}, {"numDevices", 4}}).ok());
  const auto devices = ByName(fake.Discover());
  ASSERT_EQ(devices.size(), 4u);
  const loader::DiscoveredDevice& nic = devices.at("nic-3");
  EXPECT_EQ(nic.identity.rfind("net-", 0), 0u);
  const Json bandwidth = {
      {"value", "100G"},
      {"requestPolicy",
       {{"default", "1G"}, {"validRange", {{"min", "100M"}, {"max", "100G"}, {"step", "1M"}}}}}};
  const Json expected = {
      {"name", "nic-3"},
      {"allowMultipleAllocations", true},
      {"attributes",
       {{"index", {{"int", 3}}},
        {"uuid", {{"string", nic.identity}}},
        {"model", {{"string", "LATEST-NET-MODEL"}}},
        {"driverVersion", {{"version", "1.0.0"}}}}},
      {"capacity",
       {{"vfs",
         {{"value", "100"},
          {"requestPolicy", {{"default", "1"}, {"validValues", Json::array({"1"})}}}}},
        {"ingressBandwidth", bandwidth},
        {"egressBandwidth", bandwidth}}}};
  EXPECT_EQ(nic.device, expected);
}

TEST(FakeNetInventory, HasEightNicsByDefault) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}}).ok());
  EXPECT_EQ(ByName(fake.Discover()).size(), 8u);
}

TEST(FakeNetInventory, IsExclusiveWhereTheServerDoesNotKeepShares) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}, {"numDevices", 1}}).ok());
  for (const auto support : {loader::FieldSupport::kDropped, loader::FieldSupport::kUnknown}) {
    const Json nic = ByName(fake.Discover(support)).at("nic-0").device;
    EXPECT_FALSE(nic.contains("allowMultipleAllocations"));
    EXPECT_EQ(nic["capacity"]["vfs"], Json({{"value", "100"}}));
    EXPECT_EQ(nic["capacity"]["egressBandwidth"], Json({{"value", "100G"}}));
  }
}

TEST(FakeNetClaim, TellsTheRatesInBitsPerSecond) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}}).ok());
  const auto result = fake.Prepare(Fixture::Claim("uid-1", {Share("nic-2")}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Environment(result->devices[0].edits),
              ElementsAre("NET_DEVICE_NIC_2_RESOURCE_CLAIM=uid-1", "DRA_ADMIN_ACCESS=false",
                          "NET_DEVICE_2_INGRESS_RATE=10000000000",
                          "NET_DEVICE_2_SHARE_5B0C_1_INGRESS_RATE=10000000000",
                          "NET_DEVICE_2_EGRESS_RATE=5000000000",
                          "NET_DEVICE_2_SHARE_5B0C_1_EGRESS_RATE=5000000000"));
  EXPECT_THAT(
      Environment(result->claim_edits),
      ElementsAre("KUBERNETES_NODE_NAME=node-1", "DRA_RESOURCE_DRIVER_NAME=net.example.com"));
}

TEST(FakeNetClaim, WritesEachFormOfAQuantityAsAPlainNumber) {
  const std::pair<const char*, const char*> cases[] = {{"100M", "100000000"},
                                                       {"1e9", "1000000000"},
                                                       {"1E+3", "1000"},
                                                       {"1.5k", "1500"},
                                                       {"1500m", "1.5"},
                                                       {"7", "7"},
                                                       {"0.25", "0.25"},
                                                       {"2Gi", "2147483648"},
                                                       {"0", "0"},
                                                       {"16Ei", "16Ei"},
                                                       {"10 G", "10 G"},
                                                       {"1e-3", "0.001"},
                                                       {"15Ei", "17293822569102704640"}};
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}}).ok());
  for (const auto& [quantity, number] : cases) {
    SCOPED_TRACE(quantity);
    const auto result = fake.Prepare(Fixture::Claim(
        "uid-1", {Fixture::Device("nic-0", Json::array(),
                                  {{"consumedCapacity", {{"egressBandwidth", quantity}}}})}));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(Environment(result->devices[0].edits).back(),
              std::string("NET_DEVICE_0_EGRESS_RATE=") + number);
  }
}

TEST(FakeNetClaim, TellsTheBurstsOfItsConfiguration) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}}).ok());
  const auto claim = Fixture::Claim(
      "uid-1",
      {Fixture::Device(
          "nic-1",
          Configs({{"FromClaim", NetConfig({{"ingressBurst", 10000000}, {"egressBurst", 0}})}}))});
  const auto result = fake.Prepare(claim);
  ASSERT_TRUE(result.ok()) << result.status();
  // 0 is no limit of its own, and is not told.
  EXPECT_THAT(Environment(result->devices[0].edits),
              ElementsAre("NET_DEVICE_NIC_1_RESOURCE_CLAIM=uid-1", "DRA_ADMIN_ACCESS=false",
                          "NET_DEVICE_1_INGRESS_BURST=10000000"));
}

TEST(FakeNetClaim, SetsNoCardAndSavesNoUndo) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}}).ok());
  const auto claim = Fixture::Claim(
      "uid-1", {Share("nic-0", Configs({{"FromClaim", NetConfig({{"egressBurst", 8}})}}))});
  ASSERT_TRUE(fake.Prepare(claim).ok());
  EXPECT_EQ(fake.host().Undo("uid-1"), "");
  ASSERT_TRUE(fake.Restart().ok());
  ASSERT_TRUE(fake.Unprepare(claim).ok());
  EXPECT_TRUE(fake.Events("set").empty());
}

TEST(FakeNetClaim, TwoSharesOfOneNicMayHaveDifferentBursts) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}}).ok());
  ASSERT_TRUE(
      fake
          .Prepare(Fixture::Claim(
              "uid-1", {Share("nic-0", Configs({{"FromClaim", NetConfig({{"egressBurst", 8}})}}))}))
          .ok());
  auto other = Fixture::Claim(
      "uid-2", {Share("nic-0", Configs({{"FromClaim", NetConfig({{"egressBurst", 16}})}}))});
  other.others = {{"uid-1", "nic-0", "5b0c-1", false}};
  EXPECT_TRUE(fake.Prepare(other).ok());
}

TEST(FakeNetClaim, ADeviceOfAnotherProfileIsRefusedWithWhatThereIs) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}, {"numDevices", 2}}).ok());
  for (const char* name : {"gpu-0", "nic-2", "nic-01", "nic-"}) {
    SCOPED_TRACE(name);
    const auto refused = fake.Prepare(Fixture::Claim("uid-1", {Fixture::Device(name)}));
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(refused.status().ToString(),
                AllOf(HasSubstr(name), HasSubstr("2 cards, nic-0 and up")));
  }
}

TEST(FakeNetReconcile, ARecordIsTrueAfterARebootAndLostWithItsCard) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}, {"numDevices", 1}}).ok());
  auto claim = Fixture::Claim("uid-1", {Share("nic-0")});
  claim.devices[0].identity = ByName(fake.Discover()).at("nic-0").identity;
  ASSERT_TRUE(fake.Prepare(claim).ok());
  loader::ReconcileRecord record;
  record.record.claim = claim.claim;
  record.record.devices = claim.devices;
  record.same_boot = false;
  const auto verdict = [&] {
    return fake.backend().ReconcileRecordHook(record, Fixture::Limit())->verdict;
  };
  EXPECT_EQ(verdict(), loader::ReconcileVerdict::kTrue);
  fake.Control({{"cards", {{"nic-0", {{"replaced", 1}}}}}});
  EXPECT_EQ(verdict(), loader::ReconcileVerdict::kLost);
  EXPECT_EQ(fake.Prepare(claim).status().code(), absl::StatusCode::kFailedPrecondition);
  fake.Control({{"cards", {{"nic-0", {{"absent", true}}}}}});
  EXPECT_EQ(verdict(), loader::ReconcileVerdict::kLost);
  EXPECT_EQ(fake.Prepare(claim).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(fake.Unprepare(claim).ok());
}

TEST(FakeNetInventory, ALostNicStaysWithATaintAndIsSick) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}, {"numDevices", 1}}).ok());
  fake.Control({{"cards", {{"nic-0", {{"lost", true}}}}}});
  const Json nic = ByName(fake.Discover()).at("nic-0").device;
  EXPECT_EQ(nic["taints"][0], Json({{"key", "net.example.com/lost"}, {"effect", "NoSchedule"}}));
  const auto health = fake.backend().Health(Fixture::Limit());
  ASSERT_TRUE(health.ok());
  EXPECT_EQ((*health)[0].state, loader::HealthState::kUnhealthy);
}

TEST(FakeNetConfig, EverythingMayBeLeftOut) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}}).ok());
  Json nothing = NetConfig(nullptr);
  for (const Json& parameters :
       {nothing, NetConfig(Json::object()), NetConfig({{"ingressBurst", 34359738359}})}) {
    SCOPED_TRACE(parameters.dump());
    EXPECT_TRUE(fake.backend().ValidateConfig(parameters, "FromClaim", Fixture::Limit()).ok());
  }
}

TEST(FakeNetConfig, WrongValuesAreRefusedWithTheirPath) {
  Json typo = NetConfig(Json::object());
  typo["bwBurts"] = Json::object();
  Json gpu = NetConfig(Json::object());
  gpu["apiVersion"] = "gpu.resource.example.com/v1alpha1";
  const std::pair<Json, std::string> cases[] = {
      {NetConfig({{"ingressBurst", 34359738360}}), "bwBurst.ingressBurst"},  // 4GB and more
      {NetConfig({{"egressBurst", -1}}), "bwBurst.egressBurst"},
      {NetConfig({{"egressBurst", "8"}}), "bwBurst.egressBurst"},
      {NetConfig({{"burst", 8}}), "bwBurst.burst"},
      {typo, "bwBurts"},
      {gpu, "net.resource.example.com/v1alpha1 NetConfig"},
  };
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"profile", "net"}}).ok());
  for (const auto& [parameters, text] : cases) {
    SCOPED_TRACE(text);
    const absl::Status status =
        fake.backend().ValidateConfig(parameters, "FromClaim", Fixture::Limit());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.ToString(), HasSubstr(text));
    const auto refused = fake.Prepare(
        Fixture::Claim("uid-1", {Fixture::Device("nic-0", Configs({{"FromClaim", parameters}}))}));
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  }
}

TEST(Cfg02, ANetConfigOfTheClaimOutranksThatOfTheClassAsAWholeOrFieldByField) {
  const std::pair<const char*, std::vector<std::string>> cases[] = {
      {"highestWins", {"NET_DEVICE_0_EGRESS_BURST=9"}},
      {"merge", {"NET_DEVICE_0_INGRESS_BURST=7", "NET_DEVICE_0_EGRESS_BURST=9"}},
  };
  const Json configs = Configs({{"FromClass", NetConfig({{"ingressBurst", 7}, {"egressBurst", 8}})},
                                {"FromClaim", NetConfig({{"egressBurst", 9}})}});
  for (const auto& [policy, expected] : cases) {
    SCOPED_TRACE(policy);
    Fixture fake;
    ASSERT_TRUE(fake.Start({{"profile", "net"}, {"configPolicy", policy}}).ok());
    const auto result = fake.Prepare(Fixture::Claim("uid-1", {Fixture::Device("nic-0", configs)}));
    ASSERT_TRUE(result.ok()) << result.status();
    std::vector<std::string> bursts = Environment(result->devices[0].edits);
    bursts.erase(bursts.begin(), bursts.begin() + 2);
    EXPECT_EQ(bursts, expected);
  }
}

}  // namespace
}  // namespace dra
