#include <linux/fib_rules.h>
#include <linux/neighbour.h>
#include <sys/socket.h>

#include <algorithm>

#include "addresses.h"
#include "namespaces.h"
#include "routes.h"

namespace rdma {
namespace {

template <typename T>
bool Contains(const std::vector<T>& list, const T& item) {
  return std::count(list.begin(), list.end(), item) == 1;
}

// nic0 and nic1 in the pod, up, with addresses.
class Routes : public NamespacesTest {
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
    AddAddress(pod_route(), {.index = nic0_, .cidr = "2001:db8::7/64"});
    AddAddress(pod_route(), {.index = nic1_, .cidr = "198.51.100.7/24"});
  }

  int nic0_ = 0, nic1_ = 0;
};

TEST_F(Routes, AddsRoutesOfEveryKindAndListsThem) {
  const std::vector<Route> added{
      {.index = nic0_, .family = AF_INET, .destination = "0.0.0.0/0", .gateway = "192.0.2.1"},
      {.index = nic0_,
       .family = AF_INET,
       .destination = "10.1.0.0/16",
       .gateway = "192.0.2.1",
       .source = "192.0.2.7"},
      {.index = nic0_, .family = AF_INET, .destination = "10.2.0.0/16", .scope = RT_SCOPE_LINK},
      {.index = nic1_,
       .family = AF_INET,
       .destination = "0.0.0.0/0",
       .gateway = "198.51.100.1",
       .table = 1100},
      {.index = nic1_,
       .family = AF_INET,
       .destination = "10.3.0.0/16",
       .gateway = "198.51.100.1",
       .table = 200,
       .protocol = RTPROT_STATIC,
       .metric = 77},
      {.index = nic0_, .family = AF_INET, .destination = "10.4.0.0/16", .gateway = "2001:db8::1"},
      {.index = nic0_,
       .family = AF_INET6,
       .destination = "::/0",
       .gateway = "2001:db8::1",
       .metric = 1024},
      {.index = nic0_,
       .family = AF_INET6,
       .destination = "2001:db8:1::/48",
       .gateway = "2001:db8::1",
       .source = "2001:db8::7",
       .table = 1100,
       .metric = 5},
  };
  for (int times = 0; times < 2; ++times) {  // the second changes nothing
    for (const Route& route : added) {
      SCOPED_TRACE(route.destination);
      AddRoute(pod_route(), route);
    }
  }
  const std::vector<Route> listed = ListRoutes(pod_route());
  for (const Route& route : added) EXPECT_TRUE(Contains(listed, route)) << route.destination;
  // The kernel's own come with the addresses; those of table local are not for anybody.
  EXPECT_TRUE(Contains(listed, {.index = nic0_,
                                .family = AF_INET,
                                .destination = "192.0.2.0/24",
                                .source = "192.0.2.7",
                                .scope = RT_SCOPE_LINK,
                                .protocol = RTPROT_KERNEL}));
  for (const Route& route : listed)
    EXPECT_NE(route.table, uint32_t{RT_TABLE_LOCAL}) << route.destination;
  EXPECT_TRUE(ListRoutes(host_route()).empty());
}

TEST_F(Routes, RefusesARouteWhoseDestinationIsReachedOtherwise) {
  AddRoute(pod_route(),
           {.index = nic0_, .family = AF_INET, .destination = "0.0.0.0/0", .gateway = "192.0.2.1"});
  std::string text;
  const Route other{
      .index = nic1_, .family = AF_INET, .destination = "0.0.0.0/0", .gateway = "198.51.100.1"};
  EXPECT_EQ(ErrorOf([&] { AddRoute(pod_route(), other); }, &text), EEXIST);
  EXPECT_EQ(text, "add route 0.0.0.0/0: File exists (it leads through interface " +
                      std::to_string(nic0_) + " via 192.0.2.1)");
  Route same_interface = other;
  same_interface.index = nic0_;
  same_interface.gateway = "192.0.2.2";
  EXPECT_EQ(ErrorOf([&] { AddRoute(pod_route(), same_interface); }), EEXIST);
}

TEST_F(Routes, TellsTheKernelsReasons) {
  const auto error = [&](Route route, std::string* text) {
    return ErrorOf([&] { AddRoute(pod_route(), route); }, text);
  };
  std::string text;
  EXPECT_EQ(error({.index = nic0_, .destination = "10.0.0.0/8", .gateway = "203.0.113.1"}, &text),
            ENETUNREACH);
  EXPECT_EQ(text, "add route 10.0.0.0/8: Network is unreachable (Nexthop has invalid gateway)");
  EXPECT_EQ(error({.index = nic0_, .destination = "10.1.2.3/8"}, &text), EINVAL);  // host bits
  EXPECT_EQ(error({.index = nic0_, .destination = "10.0.0.0/8", .source = "2001:db8::7"}, &text),
            EINVAL);
  EXPECT_EQ(text, "add route 10.0.0.0/8: its addresses are of several families");
  EXPECT_EQ(
      error({.index = nic0_, .destination = "2001:db8:9::/48", .gateway = "192.0.2.1"}, &text),
      EINVAL);
  EXPECT_EQ(error({.index = nic0_, .destination = "somewhere"}, &text), EINVAL);
  EXPECT_EQ(text, "\"somewhere\" is no IP address");
}

TEST_F(Routes, LeavesOutRoutesOfOtherKinds) {
  RequestMessage message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
  auto& header = message.Reserve<rtmsg>();
  header.rtm_family = AF_INET;
  header.rtm_dst_len = 32;
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_type = RTN_BLACKHOLE;
  const uint8_t destination[] = {203, 0, 113, 9};
  message.Put(RTA_DST, destination, sizeof(destination));
  pod_route().Request(message.get(), "add a black hole");
  for (const Route& route : ListRoutes(pod_route())) EXPECT_NE(route.destination, "203.0.113.9/32");
  // It is in the way all the same.
  EXPECT_EQ(ErrorOf([&] {
              AddRoute(pod_route(),
                       {.index = nic0_, .destination = "203.0.113.9/32", .gateway = "192.0.2.1"});
            }),
            EEXIST);
}

TEST_F(Routes, AddsRulesAndListsThem) {
  const std::vector<Rule> added{
      {.family = AF_INET, .priority = 100, .source = "192.0.2.7/32", .table = 1100},
      {.family = AF_INET,
       .priority = 101,
       .source = "192.0.2.0/24",
       .destination = "10.0.0.0/8",
       .table = 200},
      {.family = AF_INET, .priority = 102, .table = 200},
      {.family = AF_INET6, .priority = 100, .source = "2001:db8::7/128", .table = 1100},
  };
  for (int times = 0; times < 2; ++times) {
    for (const Rule& rule : added) AddRule(pod_route(), rule);
  }
  const std::vector<Rule> listed = ListRules(pod_route());
  for (const Rule& rule : added)
    EXPECT_TRUE(Contains(listed, rule)) << rule.priority << " " << rule.source;
  // The kernel's own.
  EXPECT_TRUE(Contains(listed, {.family = AF_INET, .priority = 32766, .table = RT_TABLE_MAIN}));
  EXPECT_EQ(ErrorOf([&] {
              AddRule(pod_route(), {.family = AF_INET, .source = "2001:db8::/64", .table = 1});
            }),
            EINVAL);
}

// Listed as what they are not, they would send all of a pod's traffic to their table.
TEST_F(Routes, LeavesOutRulesThatAskForMoreThanNetworks) {
  const auto add = [&](uint32_t priority, const std::function<void(RequestMessage&)>& narrow,
                       uint32_t flags = 0) {
    RequestMessage message(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL);
    auto& header = message.Reserve<fib_rule_hdr>();
    header.family = AF_INET;
    header.table = 100;
    header.action = FR_ACT_TO_TBL;
    header.flags = flags;
    message.PutU32(FRA_PRIORITY, priority);
    narrow(message);
    pod_route().Request(message.get(), "add a rule");
  };
  add(1, [](RequestMessage&) {});
  add(2, [](RequestMessage& m) { m.PutU32(FRA_FWMARK, 7); });
  add(3, [](RequestMessage& m) { m.PutString(FRA_IIFNAME, "nic0"); });
  add(4, [](RequestMessage& m) { m.PutString(FRA_OIFNAME, "nic0"); });
  add(5, [](RequestMessage& m) { m.PutU32(FRA_SUPPRESS_PREFIXLEN, 0); });
  add(6, [](RequestMessage& m) { m.PutU8(FRA_IP_PROTO, 6); });
  add(
      7,
      [](RequestMessage& m) {
        const uint8_t source[] = {192, 0, 2, 7};
        m.get();
        m.Put(FRA_SRC, source, sizeof(source));
      },
      FIB_RULE_INVERT);
  std::vector<uint32_t> priorities;
  for (const Rule& rule : ListRules(pod_route())) {
    if (rule.priority > 0 && rule.priority < 10) priorities.push_back(rule.priority);
  }
  EXPECT_EQ(priorities, std::vector<uint32_t>{1});
}

TEST_F(Routes, AddsPermanentNeighboursAndListsThoseOfAnInterface) {
  const Neighbour v4{.index = nic0_, .destination = "192.0.2.99", .address = "02:00:5e:00:53:63"};
  const Neighbour v6{.index = nic0_, .destination = "2001:db8::63", .address = "02:00:5e:00:53:64"};
  const Neighbour other{
      .index = nic1_, .destination = "198.51.100.99", .address = "02:00:5e:00:53:65"};
  // One that the kernel learned in the meantime gives way.
  RequestMessage message(RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_EXCL);
  auto& header = message.Reserve<ndmsg>();
  header.ndm_family = AF_INET;
  header.ndm_ifindex = nic0_;
  header.ndm_state = NUD_STALE;
  const uint8_t destination[] = {192, 0, 2, 99}, address[] = {2, 0, 0, 0, 0, 1};
  message.Put(NDA_DST, destination, sizeof(destination));
  message.Put(NDA_LLADDR, address, sizeof(address));
  pod_route().Request(message.get(), "add a stale neighbour");
  EXPECT_TRUE(ListPermanentNeighbours(pod_route(), nic0_).empty());

  for (int times = 0; times < 2; ++times) {
    for (const Neighbour& neighbour : {v4, v6, other}) AddNeighbour(pod_route(), neighbour);
  }
  std::vector<Neighbour> listed = ListPermanentNeighbours(pod_route(), nic0_);
  EXPECT_EQ(listed.size(), 2u);
  EXPECT_TRUE(Contains(listed, v4));
  EXPECT_TRUE(Contains(listed, v6));
  EXPECT_EQ(ListPermanentNeighbours(pod_route(), nic1_), std::vector<Neighbour>{other});
  EXPECT_TRUE(ListPermanentNeighbours(pod_route(), 4711).empty());
  EXPECT_EQ(ErrorOf([&] {
              AddNeighbour(
                  pod_route(),
                  {.index = 4711, .destination = "192.0.2.1", .address = "02:00:5e:00:53:01"});
            }),
            ENODEV);
}

}  // namespace
}  // namespace rdma
