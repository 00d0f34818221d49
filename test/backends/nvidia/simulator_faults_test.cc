#include <thread>

#include "simulated_nvml.h"

// Faults that a state sets.
namespace nvidia_simulator {
namespace {

using Clock = std::chrono::steady_clock;

class SimulatorFaults : public SimulatedNvml {};

TEST_F(SimulatorFaults, FailsAFunctionOfOneCard) {
  Start({"H100-80GB", "H100-80GB"});
  const std::string uuid = MakeCard("H100-80GB", 1).uuid;
  Change([&](State& state) {
    AddFault(state, {0, "nvmlDeviceGetName", uuid, nvml::kGpuIsLost, 0, {}});
  });
  char text[96];
  EXPECT_EQ(nvmlDeviceGetName(Device(0), text, sizeof text), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetName(Device(1), text, sizeof text), nvml::kGpuIsLost);
  EXPECT_EQ(nvmlDeviceGetUUID(Device(1), text, sizeof text), nvml::kSuccess);
}

TEST_F(SimulatorFaults, FailsALookupOfOneCard) {
  Start({"H100-80GB", "H100-80GB"});
  Change([&](State& state) {
    AddFault(state, {0, "nvmlDeviceGetHandleByIndex", "1", nvml::kNoPermission, 0, {}});
  });
  nvml::Device device = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(0, &device), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(1, &device), nvml::kNoPermission)
      << "in any of its versions";
}

TEST_F(SimulatorFaults, FailsEveryCallWhereAFaultSaysSo) {
  Start({"H100-80GB"});
  const nvml::Device device = Device(0);
  Change([&](State& state) { AddFault(state, {0, "*", "", nvml::kUnknown, 0, {}}); });
  unsigned number = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&number), nvml::kUnknown);
  EXPECT_EQ(nvmlDeviceGetIndex(device, &number), nvml::kUnknown);
}

TEST_F(SimulatorFaults, FailsInit) {
  Write({"H100-80GB"});
  Change([&](State& state) {
    AddFault(state, {0, "nvmlInitWithFlags", "", nvml::kUnknown, 0, 1});
  });
  EXPECT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kUnknown);
  EXPECT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kSuccess);
}

TEST_F(SimulatorFaults, FailsAsOftenAsAFaultSays) {
  Start({"H100-80GB"});
  Change([&](State& state) {
    AddFault(state, {0, "nvmlDeviceGetCount", "", nvml::kTimeout, 0, 2});
  });
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kTimeout);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kTimeout);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kSuccess);
  EXPECT_EQ(Read().faults.at(0).times, 0u) << "counted for all processes";
}

TEST_F(SimulatorFaults, HangsForItsTimeAndThenAnswers) {
  Start({"H100-80GB"});
  Change([&](State& state) { AddFault(state, {0, "nvmlDeviceGetCount", "", {}, 0.2, {}}); });
  unsigned count = 0;
  const auto begin = Clock::now();
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kSuccess);
  EXPECT_GE(Clock::now() - begin, std::chrono::milliseconds(200));
}

TEST_F(SimulatorFaults, HangsOneCallAndNoOtherUntilTheFaultIsTakenAway) {
  Start({"H100-80GB"});
  const nvml::Device device = Device(0);
  Change([&](State& state) {
    AddFault(state, {0, "nvmlDeviceGetName", "", nvml::kGpuIsLost, 3600, {}});
  });
  nvml::Return result = nvml::kSuccess;
  std::thread caller([&] {
    char text[96];
    result = nvmlDeviceGetName(device, text, sizeof text);
  });
  char text[96];
  EXPECT_EQ(nvmlDeviceGetUUID(device, text, sizeof text), nvml::kSuccess);
  Change([&](State& state) { state.faults.clear(); });
  caller.join();
  EXPECT_EQ(result, nvml::kGpuIsLost);
}

}  // namespace
}  // namespace nvidia_simulator
