#include <cstdio>
#include <cstring>
#include <string>

#include "exports.h"
#include "library.h"

// Which GPUs there are, and what each is.
using nvidia_simulator::Call;
using nvidia_simulator::CopyText;
using nvidia_simulator::Gpu;
using nvidia_simulator::Library;
using nvidia_simulator::MigProfile;
using nvidia_simulator::OnDevice;
using nvidia_simulator::OnGpu;
using nvidia_simulator::OnNode;

namespace {

struct PciAddress {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  bool operator==(const PciAddress&) const = default;
};

// domain:bus:device.function, domain:bus:device or bus:device.function, all hexadecimal. False for anything else.
bool ReadPciAddress(const char* text, PciAddress& address) {
  const auto whole = [&](int used) { return used > 0 && text[used] == '\0'; };
  int short_form = 0, without = 0, with = 0;
  std::sscanf(text, "%x:%x.%x%n", &address.bus, &address.device, &address.function, &short_form);
  if (whole(short_form)) return true;
  address = {};
  std::sscanf(text, "%x:%x:%x%n.%x%n", &address.domain, &address.bus, &address.device, &without,
              &address.function, &with);
  return whole(with) || whole(without);
}

// What a handle is given for: the GPU answers, or has a fault or is lost.
nvml::Return Give(const char* function, const Gpu& gpu, nvml::Device* device) {
  const nvml::Return reached = Library::Get().Reach(function, gpu);
  if (reached == nvml::kSuccess) *device = Library::Get().DeviceHandle(gpu.uuid);
  return reached;
}

void FillLegacyPci(const Gpu& gpu, nvml::PciInfo& pci) {
  PciAddress address;
  ReadPciAddress(gpu.pci.bus_id.c_str(), address);
  // Four digits of the domain: what is above them is lost here, and only here.
  std::snprintf(pci.bus_id_legacy, sizeof pci.bus_id_legacy, "%04X:%02X:%02X.0",
                address.domain & 0xffff, address.bus & 0xff, address.device & 0xff);
  pci.domain = address.domain;
  pci.bus = address.bus;
  pci.device = address.device;
  pci.pci_device_id = gpu.pci.device_id;
  pci.pci_subsystem_id = gpu.pci.subsystem_id;
}

// "1g.10gb", or "1c.2g.20gb" where the GPU instance is split.
std::string MigName(const Call& call) {
  const MigProfile* profile = call.gpu->ProfileNamed(call.instance->profile);
  const bool split = profile != nullptr && call.compute->slices != profile->slices;
  return (split ? std::to_string(call.compute->slices) + "c." : "") + call.instance->profile;
}

}  // namespace

nvml::Return nvmlDeviceGetCount_v2(unsigned* count) {
  return OnNode("nvmlDeviceGetCount_v2", [&](const Call& call) {
    if (count == nullptr) return nvml::kInvalidArgument;
    *count = static_cast<unsigned>(call.state->gpus.size());
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

nvml::Return nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml::Device* device) {
  return OnNode("nvmlDeviceGetHandleByIndex_v2", [&](const Call& call) {
    if (device == nullptr || index >= call.state->gpus.size()) return nvml::kInvalidArgument;
    return Give("nvmlDeviceGetHandleByIndex_v2", call.state->gpus[index], device);
  });
}

nvml::Return nvmlDeviceGetHandleByIndex(unsigned index, nvml::Device* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

nvml::Return nvmlDeviceGetHandleByUUID(const char* uuid, nvml::Device* device) {
  return OnNode("nvmlDeviceGetHandleByUUID", [&](const Call& call) {
    if (uuid == nullptr || device == nullptr) return nvml::kInvalidArgument;
    if (std::strncmp(uuid, "GPU-", 4) != 0 && std::strncmp(uuid, "MIG-", 4) != 0)
      return nvml::kInvalidArgument;
    for (const Gpu& gpu : call.state->gpus) {
      if (gpu.uuid == uuid) return Give("nvmlDeviceGetHandleByUUID", gpu, device);
      for (const auto& instance : gpu.mig) {
        for (const auto& compute : instance.compute) {
          if (compute.uuid != uuid) continue;
          const nvml::Return reached = Library::Get().Reach("nvmlDeviceGetHandleByUUID", gpu);
          if (reached == nvml::kSuccess)
            *device = Library::Get().MigHandle(gpu, instance.gi, compute.ci);
          return reached;
        }
      }
    }
    return nvml::kNotFound;
  });
}

nvml::Return nvmlDeviceGetHandleBySerial(const char* serial, nvml::Device* device) {
  return OnNode("nvmlDeviceGetHandleBySerial", [&](const Call& call) {
    if (serial == nullptr || *serial == '\0' || device == nullptr) return nvml::kInvalidArgument;
    for (const Gpu& gpu : call.state->gpus) {
      if (gpu.serial == serial) return Give("nvmlDeviceGetHandleBySerial", gpu, device);
    }
    return nvml::kNotFound;
  });
}

nvml::Return nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, nvml::Device* device) {
  return OnNode("nvmlDeviceGetHandleByPciBusId_v2", [&](const Call& call) {
    PciAddress wanted;
    if (bus_id == nullptr || device == nullptr || !ReadPciAddress(bus_id, wanted))
      return nvml::kInvalidArgument;
    for (const Gpu& gpu : call.state->gpus) {
      PciAddress address;
      if (ReadPciAddress(gpu.pci.bus_id.c_str(), address) && address == wanted) {
        return Give("nvmlDeviceGetHandleByPciBusId_v2", gpu, device);
      }
    }
    return nvml::kNotFound;
  });
}

nvml::Return nvmlDeviceGetHandleByPciBusId(const char* bus_id, nvml::Device* device) {
  return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

nvml::Return nvmlDeviceGetIndex(nvml::Device device, unsigned* index) {
  return OnDevice("nvmlDeviceGetIndex", device, [&](const Call& call) {
    if (index == nullptr) return nvml::kInvalidArgument;
    if (!call.is_mig()) {
      *index = static_cast<unsigned>(call.gpu - call.state->gpus.data());
      return nvml::kSuccess;
    }
    *index = 0;
    for (const auto& instance : call.gpu->mig) {
      for (const auto& compute : instance.compute) {
        if (&compute == call.compute) return nvml::kSuccess;
        ++*index;
      }
    }
    return nvml::kUnknown;
  });
}

nvml::Return nvmlDeviceGetMinorNumber(nvml::Device device, unsigned* minor) {
  return OnGpu("nvmlDeviceGetMinorNumber", device, [&](const Call& call) {
    if (minor == nullptr) return nvml::kInvalidArgument;
    *minor = call.gpu->minor;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetModuleId(nvml::Device device, unsigned* id) {
  return OnGpu("nvmlDeviceGetModuleId", device, [&](const Call& call) {
    if (id == nullptr) return nvml::kInvalidArgument;
    *id = call.gpu->module_id;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetNumaNodeId(nvml::Device device, unsigned* node) {
  return OnGpu("nvmlDeviceGetNumaNodeId", device, [&](const Call& call) {
    if (node == nullptr) return nvml::kInvalidArgument;
    if (!call.gpu->memory_numa_node.has_value()) return nvml::kNotSupported;
    *node = *call.gpu->memory_numa_node;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetUUID(nvml::Device device, char* uuid, unsigned length) {
  return OnDevice("nvmlDeviceGetUUID", device, [&](const Call& call) {
    return CopyText(call.is_mig() ? call.compute->uuid : call.gpu->uuid, uuid, length);
  });
}

nvml::Return nvmlDeviceGetName(nvml::Device device, char* name, unsigned length) {
  return OnDevice("nvmlDeviceGetName", device, [&](const Call& call) {
    return CopyText(call.gpu->name + (call.is_mig() ? " MIG " + MigName(call) : ""), name, length);
  });
}

nvml::Return nvmlDeviceGetSerial(nvml::Device device, char* serial, unsigned length) {
  return OnDevice("nvmlDeviceGetSerial", device, [&](const Call& call) {
    if (call.gpu->serial.empty()) return nvml::kNotSupported;
    return CopyText(call.gpu->serial, serial, length);
  });
}

nvml::Return nvmlDeviceGetPciInfo_v3(nvml::Device device, nvml::PciInfo* pci) {
  return OnGpu("nvmlDeviceGetPciInfo_v3", device, [&](const Call& call) {
    if (pci == nullptr) return nvml::kInvalidArgument;
    *pci = {};
    FillLegacyPci(*call.gpu, *pci);
    std::snprintf(pci->bus_id, sizeof pci->bus_id, "%s", call.gpu->pci.bus_id.c_str());
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetCudaComputeCapability(nvml::Device device, int* major, int* minor) {
  return OnDevice("nvmlDeviceGetCudaComputeCapability", device, [&](const Call& call) {
    if (major == nullptr || minor == nullptr) return nvml::kInvalidArgument;
    return std::sscanf(call.gpu->compute_capability.c_str(), "%d.%d", major, minor) == 2
               ? nvml::kSuccess
               : nvml::kNotSupported;
  });
}

nvml::Return nvmlDeviceGetArchitecture(nvml::Device device, unsigned* architecture) {
  return OnDevice("nvmlDeviceGetArchitecture", device, [&](const Call& call) {
    if (architecture == nullptr) return nvml::kInvalidArgument;
    *architecture = call.gpu->architecture;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetBrand(nvml::Device device, unsigned* brand) {
  return OnDevice("nvmlDeviceGetBrand", device, [&](const Call& call) {
    if (brand == nullptr) return nvml::kInvalidArgument;
    *brand = call.gpu->brand;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetAddressingMode(nvml::Device device, nvml::AddressingMode* mode) {
  return OnDevice("nvmlDeviceGetAddressingMode", device, [&](const Call& call) {
    if (mode == nullptr) return nvml::kInvalidArgument;
    if (mode->version != nvml::kAddressingModeVersion) return nvml::kArgumentVersionMismatch;
    mode->value = call.gpu->addressing_mode;
    return nvml::kSuccess;
  });
}

nvml::Return nvmlDeviceGetVirtualizationMode(nvml::Device device, unsigned* mode) {
  return OnGpu("nvmlDeviceGetVirtualizationMode", device, [&](const Call& call) {
    if (mode == nullptr) return nvml::kInvalidArgument;
    *mode = call.gpu->virtualization_mode;
    return nvml::kSuccess;
  });
}
