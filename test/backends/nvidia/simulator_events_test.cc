#include <thread>

#include "simulated_nvml.h"

namespace nvidia_simulator {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class SimulatorEvents : public SimulatedNvml {
 protected:
  nvml::EventSet Set(unsigned index = 0,
                     uint64_t types = nvml::kEventXid | nvml::kEventDoubleBitEcc) {
    nvml::EventSet set = nullptr;
    EXPECT_EQ(nvmlEventSetCreate(&set), nvml::kSuccess);
    EXPECT_EQ(nvmlDeviceRegisterEvents(Device(index), types, set), nvml::kSuccess);
    return set;
  }
  void Happen(unsigned index, uint64_t type, uint64_t value, std::optional<unsigned> gi = {}) {
    Change([&](State& state) {
      AddEvent(state, {0, state.gpus[index].uuid, type, value, gi, gi});
    });
  }
};

TEST_F(SimulatorEvents, DeliversAnEventSoonAfterItHappens) {
  Start({"H100-80GB", "H100-80GB"});
  const nvml::EventSet set = Set(1);
  nvml::EventData data{};
  nvml::Return result = nvml::kUnknown;
  Clock::time_point delivered;
  std::thread waiter([&] {
    result = nvmlEventSetWait_v2(set, &data, 10'000);
    delivered = Clock::now();
  });
  std::this_thread::sleep_for(
      milliseconds(30));  // so that it waits already; the outcome is the same if not
  Happen(1, nvml::kEventXid, 79);
  const auto happened = Clock::now();
  waiter.join();
  EXPECT_EQ(result, nvml::kSuccess);
  EXPECT_LT(delivered - happened, std::chrono::seconds(5)) << "20 ms but for a busy machine";
  EXPECT_EQ(data.device, Device(1));
  EXPECT_EQ(data.event_type, nvml::kEventXid);
  EXPECT_EQ(data.event_data, 79u);
  EXPECT_EQ(data.gpu_instance_id, nvml::kNoInstance);
  EXPECT_EQ(data.compute_instance_id, nvml::kNoInstance);
}

TEST_F(SimulatorEvents, DeliversEachEventOnceToEverySet) {
  Start({"H100-80GB"});
  const nvml::EventSet first = Set(), second = Set();
  Happen(0, nvml::kEventXid, 13);
  Happen(0, nvml::kEventDoubleBitEcc, 0);
  for (const nvml::EventSet set : {first, second}) {
    nvml::EventData data{};
    EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 0), nvml::kSuccess);
    EXPECT_EQ(data.event_data, 13u) << "in the order in which they happened";
    EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 0), nvml::kSuccess);
    EXPECT_EQ(data.event_type, nvml::kEventDoubleBitEcc);
    EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 0), nvml::kTimeout);
  }
}

TEST_F(SimulatorEvents, NamesTheMigInstance) {
  Start({"H100-80GB"});
  const nvml::EventSet set = Set();
  Happen(0, nvml::kEventXid, 94, 2);
  nvml::EventData data{};
  EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 0), nvml::kSuccess);
  EXPECT_EQ(data.gpu_instance_id, 2u);
  EXPECT_EQ(data.compute_instance_id, 2u);
}

TEST_F(SimulatorEvents, TellsOfEachChangeOfMigByTheLibrary) {
  Start({"H100-80GB", "H100-80GB"});
  const nvml::EventSet set = Set(0, nvml::kEventMigConfigChange);
  nvml::EventData data{};
  const auto next = [&] {
    data = {};
    return nvmlEventSetWait_v2(set, &data, 0);
  };
  nvml::Return activation = nvml::kUnknown;
  ASSERT_EQ(nvmlDeviceSetMigMode(Device(0), 1, &activation), nvml::kSuccess);
  ASSERT_EQ(next(), nvml::kSuccess);
  EXPECT_EQ(data.event_type, nvml::kEventMigConfigChange);
  EXPECT_EQ(data.device, Device(0));
  EXPECT_EQ(data.gpu_instance_id, nvml::kNoInstance);
  nvml::GpuInstance instance = nullptr;
  constexpr unsigned kSlice1 = 19;
  ASSERT_EQ(nvmlDeviceCreateGpuInstance(Device(0), kSlice1, &instance), nvml::kSuccess);
  EXPECT_EQ(next(), nvml::kSuccess);
  nvml::ComputeInstance compute = nullptr;
  ASSERT_EQ(nvmlGpuInstanceCreateComputeInstance(instance, 0, &compute), nvml::kSuccess);
  EXPECT_EQ(next(), nvml::kSuccess);
  ASSERT_EQ(nvmlComputeInstanceDestroy(compute), nvml::kSuccess);
  EXPECT_EQ(next(), nvml::kSuccess);
  // Neither the same mode again, nor another change, nor another card.
  ASSERT_EQ(nvmlDeviceSetPersistenceMode(Device(0), 1), nvml::kSuccess);
  ASSERT_EQ(nvmlDeviceSetMigMode(Device(1), 1, &activation), nvml::kSuccess);
  EXPECT_EQ(next(), nvml::kTimeout);
}

TEST_F(SimulatorEvents, SaysNothingOfAMigModeThatWaitsForAReset) {
  Start({"A100-80GB"});
  const nvml::EventSet set = Set(0, nvml::kEventMigConfigChange);
  nvml::Return activation = nvml::kUnknown;
  ASSERT_EQ(nvmlDeviceSetMigMode(Device(0), 1, &activation), nvml::kSuccess);
  EXPECT_EQ(activation, nvml::kResetRequired);
  nvml::EventData data{};
  EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 0), nvml::kTimeout);
}

TEST_F(SimulatorEvents, DoesNotDeliverWhatWasBeforeTheRegistration) {
  Start({"H100-80GB"});
  Happen(0, nvml::kEventXid, 79);
  nvml::EventData data{};
  EXPECT_EQ(nvmlEventSetWait_v2(Set(), &data, 0), nvml::kTimeout);
}

TEST_F(SimulatorEvents, DoesNotDeliverOtherTypesNorOtherCards) {
  Start({"H100-80GB", "H100-80GB"});
  const nvml::EventSet set = Set(0, nvml::kEventXid);
  Happen(0, nvml::kEventDoubleBitEcc, 0);
  Happen(1, nvml::kEventXid, 79);
  nvml::EventData data{};
  EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 0), nvml::kTimeout);
}

TEST_F(SimulatorEvents, TimesOut) {
  Start({"H100-80GB"});
  nvml::EventData data{};
  const auto begin = Clock::now();
  EXPECT_EQ(nvmlEventSetWait_v2(Set(), &data, 60), nvml::kTimeout);
  EXPECT_GE(Clock::now() - begin, milliseconds(60));
}

TEST_F(SimulatorEvents, SaysGpuIsLostWhileARegisteredCardIsLost) {
  Start({"H100-80GB", "H100-80GB"});
  const nvml::EventSet set = Set(0), other = Set(1);
  Change([](State& state) { state.gpus[0].lost = true; });
  nvml::EventData data{};
  EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 1000), nvml::kGpuIsLost);
  EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 1000), nvml::kGpuIsLost);
  EXPECT_EQ(nvmlEventSetWait_v2(other, &data, 0), nvml::kTimeout);
}

TEST_F(SimulatorEvents, RefusesTypesThatTheCardHasNot) {
  Start({"T4"});
  unsigned long long types = 0;
  nvml::EventSet set = nullptr;
  ASSERT_EQ(nvmlEventSetCreate(&set), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetSupportedEventTypes(Device(0), &types), nvml::kSuccess);
  EXPECT_EQ(types & nvml::kEventMigConfigChange, 0u);
  EXPECT_EQ(nvmlDeviceRegisterEvents(Device(0), nvml::kEventMigConfigChange, set),
            nvml::kNotSupported);
  EXPECT_EQ(nvmlDeviceRegisterEvents(Device(0), 0, set), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceRegisterEvents(Device(0), types, set), nvml::kSuccess);
}

TEST_F(SimulatorEvents, RefusesASetThatWasFreed) {
  Start({"H100-80GB"});
  const nvml::EventSet set = Set();
  nvml::EventData data{};
  EXPECT_EQ(nvmlEventSetFree(set), nvml::kSuccess);
  EXPECT_EQ(nvmlEventSetFree(set), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlEventSetWait_v2(set, &data, 1000), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceRegisterEvents(Device(0), nvml::kEventXid, set), nvml::kInvalidArgument);
}

TEST_F(SimulatorEvents, EndsAWaitWhenTheLibraryIsShutDown) {
  Start({"H100-80GB"});
  const nvml::EventSet set = Set();
  nvml::Return result = nvml::kSuccess;
  std::thread waiter([&] {
    nvml::EventData data{};
    result = nvmlEventSetWait_v2(set, &data, 60'000);
  });
  std::this_thread::sleep_for(
      milliseconds(30));  // so that it waits already; the outcome is the same if not
  ASSERT_EQ(nvmlShutdown(), nvml::kSuccess);
  waiter.join();
  EXPECT_EQ(result, nvml::kUninitialized);
}

TEST_F(SimulatorEvents, FillsTheFirstVersionsStruct) {
  Start({"H100-80GB"});
  const nvml::EventSet set = Set();
  Happen(0, nvml::kEventXid, 79);
  struct {
    nvml::EventDataV1 data{};
    unsigned behind = 0xaaaaaaaa;
  } first;
  EXPECT_EQ(Symbol<nvml::Return(nvml::EventSet, nvml::EventDataV1*, unsigned)>("nvmlEventSetWait")(
                set, &first.data, 0),
            nvml::kSuccess);
  EXPECT_EQ(first.data.event_data, 79u);
  EXPECT_EQ(first.behind, 0xaaaaaaaau);
}

}  // namespace
}  // namespace nvidia_simulator
