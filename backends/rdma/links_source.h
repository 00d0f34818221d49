#pragma once

#include <optional>
#include <set>
#include <vector>

#include "addresses.h"
#include "links.h"
#include "rdma_links.h"
#include "routes.h"

namespace rdma {

// What netlink says of the host, at one time.
struct KernelNetwork {
  std::vector<Link> links;
  std::vector<InterfaceAddress> addresses;
  std::optional<RdmaNamespaceMode> rdma_mode;  // nullopt: no RDMA subsystem, or it does not say
  std::set<int> default_route_interfaces;      // see default_routes.h
  // Of Prepare's picture only.
  std::vector<Route> routes;
  std::vector<Rule> rules;
  std::vector<Neighbour> neighbours;  // permanent ones
};

// Of the calling thread's network namespace. Throws NetlinkError.
KernelNetwork LookAtKernelNetwork();
// What a plan for these interfaces needs: all links (a physical function's is looked for by name), the interfaces'
// addresses, routes and neighbours, the namespace's rules and default routes, and the RDMA mode.
KernelNetwork LookAtInterfaces(const std::vector<int>& indices);

}  // namespace rdma
