#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "simulated_nvml.h"

// What the simulated NVML answers and refuses. MIG, events, faults and containers have files of their own.
namespace nvidia_simulator {
namespace {

class Simulator : public SimulatedNvml {};

TEST_F(Simulator, RefusesEveryCallBeforeInit) {
  Write({"H100-80GB"});
  unsigned number = 0;
  char text[96];
  nvml::Device device = nullptr;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&number), nvml::kUninitialized);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(0, &device), nvml::kUninitialized);
  EXPECT_EQ(nvmlSystemGetDriverVersion(text, sizeof text), nvml::kUninitialized);
  EXPECT_EQ(nvmlDeviceGetUUID(device, text, sizeof text), nvml::kUninitialized);
  EXPECT_EQ(nvmlShutdown(), nvml::kUninitialized);
}

TEST_F(Simulator, CountsInits) {
  Start({"H100-80GB"});
  ASSERT_EQ(Symbol<nvml::Return()>("nvmlInit_v2")(), nvml::kSuccess);
  unsigned count = 0;
  EXPECT_EQ(nvmlShutdown(), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kSuccess);
  EXPECT_EQ(nvmlShutdown(), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kUninitialized);
}

TEST_F(Simulator, RefusesInitWithoutAStateFile) {
  EXPECT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kDriverNotLoaded);
}

TEST_F(Simulator, RefusesInitOnAStateFileThatIsNone) {
  std::ofstream(state_path_) << "{";
  testing::internal::CaptureStderr();
  EXPECT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kUnknown);
  EXPECT_NE(testing::internal::GetCapturedStderr().find(state_path_), std::string::npos);
}

TEST_F(Simulator, RefusesInitWithoutTheDriver) {
  Write({"H100-80GB"});
  Change([](State& state) { state.driver.loaded = false; });
  EXPECT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kDriverNotLoaded);
  Change([](State& state) { state.driver.loaded = true; });
  EXPECT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kSuccess);
}

TEST_F(Simulator, RefusesInitWithAnotherKernelModule) {
  Start({"H100-80GB"});
  Change([](State& state) { state.driver.version = "590.1"; });  // replaced underneath
  char version[80];
  EXPECT_EQ(nvmlSystemGetDriverVersion(version, sizeof version), nvml::kSuccess);
  EXPECT_STREQ(version, "580.126.20") << "an open NVML stays with the module that it knows";
  ASSERT_EQ(nvmlShutdown(), nvml::kSuccess);
  EXPECT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kLibRmVersionMismatch);
}

TEST_F(Simulator, RefusesInitWithoutGpusUnlessToldNotTo) {
  Write({});
  EXPECT_EQ(nvmlInitWithFlags(0), nvml::kGpuNotFound);
  EXPECT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kSuccess);
}

TEST_F(Simulator, RefusesUnknownInitFlags) {
  Write({"H100-80GB"});
  EXPECT_EQ(nvmlInitWithFlags(64), nvml::kInvalidArgument);
}

TEST_F(Simulator, ShowsTheSystem) {
  Start({"T4"});
  char driver[80], version[80];
  int cuda = 0;
  EXPECT_EQ(nvmlSystemGetDriverVersion(driver, sizeof driver), nvml::kSuccess);
  EXPECT_EQ(nvmlSystemGetNVMLVersion(version, sizeof version), nvml::kSuccess);
  EXPECT_EQ(nvmlSystemGetCudaDriverVersion_v2(&cuda), nvml::kSuccess);
  EXPECT_STREQ(driver, "580.126.20");
  EXPECT_STREQ(version, "13.580.126.20");
  EXPECT_EQ(cuda, 13000);
  Change([](State& state) { state.driver.cuda = "12.6"; });
  EXPECT_EQ(nvmlSystemGetCudaDriverVersion_v2(&cuda), nvml::kSuccess);
  EXPECT_EQ(cuda, 12060);
}

TEST_F(Simulator, ShowsACard) {
  Start({"T4", "H100-80GB"});
  const Gpu expected = MakeCard("H100-80GB", 1);
  const nvml::Device device = Device(1);
  unsigned number = 0;
  int major = 0, minor = 0;
  char text[96];
  nvml::PciInfo pci;
  nvml::Memory memory;
  EXPECT_EQ(nvmlDeviceGetIndex(device, &number), nvml::kSuccess);
  EXPECT_EQ(number, 1u);
  EXPECT_EQ(nvmlDeviceGetMinorNumber(device, &number), nvml::kSuccess);
  EXPECT_EQ(number, 1u);
  EXPECT_EQ(nvmlDeviceGetUUID(device, text, sizeof text), nvml::kSuccess);
  EXPECT_EQ(text, expected.uuid);
  EXPECT_EQ(nvmlDeviceGetName(device, text, sizeof text), nvml::kSuccess);
  EXPECT_STREQ(text, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(nvmlDeviceGetSerial(device, text, sizeof text), nvml::kSuccess);
  EXPECT_EQ(text, expected.serial);
  EXPECT_EQ(nvmlDeviceGetPciInfo_v3(device, &pci), nvml::kSuccess);
  EXPECT_STREQ(pci.bus_id, "00000000:17:00.0");
  EXPECT_STREQ(pci.bus_id_legacy, "0000:17:00.0");
  EXPECT_EQ(pci.bus, 0x17u);
  EXPECT_EQ(pci.pci_device_id, 0x233010deu);
  EXPECT_EQ(nvmlDeviceGetCudaComputeCapability(device, &major, &minor), nvml::kSuccess);
  EXPECT_EQ(major, 9);
  EXPECT_EQ(minor, 0);
  EXPECT_EQ(nvmlDeviceGetArchitecture(device, &number), nvml::kSuccess);
  EXPECT_EQ(number, 9u);
  EXPECT_EQ(nvmlDeviceGetBrand(device, &number), nvml::kSuccess);
  EXPECT_EQ(number, 14u);
  EXPECT_EQ(nvmlDeviceGetVirtualizationMode(device, &number), nvml::kSuccess);
  EXPECT_EQ(number, 0u);
  EXPECT_EQ(nvmlDeviceGetMemoryInfo(device, &memory), nvml::kSuccess);
  EXPECT_EQ(memory.total, *expected.memory_bytes);
  EXPECT_EQ(memory.free + memory.used, memory.total);
  EXPECT_EQ(nvmlDeviceGetEccMode(device, &number, &number), nvml::kSuccess);
  EXPECT_EQ(number, 1u);
}

TEST_F(Simulator, RefusesNullPointers) {
  Start({"H100-80GB"});
  const nvml::Device device = Device(0);
  int number = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(nullptr), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(0, nullptr), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(nullptr, nullptr), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2(nullptr, nullptr), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetUUID(device, nullptr, 80), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetMemoryInfo(device, nullptr), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetPciInfo_v3(device, nullptr), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetCudaComputeCapability(device, &number, nullptr), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetMigMode(device, nullptr, nullptr), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetGpuFabricInfoV(device, nullptr), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceCreateGpuInstanceWithPlacement(device, 19, nullptr, nullptr),
            nvml::kInvalidArgument);
  EXPECT_EQ(nvmlEventSetCreate(nullptr), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetUUID(nullptr, nullptr, 0), nvml::kInvalidArgument);
}

TEST_F(Simulator, RefusesShortBuffers) {
  Start({"H100-80GB"});
  const std::string uuid = MakeCard("H100-80GB", 0).uuid;
  const auto room = static_cast<unsigned>(uuid.size() + 1);
  char text[96] = "untouched";
  EXPECT_EQ(nvmlDeviceGetUUID(Device(0), text, room - 1), nvml::kInsufficientSize);
  EXPECT_STREQ(text, "untouched");
  EXPECT_EQ(nvmlDeviceGetUUID(Device(0), text, room), nvml::kSuccess);
  EXPECT_EQ(nvmlSystemGetDriverVersion(text, 5), nvml::kInsufficientSize);
}

TEST_F(Simulator, RefusesWrongVersionWords) {
  Start({"H100-80GB"});
  nvml::FabricInfoV2 fabric{};
  nvml::AddressingMode mode{};
  nvml::MemoryV2 memory{};
  nvml::GpuInstanceProfileInfoV2 profile{};
  EXPECT_EQ(nvmlDeviceGetGpuFabricInfoV(Device(0), &fabric), nvml::kArgumentVersionMismatch);
  EXPECT_EQ(nvmlDeviceGetAddressingMode(Device(0), &mode), nvml::kArgumentVersionMismatch);
  EXPECT_EQ(nvmlDeviceGetGpuInstanceProfileInfoV(Device(0), 0, &profile),
            nvml::kArgumentVersionMismatch);
  EXPECT_EQ(Symbol<nvml::Return(nvml::Device, nvml::MemoryV2*)>("nvmlDeviceGetMemoryInfo_v2")(
                Device(0), &memory),
            nvml::kArgumentVersionMismatch);
}

TEST_F(Simulator, FindsByUuidAndBusIdAndRefusesWhatIsNotThere) {
  Start({"H100-80GB", "H100-80GB"});
  const std::string uuid = MakeCard("H100-80GB", 1).uuid;
  nvml::Device device = nullptr;
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(uuid.c_str(), &device), nvml::kSuccess);
  EXPECT_EQ(device, Device(1));
  for (const char* bus_id : {"00000000:17:00.0", "0000:17:00.0", "0:17:0", "17:00.0"}) {
    device = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2(bus_id, &device), nvml::kSuccess) << bus_id;
    EXPECT_EQ(device, Device(1)) << bus_id;
  }
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(2, &device), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID("GPU-00000000-0000-0000-0000-000000000000", &device),
            nvml::kNotFound);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID("none", &device), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("0000:99:00.0", &device), nvml::kNotFound);
  EXPECT_EQ(nvmlDeviceGetHandleByPciBusId_v2("0000:17:00.0z", &device), nvml::kInvalidArgument);
}

TEST_F(Simulator, RefusesHandlesFromBeforeAShutdown) {
  Start({"H100-80GB"});
  const nvml::Device stale = Device(0);
  ASSERT_EQ(nvmlShutdown(), nvml::kSuccess);
  ASSERT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kSuccess);
  char text[96];
  EXPECT_EQ(nvmlDeviceGetUUID(stale, text, sizeof text), nvml::kInvalidArgument);
  const nvml::Device fresh = Device(0);
  EXPECT_EQ(nvmlDeviceGetUUID(stale, text, sizeof text), nvml::kInvalidArgument)
      << "nor once handles are given again";
  EXPECT_EQ(nvmlDeviceGetUUID(fresh, text, sizeof text), nvml::kSuccess);
}

TEST_F(Simulator, RefusesHandlesOfAnotherKindAndRubbish) {
  Start({"H100-80GB"});
  nvml::EventSet set = nullptr;
  ASSERT_EQ(nvmlEventSetCreate(&set), nvml::kSuccess);
  char text[96];
  EXPECT_EQ(nvmlDeviceGetUUID(reinterpret_cast<nvml::Device>(set), text, sizeof text),
            nvml::kInvalidArgument);
  EXPECT_EQ(nvmlEventSetFree(reinterpret_cast<nvml::EventSet>(Device(0))), nvml::kInvalidArgument);
  for (const uintptr_t value : {uintptr_t{1}, uintptr_t{0xdeadbeef}, ~uintptr_t{0}}) {
    EXPECT_EQ(nvmlDeviceGetUUID(reinterpret_cast<nvml::Device>(value), text, sizeof text),
              nvml::kInvalidArgument);
  }
}

TEST_F(Simulator, KeepsAHandleWithItsCardWhenTheOrderChanges) {
  Start({"H100-80GB", "T4"});
  const nvml::Device device = Device(1);
  Change([](State& state) { std::swap(state.gpus[0], state.gpus[1]); });
  unsigned index = 9;
  char name[96];
  EXPECT_EQ(nvmlDeviceGetIndex(device, &index), nvml::kSuccess);
  EXPECT_EQ(index, 0u);
  EXPECT_EQ(nvmlDeviceGetName(device, name, sizeof name), nvml::kSuccess);
  EXPECT_STREQ(name, "Tesla T4");
}

TEST_F(Simulator, LosesACard) {
  Start({"H100-80GB", "H100-80GB"});
  const nvml::Device device = Device(0);
  Change([](State& state) { state.gpus[0].lost = true; });
  unsigned count = 0;
  char text[96];
  nvml::Device again = nullptr;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kSuccess);
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(nvmlDeviceGetUUID(device, text, sizeof text), nvml::kGpuIsLost);
  EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(0, &again), nvml::kGpuIsLost);
  EXPECT_EQ(nvmlDeviceGetHandleByUUID(Read().gpus[0].uuid.c_str(), &again), nvml::kGpuIsLost);
  EXPECT_EQ(nvmlDeviceGetUUID(Device(1), text, sizeof text), nvml::kSuccess);
  ASSERT_EQ(nvmlShutdown(), nvml::kSuccess);
  EXPECT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kSuccess);
}

TEST_F(Simulator, SaysGpuIsLostForACardThatWasTakenOut) {
  Start({"H100-80GB", "H100-80GB"});
  const nvml::Device device = Device(1);
  Change([](State& state) { state.gpus.pop_back(); });
  char text[96];
  EXPECT_EQ(nvmlDeviceGetUUID(device, text, sizeof text), nvml::kGpuIsLost);
}

TEST_F(Simulator, DoesNotSupportWhatTheCardHasNot) {
  Start({"T4", "A100-40GB"});
  Change([](State& state) {
    state.gpus[0].memory_bytes.reset();
    state.gpus[0].serial.clear();
    state.gpus[0].ecc.enabled = false;
  });
  unsigned number = 0;
  unsigned long long count = 0;
  char text[96];
  nvml::Memory memory;
  nvml::FabricInfoV2 fabric{};
  fabric.version = nvml::kFabricInfoV2Version;
  EXPECT_EQ(nvmlDeviceGetMigMode(Device(0), &number, &number), nvml::kNotSupported);
  EXPECT_EQ(nvmlDeviceGetMemoryInfo(Device(0), &memory), nvml::kNotSupported);
  EXPECT_EQ(nvmlDeviceGetSerial(Device(0), text, sizeof text), nvml::kNotSupported);
  EXPECT_EQ(nvmlDeviceGetTotalEccErrors(Device(0), 1, 0, &count), nvml::kNotSupported);
  EXPECT_EQ(nvmlDeviceGetRemappedRows(Device(0), &number, &number, &number, &number),
            nvml::kNotSupported);
  EXPECT_EQ(nvmlDeviceGetRetiredPagesPendingStatus(Device(0), &number), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetRetiredPagesPendingStatus(Device(1), &number), nvml::kNotSupported);
  EXPECT_EQ(nvmlDeviceGetRemappedRows(Device(1), &number, &number, &number, &number),
            nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetGpuFabricInfoV(Device(1), &fabric), nvml::kNotSupported)
      << "older than Hopper";
}

TEST_F(Simulator, ShowsTheNumaNodeOfMemoryThatIsOne) {
  Start({"GB200", "H100-80GB"});
  auto* get = Symbol<nvml::Return(nvml::Device, unsigned*)>("nvmlDeviceGetNumaNodeId");
  unsigned node = 0;
  EXPECT_EQ(get(Device(0), &node), nvml::kSuccess);
  EXPECT_EQ(node, 2u);
  EXPECT_EQ(get(Device(1), &node), nvml::kNotSupported) << "not that of the slot";
}

TEST_F(Simulator, ShowsErrorsAndRemaps) {
  Start({"H100-80GB"});
  Change([](State& state) {
    state.gpus[0].ecc.volatile_uncorrected = 3;
    state.gpus[0].ecc.aggregate_corrected = 4;
    state.gpus[0].remapped_rows = {true, 1, 2, true, false};
  });
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 9;
  unsigned long long count = 0;
  EXPECT_EQ(
      nvmlDeviceGetTotalEccErrors(Device(0), nvml::kEccUncorrected, nvml::kEccVolatile, &count),
      nvml::kSuccess);
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(
      nvmlDeviceGetTotalEccErrors(Device(0), nvml::kEccCorrected, nvml::kEccAggregate, &count),
      nvml::kSuccess);
  EXPECT_EQ(count, 4u);
  EXPECT_EQ(nvmlDeviceGetTotalEccErrors(Device(0), 2, 0, &count), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetRemappedRows(Device(0), &corrected, &uncorrected, &pending, &failed),
            nvml::kSuccess);
  EXPECT_EQ(corrected, 1u);
  EXPECT_EQ(uncorrected, 2u);
  EXPECT_EQ(pending, 1u);
  EXPECT_EQ(failed, 0u);
}

TEST_F(Simulator, AnswersEachFieldByItself) {
  Start({"H100-80GB", "T4"});
  nvml::FieldValue fields[2] = {};
  fields[0].field_id = 1;  // another one
  fields[1].field_id = nvml::kFieldGpuRecoveryAction;
  fields[1].value = ~uint64_t{0};
  ASSERT_EQ(nvmlDeviceGetFieldValues(Device(0), 2, fields), nvml::kSuccess);
  EXPECT_EQ(fields[0].nvml_return, nvml::kNotSupported);
  EXPECT_EQ(fields[1].nvml_return, nvml::kSuccess);
  EXPECT_EQ(fields[1].value_type, nvml::kValueUnsignedInt);
  EXPECT_EQ(static_cast<uint32_t>(fields[1].value), nvml::kRecoveryNone);
  EXPECT_GT(fields[1].timestamp, 0);
  Change([](State& state) {
    state.gpus[0].recovery_action = nvml::kRecoveryDrainP2p;
    state.gpus[1].recovery_action.reset();
  });
  ASSERT_EQ(nvmlDeviceGetFieldValues(Device(0), 2, fields), nvml::kSuccess);
  EXPECT_EQ(static_cast<uint32_t>(fields[1].value), nvml::kRecoveryDrainP2p);
  // A driver that does not know it.
  ASSERT_EQ(nvmlDeviceGetFieldValues(Device(1), 2, fields), nvml::kSuccess);
  EXPECT_EQ(fields[1].nvml_return, nvml::kNotSupported);
  EXPECT_EQ(nvmlDeviceGetFieldValues(Device(0), 1, nullptr), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceGetFieldValues(Device(0), -1, fields), nvml::kInvalidArgument);
}

TEST_F(Simulator, ShowsTheFabricInEveryVersion) {
  Start({"GB200"});
  nvml::FabricInfo first{};
  nvml::FabricInfoV3 third{};
  third.version = nvml::kFabricInfoV3Version;
  Change([](State& state) {
    state.gpus[0].fabric = {3, "01020304-0506-0708-090a-0b0c0d0e0f10", 7, 0, 5, 2};
  });
  EXPECT_EQ(Symbol<nvml::Return(nvml::Device, nvml::FabricInfo*)>("nvmlDeviceGetGpuFabricInfo")(
                Device(0), &first),
            nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetGpuFabricInfoV(Device(0), reinterpret_cast<nvml::FabricInfoV2*>(&third)),
            nvml::kSuccess);
  for (unsigned char i = 0; i < 16; ++i) EXPECT_EQ(first.cluster_uuid[i], i + 1);
  EXPECT_EQ(std::memcmp(first.cluster_uuid, third.cluster_uuid, 16), 0);
  EXPECT_EQ(first.clique_id, 7u);
  EXPECT_EQ(third.state, 3);
  EXPECT_EQ(third.health_mask, 5u);
  EXPECT_EQ(third.health_summary, 2);
  struct {
    nvml::FabricInfoV2 info{};
    unsigned char behind[4] = {0xaa, 0xaa, 0xaa, 0xaa};
  } second;
  second.info.version = nvml::kFabricInfoV2Version;
  EXPECT_EQ(nvmlDeviceGetGpuFabricInfoV(Device(0), &second.info), nvml::kSuccess);
  EXPECT_EQ(second.behind[0], 0xaa) << "the second version is shorter than the third";
}

TEST_F(Simulator, SetsModesAndRefusesWrongOnes) {
  Start({"H100-80GB"});
  unsigned mode = 9;
  EXPECT_EQ(nvmlDeviceSetPersistenceMode(Device(0), 1), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetPersistenceMode(Device(0), &mode), nvml::kSuccess);
  EXPECT_EQ(mode, 1u);
  EXPECT_EQ(nvmlDeviceSetComputeMode(Device(0), 3), nvml::kSuccess);
  EXPECT_EQ(nvmlDeviceGetComputeMode(Device(0), &mode), nvml::kSuccess);
  EXPECT_EQ(mode, 3u);
  EXPECT_EQ(nvmlDeviceSetPersistenceMode(Device(0), 2), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceSetComputeMode(Device(0), 4), nvml::kInvalidArgument);
  EXPECT_EQ(nvmlDeviceSetComputeMode(Device(0), 1), nvml::kNotSupported);
}

TEST_F(Simulator, ListsProcesses) {
  Start({"H100-80GB"});
  Change([](State& state) {
    state.gpus[0].processes = {
        {41, "", {}, {}, 1024}, {0, "held", {}, {}, 0}, {42, "", {}, {}, 2048}};
  });
  auto* list = Symbol<nvml::Return(nvml::Device, unsigned*, nvml::ProcessInfo*)>(
      "nvmlDeviceGetComputeRunningProcesses_v3");
  unsigned count = 0;
  EXPECT_EQ(list(Device(0), &count, nullptr), nvml::kInsufficientSize);
  EXPECT_EQ(count, 2u) << "what has no pid is not listed";
  nvml::ProcessInfo processes[2];
  EXPECT_EQ(list(Device(0), &count, processes), nvml::kSuccess);
  EXPECT_EQ(processes[1].pid, 42u);
  EXPECT_EQ(processes[1].used_gpu_memory, 2048u);
  EXPECT_EQ(processes[1].gpu_instance_id, nvml::kNoInstance);
}

TEST_F(Simulator, KeepsTheLastStateThatCouldBeRead) {
  Start({"H100-80GB"});
  testing::internal::CaptureStderr();
  std::ofstream(state_path_) << "{\"gpus\": 1}";
  unsigned count = 0;
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kSuccess);
  EXPECT_EQ(count, 1u);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("gpus: must be a list"), std::string::npos);
  Write({});
  EXPECT_EQ(nvmlDeviceGetCount_v2(&count), nvml::kSuccess);
  EXPECT_EQ(count, 0u);
}

TEST_F(Simulator, FindsItsStateBesideItself) {
  std::filesystem::copy_file(NVIDIA_SIMULATED_NVML, directory_ + "/libnvidia-ml.so.2.0");
  std::filesystem::create_symlink("libnvidia-ml.so.2.0", directory_ + "/libnvidia-ml.so.1");
  unsetenv("NVIDIA_SIMULATOR_STATE");
  Write({"T4"});
  std::filesystem::rename(state_path_, directory_ + "/libnvidia-simulator.so.3.0");
  Write({"T4", "T4"});
  std::filesystem::rename(state_path_, directory_ + "/libnvidia-simulator.so.2.0");
  void* library = dlopen((directory_ + "/libnvidia-ml.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto init = reinterpret_cast<nvml::Return (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto get =
      reinterpret_cast<nvml::Return (*)(unsigned*)>(dlsym(library, "nvmlDeviceGetCount"));
  unsigned count = 0;
  EXPECT_EQ(init(), nvml::kSuccess);
  EXPECT_EQ(get(&count), nvml::kSuccess);
  EXPECT_EQ(count, 2u) << "the one of its own version";
  dlclose(library);
}

TEST_F(Simulator, DescribesEveryCode) {
  auto* describe = Symbol<const char*(nvml::Return)>("nvmlErrorString");
  EXPECT_STREQ(describe(nvml::kGpuIsLost), "GPU is lost");
  EXPECT_STREQ(describe(nvml::kLibRmVersionMismatch), "Driver/library version mismatch");
  EXPECT_STREQ(describe(static_cast<nvml::Return>(12345)), "Unknown Error");
}

TEST_F(Simulator, AnswersManyThreadsWhileTheStateChanges) {
  Start({"H100-80GB", "H100-80GB"});
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      while (!stop) {
        nvml::Device device = nullptr;
        char text[96];
        unsigned mode = 0;
        if (nvmlDeviceGetHandleByIndex_v2(i % 2, &device) != nvml::kSuccess) ++wrong;
        if (nvmlDeviceGetUUID(device, text, sizeof text) != nvml::kSuccess) ++wrong;
        if (nvmlDeviceSetPersistenceMode(device, i / 2) != nvml::kSuccess) ++wrong;
        if (nvmlDeviceGetPersistenceMode(device, &mode) != nvml::kSuccess) ++wrong;
      }
    });
  }
  for (unsigned i = 0; i < 20; ++i) {
    Change([&](State& state) { state.gpus[0].ecc.volatile_corrected = i; });
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(Read().gpus[0].ecc.volatile_corrected, 19u);
}

}  // namespace
}  // namespace nvidia_simulator
