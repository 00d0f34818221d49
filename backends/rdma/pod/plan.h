#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "addresses.h"
#include "network_config.h"
#include "routes.h"

namespace rdma {

// One interface as it was on the host: what the pod may take along, and what it comes back to.
struct HostInterface {
  std::string name;
  std::vector<std::string> alternative_names;
  std::string alias;
  int index = 0;
  std::string kind;               // IFLA_INFO_KIND: "veth", "bond"; "" for plain hardware
  std::string pci_address;        // "" for one without a PCI function
  std::string address;            // of the hardware, as set
  std::string permanent_address;  // "" where there is none
  uint32_t mtu = 0;
  bool up = false;
  uint32_t flags = 0;  // as in Link
  uint32_t gso_max_size = 0, gro_max_size = 0, gso_ipv4_max_size = 0, gro_ipv4_max_size = 0;
  std::vector<uint32_t> xdp_programs;       // ids of those on it
  std::vector<InterfaceAddress> addresses;  // global and permanent ones
  std::vector<Route> routes;          // beside the kernel's own, with a gateway or of another table
  std::vector<Rule> rules;            // those that send to the tables of `routes`
  std::vector<Neighbour> neighbours;  // permanent ones
  friend bool operator==(const HostInterface&, const HostInterface&) = default;
};

enum class AttachKind {
  kMove,     // the NIC itself
  kMacvlan,  // a new interface on it; goes with the pod's namespace
};

// home.name is "" where there is no interface and only the RDMA device moves.
struct Attachment {
  std::string device;  // its name in the slice; "name/share" of a shared one
  std::string request;
  AttachKind kind = AttachKind::kMove;
  HostInterface home;
  std::string pod_name;  // of the interface in the pod, resolved
  // Addresses, routes and the like to set, resolved: the host's own where none were asked for.
  NetworkConfig config;
  std::string rdma_device;  // to be moved along (exclusive mode); "" = none
  friend bool operator==(const Attachment&, const Attachment&) = default;
};

// plan.json: written durably by Prepare, before the kubelet is answered, and never changed.
struct Plan {
  std::string claim_uid;
  std::string pod_uid;  // the one consumer
  std::vector<Attachment> attachments;
  // The boot that it was made in (what is to come back is undone within it only), and the network namespace of the process
  // that made it, which must be the host's: the hook compares it with its own. "" and 0: not said.
  std::string boot_id = {};
  uint64_t host_device = 0, host_inode = 0;
  friend bool operator==(const Plan&, const Plan&) = default;
};

struct AttachedInterface {
  std::string device;
  std::string pod_name;
  int index = 0;  // in the pod
  std::string address;
  std::vector<std::string> ips;  // CIDR
  friend bool operator==(const AttachedInterface&, const AttachedInterface&) = default;
};

// What the hook found on the host and a move or its own settings lose: an interface that comes into a namespace starts
// with that one's defaults, but keeps the features that it has.
struct LostSettings {
  // All, if the config changes any.
  std::map<std::string, bool> features, private_flags;
  // "ipv6/accept_ra": those that differ from the defaults.
  std::map<std::string, std::string> sysctls;
  friend bool operator==(const LostSettings&, const LostSettings&) = default;
};

// state.json: written by the hook before and after it moves anything. The namespace is pinned beside it.
struct AttachState {
  enum class Phase {
    kMoving,    // something may have been moved
    kAttached,  // all is in the pod
  };
  Phase phase = Phase::kMoving;
  std::string pod_uid;
  std::string sandbox;  // id of the pod's sandbox, as the runtime names it; "" if it does not say
  uint64_t namespace_device = 0, namespace_inode = 0;  // 0: nothing was moved, or all is back
  std::vector<AttachedInterface> interfaces;           // once attached
  std::map<std::string, LostSettings> lost;            // by device
  std::string error;  // of the last try, for the claim's conditions; "" = none
  friend bool operator==(const AttachState&, const AttachState&) = default;
};

Json ToJson(const Plan& plan);
Json ToJson(const AttachState& state);
// Throw std::runtime_error with what is wrong.
Plan PlanFromJson(const Json& json);
AttachState AttachStateFromJson(const Json& json);

}  // namespace rdma
