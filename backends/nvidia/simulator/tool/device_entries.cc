#include <sys/sysmacros.h>

#include <optional>
#include <string>

#include "entries.h"

namespace nvidia_simulator {
namespace {

Entry Node(unsigned major, unsigned minor, mode_t mode = 0666) {
  Entry entry;
  entry.kind = Entry::Kind::kNode;
  entry.mode = mode;
  entry.device = makedev(major, minor);
  return entry;
}

void AddCapabilityNodes(const State& state, unsigned major, const std::string& dev,
                        Entries& entries) {
  const auto add = [&](unsigned minor, mode_t mode) {
    entries[dev + "/nvidia-caps/nvidia-cap" + std::to_string(minor)] = Node(major, minor, mode);
  };
  add(1, 0400);  // config
  add(2, 0444);  // monitor
  for (const Gpu& gpu : state.gpus) {
    for (const MigInstance& instance : gpu.mig) {
      add(CapMinor(state, gpu.minor, instance.gi, std::nullopt), 0444);
      for (const ComputeInstance& compute : instance.compute)
        add(CapMinor(state, gpu.minor, instance.gi, compute.ci), 0444);
    }
  }
}

}  // namespace

void AddDeviceNodes(const Layout& layout, const State& state, Entries& entries) {
  const std::string dev = layout.DevRoot();
  // There without nodes too: it tells the library that this is the host, not a container.
  entries[dev].kind = Entry::Kind::kDirectory;
  if (!layout.nodes || !ModuleLoaded(layout, state)) return;
  entries[dev + "/nvidiactl"] = Node(kNvidiaMajor, 255);
  entries[dev + "/nvidia-modeset"] = Node(kNvidiaMajor, 254);
  const unsigned uvm = layout.majors.at("nvidia-uvm");
  entries[dev + "/nvidia-uvm"] = Node(uvm, 0);
  entries[dev + "/nvidia-uvm-tools"] = Node(uvm, 1);
  AddCapabilityNodes(state, layout.majors.at("nvidia-caps"), dev, entries);
  for (size_t i = 0; i < state.gpus.size(); ++i) {
    const Gpu& gpu = state.gpus[i];
    entries[dev + "/nvidia" + std::to_string(gpu.minor)] = Node(kNvidiaMajor, gpu.minor);
    const std::string card = "card" + std::to_string(DrmCard(i));
    const std::string render = "renderD" + std::to_string(DrmRender(i));
    entries[dev + "/dri/" + card] = Node(kDrmMajor, DrmCard(i), 0660);
    entries[dev + "/dri/" + render] = Node(kDrmMajor, DrmRender(i));
    const std::string by_path = dev + "/dri/by-path/pci-" + KernelBusId(gpu);
    entries[by_path + "-card"] = Link("../" + card);
    entries[by_path + "-render"] = Link("../" + render);
  }
}

}  // namespace nvidia_simulator
