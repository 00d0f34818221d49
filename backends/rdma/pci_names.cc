#include "pci_names.h"

#include <fstream>

#include "text.h"

namespace rdma {
namespace {

// "0x15b3" is "15b3".
std::string Plain(const std::string& id) { return id.rfind("0x", 0) == 0 ? id.substr(2) : id; }

// The name in "15b3  Mellanox Technologies", if the line begins with `ids`.
bool TakeName(const std::string& line, size_t indent, const std::string& ids, std::string& name) {
  const std::string begin = std::string(indent, '\t') + ids + "  ";
  if (line.rfind(begin, 0) != 0) return false;
  name = line.substr(begin.size());
  while (!name.empty() && (name.back() == '\r' || name.back() == ' ')) name.pop_back();
  if (!IsUtf8(name)) name.clear();
  return true;
}

// The file: vendors at the line's begin, below each its devices with one tab, below those subsystems with two; classes
// at the end, with a "C" in front.
PciNames::Names Search(std::istream& file, const std::string& vendor, const std::string& device,
                       const std::string& subsystem) {
  PciNames::Names names;
  bool in_vendor = false, in_device = false;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    if (line.front() != '\t') {
      if (in_vendor) break;
      in_vendor = TakeName(line, 0, vendor, names.vendor);
    } else if (in_vendor && line.rfind("\t\t", 0) != 0) {
      if (in_device) break;
      in_device = TakeName(line, 1, device, names.device);
    } else if (in_device && TakeName(line, 2, subsystem, names.subsystem)) {
      break;
    }
  }
  return names;
}

}  // namespace

PciNames::Names PciNames::Of(const std::string& vendor, const std::string& device,
                             const std::string& subsystem_vendor,
                             const std::string& subsystem_device) const {
  const std::string subsystem = Plain(subsystem_vendor) + " " + Plain(subsystem_device);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto [known, is_new] =
      known_.try_emplace(Plain(vendor) + " " + Plain(device) + " " + subsystem);
  if (!is_new || vendor.empty()) return known->second;
  const std::string root = kernel_root_ == "/" ? "" : kernel_root_;
  for (const char* path : {"/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids"}) {
    std::ifstream file(root + path);
    if (!file) continue;
    known->second = Search(file, Plain(vendor), Plain(device), subsystem);
    break;
  }
  return known->second;
}

}  // namespace rdma
