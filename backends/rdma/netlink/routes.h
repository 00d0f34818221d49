#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netlink_socket.h"

namespace rdma {

// A route through one interface (multipath routes are not listed). "" = none.
struct Route {
  int index = 0;              // of the interface
  int family = 0;             // AF_INET, AF_INET6
  std::string destination{};  // CIDR; "0.0.0.0/0" or "::/0" for a default route
  std::string gateway{}, source{};
  uint32_t table = 254;  // RT_TABLE_MAIN
  uint8_t scope = 0;     // 0 universe, 253 link
  uint8_t protocol = 3;  // RTPROT_BOOT; 2 = the kernel's own, which come with the addresses
  uint32_t metric = 0;   // 0 = not given
  friend bool operator==(const Route&, const Route&) = default;
};
// A rule that sends traffic to a table.
struct Rule {
  int family = 0;
  uint32_t priority = 0;
  std::string source{}, destination{};  // CIDR; "" = all
  uint32_t table = 0;
  friend bool operator==(const Rule&, const Rule&) = default;
};
// A permanent neighbour entry.
struct Neighbour {
  int index = 0;
  std::string destination{};  // an IP address
  std::string address{};      // of the hardware
  friend bool operator==(const Neighbour&, const Neighbour&) = default;
};

// Unicast ones of all tables but local, both families.
std::vector<Route> ListRoutes(NetlinkSocket& route);
// Those that ask for nothing but networks: one with a mark, an interface, a port or the like is no Rule.
std::vector<Rule> ListRules(NetlinkSocket& route);
std::vector<Neighbour> ListPermanentNeighbours(NetlinkSocket& route, int index);
// Present already is well, so that each may be repeated. A route whose destination and table the kernel has by another
// way is refused with EEXIST, with the way in the text; a neighbour with another address is replaced.
void AddRoute(NetlinkSocket& route, const Route& added);
void AddRule(NetlinkSocket& route, const Rule& rule);
void AddNeighbour(NetlinkSocket& route, const Neighbour& neighbour);

NetlinkMessage AddRouteMessage(const Route& added);
NetlinkMessage AddRuleMessage(const Rule& rule);
NetlinkMessage AddNeighbourMessage(const Neighbour& neighbour);

}  // namespace rdma
