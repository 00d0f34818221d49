#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "netlink_socket.h"

namespace rdma {

// Whether RDMA devices belong to one network namespace each (exclusive) or are seen in all (shared).
enum class RdmaNamespaceMode { kShared, kExclusive };

struct RdmaLink {
  uint32_t index = 0;
  std::string name;  // "mlx5_0"
};

// NETLINK_RDMA, group NLDEV. All of them throw NetlinkError.
RdmaNamespaceMode GetNamespaceMode(NetlinkSocket& rdma);
// nullopt: the kernel has no RDMA subsystem, or none that answers. open: makes the socket.
std::optional<RdmaNamespaceMode> FindNamespaceMode(const std::function<NetlinkSocket()>& open);
std::vector<RdmaLink> ListRdmaLinks(NetlinkSocket& rdma);  // of the socket's namespace
// Only in exclusive mode and with drivers that can take a device from the processes that have it open, which lose it:
// EOPNOTSUPP otherwise. Source: ib_device_set_netns_put in torvalds/linux:drivers/infiniband/core/device.c.
void MoveRdmaLink(NetlinkSocket& rdma, const RdmaLink& link, const NetworkNamespace& target);

NetlinkMessage MoveRdmaLinkMessage(uint32_t index, int target_fd);
NetlinkMessage GetNamespaceModeMessage();

}  // namespace rdma
