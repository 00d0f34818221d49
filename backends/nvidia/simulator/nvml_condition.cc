#include <algorithm>
#include <chrono>
#include <cstring>

#include "exports.h"
#include "library.h"

// What state a GPU is in: memory, errors, fabric, modes, who uses it.
using nvidia_simulator::Call;
using nvidia_simulator::Fabric;
using nvidia_simulator::Gpu;
using nvidia_simulator::Library;
using nvidia_simulator::OnDevice;
using nvidia_simulator::OnGpu;
using nvidia_simulator::Process;

namespace {

constexpr unsigned kExclusiveThread = 1, kComputeModes = 4;  // the first is no longer supported
constexpr uint64_t kMiB = uint64_t{1} << 20;

struct MemoryNumbers {
  uint64_t total = 0, reserved = 0, used = 0;
};

// False: this part has no memory of its own.
bool ReadMemory(const Call& call, MemoryNumbers& memory) {
  if (call.is_mig()) {
    const auto* profile = call.gpu->ProfileNamed(call.instance->profile);
    if (profile == nullptr) return false;
    memory.total = profile->memory_mib * kMiB;
    for (const Process& process : call.gpu->processes) {
      if (process.gi == call.instance->gi) memory.used += process.used_bytes;
    }
    return true;
  }
  if (!call.gpu->memory_bytes.has_value()) return false;
  memory = {*call.gpu->memory_bytes, call.gpu->memory_reserved_bytes, call.gpu->memory_used_bytes};
  return true;
}

// 16 bytes of a UUID's text; zeros for none.
void FillUuid(const std::string& text, unsigned char (&bytes)[16]) {
  std::memset(bytes, 0, sizeof bytes);
  size_t digit = 0;
  for (const char c : text) {
    const char* digits = "0123456789abcdef";
    const char* at = std::strchr(digits, c | 0x20);
    if (c == '-' || at == nullptr || digit >= 32) continue;
    const unsigned value = static_cast<unsigned>(at - digits);
    bytes[digit / 2] =
        static_cast<unsigned char>(digit % 2 == 0 ? value << 4 : bytes[digit / 2] | value);
    ++digit;
  }
}

template <typename Info>
void FillFabric(const Fabric& fabric, Info& info) {
  FillUuid(fabric.cluster_uuid, info.cluster_uuid);
  info.status = static_cast<nvml::Return>(fabric.status);
  info.clique_id = fabric.clique_id;
  info.state = static_cast<unsigned char>(fabric.state);
}

// Those with a pid; of the MIG instance, where the handle is of one.
template <typename Info>
nvml::Return ListProcesses(const char* function, nvml::Device device, unsigned* count,
                           Info* processes) {
  return OnDevice(function, device, [&](const Call& call) {
    if (count == nullptr) return nvml::kInvalidArgument;
    std::vector<const Process*> listed;
    for (const Process& process : call.gpu->processes) {
      if (process.pid == 0) continue;
      if (call.is_mig() && (process.gi != call.instance->gi || process.ci != call.compute->ci))
        continue;
      listed.push_back(&process);
    }
    const unsigned room = *count;
    *count = static_cast<unsigned>(listed.size());
    if (room < listed.size()) return nvml::kInsufficientSize;
    if (processes == nullptr && !listed.empty()) return nvml::kInvalidArgument;
    for (size_t i = 0; i < listed.size(); ++i) {
      processes[i].pid = listed[i]->pid;
      processes[i].used_gpu_memory = listed[i]->used_bytes;
      if constexpr (std::is_same_v<Info, nvml::ProcessInfo>) {
        processes[i].gpu_instance_id = listed[i]->gi.value_or(nvml::kNoInstance);
        processes[i].compute_instance_id = listed[i]->ci.value_or(nvml::kNoInstance);
      }
    }
    return nvml::kSuccess;
  });
}

}  // namespace

nvml::Return nvmlDeviceGetMemoryInfo(nvml::Device device, nvml::Memory* memory) {
  return OnDevice("nvmlDeviceGetMemoryInfo", device, [&](const Call& call) {
    MemoryNumbers numbers;
    if (memory == nullptr) return nvml::kInvalidArgument;
    if (!ReadMemory(call, numbers)) return nvml::kNotSupported;
    const uint64_t used = numbers.reserved + numbers.used;  // this version does not tell them apart
    *memory = {numbers.total, numbers.total - std::min(numbers.total, used), used};
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetMemoryInfo_v2(nvml::Device device, nvml::MemoryV2* memory) {
  return OnDevice("nvmlDeviceGetMemoryInfo_v2", device, [&](const Call& call) {
    MemoryNumbers numbers;
    if (memory == nullptr) return nvml::kInvalidArgument;
    if (memory->version != nvml::kMemoryV2Version) return nvml::kArgumentVersionMismatch;
    if (!ReadMemory(call, numbers)) return nvml::kNotSupported;
    const uint64_t taken = std::min(numbers.total, numbers.reserved + numbers.used);
    *memory = {memory->version, numbers.total, numbers.reserved, numbers.total - taken,
               numbers.used};
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetComputeRunningProcesses(nvml::Device device, unsigned* count,
                                                  nvml::ProcessInfoV1* processes) {
  return ListProcesses("nvmlDeviceGetComputeRunningProcesses", device, count, processes);
}

nvml::Return nvmlDeviceGetComputeRunningProcesses_v2(nvml::Device device, unsigned* count,
                                                     nvml::ProcessInfo* processes) {
  return ListProcesses("nvmlDeviceGetComputeRunningProcesses_v2", device, count, processes);
}

nvml::Return nvmlDeviceGetComputeRunningProcesses_v3(nvml::Device device, unsigned* count,
                                                     nvml::ProcessInfo* processes) {
  return ListProcesses("nvmlDeviceGetComputeRunningProcesses_v3", device, count, processes);
}

nvml::Return nvmlDeviceGetGpuFabricInfo(nvml::Device device, nvml::FabricInfo* info) {
  return OnGpu("nvmlDeviceGetGpuFabricInfo", device, [&](const Call& call) {
    if (info == nullptr) return nvml::kInvalidArgument;
    if (call.gpu->architecture < nvidia_simulator::kHopper) return nvml::kNotSupported;
    FillFabric(call.gpu->fabric, *info);
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetGpuFabricInfoV(nvml::Device device, nvml::FabricInfoV2* info) {
  return OnGpu("nvmlDeviceGetGpuFabricInfoV", device, [&](const Call& call) {
    if (info == nullptr) return nvml::kInvalidArgument;
    const Fabric& fabric = call.gpu->fabric;
    if (info->version != nvml::kFabricInfoV2Version &&
        info->version != nvml::kFabricInfoV3Version) {
      return nvml::kArgumentVersionMismatch;
    }
    if (call.gpu->architecture < nvidia_simulator::kHopper) return nvml::kNotSupported;
    FillFabric(fabric, *info);
    info->health_mask = fabric.health_mask;
    if (info->version == nvml::kFabricInfoV3Version) {
      // The third version begins as the second does, and the caller's is long enough.
      reinterpret_cast<unsigned char*>(info)[offsetof(nvml::FabricInfoV3, health_summary)] =
          static_cast<unsigned char>(fabric.health_summary);
    }
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetRemappedRows(nvml::Device device, unsigned* corrected,
                                       unsigned* uncorrected, unsigned* pending, unsigned* failed) {
  return OnGpu("nvmlDeviceGetRemappedRows", device, [&](const Call& call) {
    if (corrected == nullptr || uncorrected == nullptr || pending == nullptr || failed == nullptr) {
      return nvml::kInvalidArgument;
    }
    const auto& rows = call.gpu->remapped_rows;
    if (!rows.supported || !call.gpu->mig.empty())
      return nvml::kNotSupported;  // nvml.h: not with instances
    *corrected = rows.corrected;
    *uncorrected = rows.uncorrected;
    *pending = rows.pending ? 1 : 0;
    *failed = rows.failed ? 1 : 0;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetRetiredPagesPendingStatus(nvml::Device device, unsigned* pending) {
  return OnGpu("nvmlDeviceGetRetiredPagesPendingStatus", device, [&](const Call& call) {
    if (pending == nullptr) return nvml::kInvalidArgument;
    if (!call.gpu->retired_pages_supported) return nvml::kNotSupported;
    *pending = call.gpu->retired_pages_pending ? 1 : 0;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetTotalEccErrors(nvml::Device device, unsigned type, unsigned counter,
                                         unsigned long long* count) {
  return OnGpu("nvmlDeviceGetTotalEccErrors", device, [&](const Call& call) {
    if (count == nullptr || type > nvml::kEccUncorrected || counter > nvml::kEccAggregate) {
      return nvml::kInvalidArgument;
    }
    const auto& ecc = call.gpu->ecc;
    if (!ecc.supported || !ecc.enabled) return nvml::kNotSupported;
    if (counter == nvml::kEccVolatile) {
      *count = type == nvml::kEccUncorrected ? ecc.volatile_uncorrected : ecc.volatile_corrected;
    } else {
      *count = type == nvml::kEccUncorrected ? ecc.aggregate_uncorrected : ecc.aggregate_corrected;
    }
    return nvml::kSuccess;
  });
}

// The one field that is simulated; each field has a return of its own.
nvml::Return nvmlDeviceGetFieldValues(nvml::Device device, int count, nvml::FieldValue* values) {
  return OnDevice("nvmlDeviceGetFieldValues", device, [&](const Call& call) {
    if (count < 0 || values == nullptr) return nvml::kInvalidArgument;
    for (int i = 0; i < count; ++i) {
      nvml::FieldValue& field = values[i];
      const bool known = field.field_id == nvml::kFieldGpuRecoveryAction && !call.is_mig() &&
                         call.gpu->recovery_action.has_value();
      field.nvml_return = known ? nvml::kSuccess : nvml::kNotSupported;
      if (!known) continue;
      field.timestamp = std::chrono::duration_cast<std::chrono::microseconds>(
                            std::chrono::system_clock::now().time_since_epoch())
                            .count();
      field.latency_usec = 0;
      field.value_type = nvml::kValueUnsignedInt;
      std::memcpy(&field.value, &*call.gpu->recovery_action, sizeof(unsigned));
    }
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetEccMode(nvml::Device device, unsigned* current, unsigned* pending) {
  return OnGpu("nvmlDeviceGetEccMode", device, [&](const Call& call) {
    if (current == nullptr || pending == nullptr) return nvml::kInvalidArgument;
    if (!call.gpu->ecc.supported) return nvml::kNotSupported;
    *current = *pending = call.gpu->ecc.enabled ? 1 : 0;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetPersistenceMode(nvml::Device device, unsigned* mode) {
  return OnGpu("nvmlDeviceGetPersistenceMode", device, [&](const Call& call) {
    if (mode == nullptr) return nvml::kInvalidArgument;
    *mode = call.gpu->persistence_mode ? 1 : 0;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceSetPersistenceMode(nvml::Device device, unsigned mode) {
  return OnGpu("nvmlDeviceSetPersistenceMode", device, [&](const Call& call) {
    if (mode > 1) return nvml::kInvalidArgument;
    return Library::Get().Change(call.gpu->uuid, [&](Gpu& gpu) {
      gpu.persistence_mode = mode == 1;
      return nvml::kSuccess;
    });
  });
}

nvml::Return nvmlDeviceGetComputeMode(nvml::Device device, unsigned* mode) {
  return OnGpu("nvmlDeviceGetComputeMode", device, [&](const Call& call) {
    if (mode == nullptr) return nvml::kInvalidArgument;
    *mode = call.gpu->compute_mode;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceSetComputeMode(nvml::Device device, unsigned mode) {
  return OnGpu("nvmlDeviceSetComputeMode", device, [&](const Call& call) {
    if (mode >= kComputeModes) return nvml::kInvalidArgument;
    if (mode == kExclusiveThread) return nvml::kNotSupported;
    return Library::Get().Change(call.gpu->uuid, [&](Gpu& gpu) {
      gpu.compute_mode = mode;
      return nvml::kSuccess;
    });
  });
}
