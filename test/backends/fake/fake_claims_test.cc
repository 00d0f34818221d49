#include <algorithm>

#include "test/backends/fake/fixture.h"

namespace dra {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Fixture = FakeBackendFixture;

TEST(FakeGpuClaim, GivesTheExampleDriversEnvironmentByDefault) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  const auto result = fake.Prepare(Fixture::Claim("uid-1", {Fixture::Device("gpu-3")}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Environment(result->devices[0].edits),
              ElementsAre("GPU_DEVICE_GPU_3_RESOURCE_CLAIM=uid-1", "DRA_ADMIN_ACCESS=false",
                          "GPU_DEVICE_3=gpu-3", "GPU_DEVICE_3_SHARING_STRATEGY=TimeSlicing",
                          "GPU_DEVICE_3_TIMESLICE_INTERVAL=Default"));
  EXPECT_THAT(
      Environment(result->claim_edits),
      ElementsAre("KUBERNETES_NODE_NAME=node-1", "DRA_RESOURCE_DRIVER_NAME=gpu.example.com"));
}

TEST(FakeGpuClaim, ShowsPartitionsAndConsumedCapacityOfAShare) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"shared", true}}).ok());
  const auto result = fake.Prepare(Fixture::Claim(
      "uid-1", {Fixture::Device("gpu-0",
                                Configs({{"FromClaim", GpuConfig({{"strategy", "SpacePartitioning"},
                                                                  {"spacePartitioningConfig",
                                                                   {{"partitionCount", 10}}}})}}),
                                {{"shareID", "5b0c9d0e-3d57-4c3e-9d0a-2f1c6f3c7a11"},
                                 {"consumedCapacity", {{"memory", "16Gi"}, {"compute", "20"}}}})}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(
      Environment(result->devices[0].edits),
      AllOf(Contains("GPU_DEVICE_0_PARTITION_COUNT=10"), Contains("GPU_DEVICE_0_MEMORY=16Gi"),
            Contains("GPU_DEVICE_0_COMPUTE=20"),
            Contains("GPU_DEVICE_0_SHARE_5B0C9D0E_3D57_4C3E_9D0A_2F1C6F3C7A11_MEMORY=16Gi")));
}

TEST(FakeGpuClaim, AShareTellsItsDeviceOnce) {
  // Who counts variables with the value of a device, as the example driver's users do, counts devices.
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"shared", true}}).ok());
  const auto result = fake.Prepare(Fixture::Claim(
      "uid-1",
      {Fixture::Device("gpu-0", Json::array(),
                       {{"shareID", "s-1"}, {"consumedCapacity", {{"memory", "16Gi"}}}})}));
  ASSERT_TRUE(result.ok()) << result.status();
  const std::vector<std::string> environment = Environment(result->devices[0].edits);
  EXPECT_EQ(std::count_if(environment.begin(), environment.end(),
                          [](const std::string& variable) {
                            return variable.find("=gpu-") != std::string::npos;
                          }),
            1);
}

TEST(FakeGpuClaim, TellsTheClaimsStatusWhatTheDeviceIsOnRequest) {
  for (const bool wanted : {true, false}) {
    SCOPED_TRACE(wanted);
    Fixture fake;
    ASSERT_TRUE(fake.Start({{"deviceStatus", wanted}, {"partitions", 2}}).ok());
    const Json full = ByName(fake.Discover()).at("gpu-1-full").device;
    const auto result =
        fake.Prepare(Fixture::Claim("uid-1", {Fixture::Device("gpu-1-partition-0")}));
    ASSERT_TRUE(result.ok()) << result.status();
    const Json data = {{"uuid", full["attributes"]["uuid"]},
                       {"model", full["attributes"]["model"]},
                       {"driverVersion", full["attributes"]["driverVersion"]}};
    EXPECT_EQ(result->devices[0].status, wanted ? Json({{"data", data}}) : Json());
  }
}

TEST(FakeGpuClaim, ShowsADeviceNodeAndAMountOnRequest) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"deviceNodes", true}}).ok());
  const auto result = fake.Prepare(Fixture::Claim("uid-1", {Fixture::Device("gpu-2")}));
  ASSERT_TRUE(result.ok()) << result.status();
  const Json node = result->devices[0].edits["deviceNodes"][0];
  EXPECT_EQ(node["path"], "/dev/fake2");
  EXPECT_EQ(node["hostPath"], "/dev/null");
  const Json mount = result->claim_edits["mounts"][0];
  EXPECT_EQ(mount["containerPath"], "/run/fake-gpu/uid-1");
  EXPECT_TRUE(std::filesystem::exists(mount["hostPath"].get<std::string>() + "/claim.json"));
}

TEST(Cdi08, ANodeBelowADevRootKeepsItsPathInTheContainer) {
  Fixture fake;
  std::filesystem::create_directories(fake.Path("root/dev"));
  std::filesystem::create_symlink("/dev/null", fake.Path("root/dev/fake0"));
  ASSERT_TRUE(fake.Start({{"deviceNodes", true}, {"devRoot", fake.Path("root")}}).ok());
  const auto result = fake.Prepare(Fixture::Claim("uid-1", {Fixture::Device("gpu-0")}));
  ASSERT_TRUE(result.ok()) << result.status();
  const Json node = result->devices[0].edits["deviceNodes"][0];
  EXPECT_EQ(node["path"], "/dev/fake0");
  EXPECT_EQ(node["hostPath"], fake.Path("root/dev/fake0"));
  const auto missing = fake.Prepare(Fixture::Claim("uid-2", {Fixture::Device("gpu-1")}));
  EXPECT_THAT(missing.status().ToString(), HasSubstr("root/dev/fake1"));
}

TEST(Cfg03, WithoutConfigurationNoCardIsSet) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  const auto claim = Fixture::Claim("uid-1", {Fixture::Device("gpu-0")});
  ASSERT_TRUE(fake.Prepare(claim).ok());
  ASSERT_TRUE(fake.Unprepare(claim).ok());
  EXPECT_EQ(fake.CardSetting("gpu-0"), "reset");
  EXPECT_EQ(fake.host().Undo("uid-1"), "");
  EXPECT_TRUE(fake.Events("set").empty());
}

TEST(Cfg03, TheSettingBeforeTheClaimComesBackAfterARestart) {
  Fixture fake;
  fake.Write("hardware.json",
             R"({"cards":{"gpu-0":{"sharing":{"strategy":"TimeSlicing","interval":"Medium"}}}})");
  ASSERT_TRUE(fake.Start().ok());
  const auto claim = Fixture::Claim(
      "uid-1", {Fixture::Device("gpu-0", Configs({{"FromClaim", TimeSlicing("Short")}}))});
  ASSERT_TRUE(fake.Prepare(claim).ok());
  EXPECT_THAT(fake.CardSetting("gpu-0"), HasSubstr("Short"));
  ASSERT_TRUE(fake.Restart().ok());
  ASSERT_TRUE(fake.Unprepare(claim).ok());
  EXPECT_THAT(fake.CardSetting("gpu-0"), HasSubstr("Medium"));
}

TEST(Cfg03, APrepareThatDiedAfterSettingACardStillRemembersThePriorValue) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  // What is thrown here skips the backend's own undo, as the end of the process would.
  fake.Control({{"hooks", {{"prepare", {{"at", "configured"}, {"throw", "int"}, {"times", 1}}}}}});
  const auto claim = Fixture::Claim(
      "uid-1", {Fixture::Device("gpu-0", Configs({{"FromClaim", TimeSlicing("Long")}}))});
  EXPECT_EQ(fake.Prepare(claim).status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(fake.CardSetting("gpu-0"), HasSubstr("Long"));
  ASSERT_TRUE(fake.Restart().ok());
  ASSERT_TRUE(fake.Prepare(claim).ok());  // must not take "Long" for the value before
  ASSERT_TRUE(fake.Unprepare(claim).ok());
  EXPECT_THAT(fake.CardSetting("gpu-0"), HasSubstr("Default"));
}

TEST(Cfg06, TheLastClaimOnACardSetsItBackWhoeverSetIt) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"shared", true}}).ok());
  const auto setter = Fixture::Claim(
      "uid-1", {Fixture::Device("gpu-0", Configs({{"FromClaim", TimeSlicing("Long")}}),
                                {{"shareID", "s1"}})});
  auto user =
      Fixture::Claim("uid-2", {Fixture::Device("gpu-0", Json::array(), {{"shareID", "s2"}})});
  ASSERT_TRUE(fake.Prepare(setter).ok());
  user.others = {{"uid-1", "gpu-0", "s1", false}};
  ASSERT_TRUE(fake.Prepare(user).ok());
  ASSERT_TRUE(fake.Unprepare(setter, {{"uid-2", "gpu-0", "s2", false}}).ok());
  EXPECT_THAT(fake.CardSetting("gpu-0"), HasSubstr("Long"));
  ASSERT_TRUE(fake.Unprepare(user).ok());
  EXPECT_THAT(fake.CardSetting("gpu-0"), HasSubstr("Default"));
}

TEST(FakeGpuClaim, TwoSharesMayNotAskForDifferentSettings) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"shared", true}}).ok());
  ASSERT_TRUE(
      fake
          .Prepare(Fixture::Claim(
              "uid-1", {Fixture::Device("gpu-0", Configs({{"FromClaim", TimeSlicing("Long")}}))}))
          .ok());
  auto other = Fixture::Claim(
      "uid-2", {Fixture::Device("gpu-0", Configs({{"FromClaim", TimeSlicing("Short")}}))});
  other.others = {{"uid-1", "gpu-0", std::nullopt, false}};
  const auto refused = fake.Prepare(other);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().ToString(), HasSubstr("TimeSlicing/Long"));
}

TEST(Prp05, AdminAccessNeitherSetsACardNorSetsItBack) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  ASSERT_TRUE(
      fake
          .Prepare(Fixture::Claim(
              "uid-1", {Fixture::Device("gpu-0", Configs({{"FromClaim", TimeSlicing("Long")}}))}))
          .ok());
  const auto admin = Fixture::Claim(
      "uid-4", {Fixture::Device("gpu-0", Configs({{"FromClaim", TimeSlicing("Short")}}),
                                {{"adminAccess", true}})});
  const auto result = fake.Prepare(admin);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Environment(result->devices[0].edits), Contains("DRA_ADMIN_ACCESS=true"));
  ASSERT_TRUE(fake.Unprepare(admin).ok());
  EXPECT_THAT(fake.CardSetting("gpu-0"), HasSubstr("Long"));
  EXPECT_EQ(fake.Events("set").size(), 1u);
}

TEST(Prp08, TheFirstErrorIsReportedAndWhatCannotBeSetBackStaysInTheUndo) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  fake.Control(
      {{"cards", {{"gpu-0", {{"restoreError", "E2"}}}, {"gpu-1", {{"configureError", "E1"}}}}}});
  const Json configs = Configs({{"FromClaim", TimeSlicing("Long")}});
  const auto claim = Fixture::Claim(
      "uid-5", {Fixture::Device("gpu-0", configs), Fixture::Device("gpu-1", configs)});
  const auto failed = fake.Prepare(claim);
  EXPECT_THAT(failed.status().ToString(), AllOf(HasSubstr("E1"), HasSubstr("E2")));
  EXPECT_LT(failed.status().message().find("E1"), failed.status().message().find("E2"));
  EXPECT_THAT(fake.host().Undo("uid-5"), AllOf(HasSubstr("gpu-0"), Not(HasSubstr("gpu-1"))));
  fake.Control(Json::object());
  ASSERT_TRUE(fake.Unprepare(claim).ok());
  EXPECT_THAT(fake.CardSetting("gpu-0"), HasSubstr("Default"));
}

TEST(Prp17, NothingToUndoIsSuccessWithoutTouchingACard) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"partitions", 2}}).ok());
  EXPECT_TRUE(fake.Unprepare(Fixture::Claim("uid-1", {Fixture::Device("gpu-0-partition-1")})).ok());
  EXPECT_TRUE(fake.Unprepare(Fixture::Claim("uid-2", {Fixture::Device("never-there")})).ok());
  EXPECT_TRUE(fake.Events("set").empty());
}

TEST(Prp18, ACardThatTakesNoSettingIsSeenAtDiscoveryAndWorksWithoutConfiguration) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"numDevices", 1}}).ok());
  fake.Control({{"cards", {{"gpu-0", {{"configurable", false}}}}}});
  const auto found = fake.Discover();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->items[0].device->device["attributes"]["configurable"]["bool"], false);
  EXPECT_TRUE(fake.Prepare(Fixture::Claim("uid-1", {Fixture::Device("gpu-0")})).ok());
  const auto refused = fake.Prepare(Fixture::Claim(
      "uid-2", {Fixture::Device("gpu-0", Configs({{"FromClaim", TimeSlicing("Long")}}))}));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fake.Events("set").empty());
}

TEST(FakeGpuClaim, NoSideEffectWithoutDurableUndo) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  fake.host().FailSaveUndo(absl::ResourceExhaustedError("disk is full"));
  const auto result = fake.Prepare(Fixture::Claim(
      "uid-1", {Fixture::Device("gpu-0", Configs({{"FromClaim", TimeSlicing("Long")}}))}));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(fake.CardSetting("gpu-0"), "reset");
}

TEST(FakeGpuReconcile, TellsRedoFromLostAndSetsBackWhatNoRecordNames) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  const Json configs = Configs({{"FromClaim", TimeSlicing("Long")}});
  const auto kept = Fixture::Claim("uid-1", {Fixture::Device("gpu-0", configs)});
  ASSERT_TRUE(fake.Prepare(kept).ok());
  ASSERT_TRUE(fake.Prepare(Fixture::Claim("uid-2", {Fixture::Device("gpu-1", configs)})).ok());
  ASSERT_TRUE(fake.Restart().ok());
  loader::ReconcileRecord record;
  record.record.claim = kept.claim;
  record.record.devices = kept.devices;
  record.record.undo = fake.host().Undo("uid-1");
  const auto ask = [&] { return fake.backend().ReconcileRecordHook(record, Fixture::Limit()); };
  ASSERT_TRUE(fake.backend().ReconcileBegin(Fixture::Limit()).ok());
  EXPECT_EQ(ask()->verdict, loader::ReconcileVerdict::kTrue);
  ASSERT_TRUE(fake.backend().ReconcileEnd(Fixture::Limit()).ok());
  EXPECT_THAT(fake.CardSetting("gpu-0"), HasSubstr("Long"));
  EXPECT_THAT(fake.CardSetting("gpu-1"), HasSubstr("Default"));  // uid-2 has no record any more

  fake.Write("hardware.json", "{}");  // the node was rebooted
  EXPECT_EQ(ask()->verdict, loader::ReconcileVerdict::kRedo);
  fake.Control({{"cards", {{"gpu-0", {{"absent", true}}}}}});
  EXPECT_EQ(ask()->verdict, loader::ReconcileVerdict::kLost);
  EXPECT_TRUE(fake.Unprepare(kept).ok());
}

}  // namespace
}  // namespace dra
