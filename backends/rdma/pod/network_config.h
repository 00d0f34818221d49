#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace rdma {

using Json = nlohmann::json;

inline constexpr char kConfigApiVersion[] = "rdma.resource.dra-sdk.dev/v1alpha1";
inline constexpr char kConfigKind[] = "NetworkConfig";
inline constexpr int64_t kMaxTable = UINT32_MAX, kMaxMetric = UINT32_MAX;  // of routes and rules

// What a claim wants of its NIC in the pod. The fields have the names and meanings of dranet's configuration.
// Source: kubernetes-sigs/dranet: pkg/apis.
struct NetworkConfig {
  struct Interface {
    std::string name;                    // in the pod; "" = as on the host
    std::vector<std::string> addresses;  // CIDR; none = the host's global ones go along
    std::optional<uint32_t> mtu;         // 68..65535
    std::string hardware_address;
    std::optional<uint32_t> gso_max_size, gro_max_size, gso_ipv4_max_size, gro_ipv4_max_size;
    std::optional<bool> forwarding;
    std::optional<int> arp_ignore, arp_announce;
    std::string
        macvlan;  // ours: "bridge", "private", "vepa": a macvlan on the NIC instead of the NIC; "" = the NIC
    friend bool operator==(const Interface&, const Interface&) = default;
  };
  struct RouteWish {
    std::string destination, gateway, source;
    uint8_t scope = 0;
    uint32_t table = 0;   // 0 = main
    uint32_t metric = 0;  // ours; 0 = the kernel's choice
    friend bool operator==(const RouteWish&, const RouteWish&) = default;
  };
  struct RuleWish {
    uint32_t priority = 0;
    std::string source, destination;
    uint32_t table = 0;
    friend bool operator==(const RuleWish&, const RuleWish&) = default;
  };
  struct NeighbourWish {
    std::string destination, hardware_address;
    friend bool operator==(const NeighbourWish&, const NeighbourWish&) = default;
  };
  struct RdmaWish {  // ours
    bool umad = false, issm = false;
    friend bool operator==(const RdmaWish&, const RdmaWish&) = default;
  };
  Interface interface;
  std::vector<RouteWish> routes;
  std::vector<RuleWish> rules;
  std::vector<NeighbourWish> neighbors;
  std::map<std::string, bool> features, private_flags;  // ethtool
  RdmaWish rdma;

  // True if it asks for anything of a network interface, which a NIC without one cannot give.
  bool WantsInterface() const;

  Json ToJson() const;
  static NetworkConfig FromJson(
      const Json& json);  // of ToJson; throws std::exception on anything else
  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

// Reads one opaque config strictly. apiVersion and kind may be absent together: that is dranet's own form. Throws
// dra::BackendError DRA_INVALID_ARGUMENT with the path; what is not done (dhcp, vrf, ipvlan, subInterface,
// disableEbpfPrograms, profile) is refused by name. "eth0" and "lo" are no names for it: the pod has its own.
NetworkConfig ReadNetworkConfig(const Json& parameters, const std::string& path);

// JSON schema of the parameters, for the manifest.
Json NetworkConfigSchema();

}  // namespace rdma
