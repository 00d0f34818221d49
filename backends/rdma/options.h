#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace rdma {

// Which NICs a rule of the configuration speaks of. All that is given must match; lists are alternatives. Globs: *, ?.
struct NicMatch {
  std::vector<std::string> names;  // "names": globs of the interface's name and alternative names
  std::vector<std::string> addresses;    // "pciAddresses": globs
  std::vector<std::string> pf_names;     // "pfNames": globs; a virtual function's physical function
  std::vector<std::string> vendors;      // "vendors": "15b3" or "0x15b3"; here "0x15b3"
  std::vector<std::string> devices;      // "devices": likewise
  std::vector<std::string> drivers;      // "drivers"
  std::vector<std::string> kinds;        // "kinds": as KindOf says
  std::vector<std::string> link_layers;  // "linkLayers": "ethernet", "infiniband"
  std::optional<bool> rdma;              // "rdma"
};

struct ShareRule {
  NicMatch match;      // its fields stand beside "shares"; none of them: every NIC
  int64_t shares = 0;  // "shares": how many claims may have it at once, 1..10000
};

enum class AttachBy {
  kHook,        // "hook": our createRuntime hook
  kNetDevices,  // "netDevices": CDI 1.1's own
  kNone,        // "none": only character devices; the interface stays on the host
};

// The backend's part of the driver's configuration. Paths are absolute paths as this process sees them.
struct Options {
  std::string kernel_root =
      "/";  // "kernelRoot": below it sys is read; another one for simulated hardware only
  std::string dev_root = "/";  // "devRoot": below it dev/infiniband is looked for
  std::string attribute_domain =
      "dra.net";                  // "attributeDomain": of the attributes; a DNS subdomain
  std::vector<NicMatch> include;  // "include": only these; none = every PCI function
  std::vector<NicMatch> exclude;  // "exclude": never these; stronger
  bool allow_default_route =
      false;  // "allowDefaultRoute": give away also the interface of the default route
  std::vector<ShareRule>
      shared;  // "shared": NICs that several claims use at once; the first that matches counts
  AttachBy attach = AttachBy::kHook;  // "attach"
};

// Throws DRA_INVALID_ARGUMENT with the path of the option; unknown options are refused.
Options ReadOptions(const nlohmann::json& config);

}  // namespace rdma
