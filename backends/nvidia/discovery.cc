#include "discovery.h"

#include <cstring>
#include <map>
#include <utility>

#include "dra/backend/pci.h"
#include "mig_instances.h"

namespace nvidia {
namespace {

constexpr char kMigMark[] = "/mig/";
constexpr unsigned kVirtualizationVgpu =
    2;  // NVML_GPU_VIRTUALIZATION_MODE_VGPU: a guest's share of a GPU

// NVML's texts are ASCII; whatever else comes must not cost the device.
std::string Text(const char* bytes, size_t size) {
  std::string text(bytes, strnlen(bytes, size));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return text;
}

std::string ArchitectureName(unsigned architecture) {
  static const std::map<unsigned, const char*> kNames = {
      {2, "Kepler"}, {3, "Maxwell"},      {4, "Pascal"}, {5, "Volta"},      {6, "Turing"},
      {7, "Ampere"}, {8, "Ada Lovelace"}, {9, "Hopper"}, {10, "Blackwell"}, {13, "Rubin"}};
  const auto found = kNames.find(architecture);
  return found == kNames.end() ? "Unknown" : found->second;
}

std::string BrandName(unsigned brand) {
  static const char* const kNames[] = {
      "Unknown",   "Quadro",      "Tesla",     "NVS",        "Grid",      "GeForce",
      "Titan",     "NvidiaVApps", "NvidiaVPC", "NvidiaVCS",  "NvidiaVWS", "NvidiaCloudGaming",
      "QuadroRTX", "NvidiaRTX",   "Nvidia",    "GeForceRTX", "TitanRTX"};
  return brand < std::size(kNames) ? kNames[brand] : "Unknown";
}

std::optional<std::string> AddressingModeName(unsigned mode) {
  static const char* const kNames[] = {"None", "HMM", "ATS"};
  if (mode >= std::size(kNames)) return std::nullopt;
  return kNames[mode];
}

// Becomes part of a device name, so it must be one that fits.
bool IsUsableUuid(const std::string& uuid) {
  constexpr size_t kMax = 44;  // "GPU-" and 36 characters, with a little room
  if (uuid.rfind("GPU-", 0) != 0 || uuid.size() < 5 || uuid.size() > kMax) return false;
  for (const char c : uuid) {
    const bool allowed =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
    if (!allowed) return false;
  }
  return uuid.back() != '-';
}

// Asks one GPU. Texts name it by UUID once that is known.
class GpuReader {
 public:
  GpuReader(const NvmlLibrary& nvml, nvml::Device device, std::string subject)
      : nvml_(nvml), device_(device), subject_(std::move(subject)) {}

  const std::string& subject() const { return subject_; }

  std::string Uuid() {
    char text[nvml::kUuidBytes] = {};
    Check(nvml_.nvmlDeviceGetUUID(device_, text, sizeof(text)), "nvmlDeviceGetUUID");
    const std::string uuid = Text(text, sizeof(text));
    if (!IsUsableUuid(uuid)) {
      throw NvmlError(nvml::kUnknown, "nvmlDeviceGetUUID of " + subject_ + ": \"" + uuid +
                                          "\" is not a GPU's UUID; without one there is no stable "
                                          "name for it");
    }
    subject_ = uuid;
    return uuid;
  }
  unsigned Minor() const {
    unsigned minor = 0;
    Check(nvml_.nvmlDeviceGetMinorNumber(device_, &minor), "nvmlDeviceGetMinorNumber");
    return minor;
  }
  // "0000:65:00.0"; nullopt where NVML gives none, or one that no PCI address has.
  std::optional<std::string> PciBusId() const {
    nvml::PciInfo pci = {};
    if (!Has(nvml_.nvmlDeviceGetPciInfo_v3(device_, &pci), "nvmlDeviceGetPciInfo_v3")) {
      return std::nullopt;
    }
    const auto address = dra::ParsePciAddress(Text(pci.bus_id, sizeof(pci.bus_id)));
    return address ? std::optional<std::string>(address->ToString()) : std::nullopt;
  }
  // nullopt: the GPU knows no MIG.
  std::optional<bool> MigEnabled() const {
    unsigned current = 0, pending = 0;
    if (!Has(nvml_.nvmlDeviceGetMigMode(device_, &current, &pending), "nvmlDeviceGetMigMode")) {
      return std::nullopt;
    }
    return current == 1;
  }
  std::optional<uint64_t> MemoryBytes() const {
    nvml::Memory memory = {};
    if (!Has(nvml_.nvmlDeviceGetMemoryInfo(device_, &memory), "nvmlDeviceGetMemoryInfo")) {
      return std::nullopt;
    }
    return memory.total;
  }
  std::vector<MigInstance> MigInstances(std::optional<uint64_t> memory_bytes) const {
    return MigInstancesOf(nvml_, device_, subject_, memory_bytes);
  }

  void ReadRest(Gpu& gpu) const {
    RefuseVgpuGuest();
    char name[nvml::kNameBytes] = {};
    if (Has(nvml_.nvmlDeviceGetName(device_, name, sizeof(name)), "nvmlDeviceGetName")) {
      gpu.product_name = Text(name, sizeof(name));
    }
    char serial[nvml::kSerialBytes] = {};
    if (Has(nvml_.nvmlDeviceGetSerial(device_, serial, sizeof(serial)), "nvmlDeviceGetSerial")) {
      gpu.serial = Text(serial, sizeof(serial));
    }
    unsigned number = 0;
    if (Has(nvml_.nvmlDeviceGetArchitecture(device_, &number), "nvmlDeviceGetArchitecture")) {
      gpu.architecture = ArchitectureName(number);
    }
    if (Has(nvml_.nvmlDeviceGetBrand(device_, &number), "nvmlDeviceGetBrand")) {
      gpu.brand = BrandName(number);
    }
    int major = 0, minor = 0;
    if (Has(nvml_.nvmlDeviceGetCudaComputeCapability(device_, &major, &minor),
            "nvmlDeviceGetCudaComputeCapability")) {
      gpu.cuda_compute_capability = std::to_string(major) + "." + std::to_string(minor);
    }
    nvml::AddressingMode mode = {.version = nvml::kAddressingModeVersion, .value = 0};
    if (Has(nvml_.nvmlDeviceGetAddressingMode(device_, &mode), "nvmlDeviceGetAddressingMode")) {
      gpu.addressing_mode = AddressingModeName(mode.value);
    }
  }

 private:
  void RefuseVgpuGuest() const {
    unsigned mode = 0;
    if (Has(nvml_.nvmlDeviceGetVirtualizationMode(device_, &mode),
            "nvmlDeviceGetVirtualizationMode") &&
        mode == kVirtualizationVgpu) {
      throw NvmlError(nvml::kNotSupported, subject_ +
                                               " is a vGPU guest's share of a GPU, which this "
                                               "driver does not serve; pass the whole GPU through");
    }
  }
  void Check(nvml::Return result, const char* function) const {
    nvml_.Check(result, function, subject_);
  }
  bool Has(nvml::Return result, const char* function) const {
    if (IsAbsent(result)) return false;
    Check(result, function);
    return true;
  }

  const NvmlLibrary& nvml_;
  const nvml::Device device_;
  std::string subject_;
};

Gpu LookAtGpu(GpuReader& reader, unsigned index) {
  Gpu gpu;
  gpu.index = index;
  gpu.uuid = reader.Uuid();
  gpu.minor = reader.Minor();
  gpu.pci_bus_id = reader.PciBusId();
  gpu.memory_bytes = reader.MemoryBytes();
  reader.ReadRest(gpu);
  const std::optional<bool> mig = reader.MigEnabled();
  gpu.mig_capable = mig.has_value();
  gpu.mig_enabled = mig.value_or(false);
  if (gpu.mig_enabled) gpu.mig_instances = reader.MigInstances(gpu.memory_bytes);
  return gpu;
}

// Two GPUs with one UUID cannot be told apart: neither is served.
void TakeDuplicatesAway(NodeHardware& node) {
  std::map<std::string, int> times;
  for (const Gpu& gpu : node.gpus) ++times[gpu.uuid];
  std::vector<Gpu> unique;
  for (Gpu& gpu : node.gpus) {
    if (times[gpu.uuid] == 1) {
      unique.push_back(std::move(gpu));
      continue;
    }
    node.problems.push_back(
        {"GPU index " + std::to_string(gpu.index), gpu.uuid, nvml::kUnknown,
         std::to_string(times[gpu.uuid]) + " GPUs of this node have the UUID " + gpu.uuid +
             ": none of them can be told apart; report it to the card's vendor"});
  }
  node.gpus = std::move(unique);
}

std::string VersionText(const NvmlLibrary& nvml, nvml::Return (*ask)(char*, unsigned),
                        const char* function) {
  char text[nvml::kVersionBytes] = {};
  nvml.Check(ask(text, sizeof(text)), function, "");
  return Text(text, sizeof(text));
}

}  // namespace

NodeHardware LookAtNode(const NvmlLibrary& nvml, const std::function<void()>& check) {
  NodeHardware node;
  node.driver_version =
      VersionText(nvml, nvml.nvmlSystemGetDriverVersion, "nvmlSystemGetDriverVersion");
  node.nvml_version = VersionText(nvml, nvml.nvmlSystemGetNVMLVersion, "nvmlSystemGetNVMLVersion");
  int cuda = 0;
  nvml.Check(nvml.nvmlSystemGetCudaDriverVersion_v2(&cuda), "nvmlSystemGetCudaDriverVersion_v2",
             "");
  node.cuda_driver_version = std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
  unsigned count = 0;
  nvml.Check(nvml.nvmlDeviceGetCount_v2(&count), "nvmlDeviceGetCount_v2", "");
  for (unsigned index = 0; index < count; ++index) {
    check();
    const std::string subject = "GPU index " + std::to_string(index);
    std::optional<std::string> uuid;
    try {
      nvml::Device device = nullptr;
      nvml.Check(nvml.nvmlDeviceGetHandleByIndex_v2(index, &device),
                 "nvmlDeviceGetHandleByIndex_v2", subject);
      GpuReader reader(nvml, device, subject);
      try {
        node.gpus.push_back(LookAtGpu(reader, index));
      } catch (const NvmlError&) {
        if (reader.subject() != subject) uuid = reader.subject();
        throw;
      }
    } catch (const NvmlError& error) {
      if (IsLibraryLost(error.result())) throw;
      node.problems.push_back({uuid.value_or(subject), uuid, error.result(), error.what()});
    }
  }
  TakeDuplicatesAway(node);
  return node;
}

namespace {

// NVML answers for a device that is not there; InvalidArgument: for an identity it can make nothing of.
bool IsNowhere(nvml::Return result) {
  return result == nvml::kNotFound || result == nvml::kGpuNotFound ||
         result == nvml::kInvalidArgument;
}

struct Search {
  std::optional<PresentDevice> found;
  dra_code code = DRA_OK;  // if not: why
  std::string why;
};

Search SearchDevice(const NvmlLibrary& nvml, const std::string& identity) {
  const size_t mark = identity.find(kMigMark);
  const bool wants_mig = mark != std::string::npos;
  PresentDevice device;
  device.uuid = identity.substr(0, mark);
  nvml::Device handle = nullptr;
  const nvml::Return result = nvml.nvmlDeviceGetHandleByUUID(device.uuid.c_str(), &handle);
  if (IsNowhere(result)) {
    return {{},
            DRA_UNAVAILABLE,
            device.uuid + " is not on this node now (nvmlDeviceGetHandleByUUID: " +
                nvml.Describe(result) + "); see nvidia-smi -L and the kernel's log"};
  }
  nvml.Check(result, "nvmlDeviceGetHandleByUUID", device.uuid);
  GpuReader reader(nvml, handle, device.uuid);
  if (const std::string uuid = reader.Uuid(); uuid != device.uuid) {
    return {{},
            DRA_UNAVAILABLE,
            "NVML gives " + uuid + " where " + device.uuid + " was asked for: not the claim's GPU"};
  }
  device.minor = reader.Minor();
  device.pci_bus_id = reader.PciBusId().value_or("");
  device.mig_enabled = reader.MigEnabled().value_or(false);
  if (device.mig_enabled != wants_mig) {
    return {{},
            DRA_FAILED_PRECONDITION,
            wants_mig ? "MIG mode of " + device.uuid +
                            " has been switched off since its instance was allocated; switch it on "
                            "and make the instance again, or delete the claim"
                      : "MIG mode of " + device.uuid +
                            " has been switched on since the whole GPU was allocated; switch it "
                            "off, or delete the claim"};
  }
  if (!wants_mig) return {std::move(device), DRA_OK, ""};
  for (MigInstance& instance : reader.MigInstances(reader.MemoryBytes())) {
    if (MigIdentity(device.uuid, instance) != identity) continue;
    device.mig = std::move(instance);
    return {std::move(device), DRA_OK, ""};
  }
  return {{},
          DRA_UNAVAILABLE,
          device.uuid + " has no MIG instance \"" + identity.substr(mark + std::strlen(kMigMark)) +
              "\" (profile id/first memory slice) now; make it again, or delete the claim"};
}

}  // namespace

PresentDevice FindDevice(const NvmlLibrary& nvml, const std::string& identity) {
  Search search = SearchDevice(nvml, identity);
  if (!search.found) throw dra::BackendError(search.code, search.why);
  return *std::move(search.found);
}

bool IsPresent(const NvmlLibrary& nvml, const std::string& identity) {
  return SearchDevice(nvml, identity).found.has_value();
}

}  // namespace nvidia
