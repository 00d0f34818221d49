#pragma once

#include <set>

#include "netlink_socket.h"

namespace rdma {

// Indices of the interfaces that a default route of the main table leads through, IPv4 or IPv6, each way of a multipath
// one among them. Other tables lead but part of the traffic; each NIC of a cloud's machine may have one.
std::set<int> ListDefaultRouteInterfaces(NetlinkSocket& route);

}  // namespace rdma
