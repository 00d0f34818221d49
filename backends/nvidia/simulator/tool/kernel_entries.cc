#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>
#include <string>

#include "entries.h"

// What the kernel and NVIDIA's module show below /proc and /sys. Formats: NVIDIA's driver README, "The /proc
// Interface", and MIG User Guide, "Device Nodes and Capabilities"; Linux, Documentation/ABI/testing/sysfs-bus-pci.
namespace nvidia_simulator {
namespace {

std::string Hex(uint32_t value, int digits) {
  char text[16];
  std::snprintf(text, sizeof(text), "0x%0*x", digits, value);
  return text;
}

Entry Attribute(const std::string& text) { return TextFile(text + "\n", 0444); }

Entry Capability(unsigned minor, unsigned mode) {
  return TextFile("DeviceFileMinor: " + std::to_string(minor) +
                      "\nDeviceFileMode: " + std::to_string(mode) + "\nDeviceFileModify: 1\n",
                  0444);
}

void AddProcDriver(const State& state, Entries& entries) {
  const std::string nvidia = "proc/driver/nvidia/";
  const std::string& version = state.driver.kernel_module;
  entries[nvidia + "version"] = TextFile(
      "NVRM version: NVIDIA UNIX x86_64 Kernel Module  " + version +
          "  Thu Jan  1 00:00:00 UTC 1970\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
      0444);
  entries[nvidia + "params"] = TextFile(
      "ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n", 0444);
  for (const Gpu& gpu : state.gpus) {
    entries[nvidia + "gpus/" + KernelBusId(gpu) + "/information"] = TextFile(
        "Model: \t\t " + gpu.name + "\nGPU UUID: \t " + gpu.uuid + "\nBus Type: \t PCIe\n" +
            "Bus Location: \t " + KernelBusId(gpu) + "\nDevice Minor: \t " +
            std::to_string(gpu.minor) + "\nGPU Firmware: \t " + version + "\nGPU Excluded:\t No\n",
        0444);
  }
  // 256 = 0400, 292 = 0444.
  entries[nvidia + "capabilities/mig/config"] = Capability(1, 256);
  entries[nvidia + "capabilities/mig/monitor"] = Capability(2, 292);
  for (const Gpu& gpu : state.gpus) {
    for (const MigInstance& instance : gpu.mig) {
      const std::string gi = nvidia + "capabilities/gpu" + std::to_string(gpu.minor) + "/mig/gi" +
                             std::to_string(instance.gi) + "/";
      entries[gi + "access"] =
          Capability(CapMinor(state, gpu.minor, instance.gi, std::nullopt), 292);
      for (const ComputeInstance& compute : instance.compute) {
        entries[gi + "ci" + std::to_string(compute.ci) + "/access"] =
            Capability(CapMinor(state, gpu.minor, instance.gi, compute.ci), 292);
      }
    }
  }
}

// The table of all minors that the driver can give out, whether there are instances or not.
std::string MigMinors(const State& state) {
  unsigned gpus = 0;
  for (const Gpu& gpu : state.gpus) gpus = std::max(gpus, gpu.minor + 1);
  std::string text = "config 1\nmonitor 2\n";
  for (unsigned gpu = 0; gpu < gpus; ++gpu) {
    for (unsigned gi = 0; gi < kGpuInstanceIds; ++gi) {
      const std::string prefix = "gpu" + std::to_string(gpu) + "/gi" + std::to_string(gi) + "/";
      text += prefix + "access " + std::to_string(CapMinor(state, gpu, gi, std::nullopt)) + "\n";
      for (unsigned ci = 0; ci < kComputeInstanceIds; ++ci) {
        text += prefix + "ci" + std::to_string(ci) + "/access " +
                std::to_string(CapMinor(state, gpu, gi, ci)) + "\n";
      }
    }
  }
  return text;
}

std::string CharacterDevices(const Layout& layout, bool loaded) {
  std::multimap<unsigned, std::string> majors = {
      {1, "mem"}, {5, "/dev/tty"}, {10, "misc"}, {kDrmMajor, "drm"}};
  if (loaded) {
    majors.insert({{kNvidiaMajor, "nvidia"}, {kNvidiaMajor, "nvidia-modeset"}});
    for (const auto& [name, number] : layout.majors) majors.emplace(number, name);
  }
  std::string text = "Character devices:\n";
  for (const auto& [number, name] : majors) {
    const std::string digits = std::to_string(number);
    text += std::string(3 - std::min<size_t>(3, digits.size()), ' ') + digits + " " + name + "\n";
  }
  return text + "\nBlock devices:\n  7 loop\n259 blkext\n";
}

// The GPU behind a root port of its own: two GPUs of one PCIe root are siblings, not neighbours on one bus.
std::string PciPath(const State& state, size_t index) {
  const Gpu& gpu = state.gpus[index];
  std::string root = gpu.pcie_root;  // "pci0000:64"
  size_t port = 1;
  for (size_t before = 0; before < index; ++before)
    if (state.gpus[before].pcie_root == root) ++port;
  char slot[8];
  std::snprintf(slot, sizeof(slot), ":%02x.0", static_cast<unsigned>(port & 0x1f));
  const std::string bus = root.rfind("pci", 0) == 0 ? root.substr(3) : root;
  return "devices/" + root + "/" + bus + slot + "/" + KernelBusId(gpu);
}

void AddPciDevice(const State& state, size_t index, bool loaded, Entries& entries) {
  const Gpu& gpu = state.gpus[index];
  const std::string path = PciPath(state, index);
  const std::string bus_id = KernelBusId(gpu);
  const std::string device = "sys/" + path + "/";
  entries["sys/bus/pci/devices/" + bus_id] = Link("../../../" + path);
  entries[device + "vendor"] = Attribute(Hex(gpu.pci.device_id & 0xffff, 4));
  entries[device + "device"] = Attribute(Hex(gpu.pci.device_id >> 16, 4));
  entries[device + "subsystem_vendor"] = Attribute(Hex(gpu.pci.subsystem_id & 0xffff, 4));
  entries[device + "subsystem_device"] = Attribute(Hex(gpu.pci.subsystem_id >> 16, 4));
  entries[device + "class"] = Attribute("0x030200");  // 3D controller
  entries[device + "numa_node"] = Attribute(std::to_string(gpu.numa_node));
  entries[device + "sriov_numvfs"] = Attribute("0");
  if (!loaded) return;
  // From sys/devices/pciX/port/device up to sys.
  entries[device + "driver"] = Link("../../../../bus/pci/drivers/nvidia");
  entries["sys/bus/pci/drivers/nvidia/" + bus_id] = Link("../../../../" + path);
  const std::string card = "card" + std::to_string(DrmCard(index));
  const std::string render = "renderD" + std::to_string(DrmRender(index));
  entries[device + "drm/" + card + "/dev"] =
      Attribute(std::to_string(kDrmMajor) + ":" + std::to_string(DrmCard(index)));
  entries[device + "drm/" + render + "/dev"] =
      Attribute(std::to_string(kDrmMajor) + ":" + std::to_string(DrmRender(index)));
}

}  // namespace

std::string KernelBusId(const Gpu& gpu) {
  std::string text = gpu.pci.bus_id;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  // The kernel writes a domain with four digits, or as many as it needs.
  const size_t domain = text.find(':');
  if (domain == std::string::npos) return text;
  size_t zeros = 0;
  while (domain - zeros > 4 && text[zeros] == '0') ++zeros;
  return text.substr(zeros);
}

unsigned DrmCard(size_t index) { return static_cast<unsigned>(index) + 1; }
unsigned DrmRender(size_t index) { return static_cast<unsigned>(index) + 128; }

bool ModuleLoaded(const Layout& layout, const State& state) {
  return layout.installed && state.driver.loaded;
}

void AddKernelFiles(const Layout& layout, const State& state, Entries& entries) {
  const bool loaded = ModuleLoaded(layout, state);
  entries["proc/devices"] = TextFile(CharacterDevices(layout, loaded), 0444);
  entries["proc/sys/kernel/random/boot_id"] =
      Attribute(StableUuid("", layout.node + "/boot/" + std::to_string(layout.boots)));
  Entry& devices = entries["sys/bus/pci/devices"];  // there without GPUs too
  devices.kind = Entry::Kind::kDirectory;
  for (size_t i = 0; i < state.gpus.size(); ++i) AddPciDevice(state, i, loaded, entries);
  if (!loaded) return;
  AddProcDriver(state, entries);
  entries["proc/driver/nvidia-caps/mig-minors"] = TextFile(MigMinors(state), 0444);
  size_t holders = 0;
  for (const Gpu& gpu : state.gpus) holders += gpu.processes.size();
  entries["sys/module/nvidia/version"] = Attribute(state.driver.kernel_module);
  entries["sys/module/nvidia/refcnt"] = Attribute(std::to_string(holders));
  entries["sys/module/nvidia/initstate"] = Attribute("live");
  entries["sys/module/nvidia_uvm/refcnt"] = Attribute("0");
}

}  // namespace nvidia_simulator
