#include "links_source.h"

#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <set>

#include "default_routes.h"
#include "namespaces.h"

namespace rdma {
namespace {

// nic0 and nic1 in a namespace of their own, up, with addresses.
class LinksSource : public NamespacesTest {
 protected:
  void SetUp() override {
    NamespacesTest::SetUp();
    if (IsSkipped()) return;
    AddVeth(pod_route(), "nic0", "nic1");
    for (const char* name : {"lo", "nic0", "nic1"}) {
      ChangeLink(pod_route(), FindLink(pod_route(), name)->index, name, {.up = true});
    }
    nic0_ = FindLink(pod_route(), "nic0")->index;
    nic1_ = FindLink(pod_route(), "nic1")->index;
    AddAddress(pod_route(), {.index = nic0_, .cidr = "192.0.2.7/24"});
    AddAddress(pod_route(), {.index = nic1_, .cidr = "198.51.100.7/24"});
    AddAddress(pod_route(), {.index = nic1_, .cidr = "2001:db8::7/64"});
  }
  KernelNetwork Look() {
    KernelNetwork network;
    pod().Run([&] { network = LookAtKernelNetwork(); });
    return network;
  }
  KernelNetwork LookAt(const std::vector<int>& indices) {
    KernelNetwork network;
    pod().Run([&] { network = LookAtInterfaces(indices); });
    return network;
  }
  // ip route add default nexthop via 192.0.2.1 dev nic0 nexthop via 198.51.100.1 dev nic1
  void AddMultipathRoute() {
    RequestMessage message(RTM_NEWROUTE, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE);
    auto& header = message.Reserve<rtmsg>();
    header.rtm_family = AF_INET;
    header.rtm_table = RT_TABLE_MAIN;
    header.rtm_protocol = RTPROT_BOOT;
    header.rtm_type = RTN_UNICAST;
    std::vector<uint8_t> ways;
    const std::pair<int, std::array<uint8_t, 4>> hops[] = {{nic0_, {192, 0, 2, 1}},
                                                           {nic1_, {198, 51, 100, 1}}};
    for (const auto& [index, gateway] : hops) {
      rtnexthop way = {};
      rtattr attribute = {.rta_len = RTA_LENGTH(4), .rta_type = RTA_GATEWAY};
      way.rtnh_len = sizeof(way) + sizeof(attribute) + 4;
      way.rtnh_ifindex = index;
      const auto append = [&](const void* data, size_t size) {
        const auto* bytes = static_cast<const uint8_t*>(data);
        ways.insert(ways.end(), bytes, bytes + size);
      };
      append(&way, sizeof(way));
      append(&attribute, sizeof(attribute));
      append(gateway.data(), gateway.size());
    }
    message.Put(RTA_MULTIPATH, ways.data(), ways.size());
    pod_route().Request(message.get(), "add multipath route");
  }

  int nic0_ = 0, nic1_ = 0;
};

TEST_F(LinksSource, ShowsTheNamespaceOfTheCallingThread) {
  const KernelNetwork network = Look();
  std::set<std::string> names;
  for (const Link& link : network.links) names.insert(link.name);
  EXPECT_EQ(names, (std::set<std::string>{"lo", "nic0", "nic1"}));
  std::set<std::string> cidrs;
  for (const InterfaceAddress& address : network.addresses) cidrs.insert(address.cidr);
  EXPECT_EQ(cidrs.count("192.0.2.7/24"), 1u);
  EXPECT_EQ(cidrs.count("2001:db8::7/64"), 1u);
  EXPECT_TRUE(network.default_route_interfaces.empty());
}

TEST_F(LinksSource, KnowsDefaultRoutesOfTheMainTableInEitherFamily) {
  AddRoute(
      pod_route(),
      {.index = nic0_, .family = AF_INET, .destination = "10.0.0.0/8", .gateway = "192.0.2.1"});
  AddRoute(pod_route(), {.index = nic0_,
                         .family = AF_INET,
                         .destination = "0.0.0.0/0",
                         .gateway = "192.0.2.1",
                         .table = 101});
  EXPECT_TRUE(Look().default_route_interfaces.empty());
  AddRoute(pod_route(),
           {.index = nic1_, .family = AF_INET6, .destination = "::/0", .gateway = "2001:db8::1"});
  EXPECT_EQ(Look().default_route_interfaces, std::set<int>{nic1_});
  AddRoute(pod_route(),
           {.index = nic0_, .family = AF_INET, .destination = "0.0.0.0/0", .gateway = "192.0.2.1"});
  EXPECT_EQ(Look().default_route_interfaces, (std::set<int>{nic0_, nic1_}));
}

TEST_F(LinksSource, KnowsEachWayOfAMultipathDefaultRoute) {
  AddMultipathRoute();
  EXPECT_EQ(Look().default_route_interfaces, (std::set<int>{nic0_, nic1_}));
}

TEST_F(LinksSource, ShowsWhatAPlanNeedsOfItsInterfacesAlone) {
  AddRoute(
      pod_route(),
      {.index = nic0_, .family = AF_INET, .destination = "10.1.0.0/16", .gateway = "192.0.2.1"});
  AddRoute(
      pod_route(),
      {.index = nic1_, .family = AF_INET, .destination = "10.2.0.0/16", .gateway = "198.51.100.1"});
  AddRule(pod_route(), {.family = AF_INET, .priority = 77, .source = "192.0.2.0/24", .table = 101});
  AddNeighbour(pod_route(),
               {.index = nic0_, .destination = "192.0.2.9", .address = "02:00:5e:00:53:09"});
  AddNeighbour(pod_route(),
               {.index = nic1_, .destination = "198.51.100.9", .address = "02:00:5e:00:53:0a"});
  const KernelNetwork network = LookAt({nic0_, nic0_});
  EXPECT_EQ(network.links.size(), 3u);
  std::set<std::string> destinations;
  for (const Route& route : network.routes) {
    EXPECT_EQ(route.index, nic0_);
    destinations.insert(route.destination);
  }
  EXPECT_EQ(destinations.count("10.1.0.0/16"), 1u);
  int ours = 0;
  for (const Rule& rule : network.rules) ours += rule.priority == 77;
  EXPECT_EQ(ours, 1);
  ASSERT_EQ(network.neighbours.size(), 1u);
  EXPECT_EQ(network.neighbours[0].destination, "192.0.2.9");
  int ipv4 = 0;
  for (const InterfaceAddress& address : network.addresses) {
    EXPECT_EQ(address.index, nic0_);
    ipv4 += address.cidr == "192.0.2.7/24";
  }
  EXPECT_EQ(ipv4, 1);
}

}  // namespace
}  // namespace rdma
