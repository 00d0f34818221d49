// The backend as a whole, behind the loader, on simulated GPUs.

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>

#include "absl/strings/ascii.h"
#include "test/backends/nvidia/fixture.h"
#include "test/conformance/suite.h"

namespace dra {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kTwoH100[] = "gpus: [{model: H100-80GB, count: 2}]\n";
constexpr char kMigA100[] =
    "gpus:\n"
    "- model: A100-40GB\n"
    "  migMode: true\n"
    "  mig: [{profile: 1g.5gb, start: 0}, {profile: 2g.10gb, start: 2}]\n"
    "- model: A100-40GB\n";

Json Config(const Json& parameters) { return conformance::Configs({{"FromClaim", parameters}}); }

TEST(NvidiaBackend, PassesTheConformanceSuite) {
  for (const char* model : {kTwoH100, kMigA100}) {
    SCOPED_TRACE(model);
    NvidiaFixture node;
    node.MakeNode(model);
    std::filesystem::create_directory(node.directory() + "/scratch");
    conformance::Options options;
    options.library = NVIDIA_BACKEND;
    options.config_json = Json({{"hostRoot", node.root()}}).dump();
    options.driver_name = "gpu.nvidia.com";
    options.scratch_directory = node.directory() + "/scratch";
    const auto findings = conformance::RunSuite(options);
    EXPECT_TRUE(conformance::Passed(findings)) << conformance::Report(findings);
  }
}

TEST(NvidiaBackend, AGpuIsItsOwnKeyAndAMigCardServesOneShape) {
  NvidiaFixture node;
  node.MakeNode(kMigA100);
  ASSERT_TRUE(node.Start().ok());
  std::map<std::string, std::string> shapes;
  for (const auto& [name, device] : node.Devices()) {
    ASSERT_THAT(device.exclusion_keys, SizeIs(1)) << name;
    shapes[name] = device.exclusion_keys[0].key + " " + device.exclusion_keys[0].shape;
  }
  ASSERT_THAT(shapes, SizeIs(3));
  size_t whole = 0, mig = 0;
  for (const auto& [name, shape] : shapes) {
    whole += shape.find(node.Uuid(1) + " gpu") != std::string::npos;
    mig += shape.find(node.Uuid(0) + " mig") != std::string::npos;
  }
  EXPECT_EQ(whole, 1u);
  EXPECT_EQ(mig, 2u);
}

TEST(Inv14, WithoutADriverItStartsAndSaysSoAndFindsOneThatComesLater) {
  NvidiaFixture node;
  ASSERT_TRUE(node.Start().ok());
  EXPECT_THAT(node.Discover().status().ToString(),
              ::testing::AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("libnvidia-ml.so.1"),
                               HasSubstr("driverRoot")));
  node.MakeNode(kTwoH100);
  EXPECT_TRUE(node.host().WaitForInventoryChanges(1, absl::Seconds(60)));
  EXPECT_THAT(node.Devices(), SizeIs(2));
}

TEST(Pkg07, ADriverContainersRootIsFoundBelowTheHosts) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100, "--driver-root run/nvidia/driver");
  ASSERT_TRUE(node.Start({{"driverRoot", "/run/nvidia/driver"}}).ok());
  const auto devices = node.Devices();
  ASSERT_THAT(devices, SizeIs(2));
  const auto prepared = node.Prepare(
      NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(devices.begin()->second)}));
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  for (const Json& mount : prepared->claim_edits["mounts"]) {
    EXPECT_THAT(StringOr(mount, "containerPath"), Not(StartsWith("/run/nvidia/driver")));
  }
}

TEST(NvidiaClaim, GetsItsGpuAndWhatAllShareAndNothingTwice) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100);
  ASSERT_TRUE(node.Start().ok());
  const auto devices = node.Devices();
  std::vector<loader::PrepareDevice> both;
  for (const auto& [name, device] : devices) both.push_back(NvidiaFixture::Allocated(device));
  const auto claim = NvidiaFixture::Claim("uid-1", both);
  const auto first = node.Prepare(claim);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_THAT(first->devices, SizeIs(2));
  EXPECT_NE(Nodes(first->devices[0].edits), Nodes(first->devices[1].edits));
  EXPECT_THAT(Nodes(first->devices[0].edits), Not(Contains("/dev/nvidiactl")));
  EXPECT_THAT(Nodes(first->claim_edits), Contains("/dev/nvidiactl"));
  const Json environment = first->claim_edits["env"];
  EXPECT_THAT(environment.get<std::vector<std::string>>(), Contains("NVIDIA_VISIBLE_DEVICES=void"));
  EXPECT_THAT(environment.dump(), Not(HasSubstr("LD_LIBRARY_PATH")));
  for (const Json& mount : first->claim_edits["mounts"]) {
    EXPECT_TRUE(std::filesystem::exists(node.root() + StringOr(mount, "hostPath"))) << mount;
  }
  EXPECT_EQ(first->devices[0].status["data"]["uuid"], both[0].identity);
  const auto again = node.Prepare(claim);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->claim_edits, first->claim_edits);
  EXPECT_EQ(again->devices[0].edits, first->devices[0].edits);
  EXPECT_TRUE(node.Unprepare(claim).ok());
  EXPECT_TRUE(node.Unprepare(claim).ok());
}

TEST(NvidiaClaim, AMigInstanceGetsItsCapabilityNodes) {
  NvidiaFixture node;
  node.MakeNode(kMigA100);
  ASSERT_TRUE(node.Start().ok());
  for (const auto& [name, device] : node.Devices()) {
    if (name.find("-mig-") == std::string::npos) continue;
    const auto prepared =
        node.Prepare(NvidiaFixture::Claim("uid-" + name, {NvidiaFixture::Allocated(device)}));
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_THAT(
        Nodes(prepared->devices[0].edits),
        ::testing::UnorderedElementsAre("/dev/nvidia0", StartsWith("/dev/nvidia-caps/nvidia-cap"),
                                        StartsWith("/dev/nvidia-caps/nvidia-cap")));
  }
}

TEST(Cfg01, AConfigIsReadStrictlyAndWhatIsNotThereYetIsRefusedByName) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100);
  ASSERT_TRUE(node.Start().ok());
  const auto device = node.Devices().begin()->second;
  const auto prepare = [&](const Json& parameters) {
    Json config = parameters;
    config["apiVersion"] = "resource.nvidia.com/v1beta1";
    return node
        .Prepare(NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(device, Config(config))}))
        .status()
        .ToString();
  };
  EXPECT_EQ(prepare({{"kind", "GpuConfig"}}), "OK");
  EXPECT_THAT(prepare({{"kind", "GpuConfig"}, {"sharing", {{"strategy", "TimeSlicing"}}}}),
              HasSubstr("TimeSlicing"));
  EXPECT_THAT(prepare({{"kind", "GpuConfig"}, {"sharring", {}}}), HasSubstr("sharring"));
  EXPECT_THAT(prepare({{"kind", "MigDeviceConfig"}}), HasSubstr("MigDeviceConfig"));
  EXPECT_THAT(prepare({{"kind", "VfioDeviceConfig"}}), HasSubstr("VfioDeviceConfig"));
  // As Kubernetes 1.37 hands on a config that named the claim's only request.
  Json nameless =
      Config({{"apiVersion", "resource.nvidia.com/v1beta1"}, {"kind", "MigDeviceConfig"}});
  nameless[0]["request"] = "";
  EXPECT_THAT(
      node.Prepare(NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(device, nameless)}))
          .status()
          .ToString(),
      HasSubstr("no device of the claim is a MIG instance"));
}

TEST(Inv01, AClaimsGpuIsTheSameCardWhenMinorsSlide) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100);
  ASSERT_TRUE(node.Start().ok());
  const auto before = node.Devices();
  node.Set("--minors reversed");
  const auto after = node.Devices();
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, device] : after) {
    ASSERT_EQ(before.count(name), 1u);
    EXPECT_EQ(before.at(name).identity, device.identity);
  }
  const Json state = node.State();
  for (const Json& gpu : state.at("gpus")) {
    for (const auto& [name, device] : before) {
      if (device.identity != StringOr(gpu, "uuid")) continue;
      const auto prepared =
          node.Prepare(NvidiaFixture::Claim("uid-" + name, {NvidiaFixture::Allocated(device)}));
      ASSERT_TRUE(prepared.ok()) << prepared.status();
      EXPECT_THAT(Nodes(prepared->devices[0].edits),
                  Contains("/dev/nvidia" + std::to_string(gpu["minor"].get<int>())));
    }
  }
}

TEST(Inv04, AGpuThatFellOffTheBusCostsOnlyItself) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100);
  ASSERT_TRUE(node.Start().ok());
  const auto before = node.Devices();
  ASSERT_THAT(before, SizeIs(2));
  const std::string lost = node.Uuid(1);
  node.Set("--gpu 1 --lost");
  const auto found = node.Discover();
  ASSERT_TRUE(found.ok()) << found.status();
  size_t devices = 0, errors = 0;
  for (const loader::DiscoverItem& item : found->items) {
    devices += item.device.has_value();
    errors += !item.device.has_value();
  }
  EXPECT_EQ(devices, 1u);
  EXPECT_EQ(errors, 1u);
  // It may be there all the same: what was published of it stays, and is unhealthy.
  bool named = false;
  for (const loader::DiscoverItem& item : found->items) named |= item.error_subject == lost;
  EXPECT_TRUE(!found->complete || named);
  EXPECT_TRUE(NvidiaFixture::Eventually([&] {
    const auto health = node.backend().Health(NvidiaFixture::Limit());
    if (!health.ok()) return false;
    for (const loader::DeviceHealth& device : *health) {
      if (device.device.find(absl::AsciiStrToLower(lost)) != std::string::npos)
        return device.state == loader::HealthState::kUnhealthy;
    }
    return false;
  }));
  for (const auto& [name, device] : before) {
    const auto prepared =
        node.Prepare(NvidiaFixture::Claim("uid-" + name, {NvidiaFixture::Allocated(device)}));
    EXPECT_EQ(prepared.ok(), device.identity != lost) << prepared.status();
  }
}

// By the driver's event: a poll would take an hour.
TEST(NvidiaMig, ALayoutThatIsChangedByHandIsDiscoveredAnew) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100);
  ASSERT_TRUE(node.Start({{"pollSeconds", 3600}}).ok());
  ASSERT_THAT(node.Devices(), SizeIs(2));
  ASSERT_TRUE(NvidiaFixture::Eventually([&] {
    const auto health = node.backend().Health(NvidiaFixture::Limit());
    return health.ok() && health->size() == 2 &&
           (*health)[0].state == loader::HealthState::kHealthy &&
           (*health)[1].state == loader::HealthState::kHealthy;
  }));
  const int before = node.host().inventory_changes();
  node.Set("--gpu 0 --mig on --mig-create 1g.10gb:0 --mig-create 1g.10gb:1");
  ASSERT_TRUE(node.host().WaitForInventoryChanges(before + 1, absl::Seconds(60)));
  EXPECT_THAT(node.Devices(), SizeIs(3));
  node.Set("--gpu 0 --mig-destroy 1g.10gb:1");
  ASSERT_TRUE(node.host().WaitForInventoryChanges(before + 2, absl::Seconds(60)));
  EXPECT_THAT(node.Devices(), SizeIs(2));
}

TEST(NvidiaHealth, TheDriversRecoveryActionIsAFaultUntilItIsDone) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100);
  ASSERT_TRUE(node.Start({{"pollSeconds", 3600}}).ok());
  ASSERT_THAT(node.Devices(), SizeIs(2));
  const auto sick = [&] {
    std::string classes;
    const auto health = node.backend().Health(NvidiaFixture::Limit());
    if (!health.ok()) return health.status().ToString();
    for (const loader::DeviceHealth& device : *health) {
      if (device.state == loader::HealthState::kUnknown) return std::string("unknown");
      classes += device.fault_class + ";";
    }
    return classes;
  };
  ASSERT_TRUE(NvidiaFixture::Eventually([&] { return sick() == ";;"; })) << sick();
  node.Set("--gpu all --recovery-action drain-and-reset");
  EXPECT_TRUE(NvidiaFixture::Eventually([&] {
    return sick() == "recovery-drain-and-reset;recovery-drain-and-reset;";
  })) << sick();
  node.Set("--gpu all --recovery-action none");
  EXPECT_TRUE(NvidiaFixture::Eventually([&] { return sick() == ";;"; })) << sick();
}

TEST(NvidiaDriver, UpgradedUnderneathGivesNewClaimsNewFiles) {
  NvidiaFixture node;
  node.MakeNode("driver: {version: 580.65.06}\n" + std::string(kTwoH100));
  ASSERT_TRUE(node.Start().ok());
  const auto device = node.Devices().begin()->second;
  const auto held = NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(device)});
  const auto before = node.Prepare(held);
  ASSERT_TRUE(before.ok()) << before.status();
  EXPECT_THAT(before->claim_edits.dump(), HasSubstr("libcuda.so.580.65.06"));
  node.Set("--driver-upgrade 580.126.20");
  EXPECT_TRUE(node.host().WaitForInventoryChanges(1, absl::Seconds(60)));
  const auto after = node.Prepare(
      NvidiaFixture::Claim("uid-2", {NvidiaFixture::Allocated(node.Devices().begin()->second)}));
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_THAT(after->claim_edits.dump(), HasSubstr("libcuda.so.580.126.20"));
  EXPECT_THAT(after->claim_edits.dump(), Not(HasSubstr("580.65.06")));
  // The held claim's files are gone: for containers that start later it gets the new ones, with the restart that the
  // backend asks for.
  EXPECT_THAT(node.host().Logs(), Contains(HasSubstr("restart requested")));
  ASSERT_TRUE(node.Restart().ok());
  const auto renewed = node.Reconcile(held);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->verdict, loader::ReconcileVerdict::kTrueWithEdits);
  EXPECT_EQ(renewed->claim_edits, after->claim_edits);
  ASSERT_THAT(renewed->device_edits, SizeIs(1));
  EXPECT_EQ(renewed->device_edits[0], after->devices[0].edits);
}

TEST(NvidiaDriver, ThatIsNotReplacedAsksForNoRestart) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100);
  ASSERT_TRUE(node.Start().ok());
  (void)node.Devices();
  ASSERT_TRUE(node.Restart().ok());
  (void)node.Devices();
  EXPECT_THAT(node.host().Logs(), Not(Contains(HasSubstr("restart requested"))));
}

// Reconcile tells what a prepare would give now, so that a restart changes nothing, and a card whose minor slid is the
// same card also for a container that starts once more.
TEST(NvidiaReconcile, GivesTheEditsOfNow) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100);
  ASSERT_TRUE(node.Start().ok());
  const auto device = node.Devices().begin()->second;
  const auto held = NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(device)});
  const auto prepared = node.Prepare(held);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  ASSERT_TRUE(node.Restart().ok());
  const auto same = node.Reconcile(held);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->verdict, loader::ReconcileVerdict::kTrueWithEdits);
  EXPECT_EQ(same->claim_edits, prepared->claim_edits);
  EXPECT_EQ(same->device_edits[0], prepared->devices[0].edits);
  node.Set("--minors reversed");
  const auto slid = node.Reconcile(held);
  ASSERT_TRUE(slid.ok()) << slid.status();
  EXPECT_NE(Nodes(slid->device_edits[0])[0], Nodes(prepared->devices[0].edits)[0]);
}

// What is on its way to another driver is no reason to take from a claim what it has.
TEST(NvidiaReconcile, KeepsTheEditsWhereThereAreNoBetterOnes) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100);
  ASSERT_TRUE(node.Start().ok());
  const auto held =
      NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(node.Devices().begin()->second)});
  ASSERT_TRUE(node.Prepare(held).ok());
  std::filesystem::remove(node.Path("proc/devices"));
  const auto kept = node.Reconcile(held);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->verdict, loader::ReconcileVerdict::kTrue);
  EXPECT_THAT(node.host().Logs(), Contains(::testing::AllOf(HasSubstr("default/claim-uid-1 keeps"),
                                                            HasSubstr("nvidia-uvm"))));
}

TEST(NvidiaDriver, OfAnotherVersionThanTheLibraryIsSaidWithItsCure) {
  NvidiaFixture node;
  node.MakeNode("driver: {version: 580.65.06, kernelModule: 575.57.08}\n" + std::string(kTwoH100));
  ASSERT_TRUE(node.Start().ok());
  EXPECT_THAT(node.Discover().status().ToString(),
              ::testing::AnyOf(HasSubstr("reboot"), HasSubstr("reload")));
}

TEST(NvidiaClaim, EndsAlsoWhenTheDriverHasGone) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100);
  ASSERT_TRUE(node.Start().ok());
  const auto claim =
      NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(node.Devices().begin()->second)});
  ASSERT_TRUE(node.Prepare(claim).ok());
  node.Stop();
  std::filesystem::remove_all(node.root());
  std::filesystem::create_directory(node.root());
  ASSERT_TRUE(node.Restart().ok());
  EXPECT_TRUE(node.Unprepare(claim).ok());
}

TEST(NvidiaDriver, AHangingCallCostsItsOwnClaim) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100);
  ASSERT_TRUE(node.Start().ok());
  std::vector<loader::PrepareArgs> claims;
  for (const auto& [name, device] : node.Devices()) {
    claims.push_back(NvidiaFixture::Claim("uid-" + name, {NvidiaFixture::Allocated(device)}));
  }
  ASSERT_THAT(claims, SizeIs(2));
  node.Set("--gpu " + claims[0].devices[0].identity + " --hang nvmlDeviceGetMinorNumber=3600");
  const auto hung = node.backend().Prepare(claims[0], Call::WithTimeout(absl::Milliseconds(300)));
  EXPECT_EQ(hung.status().code(), absl::StatusCode::kDeadlineExceeded) << hung.status();
  const auto other = node.Prepare(claims[1]);
  EXPECT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(node.Unprepare(claims[1]).ok());
  node.Set("--clear-faults");
  absl::Status last;
  EXPECT_TRUE(NvidiaFixture::Eventually([&] {
    last = node.Prepare(claims[0]).status();
    return last.ok();
  })) << last;
}

class Listener {
 public:
  explicit Listener(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0) << path;
    EXPECT_EQ(listen(fd_, 8), 0);
  }
  ~Listener() { close(fd_); }

 private:
  const int fd_;
};

TEST(Doc06, ANodeThatTheDevicePluginServesGetsNoNewClaims) {
  NvidiaFixture node;
  node.MakeNode(kTwoH100);
  const std::string directory = node.Path("var/lib/kubelet/device-plugins");
  std::filesystem::create_directories(directory);
  ASSERT_TRUE(node.Start().ok());
  {
    const Listener plugin(directory + "/nvidia-gpu.sock");
    const auto found = node.Discover();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT(found->items, SizeIs(3));
    for (const loader::DiscoverItem& item : found->items) {
      if (item.device) {
        EXPECT_EQ(item.device->device["taints"][0]["effect"], "NoSchedule");
        // Claims that have their devices go on.
        EXPECT_TRUE(
            node.Prepare(NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(*item.device)}))
                .ok());
        continue;
      }
      EXPECT_THAT(item.error.ToString(),
                  ::testing::AllOf(HasSubstr("/var/lib/kubelet/device-plugins/nvidia-gpu.sock"),
                                   Not(HasSubstr(node.root())), HasSubstr("allowDevicePlugin")));
    }
  }
  // Its dead socket stays behind when it goes.
  EXPECT_TRUE(node.host().WaitForInventoryChanges(1, absl::Seconds(60)));
  for (const auto& [name, device] : node.Devices()) {
    EXPECT_FALSE(device.device.contains("taints")) << name;
  }
}

TEST(NvidiaReconcile, TellsWhatIsThereFromWhatIsLostAndARebootFromARestart) {
  NvidiaFixture node;
  node.MakeNode(kMigA100);
  ASSERT_TRUE(node.Start().ok());
  loader::ReconcileRecord record;
  for (const auto& [name, device] : node.Devices()) {
    if (name.find("-mig-1g5gb-") != std::string::npos)
      record.record.devices = {NvidiaFixture::Allocated(device)};
  }
  ASSERT_THAT(record.record.devices, SizeIs(1));
  record.record.claim = {"default", "claim", "uid-1"};
  const auto verdict = [&](bool same_boot) {
    record.same_boot = same_boot;
    EXPECT_TRUE(node.backend().ReconcileBegin(NvidiaFixture::Limit()).ok());
    const auto result = node.backend().ReconcileRecordHook(record, NvidiaFixture::Limit());
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->verdict : loader::ReconcileVerdict::kLost;
  };
  EXPECT_EQ(verdict(true), loader::ReconcileVerdict::kTrueWithEdits);
  EXPECT_EQ(verdict(false), loader::ReconcileVerdict::kRedo);
  node.Set("--gpu 0 --mig-destroy 1g.5gb:0");
  EXPECT_EQ(verdict(true), loader::ReconcileVerdict::kLost);
  // What cannot be asked is not lost.
  node.Set("--fault nvmlDeviceGetHandleByUUID=UNKNOWN");
  EXPECT_FALSE(node.backend().ReconcileRecordHook(record, NvidiaFixture::Limit()).ok());
}

}  // namespace
}  // namespace dra
