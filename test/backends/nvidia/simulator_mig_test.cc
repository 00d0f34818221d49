#include <algorithm>
#include <set>

#include "simulated_nvml.h"

namespace nvidia_simulator {
namespace {

constexpr unsigned kSlice1 = 19, kSlice1Me = 20, kSlice1Double = 15, kSlice2 = 14, kSlice3 = 9,
                   kSlice4 = 5, kSlice7 = 0;

class SimulatorMig : public SimulatedNvml {
 protected:
  void StartInMigMode(const std::string& model) {
    Start({model});
    Change([](State& state) { state.gpus[0].mig_mode = state.gpus[0].mig_mode_pending = true; });
  }
  nvml::GpuInstance Make(unsigned profile_id, unsigned start, unsigned size) {
    nvml::GpuInstance instance = nullptr;
    const nvml::Placement placement{start, size};
    EXPECT_EQ(
        nvmlDeviceCreateGpuInstanceWithPlacement(Device(0), profile_id, &placement, &instance),
        nvml::kSuccess);
    return instance;
  }
  nvml::GpuInstanceInfo Info(nvml::GpuInstance instance) {
    nvml::GpuInstanceInfo info{};
    EXPECT_EQ(nvmlGpuInstanceGetInfo(instance, &info), nvml::kSuccess);
    return info;
  }
  nvml::ComputeInstance Compute(nvml::GpuInstance instance, unsigned profile_id) {
    nvml::ComputeInstance compute = nullptr;
    EXPECT_EQ(nvmlGpuInstanceCreateComputeInstance(instance, profile_id, &compute), nvml::kSuccess);
    return compute;
  }
  std::pair<unsigned, unsigned> Mode() {
    unsigned current = 9, pending = 9;
    EXPECT_EQ(nvmlDeviceGetMigMode(Device(0), &current, &pending), nvml::kSuccess);
    return {current, pending};
  }
};

TEST_F(SimulatorMig, SwitchesHopperAtOnce) {
  Start({"H100-80GB"});
  nvml::Return activation = nvml::kUnknown;
  EXPECT_EQ(nvmlDeviceSetMigMode(Device(0), 1, &activation), nvml::kSuccess);
  EXPECT_EQ(activation, nvml::kSuccess);
  EXPECT_EQ(Mode(), std::pair(1u, 1u));
}

TEST_F(SimulatorMig, SwitchesAmpereWithTheNextReset) {
  Start({"A100-80GB"});
  nvml::Return activation = nvml::kUnknown;
  EXPECT_EQ(nvmlDeviceSetMigMode(Device(0), 1, &activation), nvml::kSuccess);
  EXPECT_EQ(activation, nvml::kResetRequired);
  EXPECT_EQ(Mode(), std::pair(0u, 1u));
  nvml::GpuInstance instance = nullptr;
  EXPECT_EQ(nvmlDeviceCreateGpuInstance(Device(0), kSlice1, &instance), nvml::kNotSupported);
  Change([](State& state) { ResetGpu(state.gpus[0]); });
  EXPECT_EQ(Mode(), std::pair(1u, 1u));
}

TEST_F(SimulatorMig, DoesNotSwitchWhileAProcessHoldsTheCard) {
  Start({"H100-80GB"});
  Change([](State& state) { state.gpus[0].processes.push_back({0, "dcgm", {}, {}, 0}); });
  nvml::Return activation = nvml::kUnknown;
  EXPECT_EQ(nvmlDeviceSetMigMode(Device(0), 1, &activation), nvml::kSuccess)
      << "the call succeeds, the activation does not";
  EXPECT_EQ(activation, nvml::kInUse);
  EXPECT_EQ(Mode(), std::pair(0u, 1u));
}

TEST_F(SimulatorMig, DoesNotSwitchOffWhileThereAreInstances) {
  StartInMigMode("H100-80GB");
  const nvml::GpuInstance instance = Make(kSlice1, 0, 1);
  nvml::Return activation = nvml::kUnknown;
  EXPECT_EQ(nvmlDeviceSetMigMode(Device(0), 0, &activation), nvml::kInUse);
  EXPECT_EQ(Mode(), std::pair(1u, 1u));
  EXPECT_EQ(nvmlGpuInstanceDestroy(instance), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceSetMigMode(Device(0), 0, &activation), nvml::kSuccess);
  EXPECT_EQ(Mode(), std::pair(0u, 0u));
}

TEST_F(SimulatorMig, RefusesModesThatAreNone) {
  Start({"H100-80GB", "T4"});
  nvml::Return activation = nvml::kUnknown;
  EXPECT_EQ(nvmlDeviceSetMigMode(Device(0), 2, &activation), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceSetMigMode(Device(0), 1, nullptr), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceSetMigMode(Device(1), 1, &activation), nvml::kNotSupported);
  Change([](State& state) { state.gpus[0].virtualization_mode = 2; });
  EXPECT_EQ(nvmlDeviceSetMigMode(Device(0), 1, &activation), nvml::kNotSupported) << "a vGPU guest";
}

TEST_F(SimulatorMig, MovesTheMinorWithTheModeWhereTheStateSaysSo) {
  Start({"H100-80GB"});
  Change([](State& state) { state.gpus[0].minor_after_mig_toggle = 5; });
  const nvml::Device device = Device(0);
  nvml::Return activation = nvml::kUnknown;
  unsigned minor = 9;
  ASSERT_EQ(nvmlDeviceSetMigMode(device, 1, &activation), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetMinorNumber(device, &minor), nvml::kSuccess)
      << "a GPU's handle stays good";
  EXPECT_EQ(minor, 5u);
  ASSERT_EQ(nvmlDeviceSetMigMode(device, 0, &activation), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetMinorNumber(device, &minor), nvml::kSuccess);
  EXPECT_EQ(minor, 0u);
}

TEST_F(SimulatorMig, TellsProfileEnumAndProfileIdApart) {
  Start({"H100-80GB"});
  nvml::GpuInstanceProfileInfo info{};
  EXPECT_EQ(nvmlDeviceGetGpuInstanceProfileInfo(Device(0), 0, &info), nvml::kSuccess);
  EXPECT_EQ(info.id, kSlice1);
  EXPECT_EQ(info.memory_size_mb, 9984u);
  EXPECT_EQ(nvmlDeviceGetGpuInstanceProfileInfo(Device(0), 7, &info), nvml::kSuccess);
  EXPECT_EQ(info.id, kSlice1Me);
  EXPECT_EQ(info.instance_count, 1u);
  EXPECT_EQ(nvmlDeviceGetGpuInstanceProfileInfo(Device(0), 9, &info), nvml::kSuccess);
  EXPECT_EQ(info.id, kSlice1Double);
  EXPECT_EQ(nvmlDeviceGetGpuInstanceProfileInfo(Device(0), 5, &info), nvml::kNotSupported);
  EXPECT_EQ(nvmlDeviceGetGpuInstanceProfileInfo(Device(0), nvml::kGpuInstanceProfileCount, &info),
            nvml::kInvalidArgument);
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device(0), 4, nullptr, &count),
            nvml::kInvalidArgument)
      << "4 is an enum, not an id";
}

TEST_F(SimulatorMig, FillsBothVersionsOfAProfile) {
  Start({"H100-80GB"});
  nvml::GpuInstanceProfileInfoV2 second{};
  second.version = nvml::kGpuInstanceProfileInfoV2Version;
  EXPECT_EQ(nvmlDeviceGetGpuInstanceProfileInfoV(Device(0), 2, &second), nvml::kSuccess);
  EXPECT_EQ(second.id, kSlice3);
  EXPECT_EQ(second.is_p2p_supported, 1u);
  EXPECT_EQ(second.memory_size_mb, 40448u);
  EXPECT_STREQ(second.name, "MIG 3g.40gb");
  nvml::GpuInstanceProfileInfoV3 third{};
  third.version = nvml::kGpuInstanceProfileInfoV3Version;
  EXPECT_EQ(nvmlDeviceGetGpuInstanceProfileInfoV(
                Device(0), 2, reinterpret_cast<nvml::GpuInstanceProfileInfoV2*>(&third)),
            nvml::kSuccess);
  EXPECT_EQ(third.memory_size_mb, 40448u);
  EXPECT_STREQ(third.name, "MIG 3g.40gb");
  EXPECT_EQ(third.capabilities, nvml::kGpuInstanceCanP2p);
  auto* by_id = Symbol<nvml::Return(nvml::Device, unsigned, nvml::GpuInstanceProfileInfoV2*)>(
      "nvmlDeviceGetGpuInstanceProfileInfoByIdV");
  EXPECT_EQ(by_id(Device(0), kSlice7, &second), nvml::kSuccess);
  EXPECT_STREQ(second.name, "MIG 7g.80gb");
  EXPECT_EQ(by_id(Device(0), 99, &second), nvml::kInvalidArgument);
}

TEST_F(SimulatorMig, ListsPlacementsInTwoCalls) {
  Start({"A100-40GB"});
  unsigned count = 0;
  ASSERT_EQ(nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device(0), kSlice2, nullptr, &count),
            nvml::kSuccess);
  ASSERT_EQ(count, 3u);
  nvml::Placement placements[3];
  count = 2;
  EXPECT_EQ(nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device(0), kSlice2, placements, &count),
            nvml::kInsufficientSize);
  ASSERT_EQ(nvmlDeviceGetGpuInstancePossiblePlacements_v2(Device(0), kSlice2, placements, &count),
            nvml::kSuccess);
  EXPECT_EQ(placements[2].start, 4u);
  EXPECT_EQ(placements[2].size, 2u);
}

TEST_F(SimulatorMig, MakesAnInstanceAndItsMigDevice) {
  StartInMigMode("A100-40GB");
  const nvml::GpuInstance instance = Make(kSlice3, 4, 4);
  const nvml::GpuInstanceInfo info = Info(instance);
  EXPECT_EQ(info.device, Device(0));
  EXPECT_EQ(info.profile_id, kSlice3);
  EXPECT_EQ(info.placement.start, 4u);
  EXPECT_NE(info.id, 4u) << "the id is not the placement";
  nvml::Device mig = nullptr;
  EXPECT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(Device(0), 0, &mig), nvml::kNotFound)
      << "not before it has compute";

  nvml::ComputeInstanceInfo compute{};
  EXPECT_EQ(nvmlComputeInstanceGetInfo_v2(Compute(instance, 2), &compute), nvml::kSuccess);
  EXPECT_EQ(compute.gpu_instance, instance);
  EXPECT_EQ(compute.profile_id, 2u);
  EXPECT_EQ(compute.placement.size, 3u);
  ASSERT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(Device(0), 0, &mig), nvml::kSuccess);
  EXPECT_EQ(compute.device, mig);

  unsigned number = 99;
  EXPECT_EQ(nvmlDeviceIsMigDeviceHandle(mig, &number), nvml::kSuccess);
  EXPECT_EQ(number, 1u);
  EXPECT_EQ(nvmlDeviceGetGpuInstanceId(mig, &number), nvml::kSuccess);
  EXPECT_EQ(number, info.id);
  EXPECT_EQ(nvmlDeviceGetComputeInstanceId(mig, &number), nvml::kSuccess);
  EXPECT_EQ(number, 0u);
  nvml::Device parent = nullptr;
  EXPECT_EQ(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig, &parent), nvml::kSuccess);
  EXPECT_EQ(parent, Device(0));
  nvml::DeviceAttributes attributes{};
  EXPECT_EQ(nvmlDeviceGetAttributes_v2(mig, &attributes), nvml::kSuccess);
  EXPECT_EQ(attributes.multiprocessor_count, 42u);
  EXPECT_EQ(attributes.gpu_instance_slice_count, 3u);
  EXPECT_EQ(attributes.memory_size_mb, 19968u);
  nvml::Memory memory{};
  EXPECT_EQ(nvmlDeviceGetMemoryInfo(mig, &memory), nvml::kSuccess);
  EXPECT_EQ(memory.total, uint64_t{19968} << 20);
  char name[96], uuid[96];
  EXPECT_EQ(nvmlDeviceGetName(mig, name, sizeof name), nvml::kSuccess);
  EXPECT_STREQ(name, "NVIDIA A100-SXM4-40GB MIG 3g.20gb");
  EXPECT_EQ(nvmlDeviceGetUUID(mig, uuid, sizeof uuid), nvml::kSuccess);
  EXPECT_EQ(std::string(uuid).substr(0, 4), "MIG-");
  nvml::Device found = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(uuid, &found), nvml::kSuccess);
  EXPECT_EQ(found, mig);
}

TEST_F(SimulatorMig, RefusesQueriesOfTheOtherKindOfHandle) {
  StartInMigMode("A100-40GB");
  nvml::ComputeInstanceInfo compute{};
  ASSERT_EQ(nvmlComputeInstanceGetInfo_v2(Compute(Make(kSlice1, 0, 1), 0), &compute),
            nvml::kSuccess);
  unsigned number = 0;
  nvml::Device device = nullptr;
  nvml::DeviceAttributes attributes{};
  EXPECT_EQ(nvmlDeviceGetMinorNumber(compute.device, &number), nvml::kNotSupported);
  EXPECT_EQ(nvmlDeviceGetMigMode(compute.device, &number, &number), nvml::kNotSupported);
  EXPECT_EQ(nvmlDeviceGetGpuInstanceId(Device(0), &number), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device(0), &device),
            nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetAttributes_v2(Device(0), &attributes), nvml::kNotSupported);
  EXPECT_EQ(nvmlDeviceGetRemappedRows(Device(0), &number, &number, &number, &number),
            nvml::kNotSupported)
      << "not while there are instances";
}

TEST_F(SimulatorMig, RefusesIndexesOfMigDevicesThatAreNone) {
  Start({"H100-80GB"});
  nvml::Device mig = nullptr;
  unsigned count = 9;
  EXPECT_EQ(nvmlDeviceGetMaxMigDeviceCount(Device(0), &count), nvml::kSuccess);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(Device(0), 0, &mig), nvml::kNotSupported)
      << "MIG is off";
  Change([](State& state) { state.gpus[0].mig_mode = state.gpus[0].mig_mode_pending = true; });
  EXPECT_EQ(nvmlDeviceGetMaxMigDeviceCount(Device(0), &count), nvml::kSuccess);
  EXPECT_EQ(count, 7u);
  EXPECT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(Device(0), 6, &mig), nvml::kNotFound);
  EXPECT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(Device(0), 7, &mig), nvml::kInvalidArgument);
}

TEST_F(SimulatorMig, RefusesAPlacementThatIsTaken) {
  StartInMigMode("H100-80GB");
  Make(kSlice2, 4, 2);
  nvml::GpuInstance instance = nullptr;
  const nvml::Placement taken{4, 4}, free{0, 4}, none{2, 4}, wrong_size{0, 3};
  EXPECT_EQ(nvmlDeviceCreateGpuInstanceWithPlacement(Device(0), kSlice3, &taken, &instance),
            nvml::kInsufficientResources);
  EXPECT_EQ(nvmlDeviceCreateGpuInstanceWithPlacement(Device(0), kSlice3, &none, &instance),
            nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceCreateGpuInstanceWithPlacement(Device(0), kSlice3, &wrong_size, &instance),
            nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceCreateGpuInstanceWithPlacement(Device(0), 99, &free, &instance),
            nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceCreateGpuInstanceWithPlacement(Device(0), kSlice3, &free, &instance),
            nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceCreateGpuInstance(Device(0), kSlice4, &instance),
            nvml::kInsufficientResources);
}

TEST_F(SimulatorMig, RefusesMoreInstancesThanTheProfileAllows) {
  StartInMigMode("H100-80GB");
  Make(kSlice1Me, 0, 1);
  nvml::GpuInstance instance = nullptr;
  EXPECT_EQ(nvmlDeviceCreateGpuInstance(Device(0), kSlice1Me, &instance),
            nvml::kInsufficientResources);
  unsigned count = 9;
  EXPECT_EQ(nvmlDeviceGetGpuInstanceRemainingCapacity(Device(0), kSlice1Me, &count),
            nvml::kSuccess);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(nvmlDeviceGetGpuInstanceRemainingCapacity(Device(0), kSlice1, &count), nvml::kSuccess);
  EXPECT_EQ(count, 6u);
}

TEST_F(SimulatorMig, FillsTheCardWithSevenInstancesOfDifferentIds) {
  StartInMigMode("H200");
  std::set<unsigned> ids, starts;
  for (unsigned i = 0; i < 7; ++i) {
    nvml::GpuInstance instance = nullptr;
    ASSERT_EQ(nvmlDeviceCreateGpuInstance(Device(0), kSlice1, &instance), nvml::kSuccess);
    const nvml::GpuInstanceInfo info = Info(instance);
    ids.insert(info.id);
    starts.insert(info.placement.start);
    EXPECT_LT(info.id, kGpuInstanceIds);
  }
  EXPECT_EQ(ids.size(), 7u);
  EXPECT_EQ(starts.size(), 7u);
  nvml::GpuInstance instances[7];
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetGpuInstances(Device(0), kSlice1, instances, &count), nvml::kSuccess);
  EXPECT_EQ(count, 7u);
  EXPECT_EQ(nvmlDeviceGetGpuInstances(Device(0), kSlice2, instances, &count), nvml::kSuccess);
  EXPECT_EQ(count, 0u);
}

TEST_F(SimulatorMig, FindsInstancesByIdAndRefusesOthers) {
  StartInMigMode("H100-80GB");
  const nvml::GpuInstance instance = Make(kSlice4, 0, 4);
  nvml::GpuInstance found = nullptr;
  EXPECT_EQ(nvmlDeviceGetGpuInstanceById(Device(0), Info(instance).id, &found), nvml::kSuccess);
  EXPECT_EQ(found, instance);
  EXPECT_EQ(nvmlDeviceGetGpuInstanceById(Device(0), 14, &found), nvml::kNotFound);
  nvml::ComputeInstance compute = nullptr;
  EXPECT_EQ(nvmlGpuInstanceGetComputeInstanceById(instance, 0, &compute), nvml::kNotFound);
  const nvml::ComputeInstance made = Compute(instance, 3);
  EXPECT_EQ(nvmlGpuInstanceGetComputeInstanceById(instance, 0, &compute), nvml::kSuccess);
  EXPECT_EQ(compute, made);
}

TEST_F(SimulatorMig, SplitsAnInstance) {
  StartInMigMode("A100-40GB");
  const nvml::GpuInstance instance = Make(kSlice3, 0, 4);
  nvml::ComputeInstanceProfileInfo profile{};
  EXPECT_EQ(nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 0, 0, &profile), nvml::kSuccess);
  EXPECT_EQ(profile.instance_count, 3u);
  EXPECT_EQ(profile.multiprocessor_count, 14u);
  EXPECT_EQ(nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 3, 0, &profile),
            nvml::kNotSupported);
  EXPECT_EQ(nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 9, 0, &profile),
            nvml::kInvalidArgument);
  EXPECT_EQ(nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 0, 1, &profile),
            nvml::kInvalidArgument);
  Compute(instance, 0);
  Compute(instance, 1);
  nvml::ComputeInstance compute = nullptr;
  EXPECT_EQ(nvmlGpuInstanceCreateComputeInstance(instance, 0, &compute),
            nvml::kInsufficientResources);
  EXPECT_EQ(nvmlGpuInstanceCreateComputeInstance(instance, 3, &compute), nvml::kNotSupported);
  EXPECT_EQ(nvmlGpuInstanceCreateComputeInstance(instance, 99, &compute), nvml::kInvalidArgument);
  nvml::Device mig = nullptr;
  char name[96];
  ASSERT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(Device(0), 1, &mig), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetName(mig, name, sizeof name), nvml::kSuccess);
  EXPECT_STREQ(name, "NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb");
  nvml::ComputeInstance list[3];
  unsigned count = 0;
  EXPECT_EQ(nvmlGpuInstanceGetComputeInstances(instance, 1, list, &count), nvml::kSuccess);
  EXPECT_EQ(count, 1u);
}

TEST_F(SimulatorMig, FillsBothVersionsOfAComputeProfile) {
  StartInMigMode("A100-40GB");
  const nvml::GpuInstance instance = Make(kSlice3, 0, 4);
  auto* versioned = Symbol<nvml::Return(nvml::GpuInstance, unsigned, unsigned,
                                        nvml::ComputeInstanceProfileInfoV2*)>(
      "nvmlGpuInstanceGetComputeInstanceProfileInfoV");
  nvml::ComputeInstanceProfileInfoV3 info{};
  auto* as_second = reinterpret_cast<nvml::ComputeInstanceProfileInfoV2*>(&info);
  EXPECT_EQ(versioned(instance, 0, 0, as_second), nvml::kArgumentVersionMismatch);
  info.capabilities = 7;
  info.version = nvml::kComputeInstanceProfileInfoV2Version;
  EXPECT_EQ(versioned(instance, 0, 0, as_second), nvml::kSuccess);
  EXPECT_STREQ(info.name, "MIG 1c.3g.20gb");
  EXPECT_EQ(info.capabilities, 7u) << "the second version is shorter";
  info.version = nvml::kComputeInstanceProfileInfoV3Version;
  EXPECT_EQ(versioned(instance, 2, 0, as_second), nvml::kSuccess);
  EXPECT_STREQ(info.name, "MIG 3g.20gb");
  EXPECT_EQ(info.capabilities, 0u);
}

TEST_F(SimulatorMig, DoesNotDestroyWhatIsInUse) {
  StartInMigMode("H100-80GB");
  const nvml::GpuInstance instance = Make(kSlice2, 0, 2);
  const nvml::ComputeInstance compute = Compute(instance, 1);
  EXPECT_EQ(nvmlGpuInstanceDestroy(instance), nvml::kInUse) << "it has a compute instance";
  const unsigned gi = Info(instance).id;
  Change([&](State& state) { state.gpus[0].processes.push_back({17, "", gi, 0, 0}); });
  EXPECT_EQ(nvmlComputeInstanceDestroy(compute), nvml::kInUse) << "a process runs in it";
  Change([&](State& state) { state.gpus[0].processes.clear(); });
  EXPECT_EQ(nvmlComputeInstanceDestroy(compute), nvml::kSuccess);
  EXPECT_EQ(nvmlGpuInstanceDestroy(instance), nvml::kSuccess);
  EXPECT_TRUE(Read().gpus[0].mig.empty());
}

TEST_F(SimulatorMig, RefusesHandlesOfInstancesThatAreGone) {
  StartInMigMode("H100-80GB");
  const nvml::GpuInstance instance = Make(kSlice2, 0, 2);
  const nvml::ComputeInstance compute = Compute(instance, 1);
  nvml::Device mig = nullptr;
  char text[96];
  ASSERT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(Device(0), 0, &mig), nvml::kSuccess);
  ASSERT_EQ(nvmlComputeInstanceDestroy(compute), nvml::kSuccess);
  EXPECT_EQ(nvmlComputeInstanceDestroy(compute), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetUUID(mig, text, sizeof text), nvml::kInvalidArgument);
  ASSERT_EQ(nvmlGpuInstanceDestroy(instance), nvml::kSuccess);
  EXPECT_EQ(nvmlGpuInstanceDestroy(instance), nvml::kInvalidArgument);
}

TEST_F(SimulatorMig, RefusesHandlesOfInstancesFromBeforeAReset) {
  StartInMigMode("H100-80GB");
  const nvml::GpuInstance stale = Make(kSlice2, 0, 2);
  Change([](State& state) { ResetGpu(state.gpus[0]); });
  const nvml::GpuInstance fresh = Make(kSlice2, 0, 2);
  nvml::GpuInstanceInfo info{};
  EXPECT_EQ(nvmlGpuInstanceGetInfo(stale, &info), nvml::kInvalidArgument)
      << "though its id is given again";
  EXPECT_EQ(nvmlGpuInstanceGetInfo(fresh, &info), nvml::kSuccess);
}

}  // namespace
}  // namespace nvidia_simulator
