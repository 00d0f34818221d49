#include "default_routes.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "attributes.h"
#include "message.h"

namespace rdma {
namespace {

void TakeWays(Attributes::Bytes ways, std::set<int>& interfaces) {
  while (ways.size() >= sizeof(rtnexthop)) {
    rtnexthop way;
    std::memcpy(&way, ways.data(), sizeof(way));
    if (way.rtnh_len < sizeof(way) || way.rtnh_len > ways.size()) return;
    interfaces.insert(way.rtnh_ifindex);
    const size_t step = RTNH_ALIGN(static_cast<size_t>(way.rtnh_len));
    if (step >= ways.size()) return;
    ways = ways.subspan(step);
  }
}

void TakeRoute(const nlmsghdr* answer, std::set<int>& interfaces) {
  rtmsg header;
  Attributes::Bytes bytes;
  if (answer->nlmsg_type != RTM_NEWROUTE || !SplitAnswer(answer, &header, &bytes)) return;
  if (header.rtm_dst_len != 0 || header.rtm_type != RTN_UNICAST ||
      (header.rtm_flags & RTM_F_CLONED) != 0)
    return;
  const Attributes attributes(bytes);
  if (attributes.Get<uint32_t>(RTA_TABLE).value_or(header.rtm_table) != RT_TABLE_MAIN) return;
  if (const auto index = attributes.Get<int>(RTA_OIF)) interfaces.insert(*index);
  TakeWays(attributes.Find(RTA_MULTIPATH), interfaces);
}

}  // namespace

std::set<int> ListDefaultRouteInterfaces(NetlinkSocket& route) {
  std::set<int> interfaces;
  for (const int family : {AF_INET, AF_INET6}) {
    RequestMessage message(RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP);
    auto& header = message.Reserve<rtmsg>();
    header.rtm_family = static_cast<uint8_t>(family);
    header.rtm_type = RTN_UNICAST;  // the filter of kernels that check strictly
    try {
      route.Dump(message.get(), "list default routes",
                 [&](const nlmsghdr* answer) { TakeRoute(answer, interfaces); });
    } catch (const NetlinkError& error) {
      // A kernel without IPv6.
      if (family != AF_INET6 || (error.error() != EAFNOSUPPORT && error.error() != EOPNOTSUPP))
        throw;
    }
  }
  return interfaces;
}

}  // namespace rdma
