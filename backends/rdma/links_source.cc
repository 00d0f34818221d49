#include "links_source.h"

#include <linux/netlink.h>

#include <algorithm>
#include <utility>

#include "default_routes.h"
#include "netlink_error.h"
#include "netlink_socket.h"

namespace rdma {
namespace {

std::optional<RdmaNamespaceMode> RdmaMode() {
  return FindNamespaceMode([] { return NetlinkSocket(NETLINK_RDMA); });
}

}  // namespace

KernelNetwork LookAtKernelNetwork() {
  KernelNetwork network;
  NetlinkSocket route(NETLINK_ROUTE);
  network.links = ListLinks(route);
  network.addresses = ListAddresses(route);
  network.default_route_interfaces = ListDefaultRouteInterfaces(route);
  network.rdma_mode = RdmaMode();
  return network;
}

KernelNetwork LookAtInterfaces(const std::vector<int>& indices) {
  KernelNetwork network;
  NetlinkSocket route(NETLINK_ROUTE);
  network.links = ListLinks(route);
  for (Route& candidate : ListRoutes(route)) {
    if (std::find(indices.begin(), indices.end(), candidate.index) != indices.end()) {
      network.routes.push_back(std::move(candidate));
    }
  }
  network.rules = ListRules(route);
  network.default_route_interfaces = ListDefaultRouteInterfaces(route);
  network.rdma_mode = RdmaMode();
  for (const int index : std::set<int>(indices.begin(), indices.end())) {
    for (InterfaceAddress& address : ListAddresses(route, index))
      network.addresses.push_back(std::move(address));
    for (Neighbour& neighbour : ListPermanentNeighbours(route, index)) {
      network.neighbours.push_back(std::move(neighbour));
    }
  }
  return network;
}

}  // namespace rdma
