#include "host_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "driver_search.h"
#include "elf_file.h"
#include "rooted_tree.h"

namespace nvidia {
namespace {

constexpr char kNvml[] = "libnvidia-ml.so.1";

// "0042 " is no number: the kernel writes plain ones.
std::optional<unsigned> ToNumber(const std::string& text) {
  unsigned value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

// The number that /proc/devices has for a character device. Its lines are " 195 nvidia".
std::optional<unsigned> MajorIn(const std::string& devices, const std::string& name) {
  std::istringstream lines(devices);
  bool character = false;
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == ':') {
      character = line == "Character devices:";
      continue;
    }
    std::istringstream words(line);
    std::string number, word, more;
    // "nvidia" must not take "nvidia-uvm" or "nvidia something"
    if (character && words >> number >> word && word == name && !(words >> more))
      return ToNumber(number);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> HostFiles::NvmlLibrary() const {
  if (!options_.nvml_library.empty())
    return RootedTree(options_.HostPath("/")).ResolveType(options_.nvml_library, S_IFREG);
  const RootedTree root(options_.HostPath(options_.driver_root));
  for (const char* directory : kLibraryDirectories) {
    const auto found = root.ResolveType(std::string(directory) + "/" + kNvml, S_IFREG);
    if (found) return Below(options_.driver_root, *found);
  }
  return std::nullopt;
}

std::optional<std::string> HostFiles::Ldconfig() const {
  for (const std::string& root_path : {std::string("/"), options_.driver_root}) {
    const RootedTree root(options_.HostPath(root_path));
    for (const char* path : {"/sbin/ldconfig.real", "/usr/sbin/ldconfig.real", "/sbin/ldconfig",
                             "/usr/sbin/ldconfig", "/usr/bin/ldconfig"}) {
      const auto found = root.ResolveType(path, S_IFREG);
      if (!found) continue;
      const int fd = open(root.Open(*found).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
      if (fd < 0) continue;
      const bool usable = IsStaticProgram(fd);
      close(fd);
      if (usable) return Below(root_path, *found);
    }
  }
  return std::nullopt;
}

std::string HostFiles::DevRoot() const {
  std::string root = options_.dev_root;
  if (root.empty() && options_.driver_root != "/" &&
      RootedTree(options_.HostPath(options_.driver_root)).ResolveType("/dev", S_IFDIR)) {
    root = options_.driver_root;
  }
  return root == "/" ? "" : root;
}

std::vector<std::string> HostFiles::DrmNodes(const std::string& pci_bus_id) const {
  std::vector<std::string> nodes;
  if (pci_bus_id.empty()) return nodes;
  const RootedTree host(options_.HostPath("/"));
  const RootedTree kernel(options_.HostPath(options_.kernel_root));
  for (const std::string& name : kernel.List("/sys/bus/pci/devices/" + pci_bus_id + "/drm")) {
    const bool wanted = name.rfind("card", 0) == 0 || name.rfind("renderD", 0) == 0;
    const std::string node = DevRoot() + "/dev/dri/" + name;
    // A link is no node to a runtime.
    if (wanted && host.ResolveType(node, S_IFCHR) == node) nodes.push_back(name);
  }
  return nodes;
}

std::vector<HostFiles::Link> HostFiles::DrmLinks(const std::string& pci_bus_id,
                                                 const std::vector<std::string>& nodes) const {
  std::vector<Link> links;
  if (nodes.empty()) return links;
  constexpr char kByPath[] = "/dev/dri/by-path";
  const RootedTree dev(options_.HostPath(DevRoot().empty() ? "/" : DevRoot()));
  for (const std::string& name : dev.List(kByPath)) {
    if (name.rfind("pci-" + pci_bus_id + "-", 0) != 0) continue;
    const std::string path = std::string(kByPath) + "/" + name;
    const std::string node = dev.ResolveType(path, S_IFCHR).value_or("");
    for (const std::string& wanted : nodes) {
      if (node == "/dev/dri/" + wanted) links.push_back({path, "../" + wanted});
    }
  }
  return links;
}

bool HostFiles::HasDriver(const std::string& name) const {
  const auto devices =
      RootedTree(options_.HostPath(options_.kernel_root)).ReadText("/proc/devices");
  return devices && MajorIn(*devices, name).has_value();
}

std::optional<unsigned> HostFiles::Major(const std::string& name) const {
  const auto devices =
      RootedTree(options_.HostPath(options_.kernel_root)).ReadText("/proc/devices");
  std::optional<unsigned> major;
  if (devices) major = MajorIn(*devices, name);
  if (name != "nvidia" || major) return major;
  // Older drivers call it otherwise; the number is fixed. Source: NVIDIA/nvidia-modprobe: nvidia-modprobe-utils.
  return 195;
}

std::optional<unsigned> HostFiles::CapabilityMinor(unsigned gpu_minor, unsigned gpu_instance,
                                                   std::optional<unsigned> compute_instance) const {
  const RootedTree kernel(options_.HostPath(options_.kernel_root));
  const std::string gpu = "gpu" + std::to_string(gpu_minor);
  const std::string instance = "/gi" + std::to_string(gpu_instance) +
                               (compute_instance ? "/ci" + std::to_string(*compute_instance) : "") +
                               "/access";
  // "DeviceFileMinor: 21", one of several lines.
  const auto access =
      kernel.ReadText("/proc/driver/nvidia/capabilities/" + gpu + "/mig" + instance);
  if (access) {
    std::istringstream words(*access);
    for (std::string word, value; words >> word;) {
      if (word == "DeviceFileMinor:" && words >> value) return ToNumber(value);
    }
  }
  // "gpu0/gi1/ci0/access 13", a line for every instance there can be.
  const auto table = kernel.ReadText("/proc/driver/nvidia-caps/mig-minors");
  if (!table) return std::nullopt;
  std::istringstream words(*table);
  for (std::string name, value; words >> name >> value;) {
    if (name == gpu + instance) return ToNumber(value);
  }
  return std::nullopt;
}

}  // namespace nvidia
