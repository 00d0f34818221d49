#include "find_interface.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdio>

namespace rdma {
namespace {

enum class Match { kNo, kYes, kUnknown };

Match ByHardware(const Link& link, const HostInterface& home) {
  if (home.pci_address.empty() && home.permanent_address.empty()) return Match::kUnknown;
  // VLANs and IPoIB's partitions may have its address or function, but lie on another link.
  if (link.parent != 0 && (link.kind != home.kind || link.kind == "ipoib")) return Match::kNo;
  const bool same_function = link.parent_bus == "pci" && link.parent_device == home.pci_address;
  if (!home.pci_address.empty() && link.parent_bus == "pci" && !same_function) return Match::kNo;
  // A function may have several interfaces: ports, representors.
  if (!home.permanent_address.empty() && !link.permanent_address.empty())
    return link.permanent_address == home.permanent_address ? Match::kYes : Match::kNo;
  return same_function ? Match::kYes : Match::kUnknown;
}

// The hardware addresses that it can have by us or by its own.
bool HasItsAddress(const Link& link, const Attachment& attachment, const AttachedInterface* noted) {
  return !link.address.empty() && (link.address == attachment.home.address ||
                                   link.address == attachment.config.interface.hardware_address ||
                                   (noted != nullptr && link.address == noted->address));
}

std::optional<Link> ByName(const std::vector<Link>& links, const std::string& name) {
  const auto found =
      std::find_if(links.begin(), links.end(), [&](const Link& link) { return link.name == name; });
  if (found == links.end()) return std::nullopt;
  return *found;
}

// The interfaces of a PCI function as sysfs names them.
std::vector<std::string> NamesInSysfs(const std::string& sys, const std::string& pci_address) {
  std::vector<std::string> names;
  if (pci_address.empty()) return names;
  DIR* directory = opendir((sys + "/bus/pci/devices/" + pci_address + "/net").c_str());
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] != '.') names.push_back(entry->d_name);
  }
  closedir(directory);
  std::sort(names.begin(), names.end());
  return names;
}

// Of several that may be it: the one that looks most like it.
std::optional<Link> Best(const std::vector<Link>& candidates, const HostInterface& home) {
  const auto likeness = [&](const Link& link) {
    return 2 * (link.name == home.name) + (link.address == home.address);
  };
  const auto best =
      std::max_element(candidates.begin(), candidates.end(),
                       [&](const Link& a, const Link& b) { return likeness(a) < likeness(b); });
  if (best == candidates.end()) return std::nullopt;
  return *best;
}

}  // namespace

std::string TemporaryName(const std::string& claim_uid, const std::string& device) {
  // FNV-1a, cut to what fits into a name of 15 bytes.
  uint64_t hash = 14695981039346656037u;
  for (const char byte : claim_uid + "/" + device)
    hash = (hash ^ static_cast<uint8_t>(byte)) * 1099511628211u;
  char name[16];
  std::snprintf(name, sizeof(name), "dra%012llx",
                static_cast<unsigned long long>((hash ^ (hash >> 48)) & 0xffffffffffff));
  return name;
}

std::optional<Link> FindOnHost(const std::vector<Link>& links, const Attachment& attachment,
                               const std::string& temporary, const std::string& sys) {
  const HostInterface& home = attachment.home;
  if (auto link = ByName(links, temporary)) return link;
  std::vector<Link> candidates, rest;
  for (const Link& link : links) {
    const Match match = ByHardware(link, home);
    if (match == Match::kYes) candidates.push_back(link);
    if (match == Match::kUnknown) rest.push_back(link);
  }
  if (auto link = Best(candidates, home)) return link;
  for (const std::string& name : NamesInSysfs(sys, home.pci_address)) {
    if (auto link = ByName(rest, name)) candidates.push_back(*link);
  }
  if (auto link = Best(candidates, home)) return link;
  for (const Link& link : rest) {
    if (!HasItsAddress(link, attachment, nullptr) || link.kind != home.kind) continue;
    // Interfaces of software go with their namespace, and others on the same card have the same address (vlan, ipvlan).
    if (link.name == home.name || link.index == home.index || home.kind.empty())
      candidates.push_back(link);
  }
  return Best(candidates, home);
}

std::optional<Link> FindInPod(const std::vector<Link>& links, const Attachment& attachment,
                              const AttachedInterface* noted) {
  const HostInterface& home = attachment.home;
  std::vector<Link> candidates;
  for (const Link& link : links) {
    if (ByHardware(link, home) == Match::kYes) candidates.push_back(link);
  }
  if (auto link = Best(candidates, home)) return link;
  for (const Link& link : links) {
    if (ByHardware(link, home) == Match::kNo) continue;
    if (noted != nullptr && link.index == noted->index && link.kind == home.kind) return link;
    if (HasItsAddress(link, attachment, noted) &&
        (link.name == attachment.pod_name || link.kind == home.kind))
      candidates.push_back(link);
  }
  return Best(candidates, home);
}

std::optional<Link> FindMacvlan(const std::vector<Link>& links, const Attachment& attachment,
                                int parent, const AttachedInterface* noted) {
  for (const Link& link : links) {
    // The pod may make macvlans too, but on what it has.
    if (link.kind != "macvlan" || link.parent != parent || !link.parent_elsewhere) continue;
    if (link.name == attachment.pod_name || (noted != nullptr && link.index == noted->index))
      return link;
  }
  return std::nullopt;
}

bool HasNetworkDriver(const std::string& sys, const std::string& pci_address) {
  if (pci_address.empty()) return false;
  char target[PATH_MAX];
  const std::string path = sys + "/bus/pci/devices/" + pci_address + "/driver";
  const ssize_t size = readlink(path.c_str(), target, sizeof(target));
  if (size <= 0) return false;
  std::string driver(target, static_cast<size_t>(size));
  driver.erase(0, driver.rfind('/') + 1);
  // Those that give the function to user space or to a virtual machine.
  for (const char* other :
       {"vfio-pci", "uio_pci_generic", "igb_uio", "pci-stub", "pciback", "xen-pciback"}) {
    if (driver == other) return false;
  }
  return true;
}

bool HasName(const std::vector<Link>& links, const std::string& name, int but) {
  return std::any_of(links.begin(), links.end(), [&](const Link& link) {
    return link.index != but &&
           (link.name == name ||
            std::count(link.alternative_names.begin(), link.alternative_names.end(), name) != 0);
  });
}

}  // namespace rdma
