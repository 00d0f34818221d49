#include "routes.h"

#include <linux/fib_rules.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "attributes.h"
#include "hardware_address.h"
#include "ip_network.h"
#include "message.h"

namespace rdma {
namespace {

constexpr int kAddFlags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;

// The byte in the header and, for tables beyond it, the attribute. The same number for routes and rules.
static_assert(static_cast<int>(RTA_TABLE) == static_cast<int>(FRA_TABLE));
uint8_t TableByte(uint32_t table) {
  return static_cast<uint8_t>(table < 256 ? table : uint32_t{RT_TABLE_UNSPEC});
}
void PutLargeTable(RequestMessage& message, uint32_t table) {
  if (table >= 256) message.PutU32(RTA_TABLE, table);
}

void PutAddress(RequestMessage& message, int attribute, const IpNetwork& network) {
  message.Put(attribute, network.bytes.data(), network.bytes.size());
}

[[noreturn]] void FamiliesDiffer(const std::string& what) {
  throw NetlinkError(EINVAL, what + ": its addresses are of several families");
}

// ---- routes

std::string Gateway(int family, const Attributes& attributes) {
  if (attributes.Has(RTA_GATEWAY)) return FormatIpAddress(family, attributes.Find(RTA_GATEWAY));
  // Of another family than the route: an IPv4 network behind an IPv6 router.
  const std::optional<uint16_t> via = attributes.Get<uint16_t>(RTA_VIA);
  return via ? FormatIpAddress(*via, attributes.Find(RTA_VIA).subspan(sizeof(*via))) : "";
}

std::optional<Route> ParseRoute(const nlmsghdr* answer, int family) {
  rtmsg header;
  Attributes::Bytes bytes;
  if (answer->nlmsg_type != RTM_NEWROUTE || !SplitAnswer(answer, &header, &bytes))
    return std::nullopt;
  if (header.rtm_family != family || header.rtm_type != RTN_UNICAST ||
      (header.rtm_flags & RTM_F_CLONED) != 0) {
    return std::nullopt;
  }
  const Attributes attributes(bytes);
  if (attributes.Has(RTA_MULTIPATH)) return std::nullopt;
  Route route;
  route.index = attributes.Get<int>(RTA_OIF).value_or(0);
  route.family = family;
  route.destination = FormatIpNetwork(family, attributes.Find(RTA_DST), header.rtm_dst_len);
  route.gateway = Gateway(family, attributes);
  route.source = FormatIpAddress(family, attributes.Find(RTA_PREFSRC));
  route.table = attributes.Get<uint32_t>(RTA_TABLE).value_or(header.rtm_table);
  route.scope = header.rtm_scope;
  route.protocol = header.rtm_protocol;
  route.metric = attributes.Get<uint32_t>(RTA_PRIORITY).value_or(0);
  if (route.index == 0 || route.destination.empty() || route.table == RT_TABLE_LOCAL)
    return std::nullopt;
  return route;
}

RequestMessage AddRequest(const Route& added) {
  const std::string what = "add route " + added.destination;
  const IpNetwork destination = ParseIpNetwork(added.destination);
  RequestMessage message(RTM_NEWROUTE, kAddFlags);
  auto& header = message.Reserve<rtmsg>();
  header.rtm_family = static_cast<uint8_t>(destination.family);
  header.rtm_dst_len = destination.prefix_length;
  header.rtm_table = TableByte(added.table);
  header.rtm_protocol = added.protocol;
  header.rtm_scope = added.scope;
  header.rtm_type = RTN_UNICAST;
  if (destination.prefix_length != 0) PutAddress(message, RTA_DST, destination);
  if (!added.gateway.empty()) {
    const IpNetwork gateway = ParseIpAddress(added.gateway);
    if (gateway.family == destination.family) {
      PutAddress(message, RTA_GATEWAY, gateway);
    } else {
      if (gateway.family != AF_INET6) FamiliesDiffer(what);
      std::vector<uint8_t> via(sizeof(uint16_t));
      const auto family = static_cast<uint16_t>(gateway.family);
      std::memcpy(via.data(), &family, sizeof(family));
      via.insert(via.end(), gateway.bytes.begin(), gateway.bytes.end());
      message.Put(RTA_VIA, via.data(), via.size());
    }
  }
  if (!added.source.empty()) {
    const IpNetwork source = ParseIpAddress(added.source);
    if (source.family != destination.family) FamiliesDiffer(what);
    PutAddress(message, RTA_PREFSRC, source);
  }
  if (added.index != 0) message.PutU32(RTA_OIF, static_cast<uint32_t>(added.index));
  if (added.metric != 0) message.PutU32(RTA_PRIORITY, added.metric);
  PutLargeTable(message, added.table);
  return message;
}

// The network of a CIDR as the kernel gives it back: destinations may be the same and their texts not.
bool SameNetwork(const std::string& a, const std::string& b) {
  const IpNetwork left = ParseIpNetwork(a), right = ParseIpNetwork(b);
  return left.family == right.family && left.prefix_length == right.prefix_length &&
         left.bytes == right.bytes;
}

bool SameAddress(const std::string& a, const std::string& b) {
  return a == b || (!a.empty() && !b.empty() && ParseIpAddress(a).bytes == ParseIpAddress(b).bytes);
}

// The kernel also says EEXIST where the destination is reached by another way.
void CheckPresent(NetlinkSocket& socket, const Route& added, const std::string& what) {
  std::string others;
  for (const Route& route : ListRoutes(socket)) {
    if (!SameNetwork(route.destination, added.destination) || route.table != added.table) continue;
    if (route.index == added.index && SameAddress(route.gateway, added.gateway)) return;
    others += (others.empty() ? "" : ", ") + ("interface " + std::to_string(route.index)) +
              (route.gateway.empty() ? "" : " via " + route.gateway);
  }
  throw MakeNetlinkError(
      EEXIST, what,
      others.empty() ? "another kind of route leads there" : "it leads through " + others);
}

// ---- rules

// A rule as the kernel lists it, with these attributes alone, sends all traffic from and to these networks to its
// table. What else it may have narrows it (marks, interfaces, ports, users and what is to come).
std::optional<Rule> ParseRule(const nlmsghdr* answer) {
  fib_rule_hdr header;
  Attributes::Bytes bytes;
  if (answer->nlmsg_type != RTM_NEWRULE || !SplitAnswer(answer, &header, &bytes))
    return std::nullopt;
  if ((header.family != AF_INET && header.family != AF_INET6) || header.action != FR_ACT_TO_TBL ||
      header.tos != 0 || (header.flags & FIB_RULE_INVERT) != 0) {
    return std::nullopt;
  }
  bool plain = true;
  Attributes::ForEach(bytes, [&](int type, Attributes::Bytes value) {
    switch (type) {
      case FRA_DST:
      case FRA_SRC:
      case FRA_PRIORITY:
      case FRA_TABLE:
      case FRA_PROTOCOL:
      case FRA_PAD:
        return;
      case FRA_SUPPRESS_PREFIXLEN:
      case FRA_SUPPRESS_IFGROUP:  // always listed; all ones = none
        plain = plain &&
                std::all_of(value.begin(), value.end(), [](uint8_t byte) { return byte == 0xff; });
        return;
      default:
        plain = false;
    }
  });
  if (!plain) return std::nullopt;
  const Attributes attributes(bytes);
  Rule rule;
  rule.family = header.family;
  rule.priority = attributes.Get<uint32_t>(FRA_PRIORITY).value_or(0);
  if (attributes.Has(FRA_SRC))
    rule.source = FormatIpNetwork(rule.family, attributes.Find(FRA_SRC), header.src_len);
  if (attributes.Has(FRA_DST))
    rule.destination = FormatIpNetwork(rule.family, attributes.Find(FRA_DST), header.dst_len);
  rule.table = attributes.Get<uint32_t>(FRA_TABLE).value_or(header.table);
  return rule;
}

RequestMessage AddRequest(const Rule& rule) {
  RequestMessage message(RTM_NEWRULE, kAddFlags);
  auto& header = message.Reserve<fib_rule_hdr>();
  header.family = static_cast<uint8_t>(rule.family);
  header.table = TableByte(rule.table);
  header.action = FR_ACT_TO_TBL;
  const auto network = [&](const std::string& cidr) {
    IpNetwork parsed = ParseIpNetwork(cidr);
    if (parsed.family != rule.family) FamiliesDiffer("add rule " + std::to_string(rule.priority));
    return parsed;
  };
  // A network of length 0 is all; the kernel takes no attribute for it.
  IpNetwork source, destination;
  if (!rule.source.empty()) source = network(rule.source);
  if (!rule.destination.empty()) destination = network(rule.destination);
  header.src_len = source.prefix_length;
  header.dst_len = destination.prefix_length;
  if (source.prefix_length != 0) PutAddress(message, FRA_SRC, source);
  if (destination.prefix_length != 0) PutAddress(message, FRA_DST, destination);
  message.PutU32(FRA_PRIORITY, rule.priority);
  PutLargeTable(message, rule.table);
  return message;
}

// ---- neighbours

std::optional<Neighbour> ParseNeighbour(const nlmsghdr* answer) {
  ndmsg header;
  Attributes::Bytes bytes;
  if (answer->nlmsg_type != RTM_NEWNEIGH || !SplitAnswer(answer, &header, &bytes))
    return std::nullopt;
  if ((header.ndm_state & NUD_PERMANENT) == 0 || (header.ndm_flags & NTF_PROXY) != 0)
    return std::nullopt;
  const Attributes attributes(bytes);
  Neighbour neighbour;
  neighbour.index = header.ndm_ifindex;
  neighbour.destination = FormatIpAddress(header.ndm_family, attributes.Find(NDA_DST));
  neighbour.address = FormatHardwareAddress(attributes.Find(NDA_LLADDR));
  if (neighbour.destination.empty() || neighbour.address.empty()) return std::nullopt;
  return neighbour;
}

RequestMessage AddRequest(const Neighbour& neighbour) {
  const IpNetwork destination = ParseIpAddress(neighbour.destination);
  const std::vector<uint8_t> address = ParseHardwareAddress(neighbour.address);
  // An entry that the kernel has learned by itself is replaced.
  RequestMessage message(RTM_NEWNEIGH, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE);
  auto& header = message.Reserve<ndmsg>();
  header.ndm_family = static_cast<uint8_t>(destination.family);
  header.ndm_ifindex = neighbour.index;
  header.ndm_state = NUD_PERMANENT;
  PutAddress(message, NDA_DST, destination);
  message.Put(NDA_LLADDR, address.data(), address.size());
  return message;
}

}  // namespace

std::vector<Route> ListRoutes(NetlinkSocket& route) {
  std::vector<Route> routes;
  // One after the other: with no family given the kernel adds those of multicast routing and others.
  for (const int family : {AF_INET, AF_INET6}) {
    RequestMessage message(RTM_GETROUTE, NLM_F_REQUEST | NLM_F_DUMP);
    auto& header = message.Reserve<rtmsg>();
    header.rtm_family = static_cast<uint8_t>(family);
    header.rtm_type = RTN_UNICAST;  // the filter of kernels that check strictly
    try {
      route.Dump(message.get(), "list routes", [&](const nlmsghdr* answer) {
        if (std::optional<Route> parsed = ParseRoute(answer, family))
          routes.push_back(std::move(*parsed));
      });
    } catch (const NetlinkError& e) {
      // A kernel without IPv6.
      if (family != AF_INET6 || (e.error() != EAFNOSUPPORT && e.error() != EOPNOTSUPP)) throw;
    }
  }
  return routes;
}

std::vector<Rule> ListRules(NetlinkSocket& route) {
  std::vector<Rule> rules;
  RequestMessage message(RTM_GETRULE, NLM_F_REQUEST | NLM_F_DUMP);
  message.Reserve<fib_rule_hdr>();
  route.Dump(message.get(), "list rules", [&](const nlmsghdr* answer) {
    if (std::optional<Rule> parsed = ParseRule(answer)) rules.push_back(std::move(*parsed));
  });
  return rules;
}

std::vector<Neighbour> ListPermanentNeighbours(NetlinkSocket& route, int index) {
  std::vector<Neighbour> neighbours;
  RequestMessage message(RTM_GETNEIGH, NLM_F_REQUEST | NLM_F_DUMP);
  message.Reserve<ndmsg>();
  message.PutU32(NDA_IFINDEX, static_cast<uint32_t>(index));  // the kernel's filter
  route.Dump(message.get(), "list neighbours", [&](const nlmsghdr* answer) {
    std::optional<Neighbour> parsed = ParseNeighbour(answer);
    if (parsed && parsed->index == index) neighbours.push_back(std::move(*parsed));
  });
  return neighbours;
}

void AddRoute(NetlinkSocket& route, const Route& added) {
  const std::string what = "add route " + added.destination;
  try {
    route.Request(AddRequest(added).get(), what);
  } catch (const NetlinkError& e) {
    if (e.error() != EEXIST) throw;
    CheckPresent(route, added, what);
  }
}

void AddRule(NetlinkSocket& route, const Rule& rule) {
  try {
    route.Request(AddRequest(rule).get(), "add rule " + std::to_string(rule.priority));
  } catch (const NetlinkError& e) {
    if (e.error() != EEXIST) throw;
  }
}

void AddNeighbour(NetlinkSocket& route, const Neighbour& neighbour) {
  route.Request(AddRequest(neighbour).get(), "add neighbour " + neighbour.destination);
}

NetlinkMessage AddRouteMessage(const Route& added) { return AddRequest(added).Bytes(); }
NetlinkMessage AddRuleMessage(const Rule& rule) { return AddRequest(rule).Bytes(); }
NetlinkMessage AddNeighbourMessage(const Neighbour& neighbour) {
  return AddRequest(neighbour).Bytes();
}

}  // namespace rdma
