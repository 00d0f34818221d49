#include "links.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "changes.h"
#include "netlink/addresses.h"
#include "netlink/links.h"
#include "netlink/message.h"

namespace rdma_simulator {
namespace {

constexpr size_t kMaxNameBytes = 15;  // IFNAMSIZ - 1

std::string WhyNoVeth(const Interface& interface) {
  if (interface.type != 1) return "is InfiniBand, and a veth is Ethernet";
  if (!interface.kind.empty() && interface.kind != "veth")
    return "is a " + interface.kind + ", and a veth is none";
  return "";
}

// The sockets of both sides.
class Sides {
 public:
  explicit Sides(const std::string& wire) : host_(NETLINK_ROUTE) {
    if (wire.empty()) return;
    wire_namespace_.emplace(rdma::NetworkNamespace::Open(wire));
    wire_.emplace(NETLINK_ROUTE, *wire_namespace_);
  }

  rdma::NetlinkSocket& host() { return host_; }
  rdma::NetlinkSocket& wire() { return wire_ ? *wire_ : host_; }

  std::optional<rdma::Link> Peer(const std::string& name) {
    std::optional<rdma::Link> peer = rdma::FindLink(wire(), name);
    if (peer && peer->kind != "veth") {
      throw std::runtime_error("the name " + name +
                               ", of a wire's other end, is taken by an interface that is "
                               "none: remove or rename that");
    }
    return peer;
  }

  // The end of a pair that the host sees now, under whatever name.
  std::optional<rdma::Link> Here(const rdma::Link& peer, const std::string& name) {
    for (const rdma::Link& link : rdma::ListLinks(host_)) {
      if (link.kind != "veth" || link.parent != peer.index) continue;
      // Of a peer in another namespace only the number is seen, which others have as well.
      if (wire_ ? link.parent_elsewhere && link.name == name : !link.parent_elsewhere) return link;
    }
    return std::nullopt;
  }

  void AddPair(const Interface& interface, const std::string& peer) {
    rdma::RequestMessage message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
    message.Reserve<ifinfomsg>();
    message.PutString(IFLA_IFNAME, interface.name);
    nlattr* info = message.Begin(IFLA_LINKINFO);
    message.PutString(IFLA_INFO_KIND, "veth");
    nlattr* data = message.Begin(IFLA_INFO_DATA);
    nlattr* other = message.Begin(VETH_INFO_PEER);
    message.Reserve<ifinfomsg>();
    message.PutString(IFLA_IFNAME, peer);
    if (wire_namespace_)
      message.PutU32(IFLA_NET_NS_FD, static_cast<uint32_t>(wire_namespace_->fd()));
    message.End(other);
    message.End(data);
    message.End(info);
    host_.Request(message.get(), "add veth " + interface.name);
  }

 private:
  rdma::NetlinkSocket host_;
  std::optional<rdma::NetworkNamespace> wire_namespace_;
  std::optional<rdma::NetlinkSocket> wire_;
};

void MakePair(Sides& sides, const Interface& interface, const std::string& peer_name) {
  if (rdma::FindLink(sides.host(), interface.name)) {
    throw std::runtime_error(
        "there is an interface " + interface.name +
        " already, and it is not the simulator's: remove it, or use another network namespace");
  }
  sides.AddPair(interface, peer_name);
  const rdma::Link end = rdma::FindLink(sides.host(), interface.name).value();
  const rdma::Link peer = rdma::FindLink(sides.wire(), peer_name).value();
  rdma::ChangeLink(sides.wire(), peer.index, peer_name,
                   {.up = interface.state != "down", .mtu = interface.mtu});
  rdma::ChangeLink(sides.host(), end.index, interface.name,
                   {.up = true, .address = interface.address, .mtu = interface.mtu});
  for (const std::string& cidr : interface.cidrs)
    rdma::AddAddress(sides.host(), {.index = end.index, .cidr = cidr});
}

// Both ends go with either.
void RemovePair(Sides& sides, const RealLink& link) {
  const auto peer = sides.Peer(link.peer);
  if (peer) rdma::DeleteLink(sides.wire(), peer->index, peer->name);
}

}  // namespace

std::string PeerName(const std::string& interface) {
  const std::string name = interface + "-w";
  if (name.size() <= kMaxNameBytes) return name;
  unsigned hash = 2166136261;
  for (const char c : interface) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  char number[8];
  std::snprintf(number, sizeof(number), "%05x", hash & 0xfffff);
  return interface.substr(0, 8) + number + "-w";
}

std::vector<std::string> LeftOut(const State& state) {
  std::vector<std::string> texts;
  EachInterface(Visible(state), [&](const Interface& interface) {
    const std::string why = WhyNoVeth(interface);
    if (!why.empty()) texts.push_back(interface.name + " " + why);
  });
  return texts;
}

void MatchLinks(State& state) {
  Sides sides(state.wire);
  // Those that are away count too.
  State all = state;
  all.links.clear();
  std::map<std::string, Interface> wanted;
  EachInterface(Visible(all), [&](const Interface& interface) {
    if (WhyNoVeth(interface).empty()) wanted.emplace(interface.name, interface);
  });
  std::erase_if(state.links, [&](const auto& link) {
    if (wanted.contains(link.first)) return false;
    RemovePair(sides, link.second);
    return true;
  });
  for (const auto& [name, interface] : wanted) {
    RealLink& link = state.links.try_emplace(name, RealLink{PeerName(name)}).first->second;
    std::optional<rdma::Link> peer = sides.Peer(link.peer);
    if (!peer) {
      MakePair(sides, interface, link.peer);
      peer = sides.Peer(link.peer);
    }
    const auto here = sides.Here(peer.value(), name);
    link.index = here ? here->index : 0;
    if (here && here->name != name) RenameInterface(state, name, here->name);
  }
}

void RemoveLinks(State& state) {
  if (!state.links_made) return;
  Sides sides(state.wire);
  for (const auto& [name, link] : state.links) RemovePair(sides, link);
  state.links.clear();
  state.links_made = false;
  state.wire.clear();
}

void RenameLink(const State& state, const std::string& from, const std::string& to) {
  const auto link = state.links.find(from);
  if (link == state.links.end()) return;
  rdma::NetlinkSocket route(NETLINK_ROUTE);
  const auto here = rdma::FindLink(route, link->second.index);
  if (!here || here->name != from)
    throw std::runtime_error("--rename: interface " + from +
                             " is in another network namespace now: rename it there");
  // Kernels before 6.2 rename only what is down.
  rdma::ChangeLink(route, here->index, from, {.up = false});
  rdma::ChangeLink(route, here->index, from, {.name = to});
  if (here->up) rdma::ChangeLink(route, here->index, to, {.up = true});
}

void MatchCarrier(const State& state, const std::string& interface) {
  const auto link = state.links.find(interface);
  if (link == state.links.end()) return;
  Sides sides(state.wire);
  const auto peer = sides.Peer(link->second.peer);
  if (!peer) return;
  EachInterface(state.node, [&](const Interface& each) {
    if (each.name == interface)
      rdma::ChangeLink(sides.wire(), peer->index, peer->name, {.up = each.state != "down"});
  });
}

void FollowLinks(const std::function<void()>& changed) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    throw std::runtime_error(std::string("cannot watch links: ") + std::strerror(errno));
  for (;;) {
    changed();
    std::array<char, 8192> buffer;
    // Lost messages (ENOBUFS) are a change as well.
    if (recv(fd, buffer.data(), buffer.size(), 0) < 0 && errno != ENOBUFS && errno != EINTR)
      throw std::runtime_error(std::string("cannot watch links: ") + std::strerror(errno));
    while (recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT) > 0) {
    }
  }
}

}  // namespace rdma_simulator
