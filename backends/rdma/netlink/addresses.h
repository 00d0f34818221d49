#pragma once

#include <string>
#include <vector>

#include "netlink_socket.h"

namespace rdma {

// An address of an interface. cidr: "192.0.2.7/24", "2001:db8::7/64", as inet_ntop writes it. The other end's address
// of a point-to-point link is not kept.
struct InterfaceAddress {
  int index = 0;  // of the interface
  std::string cidr{};
  std::string broadcast{};  // IPv4 only; "" = none
  uint8_t scope = 0;        // RT_SCOPE_UNIVERSE 0, SITE 200, LINK 253, HOST 254
  bool permanent = true;    // neither of DHCP's or a router advertisement's time limit
  friend bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;
};

std::vector<InterfaceAddress> ListAddresses(NetlinkSocket& route);  // of all interfaces
std::vector<InterfaceAddress> ListAddresses(NetlinkSocket& route, int index);
// Present already is well (EEXIST). IPv6 goes without duplicate address detection (IFA_F_NODAD): a pod would start
// before its address may be used.
void AddAddress(NetlinkSocket& route, const InterfaceAddress& address);

NetlinkMessage AddAddressMessage(const InterfaceAddress& address);

}  // namespace rdma
