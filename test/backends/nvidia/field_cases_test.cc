// Cases from the field, through the backend behind the loader, on simulated GPUs: what the core's tests of the same names
// show for a backend that is not this one.

#include <fstream>

#include "absl/strings/ascii.h"
#include "test/backends/nvidia/fixture.h"

namespace dra {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kPair[] = "gpus: [{model: H100-80GB, count: 2}]\n";
constexpr char kEveryCard[] =
    "gpus:\n"
    "- {model: A100-40GB}\n"
    "- {model: A100-80GB, migMode: true, mig: [{profile: 1g.10gb, start: 0}]}\n"
    "- {model: H100-80GB, persistenceMode: true}\n"
    "- {model: H200}\n"
    "- {model: B200}\n"
    "- {model: GB200}\n"
    "- {model: L4}\n"
    "- {model: T4}\n";

Json PlainConfig(const char* kind) {
  return conformance::Configs(
      {{"FromClaim", {{"apiVersion", "resource.nvidia.com/v1beta1"}, {"kind", kind}}}});
}

std::string NameOf(const std::string& uuid) { return absl::AsciiStrToLower(uuid); }

// A card that takes another one's place and minor is another device; the claim of the former one does not get it.
TEST(Inv04, AnotherCardInTheSlotIsAnotherDevice) {
  NvidiaFixture node;
  node.MakeNode(kPair);
  ASSERT_TRUE(node.Start().ok());
  const auto before = node.Devices();
  const std::string taken_out = node.Uuid(0), put_in = "GPU-00000000-1111-2222-3333-444444444444";
  node.Set("--gpu 0 --merge '{\"uuid\": \"" + put_in + "\"}'");
  const auto after = node.Devices();
  ASSERT_THAT(after, SizeIs(2));
  EXPECT_EQ(after.count(NameOf(taken_out)), 0u);
  ASSERT_EQ(after.count(NameOf(put_in)), 1u);
  EXPECT_EQ(after.at(NameOf(put_in)).identity, put_in);
  EXPECT_EQ(after.count(NameOf(node.Uuid(1))), 1u);
  const auto old = node.Prepare(
      NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(before.at(NameOf(taken_out)))}));
  EXPECT_THAT(old.status().ToString(), AllOf(HasSubstr("UNAVAILABLE"), HasSubstr(taken_out)));
}

// Four numbers, and leading zeros: the attribute is what SemVer takes, the files are found all the same.
TEST(Inv05, ADriverVersionThatIsNoSemverCostsNothing) {
  NvidiaFixture node;
  node.MakeNode("driver: {version: 570.086.05.7}\n" + std::string(kPair));
  ASSERT_TRUE(node.Start().ok());
  const auto devices = node.Devices();
  ASSERT_THAT(devices, SizeIs(2));
  const auto& device = devices.begin()->second;
  EXPECT_EQ(device.device["attributes"]["driverVersion"], Json({{"version", "570.86.5+7"}}));
  const auto prepared =
      node.Prepare(NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(device)}));
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_THAT(prepared->claim_edits.dump(), HasSubstr("libcuda.so.570.086.05.7"));
}

TEST(Inv14, AMismatchOfLibraryAndModuleEndsWithoutARestart) {
  NvidiaFixture node;
  node.MakeNode(kPair);
  node.Set("--fault nvmlInitWithFlags=LIB_RM_VERSION_MISMATCH:3");
  ASSERT_TRUE(node.Start().ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(node.Discover().status().code(), absl::StatusCode::kFailedPrecondition) << i;
  }
  EXPECT_THAT(node.Devices(), SizeIs(2));
}

// The library is new and the module is not yet: what starts now would find no driver, so nothing new is sent here.
TEST(Inv14, AMismatchUnderneathIsAFaultOfEveryGpuUntilItEnds) {
  NvidiaFixture node;
  node.MakeNode("driver: {version: 580.65.06}\n" + std::string(kPair));
  ASSERT_TRUE(node.Start().ok());
  const auto devices = node.Devices();
  ASSERT_THAT(devices, SizeIs(2));
  const auto all_are = [&](loader::HealthState state, const std::string& fault) {
    const auto health = node.backend().Health(NvidiaFixture::Limit());
    if (!health.ok() || health->size() != 2) return false;
    for (const loader::DeviceHealth& device : *health) {
      if (devices.count(device.device) == 0 || device.state != state || device.fault_class != fault)
        return false;
    }
    return true;
  };
  node.Set("--driver-upgrade 580.126.20 --only-library");
  EXPECT_TRUE(node.host().WaitForInventoryChanges(1, absl::Seconds(60)));
  EXPECT_EQ(node.Discover().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(all_are(loader::HealthState::kUnhealthy, "driver-mismatch"));
  node.Set("--reload-driver");
  EXPECT_THAT(node.Devices(), SizeIs(2));
  EXPECT_TRUE(
      NvidiaFixture::Eventually([&] { return all_are(loader::HealthState::kHealthy, ""); }));
}

// The driver's container fills its root some time after this driver has started; the log says where it was looked.
TEST(Pkg07, AnEmptyDriverRootIsWaitedFor) {
  NvidiaFixture node;
  std::filesystem::create_directories(node.Path("run/nvidia/driver"));
  ASSERT_TRUE(node.Start({{"driverRoot", "/run/nvidia/driver"}}).ok());
  EXPECT_THAT(node.Discover().status().ToString(),
              AllOf(HasSubstr("UNAVAILABLE"), HasSubstr("/run/nvidia/driver")));
  node.MakeNode(kPair, "--driver-root run/nvidia/driver");
  EXPECT_TRUE(node.host().WaitForInventoryChanges(1, absl::Seconds(60)));
  const auto devices = node.Devices();
  ASSERT_THAT(devices, SizeIs(2));
  // CDI-08: its nodes lie below its root, and the container has them in the usual place.
  const auto prepared = node.Prepare(
      NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(devices.begin()->second)}));
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  const Json control = prepared->claim_edits["deviceNodes"][0];
  EXPECT_EQ(StringOr(control, "path"), "/dev/nvidiactl");
  if (!control.contains("major")) {  // else this process may not make nodes
    EXPECT_EQ(StringOr(control, "hostPath"), "/run/nvidia/driver/dev/nvidiactl");
  }
}

// A library of an older driver: what it lacks is left out, and nothing else.
TEST(Plg08, ALibraryThatLacksWhatIsOptionalIsServed) {
  NvidiaFixture node;
  node.MakeNode(kPair);
  for (const char* function :
       {"nvmlDeviceGetAddressingMode", "nvmlDeviceGetArchitecture", "nvmlDeviceGetBrand",
        "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetMigMode",
        "nvmlDeviceGetName", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetRemappedRows",
        "nvmlDeviceGetRetiredPagesPendingStatus", "nvmlDeviceGetSerial",
        "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetVirtualizationMode"}) {
    node.Set(std::string("--fault ") + function + "=FUNCTION_NOT_FOUND");
  }
  ASSERT_TRUE(node.Start().ok());
  const auto devices = node.Devices();
  ASSERT_THAT(devices, SizeIs(2));
  std::vector<std::string> attributes;
  for (const auto& [name, value] : devices.begin()->second.device["attributes"].items())
    attributes.push_back(name);
  EXPECT_THAT(attributes, ::testing::UnorderedElementsAre("type", "uuid", "driverVersion",
                                                          "cudaDriverVersion"));
  EXPECT_TRUE(node.Prepare(NvidiaFixture::Claim(
                               "uid-1", {NvidiaFixture::Allocated(devices.begin()->second)}))
                  .ok());
  EXPECT_TRUE(NvidiaFixture::Eventually([&] {
    const auto health = node.backend().Health(NvidiaFixture::Limit());
    return health.ok() && health->size() == 2 &&
           (*health)[0].state == loader::HealthState::kHealthy;
  }));
}

TEST(Prp05, AdminAccessLeavesTheOwnersGpuAlone) {
  NvidiaFixture node;
  node.MakeNode(kPair);
  ASSERT_TRUE(node.Start().ok());
  const auto device = node.Devices().begin()->second;
  const auto owner = NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(device)});
  auto look = NvidiaFixture::Allocated(device);
  look.result["adminAccess"] = true;
  const auto monitor = NvidiaFixture::Claim("uid-2", {look});
  const auto held = node.Prepare(owner);
  ASSERT_TRUE(held.ok()) << held.status();
  const auto seen = node.Prepare(monitor);
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_EQ(seen->devices[0].edits, held->devices[0].edits);
  const Json before = node.State();
  EXPECT_TRUE(node.Unprepare(monitor).ok());
  EXPECT_EQ(node.State(), before);
  const auto again = node.Prepare(owner);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->devices[0].edits, held->devices[0].edits);
}

// One of two GPUs fails: the claim fails as a whole with that GPU's error, and nothing is left of it.
TEST(Prp08, AClaimOfTwoGpusIsPreparedWholeOrNotAtAll) {
  NvidiaFixture node;
  node.MakeNode(kPair);
  ASSERT_TRUE(node.Start().ok());
  const auto devices = node.Devices();
  const std::string good = node.Uuid(0), bad = node.Uuid(1);
  const auto both =
      NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(devices.at(NameOf(good))),
                                     NvidiaFixture::Allocated(devices.at(NameOf(bad)))});
  node.Set("--gpu 1 --fault nvmlDeviceGetMinorNumber=GPU_IS_LOST:1");
  const Json before = node.State()["gpus"];
  const auto failed = node.Prepare(both);
  EXPECT_THAT(failed.status().ToString(), AllOf(HasSubstr(bad), HasSubstr("MinorNumber")));
  EXPECT_EQ(node.State()["gpus"], before);
  EXPECT_EQ(node.host().Undo("uid-1"), "");
  EXPECT_TRUE(node.Unprepare(both).ok());
  const auto retried = node.Prepare(both);
  ASSERT_TRUE(retried.ok()) << retried.status();
  EXPECT_THAT(retried->devices, SizeIs(2));
}

// Nothing was set, so nothing is asked of a driver that may not answer: not for a claim that was prepared, nor for one
// that was not.
TEST(Prp17, UnprepareAsksNothingOfTheDriver) {
  NvidiaFixture node;
  node.MakeNode(kPair);
  ASSERT_TRUE(node.Start().ok());
  const auto devices = node.Devices();
  const auto prepared =
      NvidiaFixture::Claim("uid-1", {NvidiaFixture::Allocated(devices.begin()->second)});
  const auto started =
      NvidiaFixture::Claim("uid-2", {NvidiaFixture::Allocated(devices.rbegin()->second)});
  ASSERT_TRUE(node.Prepare(prepared).ok());
  node.Set("--hang '*=3600'");
  for (const auto& claim : {prepared, started}) {
    loader::UnprepareArgs recorded;
    recorded.claim = claim.claim;
    recorded.devices = claim.devices;
    EXPECT_TRUE(node.backend().Unprepare(recorded, Call::WithTimeout(absl::Seconds(10))).ok());
  }
  node.Set("--clear-faults");  // lets the backend's own threads end
}

// PRP-18 too: of every card, also of those that take no setting.
TEST(Cfg03, WithoutConfigNoCardIsSet) {
  NvidiaFixture node;
  node.MakeNode(kEveryCard);
  ASSERT_TRUE(node.Start().ok());
  const Json before = node.State()["gpus"];
  const auto devices = node.Devices();
  ASSERT_THAT(devices, SizeIs(8));
  for (const auto& [name, device] : devices) {
    SCOPED_TRACE(device.device["attributes"].dump());
    const bool mig = device.device["attributes"]["type"]["string"] == "mig";
    for (const Json& config : {Json::array(), PlainConfig(mig ? "MigDeviceConfig" : "GpuConfig")}) {
      const auto claim =
          NvidiaFixture::Claim("uid-" + name, {NvidiaFixture::Allocated(device, config)});
      const auto prepared = node.Prepare(claim);
      EXPECT_TRUE(prepared.ok()) << prepared.status();
      EXPECT_EQ(node.State()["gpus"], before);
      EXPECT_TRUE(node.Unprepare(claim).ok());
      EXPECT_EQ(node.State()["gpus"], before);
    }
  }
}

// What is stored may be of another release: its claim is taken up and ended all the same.
TEST(Cfg01, AStoredConfigIsNotReadAgain) {
  NvidiaFixture node;
  node.MakeNode(kPair);
  ASSERT_TRUE(node.Start().ok());
  Json config = PlainConfig("GpuConfig");
  config[0]["parameters"]["ofANewerRelease"] = true;
  const auto claim = NvidiaFixture::Claim(
      "uid-1", {NvidiaFixture::Allocated(node.Devices().begin()->second, config)});
  EXPECT_THAT(node.Prepare(claim).status().ToString(), HasSubstr("ofANewerRelease"));
  loader::ReconcileRecord record;
  record.record.claim = claim.claim;
  record.record.devices = claim.devices;
  record.same_boot = true;
  ASSERT_TRUE(node.backend().ReconcileBegin(NvidiaFixture::Limit()).ok());
  const auto verdict = node.backend().ReconcileRecordHook(record, NvidiaFixture::Limit());
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_NE(verdict->verdict, loader::ReconcileVerdict::kLost);
  EXPECT_NE(verdict->verdict, loader::ReconcileVerdict::kRedo);
  EXPECT_TRUE(node.Unprepare(claim).ok());
}

// The toolkit's spec is read for each claim: one that was made without edits is refused, and its next version is taken
// without a restart.
TEST(Cdi04, AToolkitSpecThatIsReplacedIsReadAnew) {
  NvidiaFixture node;
  node.MakeNode(kEveryCard);
  ASSERT_TRUE(node.Start({{"cdiSpec", "/etc/cdi/nvidia.json"}}).ok());
  const auto devices = node.Devices();
  std::vector<loader::PrepareDevice> both;
  Json entries = Json::array();
  for (const auto& [name, device] : devices) {
    const std::string uuid = device.device["attributes"]["uuid"]["string"].get<std::string>();
    if (uuid != node.Uuid(0) && uuid.rfind("MIG-", 0) != 0) continue;
    both.push_back(NvidiaFixture::Allocated(device));
    entries.push_back({{"name", uuid}, {"containerEdits", Json::object()}});
  }
  ASSERT_THAT(both, SizeIs(2));
  std::filesystem::create_directories(node.Path("etc/cdi"));
  const auto write = [&] {
    std::ofstream(node.Path("etc/cdi/nvidia.json"))
        << Json({{"cdiVersion", "0.5.0"}, {"kind", "nvidia.com/gpu"}, {"devices", entries}});
  };
  write();
  const auto claim = NvidiaFixture::Claim("uid-1", both);
  EXPECT_THAT(node.Prepare(claim).status().ToString(),
              AllOf(HasSubstr("has no edits for device"), HasSubstr("nvidia-ctk cdi generate")));
  for (Json& entry : entries) {
    entry["containerEdits"]["deviceNodes"] = {
        {{"path", "/dev/" + StringOr(entry, "name")}, {"type", "c"}, {"major", 195}, {"minor", 0}}};
  }
  write();
  const auto prepared = node.Prepare(claim);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  for (const auto& device : prepared->devices)
    EXPECT_THAT(Nodes(device.edits),
                Contains(::testing::AnyOf(StartsWith("/dev/GPU-"), StartsWith("/dev/MIG-"))));
  EXPECT_EQ(prepared->claim_edits, Json({{"env", {"NVIDIA_VISIBLE_DEVICES=void"}}}));
}

}  // namespace
}  // namespace dra
