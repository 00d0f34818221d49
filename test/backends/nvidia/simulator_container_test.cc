#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>

#include "simulated_nvml.h"

// What the simulated NVML shows and refuses inside a container.
namespace nvidia_simulator {
namespace {

// As a container sees the file: mounted read-only. A sealed memory file refuses writes by root as well.
class ReadOnly : public SimulatedNvml {
 protected:
  void StartReadOnly(const std::function<void(State&)>& change) {
    Write({"H100-80GB"});
    Change(change);
    std::ifstream file(state_path_);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    memory_ = memfd_create("state", MFD_ALLOW_SEALING);
    ASSERT_EQ(write(memory_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ASSERT_EQ(fcntl(memory_, F_ADD_SEALS, F_SEAL_WRITE), 0);
    setenv("NVIDIA_SIMULATOR_STATE", ("/proc/self/fd/" + std::to_string(memory_)).c_str(), 1);
    ASSERT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kSuccess);
  }
  void TearDown() override {
    SimulatedNvml::TearDown();
    close(memory_);
  }
  int memory_ = -1;
};

TEST_F(ReadOnly, RefusesChanges) {
  StartReadOnly([](State&) {});
  nvml::Return activation = nvml::kSuccess;
  EXPECT_EQ(nvmlDeviceSetPersistenceMode(Device(0), 1), nvml::kNoPermission);
  EXPECT_EQ(nvmlDeviceSetMigMode(Device(0), 1, &activation), nvml::kNoPermission);
}

TEST_F(ReadOnly, CountsFaultsForItself) {
  StartReadOnly([](State& state) {
    AddFault(state, {0, "nvmlDeviceGetCount", "", nvml::kTimeout, 0, 2});
  });
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kTimeout);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kTimeout);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kSuccess);
}

class InAContainer : public SimulatedNvml {
 protected:
  // A /dev of a container: the host's is not there. False where the kernel does not let us make nodes.
  bool MakeDev(const std::vector<unsigned>& minors) {
    dev_ = directory_ + "/dev";
    std::filesystem::create_directory(dev_);
    setenv("NVIDIA_SIMULATOR_DEV", dev_.c_str(), 1);
    bool made = Node("nvidiactl", 195, 255);
    for (const unsigned number : minors)
      made = made && Node("nvidia" + std::to_string(number), 195, number);
    return made;
  }
  bool Node(const std::string& name, unsigned major_number, unsigned minor_number) {
    return mknod((dev_ + "/" + name).c_str(), S_IFCHR | 0666,
                 makedev(major_number, minor_number)) == 0;
  }
  void TearDown() override {
    SimulatedNvml::TearDown();
    unsetenv("NVIDIA_SIMULATOR_DEV");
  }
  unsigned Count() {
    unsigned count = 99;
    EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kSuccess);
    return count;
  }
  void Hide() {
    Change([](State& state) { state.host_dev_root = "/not/there/dev"; });
  }
  std::string dev_;
};

TEST_F(InAContainer, ShowsOnlyGpusWithANode) {
  Write({"T4", "T4", "T4"});
  Hide();
  if (!MakeDev({1})) GTEST_SKIP() << "device nodes cannot be made here";
  ASSERT_EQ(nvmlInitWithFlags(0), nvml::kSuccess);
  EXPECT_EQ(Count(), 1u);
  unsigned minor_number = 0, index = 9;
  nvml::Device other = nullptr;
  EXPECT_EQ(nvmlDeviceGetMinorNumber(Device(0), &minor_number), nvml::kSuccess);
  EXPECT_EQ(minor_number, 1u);
  EXPECT_EQ(nvmlDeviceGetIndex(Device(0), &index), nvml::kSuccess);
  EXPECT_EQ(index, 0u);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(MakeCard("T4", 0).uuid.c_str(), &other), nvml::kNotFound);
  ASSERT_TRUE(Node("nvidia2", 195, 2));
  EXPECT_EQ(Count(), 2u);
}

TEST_F(InAContainer, DoesNotTakeAnotherNodeForTheGpus) {
  Write({"T4", "T4", "T4"});
  Hide();
  if (!MakeDev({})) GTEST_SKIP() << "device nodes cannot be made here";
  ASSERT_TRUE(Node("nvidia0", 195, 1));  // another minor
  ASSERT_TRUE(Node("nvidia1", 1, 1));    // another major
  std::ofstream(dev_ + "/nvidia2") << "";
  ASSERT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kSuccess);
  EXPECT_EQ(Count(), 0u);
}

TEST_F(InAContainer, ShowsAllWhereTheHostsNodesAreThere) {
  Write({"T4", "T4"});
  if (!MakeDev({})) GTEST_SKIP() << "device nodes cannot be made here";
  Change([&](State& state) { state.host_dev_root = directory_; });
  ASSERT_EQ(nvmlInitWithFlags(0), nvml::kSuccess);
  EXPECT_EQ(Count(), 2u);
}

TEST_F(
    InAContainer,
    ShowsAllWithoutAControlNode) {  // a daemon that has the driver's root and no nodes of its own
  Write({"T4", "T4"});
  Hide();
  setenv("NVIDIA_SIMULATOR_DEV", (directory_ + "/none").c_str(), 1);
  ASSERT_EQ(nvmlInitWithFlags(0), nvml::kSuccess);
  EXPECT_EQ(Count(), 2u);
}

TEST_F(InAContainer, RefusesInitWithoutAControlNodeWhereNodesDecide) {
  Write({"T4"});
  Change([](State& state) { state.visibility = "nodes"; });
  setenv("NVIDIA_SIMULATOR_DEV", (directory_ + "/none").c_str(), 1);
  EXPECT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kDriverNotLoaded);
}

TEST_F(InAContainer, ShowsOnlyMigDevicesWithCapabilityNodes) {
  Write({"A100-40GB"});
  Hide();
  Change([](State& state) {
    Gpu& gpu = state.gpus[0];
    gpu.mig_mode = gpu.mig_mode_pending = true;
    for (unsigned i = 0; i < 2; ++i) {
      unsigned gi = 0, ci = 0;
      ASSERT_EQ(CreateGpuInstance(gpu, *gpu.ProfileWithId(9), {}, &gi), 0);
      ASSERT_EQ(CreateComputeInstance(gpu, *gpu.InstanceWithId(gi), 3, &ci), 0);
    }
  });
  if (!MakeDev({0})) GTEST_SKIP() << "device nodes cannot be made here";
  const State state = Read();
  const MigInstance& second = state.gpus[0].mig[1];
  std::filesystem::create_directory(dev_ + "/nvidia-caps");
  const auto capability = [&](std::optional<unsigned> ci) {
    const unsigned number = CapMinor(state, 0, second.gi, ci);
    return Node("nvidia-caps/nvidia-cap" + std::to_string(number), 240, number);
  };
  ASSERT_EQ(nvmlInitWithFlags(0), nvml::kSuccess);
  nvml::Device mig = nullptr;
  EXPECT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(Device(0), 0, &mig), nvml::kNotFound);
  ASSERT_TRUE(capability(0));
  EXPECT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(Device(0), 0, &mig), nvml::kNotFound)
      << "the GPU instance's is missing";
  ASSERT_TRUE(capability(std::nullopt));
  ASSERT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(Device(0), 0, &mig), nvml::kSuccess);
  char uuid[96];
  EXPECT_EQ(nvmlDeviceGetUUID(mig, uuid, sizeof uuid), nvml::kSuccess);
  EXPECT_EQ(uuid, second.compute[0].uuid);
  EXPECT_EQ(nvmlDeviceGetMigDeviceHandleByIndex(Device(0), 1, &mig), nvml::kNotFound);
}

}  // namespace
}  // namespace nvidia_simulator
