// The backend as a whole, behind the loader as in dra-driver, with real interfaces in namespaces of its own.
#include <gmock/gmock.h>

#include <csignal>

#include "dra/base/json.h"
#include "pod_fixture.h"
#include "test/conformance/backend_fixture.h"

namespace rdma {
namespace {

using ::dra::StringOr;
using ::dra::conformance::Allocated;
using ::dra::conformance::BackendFixture;
using ::dra::conformance::ByName;
using ::dra::conformance::Configs;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr char kDevice[] = "net-eth3";

Json Config(Json interface, Json more = Json::object()) {
  more["interface"] = std::move(interface);
  return Configs({{"FromClaim", more}});
}

class RdmaBackendTest : public PodTest {
 protected:
  void SetUp() override {
    PodTest::SetUp();
    if (IsSkipped()) return;
    AddNic();
    before_ = HostPicture();
  }
  void TearDown() override {
    if (container_ > 0) {
      kill(container_, SIGKILL);
      waitpid(container_, nullptr, 0);
    }
    node_.reset();
    PodTest::TearDown();
  }

  // Interfaces called eth... are what the driver gives away.
  void Start(Json config = Json::object()) {
    config["kernelRoot"] = directory_;
    config["devRoot"] = directory_;
    if (!config.contains("include")) config["include"] = {{{"names", {"eth*"}}}};
    node_ = std::make_unique<BackendFixture>(RDMA_BACKEND);
    const absl::Status started = node_->Create(config);
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_THAT(Devices(), Contains(Pair(kDevice, testing::_)));
  }
  std::map<std::string, dra::loader::DiscoveredDevice> Devices(
      const std::vector<std::string>& held = {}) {
    const auto found = node_->Discover(dra::loader::FieldSupport::kKept, held);
    EXPECT_TRUE(found.ok()) << found.status();
    return ByName(found);
  }
  // A claim on eth3 for the pod.
  dra::loader::PrepareArgs Claim(const Json& configs) {
    auto claim =
        BackendFixture::Claim(kClaim, {Allocated("dra.net", kDevice, "net:eth3", configs)});
    claim.reserved_for = {{{"resource", "pods"}, {"name", "pod"}, {"uid", kPod}}};
    return claim;
  }
  dra::loader::PrepareResult Prepare(const dra::loader::PrepareArgs& claim) {
    auto prepared = node_->Prepare(claim);
    EXPECT_TRUE(prepared.ok()) << prepared.status();
    return prepared.ok() ? *std::move(prepared) : dra::loader::PrepareResult();
  }
  // Runs the hook of the edits as a runtime does for a container of the pod, and gives what it prints.
  std::string RunHook(const dra::loader::PrepareResult& prepared,
                      const std::string& pod_uid = kPod) {
    const Json* hooks = dra::Find(prepared.claim_edits, "hooks");
    if (hooks == nullptr || hooks->size() != 1) return "no hook";
    const Json& hook = hooks->front();
    EXPECT_EQ(hook["hookName"], "createRuntime");
    if (container_ < 0) {
      container_ = fork();
      if (container_ == 0) {
        if (setns(pod_->fd(), CLONE_NEWNET) == 0) {
          for (;;) pause();
        }
        _exit(1);
      }
      // It is the pod's once it is in its namespace.
      const std::string path = "/proc/" + std::to_string(container_) + "/ns/net";
      const auto is_in = [&] {
        return NetworkNamespace::Open(path).Identity() == pod_->Identity();
      };
      EXPECT_TRUE(BackendFixture::Eventually(is_in));
    }
    const Json state = {{"ociVersion", "1.2.0"},
                        {"id", "c1"},
                        {"status", "creating"},
                        {"pid", container_},
                        {"bundle", directory_},
                        {"annotations",
                         {{"io.kubernetes.cri.sandbox-uid", pod_uid},
                          {"io.kubernetes.cri.sandbox-id", "sandbox"}}}};
    std::ofstream(directory_ + "/state") << state.dump();
    std::string command = hook["path"].get<std::string>();
    for (size_t i = 1; i < hook["args"].size(); ++i) {
      command += " " + hook["args"][i].get<std::string>();
    }
    std::string text;
    FILE* pipe = popen((command + " < " + directory_ + "/state 2>&1").c_str(), "r");
    for (int byte; (byte = fgetc(pipe)) != EOF;) text += static_cast<char>(byte);
    const int status = pclose(pipe);
    return std::to_string(WIFEXITED(status) ? WEXITSTATUS(status) : -1) + " " + text;
  }
  // The status that the host was told last.
  bool IsTold(const std::string& reason) {
    return BackendFixture::Eventually([&] {
      const Json told = node_->host().DeviceStatus(kClaim, kDevice);
      return told.dump().find(reason) != std::string::npos;
    });
  }

  std::unique_ptr<BackendFixture> node_;
  Json before_;
  pid_t container_ = -1;
};

TEST_F(RdmaBackendTest, TheNicGoesToThePodAndComesBack) {
  Start();
  const auto claim =
      Claim(Config({{"name", "net1"}, {"addresses", {"192.0.3.50/24"}}, {"mtu", 1500}},
                   {{"routes", {{{"destination", "203.0.113.0/24"}, {"gateway", "192.0.3.1"}}}}}));
  const auto prepared = Prepare(claim);
  EXPECT_EQ(HostPicture(), before_) << "prepare moves nothing";
  EXPECT_THAT(prepared.devices.at(0).status.dump(), HasSubstr("WaitingForPod"));

  ASSERT_EQ(RunHook(prepared), "0 ");
  const Json link = PodLink("net1");
  ASSERT_FALSE(link.is_null());
  EXPECT_EQ(link["mtu"], 1500);
  EXPECT_THAT(AddressesOf(link), ElementsAre("192.0.3.50/24"));
  EXPECT_THAT(Pod("ip route show 203.0.113.0/24"), HasSubstr("via 192.0.3.1 dev net1"));
  EXPECT_FALSE(HostHas("eth3"));
  EXPECT_TRUE(IsTold("NetworkDeviceReady"));
  const Json data = node_->host().DeviceStatus(kClaim, kDevice)["networkData"];
  EXPECT_EQ(data, (Json{{"interfaceName", "net1"},
                        {"hardwareAddress", "02:00:5e:00:53:03"},
                        {"ips", {"192.0.3.50/24"}}}));
  // A second container of the pod.
  EXPECT_EQ(RunHook(prepared), "0 ");

  ASSERT_TRUE(node_->Unprepare(claim).ok());
  EXPECT_TRUE(BecomesLike(before_));
  EXPECT_TRUE(node_->Unprepare(claim).ok());
}

// Two ways to one network differ by their metric alone.
TEST_F(RdmaBackendTest, TheHostsRoutesGoAlongWithTheirMetrics) {
  Host("ip route add 198.51.3.0/24 via 192.0.3.2 dev eth3 metric 9");
  before_ = HostPicture();
  Start();
  const auto claim = Claim(Config({{"name", "net1"}}));
  ASSERT_EQ(RunHook(Prepare(claim)), "0 ");
  EXPECT_THAT(Pod("ip route show 198.51.3.0/24"),
              testing::AllOf(HasSubstr("via 192.0.3.1 dev net1 proto static metric 7"),
                             HasSubstr("via 192.0.3.2 dev net1 proto static metric 9")));
  ASSERT_TRUE(node_->Unprepare(claim).ok());
  EXPECT_TRUE(BecomesLike(before_));
}

// SLC-09: what a pod has is shown as it was, also by a process that never saw it on the host.
TEST_F(RdmaBackendTest, AHeldNicStaysAsItWas) {
  Start();
  const Json shown = Devices()[kDevice].device;
  const auto claim = Claim(Config({{"name", "net1"}}));
  ASSERT_EQ(RunHook(Prepare(claim)), "0 ");
  EXPECT_EQ(Devices({"net:eth3"})[kDevice].device, shown);
  ASSERT_TRUE(node_->Restart().ok());
  EXPECT_EQ(Devices({"net:eth3"})[kDevice].device, shown);
  EXPECT_THAT(Devices(), IsEmpty());
  ASSERT_TRUE(node_->Unprepare(claim).ok());
  ASSERT_TRUE(BecomesLike(before_));  // up too
  EXPECT_EQ(Devices()[kDevice].device, shown);
}

// A driver that starts while the pod runs tells the status again, and a prepare that is repeated changes nothing.
TEST_F(RdmaBackendTest, ARestartUnderARunningPod) {
  Start();
  const auto claim = Claim(Config({{"name", "net1"}}));
  const auto first = Prepare(claim);
  ASSERT_EQ(RunHook(first), "0 ");
  ASSERT_TRUE(IsTold("NetworkDeviceReady"));
  ASSERT_TRUE(node_->Restart().ok());
  node_->host().ForgetClaim(kClaim);
  const auto verdict = node_->Reconcile(claim);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_TRUE(IsTold("NetworkDeviceReady"));
  const auto again = Prepare(claim);
  EXPECT_EQ(again.claim_edits, first.claim_edits);
  EXPECT_FALSE(PodLink("net1").is_null());
  EXPECT_EQ(RunHook(again), "0 ");
  ASSERT_TRUE(node_->Unprepare(claim).ok());
  EXPECT_TRUE(BecomesLike(before_));
}

// The directory of the claim survives a boot, what is pinned there does not.
TEST_F(RdmaBackendTest, ABootEndsWhatWasAttached) {
  Start();
  const auto claim = Claim(Config({{"name", "net1"}}));
  ASSERT_EQ(RunHook(Prepare(claim)), "0 ");
  const std::string directory = node_->host().ClaimDirectory(kClaim).value();
  // As after a boot: the interface on the host, the pin a file of no meaning.
  Pod("ip link set net1 name eth3 netns /proc/" + std::to_string(getpid()) + "/ns/net");
  ASSERT_EQ(umount2((directory + "/netns").c_str(), MNT_DETACH), 0);
  ASSERT_TRUE(node_->Restart().ok());
  Devices();
  const auto again = Prepare(claim);
  EXPECT_EQ(RunHook(again), "0 ");
  EXPECT_FALSE(PodLink("net1").is_null());
  ASSERT_TRUE(node_->Unprepare(claim).ok());
  EXPECT_TRUE(HostHas("eth3"));
}

// What the host has set up since a boot is not overwritten with what was before it.
TEST_F(RdmaBackendTest, AnotherBootChangesNothingOnTheHost) {
  Start();
  const auto claim = Claim(Config({{"name", "net1"}}));
  ASSERT_EQ(RunHook(Prepare(claim)), "0 ");
  const ClaimFolder folder(node_->host().ClaimDirectory(kClaim).value());
  Pod("ip link set net1 name eth3 netns /proc/" + std::to_string(getpid()) + "/ns/net");
  ASSERT_EQ(umount2(folder.pin().c_str(), MNT_DETACH), 0);
  Host("ip link set eth3 mtu 1400");
  Plan plan = folder.ReadPlan().value();
  plan.boot_id = "an earlier one";
  folder.WritePlan(plan);
  const Json now = HostPicture();
  ASSERT_TRUE(node_->Unprepare(claim).ok());
  EXPECT_EQ(HostPicture(), now);
  EXPECT_FALSE(std::filesystem::exists(folder.pin()));
}

// A driver's pod without hostNetwork would fetch the NIC into a namespace that ends with it.
TEST_F(RdmaBackendTest, OnlyTheHostsNamespaceCounts) {
  Start();
  const auto claim = Claim(Config({{"name", "net1"}}));
  const auto prepared = Prepare(claim);
  const ClaimFolder folder(node_->host().ClaimDirectory(kClaim).value());
  Plan plan = folder.ReadPlan().value();
  plan.host_inode += 1;
  folder.WritePlan(plan);
  EXPECT_THAT(RunHook(prepared), HasSubstr("give the driver's pod hostNetwork: true"));
  EXPECT_EQ(HostPicture(), before_);
  EXPECT_TRUE(IsTold("hostNetwork"));
}

TEST_F(RdmaBackendTest, AClaimOfNoPodIsRefused) {
  Start();
  auto claim = Claim(Config({{"name", "net1"}}));
  claim.reserved_for = Json::array();
  const auto refused = node_->Prepare(claim);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("names no pod"));
}

// SLC-10: an interface that came a moment ago, and one that is gone.
TEST_F(RdmaBackendTest, PrepareLooksAnew) {
  Start();
  AddNic("eth4", 4);
  const auto claim = BackendFixture::Claim(kClaim, {Allocated("dra.net", "net-eth4", "net:eth4")});
  EXPECT_TRUE(node_->Prepare(claim).ok());
  Host("ip link del eth4");
  const auto gone = node_->Prepare(
      BackendFixture::Claim("uid-2", {Allocated("dra.net", "net-eth4", "net:eth4")}));
  EXPECT_EQ(gone.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(gone.status().message()),
              HasSubstr("net:eth4 is not on this node any more"));
}

TEST_F(RdmaBackendTest, ChangesOfTheHostAreTold) {
  Start();
  const int before = node_->host().inventory_changes();
  AddNic("eth4", 4);
  EXPECT_TRUE(node_->host().WaitForInventoryChanges(before + 1, absl::Seconds(60)));
  EXPECT_THAT(Devices(), Contains(Pair("net-eth4", testing::_)));
}

TEST_F(RdmaBackendTest, AnotherPodIsRefusedByTheHook) {
  Start();
  const auto claim = Claim(Config({{"name", "net1"}}));
  const auto prepared = Prepare(claim);
  const std::string answer = RunHook(prepared, "0b8e7c11-0000-4000-8000-00000000ffff");
  EXPECT_THAT(answer, testing::StartsWith("1 "));
  EXPECT_THAT(answer, HasSubstr(kPod));
  EXPECT_EQ(HostPicture(), before_);
  // It says nothing of the device, which the right pod can have still.
  EXPECT_EQ(RunHook(prepared), "0 ");
  EXPECT_TRUE(IsTold("NetworkDeviceReady"));
  ASSERT_TRUE(node_->Unprepare(claim).ok());
}

// The reason is in the claim's status too, where it stays longer than in the pod's events.
TEST_F(RdmaBackendTest, AFailureOfTheHookIsToldAsStatus) {
  Start();
  Pod("ip link add net1 type veth peer name other");
  const auto claim = Claim(Config({{"name", "net1"}}));
  EXPECT_THAT(RunHook(Prepare(claim)), HasSubstr("the pod has an interface net1 already"));
  EXPECT_TRUE(BecomesLike(before_));
  EXPECT_TRUE(IsTold("AttachFailed"));
  ASSERT_TRUE(node_->Unprepare(claim).ok());
}

// The kubelet asks again while the pod runs: the status is not set back.
TEST_F(RdmaBackendTest, APrepareUnderARunningPodKeepsTheStatus) {
  Start();
  const auto claim = Claim(Config({{"name", "net1"}}));
  ASSERT_EQ(RunHook(Prepare(claim)), "0 ");
  EXPECT_THAT(Prepare(claim).devices.at(0).status.dump(), testing::Not(HasSubstr("WaitingForPod")));
  ASSERT_TRUE(node_->Unprepare(claim).ok());
}

// The runtime is about to start a container of a claim whose end came first.
TEST_F(RdmaBackendTest, NoHookMovesAnythingAfterUnprepare) {
  Start();
  const auto claim = Claim(Config({{"name", "net1"}}));
  const auto prepared = Prepare(claim);
  ASSERT_TRUE(node_->Unprepare(claim).ok());
  EXPECT_THAT(RunHook(prepared), HasSubstr("not prepared any more"));
  EXPECT_TRUE(BecomesLike(before_));
  // A driver that died there has a record that says "prepared"; so has one whose plan was lost.
  const auto verdict = node_->Reconcile(claim);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->verdict, dra::loader::ReconcileVerdict::kRedo);
  EXPECT_EQ(RunHook(Prepare(claim)), "0 ");
  ASSERT_TRUE(node_->Unprepare(claim).ok());
}

// What the scheduler saw is older than what the host did since: DHCP came later than the driver, say.
TEST_F(RdmaBackendTest, WhatTheHostNeedsNowIsNotTaken) {
  Start();
  Host("ip route add default via 192.0.3.1");
  const auto route = node_->Prepare(Claim(Config({{"name", "net1"}})));
  EXPECT_EQ(route.status().code(), absl::StatusCode::kFailedPrecondition) << route.status();
  EXPECT_THAT(std::string(route.status().message()), HasSubstr("default route"));
  Host("ip route del default");
  Host("ip link add br7 type bridge");
  Host("ip link set eth3 master br7");
  const auto port = node_->Prepare(Claim(Config({{"name", "net1"}})));
  EXPECT_EQ(port.status().code(), absl::StatusCode::kFailedPrecondition) << port.status();
  EXPECT_THAT(std::string(port.status().message()), HasSubstr("br7"));
  Host("ip link set br7 up");
  Host("ip route add default dev br7");  // through what lies on it
  Host("ip link set eth3 nomaster");
  EXPECT_TRUE(node_->Prepare(Claim(Config({{"name", "net1"}}))).ok());
  ASSERT_TRUE(node_->Unprepare(Claim(Json::array())).ok());
}

// One shared NIC twice in a claim: each has its interface and its status.
TEST_F(RdmaBackendTest, TwoSharesOfOneNicInAClaim) {
  Start({{"shared", {{{"names", {"eth3"}}, {"shares", 4}}}}});
  const std::string one = "11111111-0000-4000-8000-000000000001",
                    two = "22222222-0000-4000-8000-000000000002";
  auto claim = Claim(Json::array());
  claim.devices = {
      Allocated("dra.net", kDevice, "net:eth3",
                Config({{"name", "a0"}, {"macvlan", "bridge"}, {"addresses", {"192.0.3.60/24"}}}),
                {{"shareID", one}}),
      Allocated("dra.net", kDevice, "net:eth3",
                Config({{"name", "a1"}, {"macvlan", "bridge"}, {"addresses", {"192.0.3.61/24"}}}),
                {{"shareID", two}})};
  const auto prepared = Prepare(claim);
  ASSERT_EQ(RunHook(prepared), "0 ");
  ASSERT_EQ(RunHook(prepared), "0 ");
  EXPECT_THAT(AddressesOf(PodLink("a0")), ElementsAre("192.0.3.60/24"));
  EXPECT_THAT(AddressesOf(PodLink("a1")), ElementsAre("192.0.3.61/24"));
  ASSERT_TRUE(node_->Unprepare(claim).ok());
  EXPECT_TRUE(PodLink("a0").is_null());
  EXPECT_TRUE(BecomesLike(before_));
}

TEST_F(RdmaBackendTest, ARuleOfTheHostForAllTrafficGoesAlong) {
  Start();
  Host("ip rule add pref 100 lookup 103");
  ASSERT_EQ(RunHook(Prepare(Claim(Json::array()))), "0 ");
  EXPECT_THAT(Pod("ip rule show pref 100"), HasSubstr("from all lookup 103"));
  ASSERT_TRUE(node_->Unprepare(Claim(Json::array())).ok());
}

TEST_F(RdmaBackendTest, TheVeryNamesOfThePodAreRefused) {
  Start();
  for (const char* name : {"eth0", "lo"}) {
    const auto refused = node_->Prepare(Claim(Config({{"name", name}})));
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(name));
  }
  EXPECT_EQ(HostPicture(), before_);
}

TEST_F(RdmaBackendTest, TwoInterfacesOfOneNameAreRefused) {
  AddNic("eth4", 4);
  Start();
  auto claim = Claim(Config({{"name", "net1"}}));
  claim.devices.push_back(Allocated("dra.net", "net-eth4", "net:eth4", Config({{"name", "net1"}})));
  const auto refused = node_->Prepare(claim);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("net1 is the name of device net-eth3"));
}

TEST_F(RdmaBackendTest, SharedNicsStayOnTheHost) {
  Start({{"shared", {{{"names", {"eth3"}}, {"shares", 4}}}}});
  const Json device = Devices()[kDevice].device;
  EXPECT_TRUE(device["allowMultipleAllocations"].get<bool>());
  EXPECT_EQ(device["capacity"]["shares"]["value"], "4");
  const auto nothing = node_->Prepare(Claim(Json::array()));
  EXPECT_THAT(std::string(nothing.status().message()), HasSubstr("a pod would get nothing"));
  const auto refused = node_->Prepare(Claim(Config({{"name", "net1"}})));
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("ask for interface.macvlan"));

  const auto claim =
      Claim(Config({{"name", "net1"}, {"macvlan", "bridge"}, {"addresses", {"192.0.3.60/24"}}}));
  ASSERT_EQ(RunHook(Prepare(claim)), "0 ");
  EXPECT_TRUE(HostHas("eth3"));
  EXPECT_THAT(AddressesOf(PodLink("net1")), ElementsAre("192.0.3.60/24"));
  ASSERT_TRUE(node_->Unprepare(claim).ok());
  EXPECT_TRUE(PodLink("net1").is_null());
  EXPECT_TRUE(BecomesLike(before_));
}

TEST_F(RdmaBackendTest, TheRuntimeMovesItWhereConfigured) {
  Start({{"attach", "netDevices"}});
  const auto prepared = Prepare(Claim(Config({{"name", "net1"}})));
  EXPECT_EQ(prepared.devices.at(0).edits["netDevices"],
            Json::array({{{"hostInterfaceName", "eth3"}, {"name", "net1"}}}));
  EXPECT_TRUE(prepared.claim_edits.is_null() || prepared.claim_edits.empty());
  const auto refused = node_->Prepare(Claim(Config({{"name", "net1"}, {"mtu", 1500}})));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("can only rename it"));
}

TEST_F(RdmaBackendTest, AdminAccessOnlyLooks) {
  Start();
  auto claim = BackendFixture::Claim(
      kClaim, {Allocated("dra.net", kDevice, "net:eth3", Json::array(), {{"adminAccess", true}})});
  const auto prepared = Prepare(claim);
  EXPECT_TRUE(prepared.claim_edits.is_null() || prepared.claim_edits.empty());
}

TEST_F(RdmaBackendTest, TheHigherConfigCountsPerField) {
  Start();
  const auto claim = Claim(Configs({{"FromClass",
                                     {{"apiVersion", kConfigApiVersion},
                                      {"kind", kConfigKind},
                                      {"interface", {{"mtu", 1400}, {"name", "a0"}}}}},
                                    {"FromClaim", {{"interface", {{"name", "net1"}}}}}}));
  ASSERT_EQ(RunHook(Prepare(claim)), "0 ");
  EXPECT_EQ(PodLink("net1")["mtu"], 1400);
  ASSERT_TRUE(node_->Unprepare(claim).ok());
  EXPECT_TRUE(BecomesLike(before_));
}

}  // namespace
}  // namespace rdma
