// Which NICs are offered, and which are shared.

#include <algorithm>

#include "devices.h"
#include "text.h"

namespace rdma {
namespace {

// An empty list is no condition.
bool AnyGlob(const std::vector<std::string>& globs, const std::vector<std::string>& texts) {
  if (globs.empty()) return true;
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    return std::any_of(texts.begin(), texts.end(),
                       [&](const std::string& text) { return MatchesGlob(glob, text); });
  });
}

bool AnyOf(const std::vector<std::string>& words, const std::string& text) {
  return words.empty() || std::find(words.begin(), words.end(), text) != words.end();
}

std::vector<std::string> Known(const std::string& text) {
  return text.empty() ? std::vector<std::string>() : std::vector<std::string>{text};
}

bool Matches(const NicMatch& match, const Nic& nic) {
  std::vector<std::string> names;
  if (nic.netdev) {
    names = nic.netdev->link.alternative_names;
    names.push_back(nic.netdev->link.name);
  }
  return AnyGlob(match.names, names) && AnyGlob(match.addresses, Known(nic.pci_address)) &&
         AnyGlob(match.pf_names, Known(nic.pf_interface)) && AnyOf(match.vendors, nic.vendor) &&
         AnyOf(match.devices, nic.device) && AnyOf(match.drivers, nic.driver) &&
         AnyOf(match.kinds, KindOf(nic)) && AnyOf(match.link_layers, LinkLayerOf(nic)) &&
         (!match.rdma || *match.rdma == nic.rdma.has_value());
}

bool MatchesAny(const std::vector<NicMatch>& rules, const Nic& nic) {
  return std::any_of(rules.begin(), rules.end(),
                     [&](const NicMatch& rule) { return Matches(rule, nic); });
}

// Drivers that keep a function for user space or a virtual machine.
bool IsPassThroughDriver(const std::string& driver) {
  static const std::vector<std::string> kDrivers = {"igb_uio", "pci-stub", "pciback",
                                                    "uio_pci_generic", "xen-pciback"};
  return AnyOf(kDrivers, driver) || driver.find("vfio") != std::string::npos;
}

// Nothing of it works without its interface: the GIDs of RoCE, the addresses of iWARP.
bool NeedsInterface(const RdmaDevice& device) {
  return !device.ports.empty() &&
         std::all_of(device.ports.begin(), device.ports.end(),
                     [](const RdmaPort& port) { return port.link_layer == "Ethernet"; });
}

std::optional<std::string> WhyNothingToGive(const Nic& nic) {
  if (!nic.pci_address.empty()) {
    if (nic.driver.empty()) return "no kernel driver is bound to it";
    if (IsPassThroughDriver(nic.driver)) return "it is bound to the driver " + nic.driver;
  }
  if (nic.netdev) return std::nullopt;
  if (!nic.rdma) {
    return "it has no interface and no RDMA device on this host: its driver makes none, or another "
           "network namespace "
           "has them";
  }
  if (NeedsInterface(*nic.rdma)) {
    return "its interface is in another network namespace, and without it its RDMA device " +
           nic.rdma->name + " has no addresses";
  }
  if (!nic.rdma->unusable.empty()) return nic.rdma->unusable;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> WhyNotOffered(const Nic& nic, const Options& options) {
  if (MatchesAny(options.exclude, nic)) return "excluded by the configuration";
  if (options.include.empty() ? nic.pci_address.empty() : !MatchesAny(options.include, nic)) {
    return kNotIncluded;
  }
  if (auto why = WhyNothingToGive(nic)) return why;
  if (options.attach == AttachBy::kNone) {
    // Its interface stays where it is.
    if (!nic.rdma) return "it has no RDMA device, and \"attach\" is \"none\"";
    if (!nic.rdma->unusable.empty()) return nic.rdma->unusable;
    return std::nullopt;
  }
  if (nic.enslaved)
    return "it is a port of " + (nic.master.empty() ? "another interface" : nic.master);
  if (nic.netdev && nic.netdev->default_route && !options.allow_default_route) {
    return "the default route leads through it";
  }
  return std::nullopt;
}

const ShareRule* ShareRuleOf(const Nic& nic, const Options& options) {
  const auto rule = std::find_if(options.shared.begin(), options.shared.end(),
                                 [&](const ShareRule& share) { return Matches(share.match, nic); });
  return rule == options.shared.end() ? nullptr : &*rule;
}

}  // namespace rdma
