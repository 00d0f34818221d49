#include "discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "mig_instances.h"
#include "test/backends/nvidia/fake_nvml.h"

namespace nvidia {
namespace {

namespace fs = std::filesystem;
using dra::Json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kUuid0[] = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c";
constexpr char kUuid1[] = "GPU-11111111-06c0-7d70-1a51-e59b25b2c16c";

class DiscoveryTest : public ::testing::Test {
 protected:
  NodeHardware Look() const {
    return LookAtNode(*nvml_, [] {});
  }
  std::vector<dra::DeviceReport> Devices() const {
    return DevicesOf(Look(), dra::Sysfs("/nonexistent"));
  }
  // A 1g instance of the GPU; further ones lie behind the first.
  FakeNvml::Mig& AddMig(FakeNvml::Gpu& gpu, const std::string& uuid) const {
    gpu.mig = true;
    gpu.instances.push_back(std::make_unique<FakeNvml::Mig>());
    FakeNvml::Mig& mig = *gpu.instances.back();
    mig.uuid = uuid;
    mig.gpu_instance = static_cast<unsigned>(gpu.instances.size()) + 6;
    mig.start = static_cast<unsigned>(gpu.instances.size()) - 1;
    return mig;
  }

  std::shared_ptr<NvmlLibrary> nvml_ = FakeNvml::Library();
  FakeNvml& fake_ = FakeNvml::Get();
};

dra_code CodeOf(const std::function<void()>& function, std::string* text = nullptr) {
  try {
    function();
  } catch (const dra::BackendError& error) {
    if (text != nullptr) *text = error.what();
    return error.code();
  }
  return DRA_OK;
}

TEST_F(DiscoveryTest, AWholeGpuHasTheAttributesOfThePublicDriver) {
  fake_.Add(kUuid0);
  const auto devices = Devices();
  ASSERT_THAT(devices, SizeIs(1));
  EXPECT_EQ(devices[0].device, Json::parse(R"({
    "name": "gpu-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c",
    "attributes": {
      "type": {"string": "gpu"},
      "uuid": {"string": "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c"},
      "productName": {"string": "NVIDIA A100-SXM4-40GB"},
      "brand": {"string": "Nvidia"},
      "architecture": {"string": "Ampere"},
      "cudaComputeCapability": {"version": "8.0.0"},
      "driverVersion": {"version": "580.126.20"},
      "cudaDriverVersion": {"version": "13.0.0"},
      "addressingMode": {"string": "HMM"},
      "resource.kubernetes.io/pciBusID": {"string": "0000:65:00.0"}},
    "capacity": {"memory": {"value": "40Gi"}}})"));
  EXPECT_EQ(devices[0].identity, kUuid0);
  EXPECT_THAT(devices[0].exclusion_keys,
              ElementsAre(std::pair<std::string, std::string>(kUuid0, "gpu")));
}

TEST_F(DiscoveryTest, EveryPublishedAttributeIsDeclared) {
  AddMig(fake_.Add(kUuid0), "MIG-a");
  fake_.Add(kUuid1);
  std::set<std::string> declared;
  for (const auto& attribute : DeviceAttributes()) declared.insert(attribute.name);
  std::set<std::string> published;
  for (const auto& device : Devices()) {
    for (const auto& [name, value] : device.device["attributes"].items()) {
      if (name.find('/') == std::string::npos) published.insert(name);
    }
  }
  EXPECT_EQ(published, declared);
}

TEST_F(DiscoveryTest, PcieRootAndNumaNodeComeFromSysfs) {
  const fs::path sys = fs::temp_directory_path() / ("discovery-" + std::to_string(getpid()));
  fs::create_directories(sys / "devices/pci0000:64/0000:65:00.0");
  fs::create_directories(sys / "bus/pci/devices");
  fs::create_directory_symlink("../../../devices/pci0000:64/0000:65:00.0",
                               sys / "bus/pci/devices/0000:65:00.0");
  std::ofstream(sys / "devices/pci0000:64/0000:65:00.0/numa_node") << "1\n";
  AddMig(fake_.Add(kUuid0), "MIG-a");
  const auto devices = DevicesOf(Look(), dra::Sysfs(sys.string()));
  fs::remove_all(sys);
  ASSERT_THAT(devices, SizeIs(1));
  const Json& attributes = devices[0].device["attributes"];
  EXPECT_EQ(attributes["resource.kubernetes.io/pcieRoot"], Json({{"string", "pci0000:64"}}));
  EXPECT_EQ(attributes["resource.kubernetes.io/numaNode"], Json({{"int", 1}}));
  EXPECT_EQ(attributes["resource.kubernetes.io/pciBusID"], Json({{"string", "0000:65:00.0"}}));
}

TEST_F(DiscoveryTest, Inv01_ANameStaysWhenALowerCardLeaves) {
  fake_.Add(kUuid0);
  fake_.Add(kUuid1);
  const std::string name = Devices()[1].device["name"];
  fake_.gpus.erase(fake_.gpus.begin());
  fake_.gpus[0]->minor = 0;
  ASSERT_THAT(Devices(), SizeIs(1));
  EXPECT_EQ(Devices()[0].device["name"], name);
}

TEST_F(DiscoveryTest, AGpuThatFailsCostsOnlyItself) {
  fake_.Add(kUuid0).fails["nvmlDeviceGetPciInfo_v3"] = nvml::kUnknown;
  fake_.Add(kUuid1);
  fake_.Add("GPU-2").fails["nvmlDeviceGetHandleByIndex_v2"] = nvml::kGpuIsLost;
  const NodeHardware node = Look();
  ASSERT_THAT(node.gpus, SizeIs(1));
  EXPECT_EQ(node.gpus[0].uuid, kUuid1);
  ASSERT_THAT(node.problems, SizeIs(2));
  EXPECT_EQ(node.problems[0].uuid, kUuid0);
  EXPECT_EQ(node.problems[0].subject, kUuid0);
  EXPECT_THAT(node.problems[0].message,
              AllOf(HasSubstr("nvmlDeviceGetPciInfo_v3"), HasSubstr(kUuid0)));
  EXPECT_EQ(node.problems[1].subject, "GPU index 2");
  EXPECT_EQ(node.problems[1].uuid, std::nullopt);
  EXPECT_EQ(node.problems[1].code, nvml::kGpuIsLost);
}

TEST_F(DiscoveryTest, WhatAGpuDoesNotHaveCostsTheAttributeAlone) {
  FakeNvml::Gpu& gpu = fake_.Add(kUuid0);
  for (const char* function :
       {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetAddressingMode", "nvmlDeviceGetBrand",
        "nvmlDeviceGetVirtualizationMode", "nvmlDeviceGetMigMode"}) {
    gpu.fails[function] = nvml::kNotSupported;
  }
  gpu.bus_id = "";  // as a mock that gives none
  const auto devices = Devices();
  ASSERT_THAT(devices, SizeIs(1));
  EXPECT_THAT(devices[0].device["capacity"], IsEmpty());
  EXPECT_FALSE(devices[0].device["attributes"].contains("brand"));
  EXPECT_FALSE(devices[0].device["attributes"].contains("addressingMode"));
  EXPECT_FALSE(devices[0].device["attributes"].contains("resource.kubernetes.io/pciBusID"));
}

TEST_F(DiscoveryTest, NewerHardwareThanThisDriverKnowsIsServed) {
  FakeNvml::Gpu& gpu = fake_.Add(kUuid0);
  gpu.architecture = 99;
  gpu.brand = 99;
  gpu.addressing_mode = 99;
  const Json attributes = Devices().at(0).device["attributes"];
  EXPECT_EQ(attributes["architecture"]["string"], "Unknown");
  EXPECT_EQ(attributes["brand"]["string"], "Unknown");
  EXPECT_FALSE(attributes.contains("addressingMode"));
}

TEST_F(DiscoveryTest, Inv05_ABadVersionCostsThatAttributeAlone) {
  fake_.Add(kUuid0);
  fake_.driver_version = "rel/gpu_drv";
  const Json attributes = Devices().at(0).device["attributes"];
  EXPECT_FALSE(attributes.contains("driverVersion"));
  EXPECT_EQ(attributes["cudaDriverVersion"]["version"], "13.0.0");
}

TEST(ToSemver, TakesWhatDriversWrite) {
  EXPECT_EQ(ToSemver("580.126.20"), "580.126.20");
  EXPECT_EQ(ToSemver("580.105.08"), "580.105.8");
  EXPECT_EQ(ToSemver("9.0"), "9.0.0");
  EXPECT_EQ(ToSemver("6.19.14.31400000"), "6.19.14+31400000");
  for (const char* text : {"", "580.", "v1.2.3", "580.65.06-beta", "1.2.3.4.5", "12345678901.0"}) {
    EXPECT_EQ(ToSemver(text), std::nullopt) << text;
  }
}

TEST_F(DiscoveryTest, TextsAreCutAndCleanedToWhatAnAttributeMayHold) {
  fake_.Add(kUuid0).name = "\xff" + std::string(70, 'x');
  const std::string name = Devices().at(0).device["attributes"]["productName"]["string"];
  EXPECT_EQ(name, "?" + std::string(63, 'x'));
}

TEST_F(DiscoveryTest, TwoGpusWithOneUuidAreBothRefused) {
  fake_.Add(kUuid0);
  fake_.Add(kUuid0);
  fake_.Add(kUuid1);
  const NodeHardware node = Look();
  ASSERT_THAT(node.gpus, SizeIs(1));
  EXPECT_EQ(node.gpus[0].uuid, kUuid1);
  ASSERT_THAT(node.problems, SizeIs(2));
  EXPECT_EQ(node.problems[0].subject, "GPU index 0");
  EXPECT_EQ(node.problems[1].subject, "GPU index 1");
  EXPECT_THAT(node.problems[0].message, HasSubstr(kUuid0));
}

TEST_F(DiscoveryTest, AGpuWithoutUuidOrOfAVgpuGuestIsRefusedWithTheCause) {
  fake_.Add("");
  fake_.Add("GPU-a/../b");
  fake_.Add(kUuid1).virtualization = 2;
  const NodeHardware node = Look();
  EXPECT_THAT(node.gpus, IsEmpty());
  ASSERT_THAT(node.problems, SizeIs(3));
  EXPECT_THAT(node.problems[0].message, HasSubstr("not a GPU's UUID"));
  EXPECT_THAT(node.problems[1].message, HasSubstr("GPU-a/../b"));
  EXPECT_THAT(node.problems[2].message, HasSubstr("vGPU"));
  EXPECT_EQ(node.problems[2].uuid, kUuid1);
}

TEST_F(DiscoveryTest, CountVersionsAndALostLibraryFailTheWhole) {
  fake_.Add(kUuid0);
  for (const char* function : {"nvmlDeviceGetCount_v2", "nvmlSystemGetDriverVersion"}) {
    fake_.fails = {{function, nvml::kUnknown}};
    EXPECT_THROW(Look(), NvmlError) << function;
  }
  fake_.fails = {{"nvmlDeviceGetUUID", nvml::kDriverNotLoaded}};
  EXPECT_THROW(Look(), NvmlError);
}

TEST_F(DiscoveryTest, ACallThatIsOverEndsTheLookBetweenGpus) {
  fake_.Add(kUuid0);
  fake_.Add(kUuid1);
  int looks = 0;
  const auto check = [&] {
    if (++looks == 2) throw dra::BackendError(DRA_CANCELLED, "cancelled");
  };
  EXPECT_EQ(CodeOf([&] { LookAtNode(*nvml_, check); }), DRA_CANCELLED);
}

TEST_F(DiscoveryTest, AMigInstanceHasItsProfilesCapacities) {
  FakeNvml::Mig& mig = AddMig(fake_.Add(kUuid0), "MIG-a");
  mig.profile_id = 9;
  mig.slices = mig.compute_slices = 3;
  mig.start = 4;
  mig.size = 4;
  const auto devices = Devices();
  ASSERT_THAT(devices, SizeIs(1));
  const Json& device = devices[0].device;
  EXPECT_EQ(device["name"], "gpu-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c-mig-3g20gb-4");
  EXPECT_EQ(device["attributes"]["type"]["string"], "mig");
  EXPECT_EQ(device["attributes"]["uuid"]["string"], "MIG-a");
  EXPECT_EQ(device["attributes"]["parentUUID"]["string"], kUuid0);
  EXPECT_EQ(device["attributes"]["profile"]["string"], "3g.20gb");
  EXPECT_EQ(device["attributes"]["productName"]["string"], "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(device["capacity"], Json::parse(R"({
    "multiprocessors": {"value": "42"}, "copyEngines": {"value": "3"}, "decoders": {"value": "0"},
    "encoders": {"value": "0"}, "jpegEngines": {"value": "0"}, "ofaEngines": {"value": "0"},
    "memory": {"value": "19968Mi"}, "memorySlice4": {"value": "1"}, "memorySlice5": {"value": "1"},
    "memorySlice6": {"value": "1"}, "memorySlice7": {"value": "1"}})"));
  EXPECT_EQ(devices[0].identity, std::string(kUuid0) + "/mig/9/4");
  EXPECT_THAT(devices[0].exclusion_keys,
              ElementsAre(std::pair<std::string, std::string>(kUuid0, "mig")));
}

TEST_F(DiscoveryTest, TheLibrarysOwnProfileNameCountsWhereItIsOne) {
  for (const auto& [told, profile] :
       std::map<std::string, std::string>{{"MIG 1g.6gb+me", "1g.6gb+me"},
                                          {"2g.12gb-me", "2g.12gb-me"},
                                          {"", "1g.5gb+me"},
                                          {"MIG one/../two", "1g.5gb+me"}}) {
    SCOPED_TRACE(told);
    nvml_ = FakeNvml::Library();
    for (FakeNvml::Profile& row : fake_.profiles) row.name = told;
    AddMig(fake_.Add(kUuid0), "MIG-a").profile_id = 20;
    EXPECT_EQ(Devices().at(0).device["attributes"]["profile"]["string"], profile);
  }
}

TEST_F(DiscoveryTest, AnOldLibraryNamesNoProfiles) {
  AddMig(fake_.Add(kUuid0), "MIG-a").profile_id = 20;
  fake_.fails["nvmlDeviceGetGpuInstanceProfileInfoV"] = nvml::kFunctionNotFound;
  EXPECT_EQ(Devices().at(0).device["attributes"]["profile"]["string"], "1g.5gb+me");
  EXPECT_EQ(Devices().at(0).device["name"],
            "gpu-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c-mig-1g5gb-me-0");
}

TEST(MigProfileName, FollowsNvidiasRule) {
  constexpr uint64_t kA100 = 40960ull << 20, kH200 = 143771ull << 20;
  EXPECT_EQ(MigProfileName(0x0, 1, 4864, kA100), "1g.5gb");
  EXPECT_EQ(MigProfileName(0x9, 1, 9856, kA100), "1g.10gb");  // REV2: more memory, no suffix
  EXPECT_EQ(MigProfileName(0x4, 7, 40192, kA100), "7g.40gb");
  EXPECT_EQ(MigProfileName(0x0, 1, 16384, kH200), "1g.18gb");
  EXPECT_EQ(MigProfileName(0x9, 1, 33280, kH200), "1g.35gb");
  EXPECT_EQ(MigProfileName(0x2, 3, 71168, kH200), "3g.71gb");
  EXPECT_EQ(MigProfileName(0x4, 7, 143360, kH200), "7g.141gb");
  EXPECT_EQ(MigProfileName(0x7, 1, 4864, kA100), "1g.5gb+me");
  EXPECT_EQ(MigProfileName(0xA, 1, 4864, kA100), "1g.5gb+gfx");
  EXPECT_EQ(MigProfileName(0xD, 1, 4864, kA100), "1g.5gb-me");
  EXPECT_EQ(MigProfileName(0xF, 1, 4864, kA100), "1g.5gb+me.all");
  EXPECT_EQ(MigProfileName(0, 1, 5, 0), "1g.0gb");  // a GPU that tells no memory divides by nothing
}

TEST(MigDeviceName, IsAlwaysALabelOf63) {
  MigInstance mig;
  mig.profile = "1g.24gb+me.all";
  mig.placement_start = 12;
  EXPECT_EQ(MigDeviceName(kUuid0, mig),
            "gpu-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c-mig-1g24gb-meall-12");
  mig.profile = std::string(90, 'g');
  EXPECT_THAT(MigDeviceName(kUuid0, mig), SizeIs(63));
  EXPECT_THAT(MigDeviceName("GPU-" + std::string(40, 'a'), mig), SizeIs(63));
}

TEST_F(DiscoveryTest, ADividedInstanceIsNotPublishedAndAnEmptySlotIsNone) {
  FakeNvml::Gpu& gpu = fake_.Add(kUuid0);
  FakeNvml::Mig& mig = AddMig(gpu, "MIG-a");
  mig.slices = 3;
  mig.compute_slices = 1;
  gpu.instances.push_back(nullptr);
  AddMig(gpu, "MIG-b");
  ASSERT_THAT(Devices(), SizeIs(1));
  EXPECT_EQ(Devices()[0].device["attributes"]["uuid"]["string"], "MIG-b");
}

TEST_F(DiscoveryTest, AnInstanceOfAProfileThatIsNotToldIsDescribedByItself) {
  AddMig(fake_.Add(kUuid0), "MIG-a").profile_id = 77;
  const auto devices = Devices();
  ASSERT_THAT(devices, SizeIs(1));
  EXPECT_EQ(devices[0].device["attributes"]["profile"]["string"], "1g.5gb");
  EXPECT_EQ(devices[0].device["capacity"]["memory"]["value"], "5Gi");
  EXPECT_EQ(devices[0].device["capacity"]["multiprocessors"]["value"], "7");
}

TEST_F(DiscoveryTest, MigModeWithoutInstancesPublishesNothingAndIsNoProblem) {
  fake_.Add(kUuid0).mig = true;
  EXPECT_THAT(Devices(), IsEmpty());
  EXPECT_THAT(Look().problems, IsEmpty());
}

TEST_F(DiscoveryTest, APlacementBeyondAnyCardIsAProblem) {
  AddMig(fake_.Add(kUuid0), "MIG-a").size = 4000000000u;
  ASSERT_THAT(Look().problems, SizeIs(1));
  EXPECT_EQ(Look().problems[0].uuid, kUuid0);
}

TEST_F(DiscoveryTest, FindsAGpuWithTheMinorOfNow) {
  fake_.Add(kUuid0).minor = 7;
  const PresentDevice found = FindDevice(*nvml_, kUuid0);
  EXPECT_EQ(found.uuid, kUuid0);
  EXPECT_EQ(found.minor, 7u);
  EXPECT_EQ(found.pci_bus_id, "0000:65:00.0");
  EXPECT_FALSE(found.mig_enabled);
  EXPECT_FALSE(found.mig.has_value());
  EXPECT_TRUE(IsPresent(*nvml_, kUuid0));
}

TEST_F(DiscoveryTest, FindsAnInstanceThatWasMadeAgainInItsPlace) {
  FakeNvml::Gpu& gpu = fake_.Add(kUuid0);
  AddMig(gpu, "MIG-a");
  FakeNvml::Mig& mig = AddMig(gpu, "MIG-b");
  const std::string identity = Devices().at(1).identity;
  mig.uuid = "MIG-c";
  mig.gpu_instance = 3;
  const PresentDevice found = FindDevice(*nvml_, identity);
  ASSERT_TRUE(found.mig.has_value());
  EXPECT_EQ(found.mig->uuid, "MIG-c");
  EXPECT_EQ(found.mig->gpu_instance, 3u);
  EXPECT_TRUE(found.mig_enabled);
}

TEST_F(DiscoveryTest, ADeviceThatIsNotThereIsNamed) {
  FakeNvml::Gpu& gpu = fake_.Add(kUuid0);
  std::string text;
  EXPECT_EQ(CodeOf([&] { FindDevice(*nvml_, kUuid1); }, &text), DRA_UNAVAILABLE);
  EXPECT_THAT(text, HasSubstr(kUuid1));
  AddMig(gpu, "MIG-a");
  EXPECT_EQ(CodeOf([&] { FindDevice(*nvml_, std::string(kUuid0) + "/mig/9/4"); }, &text),
            DRA_UNAVAILABLE);
  EXPECT_THAT(text, AllOf(HasSubstr(kUuid0), HasSubstr("9/4")));
  EXPECT_FALSE(IsPresent(*nvml_, kUuid1));
  EXPECT_FALSE(IsPresent(*nvml_, std::string(kUuid0) + "/mig/9/4"));
}

TEST_F(DiscoveryTest, ADeviceInTheOtherShapeNeedsSomebodyToAct) {
  FakeNvml::Gpu& gpu = fake_.Add(kUuid0);
  std::string text;
  EXPECT_EQ(CodeOf([&] { FindDevice(*nvml_, std::string(kUuid0) + "/mig/19/0"); }, &text),
            DRA_FAILED_PRECONDITION);
  EXPECT_THAT(text, HasSubstr("switched off"));
  gpu.mig = true;
  EXPECT_EQ(CodeOf([&] { FindDevice(*nvml_, kUuid0); }, &text), DRA_FAILED_PRECONDITION);
  EXPECT_THAT(text, HasSubstr("switched on"));
  EXPECT_FALSE(IsPresent(*nvml_, kUuid0));
}

TEST_F(DiscoveryTest, Cdi12_TheUuidIsAskedBack) {
  fake_.Add(kUuid0);
  nvml_->nvmlDeviceGetUUID = [](nvml::Device, char* text, unsigned) {
    std::snprintf(text, 64, "%s", kUuid1);
    return nvml::kSuccess;
  };
  std::string text;
  EXPECT_EQ(CodeOf([&] { FindDevice(*nvml_, kUuid0); }, &text), DRA_UNAVAILABLE);
  EXPECT_THAT(text, AllOf(HasSubstr(kUuid0), HasSubstr(kUuid1)));
}

TEST_F(DiscoveryTest, CouldNotLookIsNotAbsence) {
  fake_.Add(kUuid0).fails["nvmlDeviceGetMinorNumber"] = nvml::kUnknown;
  EXPECT_THROW(IsPresent(*nvml_, kUuid0), NvmlError);
  fake_.gpus[0]->fails = {{"nvmlDeviceGetHandleByUUID", nvml::kGpuIsLost}};
  EXPECT_THROW(IsPresent(*nvml_, kUuid0), NvmlError);
}

}  // namespace
}  // namespace nvidia
