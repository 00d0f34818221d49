#include "rdma_moves.h"

#include <linux/netlink.h>

#include <cerrno>
#include <optional>

#include "netlink_error.h"
#include "rdma_links.h"

namespace rdma {
namespace {

std::optional<RdmaLink> Find(NetlinkSocket& socket, const std::string& device) {
  for (const RdmaLink& link : ListRdmaLinks(socket)) {
    if (link.name == device) return link;
  }
  return std::nullopt;
}

class ByNetlink : public RdmaMoves {
 public:
  bool Has(const std::string& device, const NetworkNamespace& in) override {
    NetlinkSocket socket(NETLINK_RDMA, in);
    return Find(socket, device).has_value();
  }
  void Move(const std::string& device, const NetworkNamespace& from,
            const NetworkNamespace& to) override {
    NetlinkSocket socket(NETLINK_RDMA, from);
    const std::optional<RdmaLink> link = Find(socket, device);
    if (!link) throw NetlinkError(ENODEV, "move RDMA device " + device + ": it is not there");
    MoveRdmaLink(socket, *link, to);
  }
};

}  // namespace

RdmaMoves& KernelRdmaMoves() {
  static ByNetlink moves;
  return moves;
}

}  // namespace rdma
