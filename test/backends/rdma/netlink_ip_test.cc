// Compares what we read from the kernel with what iproute2 reads, in JSON.
#include <arpa/inet.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "addresses.h"
#include "namespaces.h"
#include "nlohmann/json.hpp"
#include "routes.h"

namespace rdma {
namespace {

using Json = nlohmann::json;

// On the host: a bridge with the port br-port; nic with a macvlan and another name; lo. All up, with addresses, routes,
// rules and neighbours, all made by `ip`.
constexpr char kSetUp[] = R"(set -e
  ip link set lo up
  ip link add br0 type bridge
  ip link add br-port type veth peer name br-far
  ip link set br-port master br0
  ip link add nic type veth peer name far mtu 9000
  ip link property add dev nic altname enp65s0f0np0v12-and-more altname second
  ip link set nic alias 'rail 3' gso_max_size 30000 gro_max_size 20000
  ip link add link nic name mv0 type macvlan mode bridge
  for i in br0 br-port br-far nic far mv0; do ip link set $i up; done
  ip addr add 192.0.2.7/24 broadcast + dev nic
  ip addr add 192.0.2.8/24 dev nic
  ip addr add 198.51.100.1/32 dev far scope link
  ip addr add 203.0.113.1 peer 203.0.113.2 dev br0
  ip addr add 192.0.2.99/24 dev nic valid_lft 3600 preferred_lft 1800
  ip addr add 2001:db8::7/64 dev nic nodad
  ip route add default via 192.0.2.1 dev nic
  ip route add 10.1.0.0/16 via 192.0.2.1 src 192.0.2.8 metric 7 proto static
  ip route add 10.2.0.0/16 dev far scope link table 1100
  ip route add 10.3.0.0/16 via inet6 2001:db8::1 dev nic
  ip route add 10.4.0.0/16 nexthop via 192.0.2.1 nexthop via 192.0.2.2
  ip route add blackhole 10.5.0.0/16
  ip route add 2001:db8:1::/48 via 2001:db8::1 dev nic table 200
  ip route add default via 2001:db8::1 dev nic
  ip rule add from 192.0.2.7 table 1100 priority 100
  ip rule add from 192.0.2.0/24 to 10.0.0.0/8 table 200 priority 101
  ip rule add fwmark 7 table 200 priority 102
  ip -6 rule add to 2001:db8:1::/48 table 200 priority 103
  ip neigh add 192.0.2.50 lladdr 02:00:5e:00:53:32 dev nic nud permanent
  ip neigh add 192.0.2.51 lladdr 02:00:5e:00:53:33 dev nic nud stale
  ip neigh add 2001:db8::50 lladdr 02:00:5e:00:53:34 dev nic nud permanent
  ip neigh add 198.51.100.50 lladdr 02:00:5e:00:53:35 dev far nud permanent
)";

class IpTest : public NamespacesTest {
 protected:
  void SetUp() override {
    NamespacesTest::SetUp();
    if (IsSkipped()) return;
    if (std::system("command -v ip >/dev/null 2>&1") != 0) GTEST_SKIP() << "ip is not installed";
    int status = 0;
    host().Run([&] { status = std::system(kSetUp); });
    ASSERT_EQ(status, 0);
  }

  Json Ip(const std::string& arguments) {
    std::string text;
    host().Run([&] {
      FILE* output = popen(("ip -j -d " + arguments).c_str(), "r");
      if (output == nullptr) return;
      for (int c; (c = fgetc(output)) != EOF;) text += static_cast<char>(c);
      pclose(output);
    });
    Json json = text.find_first_not_of(" \n") == std::string::npos
                    ? Json::array()
                    : Json::parse(text, nullptr, false);
    EXPECT_TRUE(json.is_array()) << arguments << ": " << text;
    // It writes empty objects for what it leaves out.
    Json kept = Json::array();
    for (Json& entry : json) {
      if (!entry.empty()) kept.push_back(std::move(entry));
    }
    return kept;
  }
  int IndexOf(const std::string& name) { return FindLink(host_route(), name).value().index; }
};

// "10.1.0.0/16", "default" and single addresses as CIDR.
std::string Cidr(const std::string& text, int family) {
  if (text == "default") return family == AF_INET ? "0.0.0.0/0" : "::/0";
  return text.find('/') != std::string::npos ? text : text + (family == AF_INET ? "/32" : "/128");
}

uint32_t Table(const Json& entry) {
  const std::string name = entry.value("table", "main");
  if (name == "main") return RT_TABLE_MAIN;
  if (name == "local") return RT_TABLE_LOCAL;
  if (name == "default") return RT_TABLE_DEFAULT;
  return static_cast<uint32_t>(std::stoul(name));
}

TEST_F(IpTest, ReadsTheSameLinks) {
  std::vector<Link> ours = ListLinks(host_route());
  const Json theirs = Ip("link show");
  ASSERT_EQ(ours.size(), theirs.size());
  std::map<int, std::string> names;
  for (const Link& link : ours) names[link.index] = link.name;
  for (const Json& entry : theirs) {
    SCOPED_TRACE(entry.dump());
    const auto link = std::find_if(ours.begin(), ours.end(),
                                   [&](const Link& l) { return l.index == entry.at("ifindex"); });
    ASSERT_NE(link, ours.end());
    EXPECT_EQ(link->name, entry.at("ifname"));
    EXPECT_EQ(link->mtu, entry.at("mtu"));
    EXPECT_EQ(link->address, entry.at("address"));
    EXPECT_EQ(link->alias, entry.value("ifalias", ""));
    EXPECT_EQ(Json(link->alternative_names), entry.value("altnames", Json::array()));
    std::string state = entry.at("operstate");
    std::transform(state.begin(), state.end(), state.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    EXPECT_EQ(link->state, state);
    const Json flags = entry.at("flags");
    EXPECT_EQ(link->up, std::count(flags.begin(), flags.end(), "UP") == 1);
    const Json info = entry.value("linkinfo", Json::object());
    EXPECT_EQ(link->kind, info.value("info_kind", ""));
    EXPECT_EQ(link->slave_kind, info.value("info_slave_kind", ""));
    EXPECT_EQ(link->master == 0 ? "" : names[link->master], entry.value("master", ""));
    EXPECT_EQ(link->parent == 0 ? "" : names[link->parent], entry.value("link", ""));
    EXPECT_EQ(link->gso_max_size, entry.at("gso_max_size"));
    EXPECT_EQ(link->gro_max_size, entry.at("gro_max_size"));
    EXPECT_EQ(link->parent_bus, entry.value("parentbus", ""));
  }
}

TEST_F(IpTest, ReadsTheSameAddresses) {
  using Row = std::tuple<int, std::string, std::string, std::string, bool>;
  std::set<Row> ours, theirs;
  const std::map<uint8_t, std::string> scopes{
      {RT_SCOPE_UNIVERSE, "global"}, {RT_SCOPE_LINK, "link"}, {RT_SCOPE_HOST, "host"}};
  // Those of the kernel's own making come when they will.
  for (const InterfaceAddress& address : ListAddresses(host_route())) {
    if (address.cidr.rfind("fe80:", 0) == 0) continue;
    ours.emplace(address.index, address.cidr, address.broadcast, scopes.at(address.scope),
                 address.permanent);
  }
  for (const Json& link : Ip("addr show")) {
    for (const Json& address : link.at("addr_info")) {
      const std::string local = address.at("local");
      if (local.rfind("fe80:", 0) == 0) continue;
      theirs.emplace(
          link.at("ifindex"), local + "/" + std::to_string(address.at("prefixlen").get<int>()),
          address.value("broadcast", ""), address.at("scope"), !address.value("dynamic", false));
    }
  }
  EXPECT_EQ(ours, theirs);
  EXPECT_GE(ours.size(), 8u);
}

TEST_F(IpTest, ReadsTheSameRoutes) {
  using Row = std::tuple<std::string, std::string, std::string, std::string, uint32_t, uint32_t>;
  std::set<Row> ours, theirs;
  std::map<int, std::string> names;
  for (const Link& link : ListLinks(host_route())) names[link.index] = link.name;
  const auto made_by_kernel = [](const std::string& cidr) {
    return cidr.rfind("fe80:", 0) == 0 || cidr.rfind("ff00:", 0) == 0;
  };
  for (const Route& route : ListRoutes(host_route())) {
    if (made_by_kernel(route.destination)) continue;
    ours.emplace(names.at(route.index), route.destination, route.gateway, route.source, route.table,
                 route.metric);
  }
  for (const int family : {AF_INET, AF_INET6}) {
    for (const Json& route :
         Ip((family == AF_INET ? "-4" : "-6") + std::string(" route show table all"))) {
      const std::string destination = Cidr(route.at("dst"), family);
      if (made_by_kernel(destination) || route.value("type", "unicast") != "unicast" ||
          !route.contains("dev") || Table(route) == RT_TABLE_LOCAL) {
        continue;
      }
      const std::string gateway =
          route.contains("via") ? route.at("via").value("host", "") : route.value("gateway", "");
      theirs.emplace(route.at("dev"), destination, gateway, route.value("prefsrc", ""),
                     Table(route), route.value("metric", 0u));
    }
  }
  EXPECT_EQ(ours, theirs);
  EXPECT_GE(ours.size(), 9u);
}

TEST_F(IpTest, ReadsTheSameRules) {
  using Row = std::tuple<uint32_t, std::string, std::string, uint32_t>;
  for (const int family : {AF_INET, AF_INET6}) {
    SCOPED_TRACE(family);
    std::set<Row> ours, theirs;
    for (const Rule& rule : ListRules(host_route())) {
      if (rule.family == family)
        ours.emplace(rule.priority, rule.source, rule.destination, rule.table);
    }
    for (const Json& rule : Ip((family == AF_INET ? "-4" : "-6") + std::string(" rule show"))) {
      if (rule.contains("fwmark")) continue;
      const auto network = [&](const std::string& key) {
        const std::string address = rule.value(key, "all");
        if (address == "all") return std::string();
        const int length = rule.value(key + "len", family == AF_INET ? 32 : 128);
        return address + "/" + std::to_string(length);
      };
      theirs.emplace(rule.at("priority"), network("src"), network("dst"), Table(rule));
    }
    EXPECT_EQ(ours, theirs);
    EXPECT_GE(ours.size(), 3u);
  }
}

TEST_F(IpTest, ReadsTheSameNeighbours) {
  std::set<std::pair<std::string, std::string>> ours, theirs;
  for (const Neighbour& neighbour : ListPermanentNeighbours(host_route(), IndexOf("nic"))) {
    ours.emplace(neighbour.destination, neighbour.address);
  }
  for (const Json& neighbour : Ip("neigh show dev nic nud permanent")) {
    theirs.emplace(neighbour.at("dst"), neighbour.at("lladdr"));
  }
  EXPECT_EQ(ours, theirs);
  EXPECT_EQ(ours.size(), 2u);
}

}  // namespace
}  // namespace rdma
