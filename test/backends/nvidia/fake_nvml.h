#pragma once

#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "nvml_library.h"

namespace nvidia {

// An NVML of plain values behind the members of NvmlLibrary, for tests of what asks it. One for the process, since
// NVML's functions are; made empty by FakeNvml::Library. Change it under `mutex` once a watch runs.
struct FakeNvml {
  struct Mig {
    std::string uuid;
    unsigned gpu_instance = 1, compute_instance = 0;
    unsigned profile_id = 19, start = 0, size = 1;
    unsigned slices = 1, compute_slices = 1;
  };
  struct Gpu {
    std::string uuid, name = "NVIDIA A100-SXM4-40GB", bus_id = "00000000:65:00.0";
    unsigned minor = 0, architecture = 7, brand = 14, addressing_mode = 1, virtualization = 0;
    int capability_major = 8, capability_minor = 0;
    uint64_t memory = 40960ull << 20;
    bool mig_capable = true, mig = false;
    std::vector<std::unique_ptr<Mig>> instances;  // null: an empty slot
    unsigned rows_pending = 0, rows_failed = 0, pages_pending = 0;
    unsigned long long uncorrected = 0, supported_events = 0xFFFF;
    unsigned char fabric_state = 0;
    nvml::Return fabric_status = nvml::kSuccess;
    unsigned recovery_action = 0;
    nvml::Return recovery_return = nvml::kSuccess;  // of the field alone
    unsigned long long refused_events = 0;          // supported, and yet refused
    unsigned long long registered_events = 0;
    int layout_looks = 0;
    std::map<std::string, nvml::Return> fails;  // by function
    bool registered = false;
  };
  // Of the profile table; id is that of a real card.
  struct Profile {
    unsigned number, id, slices, multiprocessors, copy_engines;
    uint64_t mib;
    std::string name;  // as the library tells it; "" = not
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::unique_ptr<Gpu>> gpus;
  std::vector<Profile> profiles;
  std::string driver_version = "580.126.20";
  int cuda = 13000;
  std::map<std::string, nvml::Return> fails;  // by function, for every GPU
  std::string hangs;                          // a function that does not return until this changes
  std::deque<nvml::EventData> events;
  int open_sets = 0, sets_so_far = 0;

  static FakeNvml& Get() {
    static FakeNvml fake;
    return fake;
  }

  Gpu& Add(const std::string& uuid) {
    const std::lock_guard<std::mutex> lock(mutex);
    gpus.push_back(std::make_unique<Gpu>());
    gpus.back()->uuid = uuid;
    gpus.back()->minor = static_cast<unsigned>(gpus.size()) - 1;
    return *gpus.back();
  }
  // Changes something while others may ask.
  template <typename Function>
  void Set(Function&& function) {
    const std::lock_guard<std::mutex> lock(mutex);
    function();
    changed.notify_all();
  }
  static nvml::Device HandleOf(const void* thing) {
    return reinterpret_cast<nvml::Device>(const_cast<void*>(thing));
  }
  void SendXid(const Gpu* gpu, uint64_t xid, unsigned gpu_instance = nvml::kNoInstance,
               unsigned compute_instance = nvml::kNoInstance) {
    Set([&] {
      events.push_back({HandleOf(gpu), nvml::kEventXid, xid, gpu_instance, compute_instance});
    });
  }

  void SendEvent(const Gpu* gpu, uint64_t type) {
    Set([&] { events.push_back({HandleOf(gpu), type, 0, nvml::kNoInstance, nvml::kNoInstance}); });
  }

  // Empties the fake and gives a library that speaks for it.
  static std::shared_ptr<NvmlLibrary> Library();

 private:
  // What a function of a GPU does first: hang, fail. The lock is held on return.
  static std::unique_lock<std::mutex> Enter(const char* function, nvml::Device device,
                                            nvml::Return* result) {
    FakeNvml& fake = Get();
    std::unique_lock<std::mutex> lock(fake.mutex);
    fake.changed.wait(lock, [&] { return fake.hangs != function; });
    *result = nvml::kSuccess;
    if (const auto at = fake.fails.find(function); at != fake.fails.end()) *result = at->second;
    if (device == nullptr) return lock;
    if (const Gpu* const gpu = fake.GpuOf(device)) {
      if (const auto at = gpu->fails.find(function); at != gpu->fails.end()) *result = at->second;
      if (const auto at = gpu->fails.find("*"); at != gpu->fails.end()) *result = at->second;
    } else if (fake.MigOf(device) == nullptr) {
      *result = nvml::kInvalidArgument;
    }
    return lock;
  }
  Gpu* GpuOf(nvml::Device device) {
    for (const auto& gpu : gpus) {
      if (HandleOf(gpu.get()) == device) return gpu.get();
    }
    return nullptr;
  }
  Mig* MigOf(nvml::Device device) {
    for (const auto& gpu : gpus) {
      for (const auto& mig : gpu->instances) {
        if (mig && HandleOf(mig.get()) == device) return mig.get();
      }
    }
    return nullptr;
  }
  const Profile* ProfileOf(unsigned number) const {
    for (const Profile& profile : profiles) {
      if (profile.number == number) return &profile;
    }
    return nullptr;
  }
  static nvml::Return Copy(const std::string& from, char* text, unsigned length) {
    if (from.size() >= length) return nvml::kInsufficientSize;
    std::memcpy(text, from.c_str(), from.size() + 1);
    return nvml::kSuccess;
  }
};

// Opens a function of the fake: `gpu` is the device's GPU, `fake` the fake, both locked.
#define FAKE_ENTER(function, device)                            \
  nvml::Return result = nvml::kSuccess;                         \
  const auto lock = FakeNvml::Enter(function, device, &result); \
  if (result != nvml::kSuccess) return result;                  \
  FakeNvml& fake = FakeNvml::Get();                             \
  [[maybe_unused]] FakeNvml::Gpu* const gpu = fake.GpuOf(device)

inline std::shared_ptr<NvmlLibrary> FakeNvml::Library() {
  {
    FakeNvml& fake = Get();
    const std::lock_guard<std::mutex> lock(fake.mutex);
    fake.gpus.clear();
    fake.events.clear();
    fake.fails.clear();
    fake.hangs.clear();
    fake.driver_version = "580.126.20";
    fake.cuda = 13000;
    fake.open_sets = fake.sets_so_far = 0;
    fake.profiles = {{0, 19, 1, 14, 1, 4864, "MIG 1g.5gb"},
                     {7, 20, 1, 14, 1, 4864, "MIG 1g.5gb+me"},
                     {1, 14, 2, 28, 2, 9856, "MIG 2g.10gb"},
                     {2, 9, 3, 42, 3, 19968, "MIG 3g.20gb"}};
  }
  std::shared_ptr<NvmlLibrary> nvml = NvmlLibrary::ForTest();
  nvml->nvmlSystemGetDriverVersion = [](char* text, unsigned length) {
    FAKE_ENTER("nvmlSystemGetDriverVersion", nullptr);
    return Copy(fake.driver_version, text, length);
  };
  nvml->nvmlSystemGetNVMLVersion = [](char* text, unsigned length) {
    FAKE_ENTER("nvmlSystemGetNVMLVersion", nullptr);
    return Copy("13." + fake.driver_version, text, length);
  };
  nvml->nvmlSystemGetCudaDriverVersion_v2 = [](int* version) {
    FAKE_ENTER("nvmlSystemGetCudaDriverVersion_v2", nullptr);
    *version = fake.cuda;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetCount_v2 = [](unsigned* count) {
    FAKE_ENTER("nvmlDeviceGetCount_v2", nullptr);
    *count = static_cast<unsigned>(fake.gpus.size());
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetHandleByIndex_v2 = [](unsigned index, nvml::Device* device) {
    FakeNvml& all = FakeNvml::Get();
    nvml::Device handle = nullptr;
    {
      const std::lock_guard<std::mutex> look(all.mutex);
      if (index >= all.gpus.size()) return nvml::kInvalidArgument;
      handle = HandleOf(all.gpus[index].get());
    }
    FAKE_ENTER("nvmlDeviceGetHandleByIndex_v2", handle);
    *device = handle;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetHandleByUUID = [](const char* uuid, nvml::Device* device) {
    FAKE_ENTER("nvmlDeviceGetHandleByUUID", nullptr);
    for (const auto& one : fake.gpus) {
      if (one->uuid != uuid) continue;
      if (const auto at = one->fails.find("nvmlDeviceGetHandleByUUID"); at != one->fails.end()) {
        return at->second;
      }
      *device = HandleOf(one.get());
      return nvml::kSuccess;
    }
    return nvml::kNotFound;
  };
  nvml->nvmlDeviceGetMinorNumber = [](nvml::Device device, unsigned* minor) {
    FAKE_ENTER("nvmlDeviceGetMinorNumber", device);
    *minor = gpu->minor;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetUUID = [](nvml::Device device, char* text, unsigned length) {
    FAKE_ENTER("nvmlDeviceGetUUID", device);
    return Copy(gpu != nullptr ? gpu->uuid : fake.MigOf(device)->uuid, text, length);
  };
  nvml->nvmlDeviceGetName = [](nvml::Device device, char* text, unsigned length) {
    FAKE_ENTER("nvmlDeviceGetName", device);
    return Copy(gpu->name, text, length);
  };
  nvml->nvmlDeviceGetPciInfo_v3 = [](nvml::Device device, nvml::PciInfo* pci) {
    FAKE_ENTER("nvmlDeviceGetPciInfo_v3", device);
    return Copy(gpu->bus_id, pci->bus_id, sizeof(pci->bus_id));
  };
  nvml->nvmlDeviceGetMemoryInfo = [](nvml::Device device, nvml::Memory* memory) {
    FAKE_ENTER("nvmlDeviceGetMemoryInfo", device);
    *memory = {gpu->memory, gpu->memory, 0};
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetCudaComputeCapability = [](nvml::Device device, int* major, int* minor) {
    FAKE_ENTER("nvmlDeviceGetCudaComputeCapability", device);
    *major = gpu->capability_major;
    *minor = gpu->capability_minor;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetArchitecture = [](nvml::Device device, unsigned* value) {
    FAKE_ENTER("nvmlDeviceGetArchitecture", device);
    *value = gpu->architecture;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetBrand = [](nvml::Device device, unsigned* value) {
    FAKE_ENTER("nvmlDeviceGetBrand", device);
    *value = gpu->brand;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetAddressingMode = [](nvml::Device device, nvml::AddressingMode* mode) {
    FAKE_ENTER("nvmlDeviceGetAddressingMode", device);
    if (mode->version != nvml::kAddressingModeVersion) return nvml::kArgumentVersionMismatch;
    mode->value = gpu->addressing_mode;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetVirtualizationMode = [](nvml::Device device, unsigned* value) {
    FAKE_ENTER("nvmlDeviceGetVirtualizationMode", device);
    *value = gpu->virtualization;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetMigMode = [](nvml::Device device, unsigned* current, unsigned* pending) {
    FAKE_ENTER("nvmlDeviceGetMigMode", device);
    ++gpu->layout_looks;
    if (!gpu->mig_capable) return nvml::kNotSupported;
    *current = *pending = gpu->mig ? 1 : 0;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetMaxMigDeviceCount = [](nvml::Device device, unsigned* count) {
    FAKE_ENTER("nvmlDeviceGetMaxMigDeviceCount", device);
    *count = static_cast<unsigned>(gpu->instances.size());
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetMigDeviceHandleByIndex = [](nvml::Device device, unsigned index,
                                                 nvml::Device* mig) {
    FAKE_ENTER("nvmlDeviceGetMigDeviceHandleByIndex", device);
    if (index >= gpu->instances.size()) return nvml::kInvalidArgument;
    if (!gpu->instances[index]) return nvml::kNotFound;
    *mig = HandleOf(gpu->instances[index].get());
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceIsMigDeviceHandle = [](nvml::Device device, unsigned* is_mig) {
    FAKE_ENTER("nvmlDeviceIsMigDeviceHandle", device);
    *is_mig = gpu == nullptr ? 1 : 0;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetDeviceHandleFromMigDeviceHandle = [](nvml::Device mig, nvml::Device* parent) {
    FAKE_ENTER("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", mig);
    for (const auto& one : fake.gpus) {
      for (const auto& instance : one->instances) {
        if (HandleOf(instance.get()) == mig) *parent = HandleOf(one.get());
      }
    }
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetGpuInstanceId = [](nvml::Device mig, unsigned* id) {
    FAKE_ENTER("nvmlDeviceGetGpuInstanceId", mig);
    *id = fake.MigOf(mig)->gpu_instance;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetComputeInstanceId = [](nvml::Device mig, unsigned* id) {
    FAKE_ENTER("nvmlDeviceGetComputeInstanceId", mig);
    *id = fake.MigOf(mig)->compute_instance;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetAttributes_v2 = [](nvml::Device mig, nvml::DeviceAttributes* attributes) {
    FAKE_ENTER("nvmlDeviceGetAttributes_v2", mig);
    const Mig& instance = *fake.MigOf(mig);
    *attributes = {};
    attributes->multiprocessor_count = 7;
    attributes->gpu_instance_slice_count = instance.slices;
    attributes->compute_instance_slice_count = instance.compute_slices;
    attributes->memory_size_mb = 5120;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetGpuInstanceProfileInfo = [](nvml::Device device, unsigned number,
                                                 nvml::GpuInstanceProfileInfo* info) {
    FAKE_ENTER("nvmlDeviceGetGpuInstanceProfileInfo", device);
    const Profile* const profile = fake.ProfileOf(number);
    if (profile == nullptr) return nvml::kNotSupported;
    *info = {};
    info->id = profile->id;
    info->slice_count = profile->slices;
    info->multiprocessor_count = profile->multiprocessors;
    info->copy_engine_count = profile->copy_engines;
    info->memory_size_mb = profile->mib;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetGpuInstanceProfileInfoV = [](nvml::Device device, unsigned number,
                                                  nvml::GpuInstanceProfileInfoV2* info) {
    FAKE_ENTER("nvmlDeviceGetGpuInstanceProfileInfoV", device);
    if (info->version != nvml::VersionOf<nvml::GpuInstanceProfileInfoV2>(2)) {
      return nvml::kArgumentVersionMismatch;
    }
    const Profile* const profile = fake.ProfileOf(number);
    if (profile == nullptr) return nvml::kInvalidArgument;
    info->id = profile->id;
    info->slice_count = profile->slices;
    info->multiprocessor_count = profile->multiprocessors;
    info->copy_engine_count = profile->copy_engines;
    info->memory_size_mb = profile->mib;
    return Copy(profile->name, info->name, sizeof(info->name));
  };
  nvml->nvmlDeviceGetGpuInstanceById = [](nvml::Device device, unsigned id,
                                          nvml::GpuInstance* instance) {
    FAKE_ENTER("nvmlDeviceGetGpuInstanceById", device);
    for (const auto& mig : gpu->instances) {
      if (!mig || mig->gpu_instance != id) continue;
      *instance = reinterpret_cast<nvml::GpuInstance>(mig.get());
      return nvml::kSuccess;
    }
    return nvml::kNotFound;
  };
  nvml->nvmlGpuInstanceGetInfo = [](nvml::GpuInstance instance, nvml::GpuInstanceInfo* info) {
    FAKE_ENTER("nvmlGpuInstanceGetInfo", nullptr);
    const Mig* const mig = reinterpret_cast<const Mig*>(instance);
    *info = {nullptr, mig->gpu_instance, mig->profile_id, {mig->start, mig->size}};
    return nvml::kSuccess;
  };
  nvml->nvmlEventSetCreate = [](nvml::EventSet* set) {
    FAKE_ENTER("nvmlEventSetCreate", nullptr);
    ++fake.open_sets;
    ++fake.sets_so_far;
    *set = reinterpret_cast<nvml::EventSet>(&fake);
    return nvml::kSuccess;
  };
  nvml->nvmlEventSetFree = [](nvml::EventSet) {
    FAKE_ENTER("nvmlEventSetFree", nullptr);
    --fake.open_sets;
    for (const auto& one : fake.gpus) one->registered = false;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetSupportedEventTypes = [](nvml::Device device, unsigned long long* types) {
    FAKE_ENTER("nvmlDeviceGetSupportedEventTypes", device);
    *types = gpu->supported_events;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceRegisterEvents = [](nvml::Device device, unsigned long long types,
                                      nvml::EventSet) {
    FAKE_ENTER("nvmlDeviceRegisterEvents", device);
    if ((types & ~gpu->supported_events) != 0 || (types & gpu->refused_events) != 0) {
      return nvml::kNotSupported;
    }
    gpu->registered = true;
    gpu->registered_events = types;
    fake.changed.notify_all();
    return nvml::kSuccess;
  };
  nvml->nvmlEventSetWait_v2 = [](nvml::EventSet, nvml::EventData* data, unsigned) {
    nvml::Return result = nvml::kSuccess;
    auto lock = Enter("nvmlEventSetWait_v2", nullptr, &result);
    if (result != nvml::kSuccess) return result;
    FakeNvml& fake = Get();
    // One that is lost keeps the whole set from being waited for.
    for (const auto& gpu : fake.gpus) {
      if (gpu->registered && gpu->fails.contains("*")) return gpu->fails["*"];
    }
    // Short, so that a test does not wait for a second when it ends.
    if (!fake.changed.wait_for(lock, std::chrono::milliseconds(5),
                               [&] { return !fake.events.empty(); })) {
      return nvml::kTimeout;
    }
    *data = fake.events.front();
    fake.events.pop_front();
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetGpuFabricInfoV = [](nvml::Device device, nvml::FabricInfoV2* info) {
    FAKE_ENTER("nvmlDeviceGetGpuFabricInfoV", device);
    if (info->version != nvml::kFabricInfoV2Version) return nvml::kArgumentVersionMismatch;
    info->state = gpu->fabric_state;
    info->status = gpu->fabric_status;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetRemappedRows = [](nvml::Device device, unsigned* corrected,
                                       unsigned* uncorrected, unsigned* pending, unsigned* failed) {
    FAKE_ENTER("nvmlDeviceGetRemappedRows", device);
    *corrected = *uncorrected = 0;
    *pending = gpu->rows_pending;
    *failed = gpu->rows_failed;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetFieldValues = [](nvml::Device device, int count, nvml::FieldValue* values) {
    FAKE_ENTER("nvmlDeviceGetFieldValues", device);
    if (count != 1 || values->field_id != nvml::kFieldGpuRecoveryAction) {
      return nvml::kInvalidArgument;
    }
    values->nvml_return = gpu->recovery_return;
    values->value_type = nvml::kValueUnsignedInt;
    values->value = 0xAAAAAAAA00000000u + gpu->recovery_action;  // of a union: the rest is garbage
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetRetiredPagesPendingStatus = [](nvml::Device device, unsigned* pending) {
    FAKE_ENTER("nvmlDeviceGetRetiredPagesPendingStatus", device);
    *pending = gpu->pages_pending;
    return nvml::kSuccess;
  };
  nvml->nvmlDeviceGetTotalEccErrors = [](nvml::Device device, unsigned type, unsigned counter,
                                         unsigned long long* count) {
    FAKE_ENTER("nvmlDeviceGetTotalEccErrors", device);
    if (type != nvml::kEccUncorrected || counter != nvml::kEccVolatile) {
      return nvml::kInvalidArgument;
    }
    *count = gpu->uncorrected;
    return nvml::kSuccess;
  };
  return nvml;
}
#undef FAKE_ENTER

}  // namespace nvidia
