#include "addresses.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>

#include "attributes.h"
#include "ip_network.h"
#include "message.h"

namespace rdma {
namespace {

std::optional<InterfaceAddress> ParseAddress(const nlmsghdr* answer) {
  ifaddrmsg header;
  Attributes::Bytes bytes;
  if (answer->nlmsg_type != RTM_NEWADDR || !SplitAnswer(answer, &header, &bytes))
    return std::nullopt;
  const Attributes attributes(bytes);
  InterfaceAddress address;
  address.index = static_cast<int>(header.ifa_index);
  // IFA_ADDRESS is the other end's on point-to-point links, but all there is with IPv6.
  const int own = attributes.Has(IFA_LOCAL) ? IFA_LOCAL : IFA_ADDRESS;
  if (!attributes.Has(own)) return std::nullopt;
  address.cidr = FormatIpNetwork(header.ifa_family, attributes.Find(own), header.ifa_prefixlen);
  if (address.cidr.empty()) return std::nullopt;
  address.broadcast = FormatIpAddress(header.ifa_family, attributes.Find(IFA_BROADCAST));
  address.scope = header.ifa_scope;
  address.permanent =
      (attributes.Get<uint32_t>(IFA_FLAGS).value_or(header.ifa_flags) & IFA_F_PERMANENT) != 0;
  return address;
}

// index: 0 = of all.
std::vector<InterfaceAddress> List(NetlinkSocket& route, int index) {
  RequestMessage message(RTM_GETADDR, NLM_F_REQUEST | NLM_F_DUMP);
  // The filter of kernels that check strictly; others send all.
  message.Reserve<ifaddrmsg>().ifa_index = static_cast<uint32_t>(index);
  std::vector<InterfaceAddress> addresses;
  const auto take = [&](const nlmsghdr* answer) {
    std::optional<InterfaceAddress> address = ParseAddress(answer);
    if (address && (index == 0 || address->index == index))
      addresses.push_back(std::move(*address));
  };
  try {
    route.Dump(message.get(), "list addresses", take);
  } catch (const NetlinkError& e) {
    // A link that is not there has none.
    if (index == 0 || e.error() != ENODEV) throw;
  }
  return addresses;
}

RequestMessage AddRequest(const InterfaceAddress& address) {
  const IpNetwork network = ParseIpNetwork(address.cidr);
  RequestMessage message(RTM_NEWADDR, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL);
  auto& header = message.Reserve<ifaddrmsg>();
  header.ifa_family = static_cast<uint8_t>(network.family);
  header.ifa_prefixlen = network.prefix_length;
  header.ifa_flags = network.family == AF_INET6 ? IFA_F_NODAD : 0;
  header.ifa_scope = address.scope;
  header.ifa_index = static_cast<uint32_t>(address.index);
  message.Put(IFA_LOCAL, network.bytes.data(), network.bytes.size());
  message.Put(IFA_ADDRESS, network.bytes.data(), network.bytes.size());
  if (!address.broadcast.empty()) {
    const IpNetwork broadcast = ParseIpAddress(address.broadcast);
    message.Put(IFA_BROADCAST, broadcast.bytes.data(), broadcast.bytes.size());
  }
  return message;
}

}  // namespace

std::vector<InterfaceAddress> ListAddresses(NetlinkSocket& route) { return List(route, 0); }

std::vector<InterfaceAddress> ListAddresses(NetlinkSocket& route, int index) {
  return List(route, index);
}

void AddAddress(NetlinkSocket& route, const InterfaceAddress& address) {
  try {
    route.Request(AddRequest(address).get(), "add address " + address.cidr);
  } catch (const NetlinkError& e) {
    if (e.error() != EEXIST) throw;
  }
}

NetlinkMessage AddAddressMessage(const InterfaceAddress& address) {
  return AddRequest(address).Bytes();
}

}  // namespace rdma
