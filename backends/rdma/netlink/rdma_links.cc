#include "rdma_links.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include <cerrno>

#include "attributes.h"
#include "message.h"

namespace rdma {
namespace {

constexpr int NldevType(int command) { return RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command); }

RequestMessage ModeRequest() {
  return RequestMessage(NldevType(RDMA_NLDEV_CMD_SYS_GET), NLM_F_REQUEST | NLM_F_ACK);
}

RequestMessage MoveRequest(uint32_t index, int target_fd) {
  RequestMessage message(NldevType(RDMA_NLDEV_CMD_SET), NLM_F_REQUEST | NLM_F_ACK);
  message.PutU32(RDMA_NLDEV_ATTR_DEV_INDEX, index);
  message.PutU32(RDMA_NLDEV_NET_NS_FD, static_cast<uint32_t>(target_fd));
  return message;
}

// These messages have no header of their own.
Attributes AttributesOf(const nlmsghdr* answer) {
  return Attributes(Attributes::Bytes(reinterpret_cast<const uint8_t*>(answer) + NLMSG_HDRLEN,
                                      answer->nlmsg_len - NLMSG_HDRLEN));
}

}  // namespace

RdmaNamespaceMode GetNamespaceMode(NetlinkSocket& rdma) {
  const std::string what = "get the RDMA namespace mode";
  std::optional<uint8_t> shared;
  try {
    rdma.Dump(ModeRequest().get(), what, [&](const nlmsghdr* answer) {
      if (answer->nlmsg_type != NldevType(RDMA_NLDEV_CMD_SYS_GET)) return;
      shared = AttributesOf(answer).Get<uint8_t>(RDMA_NLDEV_SYS_ATTR_NETNS_MODE);
    });
  } catch (const NetlinkError& e) {
    // Linux before 5.2 knows neither the command nor another mode than this.
    if (e.error() == EINVAL) return RdmaNamespaceMode::kShared;
    throw;
  }
  if (!shared) throw MakeNetlinkError(EPROTO, what, "an answer without the mode");
  return *shared == 0 ? RdmaNamespaceMode::kExclusive : RdmaNamespaceMode::kShared;
}

std::optional<RdmaNamespaceMode> FindNamespaceMode(const std::function<NetlinkSocket()>& open) {
  try {
    NetlinkSocket rdma = open();
    return GetNamespaceMode(rdma);
  } catch (const NetlinkError& e) {
    switch (e.error()) {
      case EPROTONOSUPPORT:  // the protocol is not there
      case EOPNOTSUPP:
      case EINVAL:
        return std::nullopt;
    }
    throw;
  }
}

std::vector<RdmaLink> ListRdmaLinks(NetlinkSocket& rdma) {
  RequestMessage message(NldevType(RDMA_NLDEV_CMD_GET), NLM_F_REQUEST | NLM_F_DUMP);
  std::vector<RdmaLink> links;
  rdma.Dump(message.get(), "list RDMA devices", [&](const nlmsghdr* answer) {
    if (answer->nlmsg_type != NldevType(RDMA_NLDEV_CMD_GET)) return;
    const Attributes attributes = AttributesOf(answer);
    const std::optional<uint32_t> index = attributes.Get<uint32_t>(RDMA_NLDEV_ATTR_DEV_INDEX);
    std::string name = attributes.Text(RDMA_NLDEV_ATTR_DEV_NAME);
    if (index && !name.empty()) links.push_back({*index, std::move(name)});
  });
  return links;
}

void MoveRdmaLink(NetlinkSocket& rdma, const RdmaLink& link, const NetworkNamespace& target) {
  // The kernel takes the device from the namespace of the thread that asks, not of the socket.
  rdma.Namespace().Run([&] {
    rdma.Request(MoveRequest(link.index, target.fd()).get(), "move RDMA device " + link.name);
  });
}

NetlinkMessage MoveRdmaLinkMessage(uint32_t index, int target_fd) {
  return MoveRequest(index, target_fd).Bytes();
}
NetlinkMessage GetNamespaceModeMessage() { return ModeRequest().Bytes(); }

}  // namespace rdma
