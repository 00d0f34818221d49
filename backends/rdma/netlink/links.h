#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink_socket.h"

namespace rdma {

// A program in the path of what a link receives.
struct XdpProgram {
  uint32_t mode =
      0;  // XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE or XDP_FLAGS_HW_MODE; each may have one
  uint32_t id = 0;  // the kernel's, of the program
  friend bool operator==(const XdpProgram&, const XdpProgram&) = default;
};

// A network interface as RTM_GETLINK shows it. Addresses of hardware are "02:00:5e:00:53:01", lower case; 20 bytes on
// InfiniBand.
struct Link {
  int index = 0;
  std::string name;
  std::vector<std::string> alternative_names;
  std::string alias;  // IFLA_IFALIAS
  uint16_t type = 0;  // ARPHRD_ETHER 1, ARPHRD_INFINIBAND 32, ARPHRD_LOOPBACK 772
  // IFLA_INFO_KIND: "veth", "macvlan", "bond", "vlan", "ipoib"; "" for plain hardware.
  std::string kind;
  std::string slave_kind;         // IFLA_INFO_SLAVE_KIND: what its master is; ""
  std::string address;            // of the hardware, as set now
  std::string permanent_address;  // IFLA_PERM_ADDRESS; "" where there is none
  uint32_t mtu = 0;
  bool up = false;     // IFF_UP: set by the administrator
  uint32_t flags = 0;  // of IFF_NOARP, IFF_PROMISC and IFF_ALLMULTI those that are set
  std::string state;  // operstate as sysfs names it: "up", "down", "unknown", "lowerlayerdown", ...
  int master = 0;     // index, 0 = none
  int parent = 0;     // IFLA_LINK, 0 = none; in another namespace if parent_elsewhere
  bool parent_elsewhere = false;
  // IFLA_PARENT_DEV_BUS_NAME: "pci", "auxiliary"; "" before Linux 5.14 and for virtual ones.
  std::string parent_bus;
  std::string parent_device;                           // "0000:8d:00.0"
  std::string physical_switch_id, physical_port_name;  // of representors too
  // 0 = not said.
  uint32_t gso_max_size = 0, gro_max_size = 0, gso_ipv4_max_size = 0, gro_ipv4_max_size = 0;
  std::vector<XdpProgram> xdp;  // IFLA_XDP
  friend bool operator==(const Link&, const Link&) = default;
};

// What is to be changed of a link; nullopt stays. `name` and `target` in one request are one step: the kernel renames
// it on its way, so that the old name may be taken there and the new one here. If the new one is taken there, the
// kernel fails with EEXIST but has moved the link by then, under its old name (seen with Linux 6.18): look before.
struct LinkChange {
  std::optional<bool> up{};
  std::optional<uint32_t> flags{};  // as in Link
  std::optional<std::string> name{};
  std::optional<std::string> address{};
  std::optional<std::string> alias{};
  std::optional<uint32_t> mtu{};
  std::optional<uint32_t> gso_max_size{}, gro_max_size{}, gso_ipv4_max_size{}, gro_ipv4_max_size{};
  // The mode, as in XdpProgram, whose program goes; 0 = the one that the driver would choose, which leaves another's.
  std::optional<uint32_t> xdp_off{};
  const NetworkNamespace* target = nullptr;  // where to
};

std::vector<Link> ListLinks(NetlinkSocket& route);
std::optional<Link> FindLink(NetlinkSocket& route, int index);
// By name or, since Linux 5.5, alternative name.
std::optional<Link> FindLink(NetlinkSocket& route, const std::string& name);
// what of the error: the link's name.
void ChangeLink(NetlinkSocket& route, int index, const std::string& name, const LinkChange& change);
// A macvlan on `parent` (an index of the socket's namespace), made in `target` under `name` with `address` ("" = one of
// the kernel's); mode "bridge", "private", "vepa" or "passthru".
void AddMacvlan(NetlinkSocket& route, int parent, const std::string& name, const std::string& mode,
                const std::string& address, uint32_t mtu, const NetworkNamespace& target);
void DeleteLink(NetlinkSocket& route, int index, const std::string& name);
void DeleteAlternativeName(NetlinkSocket& route, int index, const std::string& name);

// The requests as they go out, for comparison with other tools' bytes.
NetlinkMessage ChangeLinkMessage(int index, const LinkChange& change);
NetlinkMessage AddMacvlanMessage(int parent, const std::string& name, const std::string& mode,
                                 const std::string& address, uint32_t mtu, int target_fd);

}  // namespace rdma
