// The whole line on real sockets: daemon, fake backend, API server double, kubelet double.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/base/unique_fd.h"
#include "test/driver/node_fixture.h"

namespace dra::driver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Line : public NodeFixture {};

TEST_F(Line, PublishesPreparesAndLeavesNothingAfterUnprepare) {
  StartNode();
  EXPECT_EQ(Devices().size(), 4u);
  const auto claim = MakeClaim("c1", {"gpu-1"});

  const testing::KubeletReply prepared = kubelet_->PrepareResources(kDriver, {claim});
  ASSERT_TRUE(prepared.verdict.ok()) << prepared.verdict;
  ASSERT_THAT(prepared.devices.at(claim.uid), SizeIs(1));
  const testing::KubeletDevice& device = prepared.devices.at(claim.uid)[0];
  EXPECT_EQ(device.device, "gpu-1");
  EXPECT_THAT(device.request_names, ElementsAre("r0"));
  EXPECT_THAT(device.cdi_ids,
              ElementsAre(absl::StrCat("k8s.gpu.sdk.test/claim=", claim.uid, "-gpu-1")));
  EXPECT_THAT(CdiFiles(), ElementsAre(absl::StrCat("k8s.gpu.sdk.test-claim_", claim.uid, ".json")));
  EXPECT_THAT(Records(), SizeIs(1));

  const testing::KubeletReply unprepared = kubelet_->UnprepareResources(kDriver, {claim});
  EXPECT_TRUE(unprepared.verdict.ok()) << unprepared.verdict;
  EXPECT_THAT(CdiFiles(), IsEmpty());
  EXPECT_THAT(Records(), IsEmpty());
  EXPECT_EQ(HookCalls("prepare"), 1);
  EXPECT_EQ(HookCalls("unprepare"), 1);
}

TEST_F(Line, WorksWithTheOldestKubeletAndServer) {
  testing::ServerProfile profile;
  profile.minor = 34;
  StartApi(profile);
  StartKubelet(34);
  StartNode();
  const auto claim = MakeClaim("c1", {"gpu-0"});
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  EXPECT_TRUE(kubelet_->UnprepareResources(kDriver, {claim}).verdict.ok());
}

TEST_F(Line, ARestartKeepsThePreparedClaimAndAnswersTheSame) {
  StartNode();
  const auto claim = MakeClaim("c1", {"gpu-0", "gpu-2"});
  const testing::KubeletReply first = kubelet_->PrepareResources(kDriver, {claim});
  ASSERT_TRUE(first.verdict.ok()) << first.verdict;
  const std::vector<std::string> files = CdiFiles();
  StopDaemon();
  EXPECT_EQ(CdiFiles(), files);
  EXPECT_THAT(Slices(), SizeIs(1));
  EXPECT_TRUE(WaitUntil([&] { return kubelet_->Plugins().empty(); }));

  StartDaemon();
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  const testing::KubeletReply again = kubelet_->PrepareResources(kDriver, {claim});
  ASSERT_TRUE(again.verdict.ok()) << again.verdict;
  EXPECT_EQ(again.devices, first.devices);
  EXPECT_EQ(HookCalls("prepare"), 1);
  EXPECT_TRUE(kubelet_->UnprepareResources(kDriver, {claim}).verdict.ok());
  EXPECT_THAT(CdiFiles(), IsEmpty());
}

// CKP-06: files of this boot's claims come back at start.
TEST_F(Line, Ckp06_ALostCdiFileComesBackAtStart) {
  StartNode();
  const auto claim = MakeClaim("c1", {"gpu-0"});
  ASSERT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  const std::string path = directory_.Path(absl::StrCat("cdi/", CdiFiles()[0]));
  const std::string before = *fs_.ReadFile(path);
  StopDaemon();
  ASSERT_TRUE(fs_.Remove(path).ok());
  StartDaemon();
  EXPECT_TRUE(WaitUntil([&] { return fs_.Stat(path).ok(); }));
  EXPECT_EQ(*fs_.ReadFile(path), before);
}

TEST_F(Line, Slc01_SlicesComeBackWhenAKubeletRestartWipesThem) {
  StartNode();
  kubelet_->Restart();
  EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.size() == 4; }));
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  EXPECT_TRUE(WaitForReady(true));
}

// INV-14: a backend that cannot be made is its own state: the process lives, is not ready, and tries again.
TEST_F(Line, Inv14_ABackendThatFailsToInitialiseIsTriedAgain) {
  StartApi();
  StartKubelet();
  Control({{"hooks",
            {{"create",
              {{"times", 2},
               {"fail",
                {{"code", "UNAVAILABLE"}, {"message", "library/kernel version mismatch"}}}}}}}});
  StartDaemon();
  // Registered all the same: Unprepare must work.
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  EXPECT_TRUE(WaitUntil([&] {
    for (const observe::Condition& condition : daemon_->Conditions()) {
      if (condition.name == "backend" && absl::StrContains(condition.message, "version mismatch"))
        return true;
    }
    return false;
  }));
  const testing::KubeletReply unknown =
      kubelet_->UnprepareResources(kDriver, {{"ns1", "gone", "7b1f"}});
  EXPECT_TRUE(unknown.verdict.ok()) << unknown.verdict;
  EXPECT_TRUE(WaitForReady(true));
  EXPECT_EQ(Devices().size(), 4u);
}

// INV-13: what appears later is published without a restart.
TEST_F(Line, Inv13_ADeviceThatAppearsLaterIsPublished) {
  Control({{"cards", {{"gpu-3", {{"absent", true}}}}}});
  StartNode();
  EXPECT_EQ(Devices().size(), 3u);
  Control(Json::object());
  EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.count("gpu-3") > 0; }));
}

// SLC-09: a device that a claim holds stays published when discovery no longer sees it, and goes when the claim does.
TEST_F(Line, Slc09_AHeldDeviceStaysPublished) {
  StartNode();
  const auto claim = MakeClaim("c1", {"gpu-0"});
  ASSERT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  Control({{"cards", {{"gpu-0", {{"absent", true}}}, {"gpu-3", {{"absent", true}}}}}});
  EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.count("gpu-3") == 0; }));
  EXPECT_EQ(Devices().count("gpu-0"), 1u);
  ASSERT_TRUE(kubelet_->UnprepareResources(kDriver, {claim}).verdict.ok());
  EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.count("gpu-0") == 0; }));
}

// SLC-10: a claim on a device that is not known triggers one discovery before it fails.
TEST_F(Line, Slc10_PrepareLooksOnceMoreForAnUnknownDevice) {
  Control({{"cards", {{"gpu-0", {{"absent", true}}}}}});
  DaemonConfig config =
      Config({{"pollMilliseconds", 60000}});  // the backend gives no hint in this test
  config.drivers[0].discover_interval = absl::Hours(1);
  StartApi();
  StartKubelet();
  StartDaemonWith(config);
  ASSERT_TRUE(WaitForReady(true));
  const auto absent = MakeClaim("c1", {"gpu-0"});
  EXPECT_THAT(std::string(kubelet_->PrepareResources(kDriver, {absent}).verdict.message()),
              HasSubstr("gpu-0"));
  Control(Json::object());
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {absent}).verdict.ok());
}

// SLC-07: on a server that drops counters, partitions would look independent: only whole cards are shown.
TEST_F(Line, Slc07_PartitionsAreNotPublishedToAServerThatDropsCounters) {
  testing::ServerProfile profile;
  profile.minor = 34;
  StartApi(profile);
  StartNode({{"numDevices", 2}, {"partitions", 2}});
  std::vector<std::string> names;
  for (const auto& [name, device] : Devices()) names.push_back(name);
  EXPECT_THAT(names, ElementsAre("gpu-0-full", "gpu-1-full"));
}

TEST_F(Line, PartitionsAndCountersArePublishedToAServerThatKeepsThem) {
  StartNode({{"numDevices", 2}, {"partitions", 2}});
  EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.size() == 6; }));
  EXPECT_TRUE(WaitForReady(true));
}

// A whole card and its partition are one piece of hardware: the shapes exclude each other.
TEST_F(Line, AWholeCardAndItsPartitionAreNotHeldTogether) {
  StartNode({{"numDevices", 2}, {"partitions", 2}});
  ASSERT_TRUE(WaitForDevices([](const auto& devices) { return devices.size() == 6; }));
  const auto part = MakeClaim("part", {"gpu-0-partition-0"});
  ASSERT_TRUE(kubelet_->PrepareResources(kDriver, {part}).verdict.ok());
  const auto other_part = MakeClaim("other-part", {"gpu-0-partition-1"});
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {other_part}).verdict.ok());
  ASSERT_TRUE(kubelet_->UnprepareResources(kDriver, {part}).verdict.ok());
  ASSERT_TRUE(kubelet_->UnprepareResources(kDriver, {other_part}).verdict.ok());
  const auto whole = MakeClaim("whole", {"gpu-0-full"});
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {whole}).verdict.ok());
}

// HLT-01, HLT-05: a sick device is tainted and told to the kubelet; both end when it is well again.
TEST_F(Line, Hlt01_ASickDeviceIsTaintedAndHeals) {
  StartNode();
  const auto is_tainted = [](const std::map<std::string, Json>& devices) {
    const auto found = devices.find("gpu-2");
    return found != devices.end() && found->second.contains("taints") &&
           !found->second["taints"].empty();
  };
  EXPECT_TRUE(kubelet_->WaitForHealth(kDriver, kNode, "gpu-2", testing::KubeletHealth::kHealthy,
                                      kPatience));
  Control(
      {{"health",
        {{"gpu-2", {{"state", "unhealthy"}, {"faultClass", "ecc"}, {"message", "bits flip"}}}}}});
  EXPECT_TRUE(WaitForDevices(is_tainted));
  EXPECT_TRUE(kubelet_->WaitForHealth(kDriver, kNode, "gpu-2", testing::KubeletHealth::kUnhealthy,
                                      kPatience));
  Control(Json::object());
  EXPECT_TRUE(WaitForDevices([&](const auto& devices) { return !is_tainted(devices); }));
  EXPECT_TRUE(kubelet_->WaitForHealth(kDriver, kNode, "gpu-2", testing::KubeletHealth::kHealthy,
                                      kPatience));
}

// A fault's severity decides what its taint does, as the operator configured, and is shown; both outlive a restart.
TEST_F(Line, Hlt01_TheSeverityOfAFaultDecidesTheTaint) {
  DaemonConfig config = Config();
  config.drivers[0].taint_effects.by_class["off-bus"] = inventory::TaintEffect::kNoExecute;
  StartApi();
  StartKubelet();
  StartDaemonWith(config);
  const auto effects = [](const std::map<std::string, Json>& devices) {
    std::string all;
    for (const auto& [name, device] : devices) {
      const Json* taints = Find(device, "taints");
      if (taints == nullptr || taints->empty()) continue;
      absl::StrAppend(&all, name, ":", StringOr(taints->front(), "effect"), " ");
    }
    return all;
  };
  const auto fault = [](const char* severity, const char* fault_class) {
    return Json{{"state", "unhealthy"},
                {"severity", severity},
                {"faultClass", fault_class},
                {"message", "bits flip"},
                {"remedy", "look at it"}};
  };
  Control({{"health",
            {{"gpu-0", fault("minor", "ecc")},
             {"gpu-1", fault("critical", "ecc")},
             {"gpu-2", fault("major", "off-bus")}}}});
  const std::string wanted = "gpu-0:None gpu-1:NoSchedule gpu-2:NoExecute ";
  EXPECT_TRUE(WaitForDevices([&](const auto& devices) { return effects(devices) == wanted; }))
      << effects(Devices());
  std::string shown;
  const Json status = daemon_->Status();
  for (const Json& one : status["drivers"][0]["faults"]) {
    absl::StrAppend(&shown, StringOr(one, "device"), ":", StringOr(one, "severity"), ":",
                    StringOr(one, "taintEffect"), " ");
  }
  EXPECT_EQ(shown, "gpu-0:minor:None gpu-1:critical:NoSchedule gpu-2:major:NoExecute ");
  EXPECT_TRUE(WaitUntil([&] {
    for (const Json& event : api_->store().All(kube::Events())) {
      if (StringOr(event, "reason") != "DeviceUnhealthy") continue;
      const std::string note = StringOr(event, "note");
      if (absl::StrContains(note,
                            "n1/gpu-1: ecc (severity critical): bits flip; remedy: look at it"))
        return true;
    }
    return false;
  }));

  // The monitor says nothing to the next process: what was noted counts.
  StopDaemon();
  Control({{"health",
            {{"gpu-0", {{"state", "unknown"}}},
             {"gpu-1", {{"state", "unknown"}}},
             {"gpu-2", {{"state", "unknown"}}}}}});
  config.drivers[0].taint_effects.by_severity[loader::FaultSeverity::kCritical] =
      inventory::TaintEffect::kNone;
  StartDaemonWith(config);
  const std::string later = "gpu-0:None gpu-1:None gpu-2:NoExecute ";
  EXPECT_TRUE(WaitForDevices([&](const auto& devices) { return effects(devices) == later; }))
      << effects(Devices());
}

// HLT-05: where the server drops taints a sick free device is withdrawn; one that a claim holds never is.
TEST_F(Line, Hlt05_WithoutTaintsASickFreeDeviceIsWithdrawn) {
  testing::ServerProfile profile;
  profile.minor = 34;
  StartApi(profile);
  StartNode();
  const auto claim = MakeClaim("c1", {"gpu-1"});
  ASSERT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  Control({{"health", {{"gpu-0", {{"state", "unhealthy"}}}, {"gpu-1", {{"state", "unhealthy"}}}}}});
  EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.count("gpu-0") == 0; }));
  EXPECT_EQ(Devices().count("gpu-1"), 1u);
  // Its claim goes on, and no other gets it, though the scheduler saw it untainted.
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  ASSERT_TRUE(kubelet_->UnprepareResources(kDriver, {claim}).verdict.ok());
  const auto next = MakeClaim("c2", {"gpu-1"});
  const int prepares = HookCalls("prepare");
  std::jthread heals([&] {
    EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.count("gpu-1") == 0; }));
    EXPECT_EQ(HookCalls("prepare"), prepares);
    Control(Json::object());
  });
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {next}).verdict.ok());
}

// PRP-13: Prepare does not wait for the publication of slices.
TEST_F(Line, Prp13_PrepareWorksWhileSlicesCannotBeWritten) {
  StartApi();
  StartKubelet();
  testing::ApiFault fault;
  fault.match.verb = "create";
  fault.match.resource = "resourceslices";
  fault.times = 0;
  fault.code = 500;
  api_->traffic().Inject(fault);
  StartDaemon();
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  const auto claim = MakeClaim("c1", {"gpu-0"});
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  EXPECT_THAT(Slices(), IsEmpty());
  api_->traffic().ClearFaults();
  EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.size() == 4; }));
}

TEST_F(Line, WithoutAnApiServerUnprepareWorksAndEverythingRecovers) {
  StartNode();
  const auto claim = MakeClaim("c1", {"gpu-0"});
  ASSERT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  StopDaemon();
  api_->GoAway();
  StartDaemon();
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  // The backend may not be created yet; the kubelet asks again.
  EXPECT_TRUE(
      WaitUntil([&] { return kubelet_->UnprepareResources(kDriver, {claim}).verdict.ok(); }));
  EXPECT_THAT(CdiFiles(), IsEmpty());
  ASSERT_TRUE(api_->ComeBack().ok());
  EXPECT_TRUE(WaitForReady(true));
}

TEST_F(Line, DeviceStatusReachesTheClaim) {
  StartNode({{"deviceStatus", true}});
  const auto claim = MakeClaim("c1", {"gpu-0", "gpu-1"});
  ASSERT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  EXPECT_TRUE(api_->store().WaitFor(
      [&](const testing::ObjectStore& store) {
        const auto stored = store.Find(kube::ResourceClaims(), "ns1", "c1");
        return stored.has_value() && (*stored)["status"].contains("devices") &&
               (*stored)["status"]["devices"].size() == 2;
      },
      kPatience));
}

TEST_F(Line, ABackendThatAsksForARestartIsMadeAnew) {
  StartNode();
  const int created = HookCalls("create");
  Control({{"hooks",
            {{"discover",
              {{"times", 1}, {"callback", {{"function", "requestRestart"}, {"delayMs", 0}}}}}}}});
  EXPECT_TRUE(WaitUntil([&] { return HookCalls("create") > created; }));
  const auto claim = MakeClaim("c1", {"gpu-0"});
  EXPECT_TRUE(WaitForReady(true));
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
}

TEST_F(Line, OneDriverThatCannotStartDoesNotStopTheOthersAndReadinessNamesIt) {
  StartApi();
  StartKubelet();
  DaemonConfig config = Config();
  DriverConfig broken;
  broken.name = "broken.sdk.test";
  broken.backend = directory_.Path("absent.so");
  config.drivers.insert(config.drivers.begin(), broken);
  StartDaemonWith(config);
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  const auto claim = MakeClaim("c1", {"gpu-0"});
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  EXPECT_TRUE(WaitUntil([&] {
    for (const observe::Condition& condition : daemon_->Conditions()) {
      if (condition.driver == "broken.sdk.test" && !condition.ok &&
          absl::StrContains(condition.message, "absent.so")) {
        return true;
      }
    }
    return false;
  }));
  EXPECT_FALSE(BoolOr(daemon_->Status(), "ready"));
}

TEST_F(Line, TwoDriversEachServeTheirOwnDevices) {
  StartApi();
  StartKubelet();
  DaemonConfig config = Config();
  DriverConfig second = config.drivers[0];
  second.name = "two.sdk.test";
  second.backend_config = {{"numDevices", 2}, {"nodeName", kNode}};
  config.drivers.push_back(second);
  StartDaemonWith(config);
  ASSERT_TRUE(WaitForReady(true));
  int of_second = 0;
  for (const Json& slice : Slices()) {
    if (slice["spec"]["driver"] == "two.sdk.test")
      of_second += static_cast<int>(slice["spec"]["devices"].size());
  }
  EXPECT_EQ(of_second, 2);
  // PRP-02: one claim with devices of both: each driver takes its own.
  const auto claim =
      MakeClaim("both", {"gpu-0", Json{{"driver", "two.sdk.test"}, {"device", "gpu-1"}}});
  const testing::KubeletReply first = kubelet_->PrepareResources(kDriver, {claim});
  const testing::KubeletReply other = kubelet_->PrepareResources("two.sdk.test", {claim});
  ASSERT_TRUE(first.verdict.ok()) << first.verdict;
  ASSERT_TRUE(other.verdict.ok()) << other.verdict;
  EXPECT_THAT(first.devices.at(claim.uid), SizeIs(1));
  ASSERT_THAT(other.devices.at(claim.uid), SizeIs(1));
  EXPECT_EQ(other.devices.at(claim.uid)[0].device, "gpu-1");
}

// A GET over a plain socket: status line and body.
std::string HttpGet(int port, const std::string& path) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return "no connection";
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  if (::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "not sent";
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::recv(socket.get(), buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(got));
  }
  return answer;
}

TEST_F(Line, LivenessDependsOnNothingAndReadinessTellsTheTruth) {
  StartApi();
  api_->GoAway();
  StartKubelet();
  DaemonConfig config = Config();
  config.http_address = "127.0.0.1:0";
  StartDaemonWith(config);
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  ASSERT_TRUE(WaitUntil([&] { return daemon_->http_port() != 0; }));
  EXPECT_THAT(HttpGet(daemon_->http_port(), "/healthz"), HasSubstr(" 200 "));
  std::string not_ready;
  EXPECT_TRUE(WaitUntil([&] {
    not_ready = HttpGet(daemon_->http_port(), "/readyz");
    return absl::StrContains(not_ready, "published");
  })) << not_ready;
  EXPECT_THAT(not_ready, HasSubstr(" 503 "));
  ASSERT_TRUE(api_->ComeBack().ok());
  EXPECT_TRUE(WaitUntil(
      [&] { return absl::StrContains(HttpGet(daemon_->http_port(), "/readyz"), " 200 "); }));
  EXPECT_THAT(HttpGet(daemon_->http_port(), "/metrics"), HasSubstr("dra_devices{"));
}

// REG-06: another kubelet root is one setting; a root that is none is an error with the path.
TEST_F(Line, Reg06_AMissingRegistryDirectoryIsAnErrorWithItsPath) {
  StartApi();
  DaemonConfig config = Config();
  config.kubelet_root = directory_.Path("elsewhere");
  const auto daemon = Daemon::Create(config, &fs_, &clock_, Logger());
  ASSERT_FALSE(daemon.ok());
  EXPECT_THAT(std::string(daemon.status().message()),
              HasSubstr(directory_.Path("elsewhere/plugins_registry")));
}

}  // namespace
}  // namespace dra::driver
