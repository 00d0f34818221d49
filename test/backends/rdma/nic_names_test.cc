#include <map>
#include <random>
#include <set>
#include <string>

#include "dra/resource/names.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nic.h"

namespace rdma {
namespace {

using testing::Optional;

TEST(NicNames, SayWhereAFunctionSits) {
  EXPECT_EQ(PciNicName("0000:8d:00.0", 0), "pci-0000-8d-00-0");
  EXPECT_EQ(PciNicName("0000:8D:00.7", 1), "pci-0000-8d-00-7-p1");
}

TEST(NicNames, KeepAnInterfacesNameWhereItIsADnsLabel) {
  EXPECT_EQ(VirtualNicName("bond0"), "net-bond0");
  EXPECT_EQ(VirtualNicName("veth-1"), "net-veth-1");
}

TEST(NicNames, EncodeWhatIsNoDnsLabel) {
  const char* const interfaces[] = {"eth0.100",    "ib0@x",    "UPPER",    "-x", "x-",
                                    "under_score", "\xc3\xa4", "\xff\xfe", "*"};
  std::set<std::string> names;
  for (const std::string interface : interfaces) {
    SCOPED_TRACE(interface);
    const std::string name = VirtualNicName(interface);
    EXPECT_TRUE(dra::resource::CheckDnsLabel(name).ok()) << name;
    EXPECT_EQ(name.rfind("netx-", 0), 0u) << name;
    EXPECT_THAT(InterfaceOfName(name), Optional(interface));
    EXPECT_TRUE(names.insert(name).second);
  }
  // Base32hex of RFC 4648, worked out by hand.
  EXPECT_EQ(VirtualNicName("FOO"), "netx-8p7ku");
  // RFC 4648, section 10: "foobar", which is a label: net-foobar is its only name.
  EXPECT_THAT(InterfaceOfName("netx-cpnmuoj1e8"), std::nullopt);
}

TEST(NicNames, AreReadBackOnlyAsTheyAreWritten) {
  for (const char* name : {"", "net-", "netx-", "pci-0000-8d-00-0", "net-UPPER", "net-a.b",
                           "netx-!", "netx-ZZ", "eth0"}) {
    EXPECT_THAT(InterfaceOfName(name), std::nullopt) << name;
  }
  // The last digit's unused bits must be zero.
  const std::string name = VirtualNicName("A");
  ASSERT_EQ(name, "netx-84");
  EXPECT_THAT(InterfaceOfName("netx-85"), std::nullopt);
}

// Over names as the kernel allows them: 1 to 15 bytes, no '/', no ':', no white space.
TEST(NicNames, AreReversibleAndNeverCollide) {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> size(1, 15), byte(1, 255), letter(0, 37), sort(0, 1);
  std::map<std::string, std::string> interfaces;
  for (int i = 0; i < 20000; ++i) {
    std::string interface;
    const bool plain = sort(random) == 0;
    for (int n = size(random); n > 0; --n) {
      char c = plain ? "abcdefghijklmnopqrstuvwxyz0123456789-x"[letter(random)]
                     : static_cast<char>(byte(random));
      if (c == '/' || c == ':' || c == ' ' || (c >= 9 && c <= 13)) c = '_';
      interface += c;
    }
    const std::string name = VirtualNicName(interface);
    ASSERT_TRUE(dra::resource::CheckDnsLabel(name).ok()) << name;
    ASSERT_THAT(InterfaceOfName(name), Optional(interface));
    const auto [known, is_new] = interfaces.emplace(name, interface);
    ASSERT_TRUE(is_new || known->second == interface) << name;
    ASSERT_NE(name.rfind("pci-", 0), 0u);
  }
}

Netdev SampleNetdev() {
  Netdev netdev;
  netdev.link.index = 7;
  netdev.link.name = "n\xff";
  netdev.link.alternative_names = {"enp1s0", "\xfe"};
  netdev.link.alias = "Leaf 3 \xc3\xa4";
  netdev.link.type = 32;
  netdev.link.kind = "ipoib";
  netdev.link.slave_kind = "bond";
  netdev.link.address = "02:00:5e:00:53:01";
  netdev.link.permanent_address = "02:00:5e:00:53:02";
  netdev.link.mtu = 9000;
  netdev.link.up = true;
  netdev.link.state = "up";
  netdev.link.master = 3;
  netdev.link.parent = 4;
  netdev.link.parent_elsewhere = true;
  netdev.link.parent_bus = "pci";
  netdev.link.parent_device = "0000:8d:00.0";
  netdev.link.physical_switch_id = "aabb";
  netdev.link.physical_port_name = "p0";
  netdev.link.gso_max_size = 1;
  netdev.link.gro_max_size = 2;
  netdev.link.gso_ipv4_max_size = 3;
  netdev.link.gro_ipv4_max_size = 4;
  netdev.speed_mbps = 400000;
  netdev.dev_port = 1;
  netdev.addresses = {{7, "192.0.2.7/24", "192.0.2.255", 0, true},
                      {7, "2001:db8::7/64", "", 200, false}};
  netdev.default_route = true;
  return netdev;
}

TEST(NicNotes, KeepEveryMember) {
  const Netdev netdev = SampleNetdev();
  // As it lies in the note.
  const Netdev back = NetdevFromJson(nlohmann::json::parse(ToJson(netdev).dump()));
  EXPECT_EQ(back.link, netdev.link);
  EXPECT_EQ(back.addresses, netdev.addresses);
  EXPECT_EQ(back.speed_mbps, netdev.speed_mbps);
  EXPECT_EQ(back.dev_port, 1);
  EXPECT_TRUE(back.default_route);
}

TEST(NicNotes, KeepTheRdmaDevice) {
  HeldNic held;
  held.rdma = RdmaDevice{
      .name = "mlx5_0",
      .node_type = "CA",
      .node_guid = "1",
      .system_image_guid = "2",
      .firmware = "3",
      .board_id = "4",
      .hca_type = "5",
      .ports = {{.number = 1,
                 .link_layer = "InfiniBand",
                 .state = "ACTIVE",
                 .physical_state = "LinkUp",
                 .rate_mbps = 400000,
                 .port_guid = "6",
                 .gid_netdevs = {"ib0"}}},
      .chars = {.uverbs = "infiniband/uverbs0", .umad = {"infiniband/umad0"}, .issm = {"i"}},
      .unusable = "why"};
  const HeldNic back = HeldNicFromJson(nlohmann::json::parse(ToJson(held).dump()));
  EXPECT_FALSE(back.netdev.has_value());
  ASSERT_TRUE(back.rdma.has_value());
  EXPECT_EQ(ToJson(back), ToJson(held));
  EXPECT_EQ(back.rdma->ports.at(0).gid_netdevs, std::vector<std::string>{"ib0"});
  EXPECT_EQ(back.rdma->ports.at(0).rate_mbps, 400000);
  EXPECT_EQ(back.rdma->chars.umad, std::vector<std::string>{"infiniband/umad0"});
  EXPECT_EQ(back.rdma->unusable, "why");
}

TEST(NicNotes, RefuseWhatIsNone) {
  for (const char* text : {"null", "[]", "{}", R"({"link": {}, "addresses": []})",
                           R"({"link": {"name": 3}, "addresses": []})",
                           R"({"link": {"name": "a", "index": "x"}, "addresses": []})"}) {
    EXPECT_THROW(NetdevFromJson(nlohmann::json::parse(text)), std::exception) << text;
  }
  EXPECT_THROW(HeldNicFromJson(nlohmann::json::parse(R"({"rdma": 1})")), std::exception);
}

}  // namespace
}  // namespace rdma
