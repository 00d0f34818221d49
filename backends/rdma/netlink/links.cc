#include "links.h"

#include <linux/if.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>

#include "attributes.h"
#include "hardware_address.h"
#include "message.h"

namespace rdma {
namespace {

// Linux 6.3, after Debian 12's headers. Source: torvalds/linux:include/uapi/linux/if_link.h.
constexpr int kIflaGsoIpv4MaxSize = 63;
constexpr int kIflaGroIpv4MaxSize = 64;

constexpr uint32_t kFlags = IFF_NOARP | IFF_PROMISC | IFF_ALLMULTI;
constexpr size_t kMaxAlternativeName = 127;  // ALTIFNAMSIZ - 1

constexpr std::pair<int, uint32_t> kXdpModes[] = {{IFLA_XDP_DRV_PROG_ID, XDP_FLAGS_DRV_MODE},
                                                  {IFLA_XDP_SKB_PROG_ID, XDP_FLAGS_SKB_MODE},
                                                  {IFLA_XDP_HW_PROG_ID, XDP_FLAGS_HW_MODE}};

// As /sys/class/net/<if>/operstate names them. Source: torvalds/linux:net/core/net-sysfs.c.
std::string OperState(uint8_t state) {
  constexpr const char* kNames[] = {"unknown", "notpresent", "down", "lowerlayerdown",
                                    "testing", "dormant",    "up"};
  return state < std::size(kNames) ? kNames[state] : "unknown";
}

std::optional<Link> ParseLink(const nlmsghdr* answer) {
  ifinfomsg header;
  Attributes::Bytes bytes;
  if (answer->nlmsg_type != RTM_NEWLINK || !SplitAnswer(answer, &header, &bytes))
    return std::nullopt;
  const Attributes attributes(bytes);
  Link link;
  link.index = header.ifi_index;
  link.type = header.ifi_type;
  link.up = (header.ifi_flags & IFF_UP) != 0;
  link.flags = header.ifi_flags & kFlags;
  link.name = attributes.Text(IFLA_IFNAME);
  Attributes::ForEach(attributes.Find(IFLA_PROP_LIST), [&](int type, Attributes::Bytes value) {
    if (type == IFLA_ALT_IFNAME) link.alternative_names.push_back(Attributes::ToText(value));
  });
  link.alias = attributes.Text(IFLA_IFALIAS);
  const Attributes info = attributes.Nested(IFLA_LINKINFO);
  link.kind = info.Text(IFLA_INFO_KIND);
  link.slave_kind = info.Text(IFLA_INFO_SLAVE_KIND);
  link.address = FormatHardwareAddress(attributes.Find(IFLA_ADDRESS));
  link.permanent_address = FormatHardwareAddress(attributes.Find(IFLA_PERM_ADDRESS));
  link.mtu = attributes.Get<uint32_t>(IFLA_MTU).value_or(0);
  link.state = OperState(attributes.Get<uint8_t>(IFLA_OPERSTATE).value_or(0));
  link.master = attributes.Get<int>(IFLA_MASTER).value_or(0);
  link.parent = attributes.Get<int>(IFLA_LINK).value_or(0);
  link.parent_elsewhere = attributes.Has(IFLA_LINK_NETNSID);
  link.parent_bus = attributes.Text(IFLA_PARENT_DEV_BUS_NAME);
  link.parent_device = attributes.Text(IFLA_PARENT_DEV_NAME);
  // As sysfs writes it: hexadecimal, without colons.
  link.physical_switch_id = FormatHardwareAddress(attributes.Find(IFLA_PHYS_SWITCH_ID));
  std::erase(link.physical_switch_id, ':');
  link.physical_port_name = attributes.Text(IFLA_PHYS_PORT_NAME);
  link.gso_max_size = attributes.Get<uint32_t>(IFLA_GSO_MAX_SIZE).value_or(0);
  link.gro_max_size = attributes.Get<uint32_t>(IFLA_GRO_MAX_SIZE).value_or(0);
  link.gso_ipv4_max_size = attributes.Get<uint32_t>(kIflaGsoIpv4MaxSize).value_or(0);
  link.gro_ipv4_max_size = attributes.Get<uint32_t>(kIflaGroIpv4MaxSize).value_or(0);
  const Attributes xdp = attributes.Nested(IFLA_XDP);
  if (xdp.Get<uint8_t>(IFLA_XDP_ATTACHED).value_or(XDP_ATTACHED_NONE) != XDP_ATTACHED_NONE) {
    for (const auto& [id, mode] : kXdpModes) {
      if (const auto program = xdp.Get<uint32_t>(id)) link.xdp.push_back({mode, *program});
    }
  }
  return link;
}

std::vector<Link> GetLinks(NetlinkSocket& route, RequestMessage& message, const std::string& what) {
  // Statistics are most of an answer, and nobody wants them here.
  message.PutU32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  std::vector<Link> links;
  route.Dump(message.get(), what, [&](const nlmsghdr* answer) {
    if (std::optional<Link> link = ParseLink(answer)) links.push_back(std::move(*link));
  });
  return links;
}

std::optional<Link> GetLink(NetlinkSocket& route, RequestMessage& message,
                            const std::string& what) {
  try {
    std::vector<Link> links = GetLinks(route, message, what);
    if (links.empty()) throw MakeNetlinkError(EPROTO, what, "an answer without the link");
    return std::move(links.front());
  } catch (const NetlinkError& e) {
    if (e.error() == ENODEV) return std::nullopt;
    throw;
  }
}

RequestMessage ChangeRequest(int index, const LinkChange& change) {
  RequestMessage message(RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK);
  auto& header = message.Reserve<ifinfomsg>();
  header.ifi_index = index;
  if (change.up) {
    header.ifi_change = IFF_UP;
    header.ifi_flags = *change.up ? IFF_UP : 0;
  }
  if (change.flags) {
    header.ifi_change |= kFlags;
    header.ifi_flags |= *change.flags & kFlags;
  }
  // An empty one of no bytes takes it away.
  if (change.alias) message.Put(IFLA_IFALIAS, change.alias->data(), change.alias->size());
  if (change.name) message.PutString(IFLA_IFNAME, *change.name);
  if (change.address) {
    const std::vector<uint8_t> address = ParseHardwareAddress(*change.address);
    message.Put(IFLA_ADDRESS, address.data(), address.size());
  }
  if (change.mtu) message.PutU32(IFLA_MTU, *change.mtu);
  if (change.gso_max_size) message.PutU32(IFLA_GSO_MAX_SIZE, *change.gso_max_size);
  if (change.gro_max_size) message.PutU32(IFLA_GRO_MAX_SIZE, *change.gro_max_size);
  if (change.gso_ipv4_max_size) message.PutU32(kIflaGsoIpv4MaxSize, *change.gso_ipv4_max_size);
  if (change.gro_ipv4_max_size) message.PutU32(kIflaGroIpv4MaxSize, *change.gro_ipv4_max_size);
  if (change.xdp_off) {
    nlattr* xdp = message.Begin(IFLA_XDP);
    message.PutU32(IFLA_XDP_FD, static_cast<uint32_t>(-1));
    if (*change.xdp_off != 0) message.PutU32(IFLA_XDP_FLAGS, *change.xdp_off);
    message.End(xdp);
  }
  if (change.target != nullptr)
    message.PutU32(IFLA_NET_NS_FD, static_cast<uint32_t>(change.target->fd()));
  return message;
}

RequestMessage MacvlanRequest(int parent, const std::string& name, const std::string& mode,
                              const std::string& address, uint32_t mtu, int target_fd) {
  constexpr std::pair<const char*, uint32_t> kModes[] = {{"private", MACVLAN_MODE_PRIVATE},
                                                         {"vepa", MACVLAN_MODE_VEPA},
                                                         {"bridge", MACVLAN_MODE_BRIDGE},
                                                         {"passthru", MACVLAN_MODE_PASSTHRU}};
  const auto* known = std::find_if(std::begin(kModes), std::end(kModes),
                                   [&](const auto& m) { return mode == m.first; });
  if (known == std::end(kModes))
    throw NetlinkError(EINVAL, "add macvlan " + name + ": no mode \"" + mode + "\"");

  RequestMessage message(RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
  message.Reserve<ifinfomsg>();
  message.PutU32(IFLA_LINK, static_cast<uint32_t>(parent));
  message.PutString(IFLA_IFNAME, name);
  if (!address.empty()) {
    const std::vector<uint8_t> bytes = ParseHardwareAddress(address);
    message.Put(IFLA_ADDRESS, bytes.data(), bytes.size());
  }
  if (mtu != 0) message.PutU32(IFLA_MTU, mtu);
  message.PutU32(IFLA_NET_NS_FD, static_cast<uint32_t>(target_fd));
  nlattr* info = message.Begin(IFLA_LINKINFO);
  message.Put(IFLA_INFO_KIND, "macvlan", sizeof("macvlan") - 1);
  nlattr* data = message.Begin(IFLA_INFO_DATA);
  message.PutU32(IFLA_MACVLAN_MODE, known->second);
  message.End(data);
  message.End(info);
  return message;
}

}  // namespace

std::vector<Link> ListLinks(NetlinkSocket& route) {
  RequestMessage message(RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP);
  message.Reserve<ifinfomsg>();
  return GetLinks(route, message, "list links");
}

std::optional<Link> FindLink(NetlinkSocket& route, int index) {
  RequestMessage message(RTM_GETLINK, NLM_F_REQUEST | NLM_F_ACK);
  message.Reserve<ifinfomsg>().ifi_index = index;
  return GetLink(route, message, "find link " + std::to_string(index));
}

std::optional<Link> FindLink(NetlinkSocket& route, const std::string& name) {
  if (name.empty() || name.size() > kMaxAlternativeName) return std::nullopt;
  RequestMessage message(RTM_GETLINK, NLM_F_REQUEST | NLM_F_ACK);
  message.Reserve<ifinfomsg>();
  message.PutString(name.size() < IFNAMSIZ ? IFLA_IFNAME : IFLA_ALT_IFNAME, name);
  return GetLink(route, message, "find link " + name);
}

void ChangeLink(NetlinkSocket& route, int index, const std::string& name,
                const LinkChange& change) {
  route.Request(ChangeRequest(index, change).get(), "set link " + name);
}

void AddMacvlan(NetlinkSocket& route, int parent, const std::string& name, const std::string& mode,
                const std::string& address, uint32_t mtu, const NetworkNamespace& target) {
  route.Request(MacvlanRequest(parent, name, mode, address, mtu, target.fd()).get(),
                "add macvlan " + name);
}

void DeleteLink(NetlinkSocket& route, int index, const std::string& name) {
  RequestMessage message(RTM_DELLINK, NLM_F_REQUEST | NLM_F_ACK);
  message.Reserve<ifinfomsg>().ifi_index = index;
  route.Request(message.get(), "delete link " + name);
}

void DeleteAlternativeName(NetlinkSocket& route, int index, const std::string& name) {
  RequestMessage message(RTM_DELLINKPROP, NLM_F_REQUEST | NLM_F_ACK);
  message.Reserve<ifinfomsg>().ifi_index = index;
  nlattr* list = message.Begin(IFLA_PROP_LIST | NLA_F_NESTED);
  message.PutString(IFLA_ALT_IFNAME, name);
  message.End(list);
  route.Request(message.get(), "delete alternative name " + name);
}

NetlinkMessage ChangeLinkMessage(int index, const LinkChange& change) {
  return ChangeRequest(index, change).Bytes();
}

NetlinkMessage AddMacvlanMessage(int parent, const std::string& name, const std::string& mode,
                                 const std::string& address, uint32_t mtu, int target_fd) {
  return MacvlanRequest(parent, name, mode, address, mtu, target_fd).Bytes();
}

}  // namespace rdma
