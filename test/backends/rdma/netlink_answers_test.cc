// Answers that this kernel does not give: of hardware that is not here, and broken ones.
#include <gtest/gtest.h>
#include <linux/fib_rules.h>
#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <rdma/rdma_netlink.h>

#include <cerrno>
#include <random>

#include "addresses.h"
#include "hardware_address.h"
#include "kernel_stand_in.h"
#include "links.h"
#include "rdma_links.h"
#include "routes.h"

namespace rdma {
namespace {

// Answers every dump with these messages' bodies, anything else with an acknowledgement after them.
KernelStandIn::Answer Always(int type, std::vector<Bytes> bodies) {
  return [type, bodies = std::move(bodies)](const nlmsghdr& request) {
    const bool dump = (request.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    std::vector<Bytes> answer;
    for (const Bytes& body : bodies)
      answer.push_back(Message(request.nlmsg_seq, type, dump ? NLM_F_MULTI : 0, body));
    answer.push_back(dump ? Done(request.nlmsg_seq) : Result(request.nlmsg_seq, 0));
    return answer;
  };
}

constexpr int RdmaType(int command) { return RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command); }

TEST(LinkAnswers, OfAMemberOfABondWithAnAddressOfItsOwn) {
  ifinfomsg header{};
  header.ifi_index = 12;
  header.ifi_type = 1;
  header.ifi_flags = IFF_UP | IFF_BROADCAST;
  KernelStandIn kernel(Always(
      RTM_NEWLINK,
      {Body(header,
            {Attribute(IFLA_IFNAME, "enp141s0f0np0"), Number<uint32_t>(IFLA_MTU, 9000),
             Number<uint32_t>(IFLA_MASTER, 20), Number<uint8_t>(IFLA_OPERSTATE, 3),
             Attribute(IFLA_ADDRESS, Bytes{2, 0, 0x5e, 0, 0x53, 1}),
             Attribute(IFLA_PERM_ADDRESS, Bytes{0xec, 0x0d, 0x9a, 0x6f, 0xa3, 0x12}),
             Attribute(IFLA_IFALIAS, "rail 3"),
             Attribute(IFLA_LINKINFO | NLA_F_NESTED,
                       Join({Attribute(IFLA_INFO_SLAVE_KIND, Bytes{'b', 'o', 'n', 'd'}),
                             Attribute(IFLA_INFO_SLAVE_DATA, Bytes(40))})),
             Attribute(IFLA_PHYS_SWITCH_ID, Bytes{0x12, 0xa3, 0x6f, 0, 3, 0x9a, 0x0d, 0xec}),
             Attribute(IFLA_PHYS_PORT_NAME, "p0"), Attribute(IFLA_PARENT_DEV_NAME, "0000:8d:00.0"),
             Attribute(IFLA_PARENT_DEV_BUS_NAME, "pci"),
             Attribute(IFLA_PROP_LIST | NLA_F_NESTED,
                       Join({Attribute(IFLA_ALT_IFNAME, "enxec0d9a6fa312"),
                             Attribute(IFLA_ALT_IFNAME, "rail3")})),
             Attribute(IFLA_XDP | NLA_F_NESTED,
                       Join({Number<uint8_t>(IFLA_XDP_ATTACHED, XDP_ATTACHED_MULTI),
                             Number<uint32_t>(IFLA_XDP_SKB_PROG_ID, 21),
                             Number<uint32_t>(IFLA_XDP_HW_PROG_ID, 22)})),
             Number<uint32_t>(63, 65000), Number<uint32_t>(64, 64000)})}));
  NetlinkSocket socket = kernel.Connect();
  Link expected;
  expected.index = 12;
  expected.name = "enp141s0f0np0";
  expected.alternative_names = {"enxec0d9a6fa312", "rail3"};
  expected.alias = "rail 3";
  expected.type = 1;
  expected.slave_kind = "bond";
  expected.address = "02:00:5e:00:53:01";
  expected.permanent_address = "ec:0d:9a:6f:a3:12";
  expected.mtu = 9000;
  expected.up = true;
  expected.state = "lowerlayerdown";
  expected.master = 20;
  expected.parent_bus = "pci";
  expected.parent_device = "0000:8d:00.0";
  expected.physical_switch_id = "12a36f00039a0dec";
  expected.physical_port_name = "p0";
  expected.xdp = {{XDP_FLAGS_SKB_MODE, 21}, {XDP_FLAGS_HW_MODE, 22}};
  expected.gso_ipv4_max_size = 65000;
  expected.gro_ipv4_max_size = 64000;
  EXPECT_EQ(ListLinks(socket), std::vector<Link>{expected});
}

TEST(LinkAnswers, OfIpOverInfiniBand) {
  ifinfomsg header{};
  header.ifi_index = 5;
  header.ifi_type = 32;
  const Bytes address =
      ParseHardwareAddress("80:00:00:48:fe:80:00:00:00:00:00:00:EC:0D:9A:03:00:6F:A3:12");
  KernelStandIn kernel(Always(
      RTM_NEWLINK, {Body(header, {Attribute(IFLA_IFNAME, "ib0"), Attribute(IFLA_ADDRESS, address),
                                  Attribute(IFLA_LINKINFO, Attribute(IFLA_INFO_KIND, "ipoib"))})}));
  NetlinkSocket socket = kernel.Connect();
  const std::optional<Link> link = FindLink(socket, "ib0");
  ASSERT_TRUE(link);
  EXPECT_EQ(link->address, "80:00:00:48:fe:80:00:00:00:00:00:00:ec:0d:9a:03:00:6f:a3:12");
  EXPECT_EQ(link->kind, "ipoib");
  EXPECT_EQ(link->type, 32);
}

TEST(LinkAnswers, OfALinkWithMoreThan64KiBOfAttributes) {
  ifinfomsg header{};
  header.ifi_index = 5;
  Bytes body = Body(header, {Attribute(IFLA_IFNAME, "pf0")});
  for (int i = 0; i < 4; ++i) body = Join({body, Attribute(IFLA_VFINFO_LIST, Bytes(60'000))});
  body = Join({body, Number<uint32_t>(IFLA_MTU, 4200)});
  KernelStandIn kernel(Always(RTM_NEWLINK, {body}));
  NetlinkSocket socket = kernel.Connect();
  const std::optional<Link> link = FindLink(socket, 5);
  ASSERT_TRUE(link);
  EXPECT_EQ(link->name, "pf0");
  EXPECT_EQ(link->mtu, 4200u);
}

TEST(LinkAnswers, WithoutTheLinkAreAnError) {
  KernelStandIn kernel(Always(RTM_NEWLINK, {}));
  NetlinkSocket socket = kernel.Connect();
  try {
    FindLink(socket, 5);
    FAIL();
  } catch (const NetlinkError& e) {
    EXPECT_EQ(e.error(), EPROTO);
  }
}

// A kernel that does not check strictly sends the whole list.
TEST(AddressAnswers, OfOtherInterfacesAreLeftOut) {
  const auto address = [](uint32_t index, uint8_t last) {
    ifaddrmsg header{};
    header.ifa_family = AF_INET;
    header.ifa_prefixlen = 24;
    header.ifa_index = index;
    return Body(header, {Attribute(IFA_ADDRESS, Bytes{203, 0, 113, 1}),
                         Attribute(IFA_LOCAL, Bytes{192, 0, 2, last}),
                         Number<uint32_t>(IFA_FLAGS, IFA_F_PERMANENT)});
  };
  KernelStandIn kernel(Always(RTM_NEWADDR, {address(1, 1), address(2, 2), address(3, 3)}));
  NetlinkSocket socket = kernel.Connect();
  EXPECT_EQ(ListAddresses(socket, 2),
            (std::vector<InterfaceAddress>{{.index = 2, .cidr = "192.0.2.2/24"}}));
  EXPECT_EQ(ListAddresses(socket).size(), 3u);
}

// A kernel without IPv6 answers its question with the routes of IPv4.
TEST(RouteAnswers, OfAnotherFamilyAreLeftOut) {
  rtmsg header{};
  header.rtm_family = AF_INET;
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_type = RTN_UNICAST;
  header.rtm_protocol = RTPROT_BOOT;
  KernelStandIn kernel(Always(
      RTM_NEWROUTE,
      {Body(header, {Number<uint32_t>(RTA_OIF, 3), Attribute(RTA_GATEWAY, Bytes{192, 0, 2, 1})})}));
  NetlinkSocket socket = kernel.Connect();
  EXPECT_EQ(
      ListRoutes(socket),
      (std::vector<Route>{
          {.index = 3, .family = AF_INET, .destination = "0.0.0.0/0", .gateway = "192.0.2.1"}}));
}

TEST(RouteAnswers, WithSeveralNextHopsAreLeftOut) {
  rtmsg header{};
  header.rtm_family = AF_INET;
  header.rtm_type = RTN_UNICAST;
  KernelStandIn kernel(Always(RTM_NEWROUTE, {Body(header, {Number<uint32_t>(RTA_OIF, 3),
                                                           Attribute(RTA_MULTIPATH, Bytes(16))})}));
  NetlinkSocket socket = kernel.Connect();
  EXPECT_TRUE(ListRoutes(socket).empty());
}

TEST(RdmaAnswers, TellTheMode) {
  const auto mode_of = [](const Bytes& attributes) {
    KernelStandIn kernel(Always(RdmaType(RDMA_NLDEV_CMD_SYS_GET), {attributes}));
    NetlinkSocket socket = kernel.Connect();
    return GetNamespaceMode(socket);
  };
  EXPECT_EQ(mode_of(Number<uint8_t>(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 0)),
            RdmaNamespaceMode::kExclusive);
  EXPECT_EQ(mode_of(Number<uint8_t>(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 1)),
            RdmaNamespaceMode::kShared);
  EXPECT_THROW(mode_of({}), NetlinkError);
  EXPECT_THROW(mode_of(Attribute(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, Bytes{})), NetlinkError);

  KernelStandIn old([](const nlmsghdr& request) -> std::vector<Bytes> {
    return {Result(request.nlmsg_seq, EINVAL)};
  });
  NetlinkSocket socket = old.Connect();
  EXPECT_EQ(GetNamespaceMode(socket), RdmaNamespaceMode::kShared);
  KernelStandIn refusing([](const nlmsghdr& request) -> std::vector<Bytes> {
    return {Result(request.nlmsg_seq, EPERM)};
  });
  NetlinkSocket second = refusing.Connect();
  EXPECT_THROW(GetNamespaceMode(second), NetlinkError);
}

TEST(RdmaAnswers, TellWhetherThereIsASubsystem) {
  const auto answer = [](int error) {
    KernelStandIn kernel([error](const nlmsghdr& request) -> std::vector<Bytes> {
      return {Result(request.nlmsg_seq, error)};
    });
    return FindNamespaceMode([&] { return kernel.Connect(); });
  };
  const auto no_socket = [](int error) {
    return FindNamespaceMode(
        [error]() -> NetlinkSocket { throw MakeNetlinkError(error, "open a socket"); });
  };
  EXPECT_EQ(no_socket(EPROTONOSUPPORT), std::nullopt);
  EXPECT_EQ(no_socket(EINVAL), std::nullopt);
  EXPECT_EQ(answer(EOPNOTSUPP), std::nullopt);
  EXPECT_EQ(answer(EINVAL), RdmaNamespaceMode::kShared);  // too old for another one
  for (const int error : {EPERM, ENOBUFS, EMFILE, EPROTO}) {
    SCOPED_TRACE(error);
    EXPECT_THROW(answer(error), NetlinkError);
    EXPECT_THROW(no_socket(error), NetlinkError);
  }
  KernelStandIn silent(Always(RdmaType(RDMA_NLDEV_CMD_SYS_GET), {{}}));
  EXPECT_THROW(FindNamespaceMode([&] { return silent.Connect(); }), NetlinkError);
}

TEST(RdmaAnswers, ListTheDevices) {
  const auto device = [](uint32_t index, const std::string& name) {
    return Join({Number(RDMA_NLDEV_ATTR_DEV_INDEX, index),
                 Attribute(RDMA_NLDEV_ATTR_DEV_NAME, name),
                 Number<uint32_t>(RDMA_NLDEV_ATTR_PORT_INDEX, 1)});
  };
  KernelStandIn kernel(Always(RdmaType(RDMA_NLDEV_CMD_GET),
                              {device(0, "mlx5_0"), device(7, "rocep141s0f0"), Bytes(3)}));
  NetlinkSocket socket = kernel.Connect();
  const std::vector<RdmaLink> links = ListRdmaLinks(socket);
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].index, 0u);
  EXPECT_EQ(links[0].name, "mlx5_0");
  EXPECT_EQ(links[1].index, 7u);
  EXPECT_EQ(links[1].name, "rocep141s0f0");
}

TEST(RdmaAnswers, SayWhyADeviceDoesNotMove) {
  KernelStandIn kernel([](const nlmsghdr& request) -> std::vector<Bytes> {
    return {Result(request.nlmsg_seq, EOPNOTSUPP)};
  });
  NetlinkSocket socket = kernel.Connect();
  const NetworkNamespace target = NetworkNamespace::Open("/proc/self/ns/net");
  try {
    MoveRdmaLink(socket, {.index = 7, .name = "mlx5_0"}, target);
    FAIL();
  } catch (const NetlinkError& e) {
    if (std::string(e.what()).find("namespace of a socket") != std::string::npos)
      GTEST_SKIP() << e.what();
    EXPECT_EQ(e.error(), EOPNOTSUPP);
    EXPECT_STREQ(e.what(), "move RDMA device mlx5_0: Operation not supported");
  }
}

// Nothing to be right about but that no byte beyond the answer is read, which the sanitizers see: the stand-in's
// datagrams lie in memory of exactly their size.
TEST(BrokenAnswers, AreReadWithinTheirBounds) {
  std::mt19937 random(7);  // the same each time
  const auto below = [&](uint32_t limit) { return static_cast<uint32_t>(random() % limit); };
  const std::function<Bytes(int)> attributes = [&](int depth) {
    Bytes bytes;
    for (uint32_t count = below(12); count > 0; --count) {
      Bytes value(below(3) == 0 ? below(5) : below(40));
      for (uint8_t& byte : value) byte = static_cast<uint8_t>(random());
      if (depth > 0 && below(3) == 0) value = attributes(depth - 1);
      const int claimed = below(8) == 0 ? static_cast<int>(below(70'000)) % 65'536 : -1;
      const int type = static_cast<int>(below(8) == 0 ? below(65'536) : below(70));
      bytes = Join({bytes, Attribute(type, value, claimed)});
    }
    if (!bytes.empty() && below(4) == 0)
      bytes.resize(bytes.size() - below(static_cast<uint32_t>(std::min<size_t>(bytes.size(), 9))));
    return bytes;
  };
  const auto message = [&](size_t header_size) {
    Bytes header(header_size);
    for (uint8_t& byte : header) byte = static_cast<uint8_t>(random());
    if (header_size > 0) {
      constexpr uint8_t kFamilies[] = {AF_INET, AF_INET6, AF_UNSPEC, 200};
      header[0] = kFamilies[below(4)];
    }
    Bytes bytes = Join({header, attributes(2)});
    if (below(16) == 0) bytes.resize(below(static_cast<uint32_t>(header_size) + 1));
    return bytes;
  };
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const auto answer = [&](int type, size_t header_size) {
      std::vector<Bytes> bodies(8);
      for (Bytes& body : bodies) body = message(header_size);
      return Always(type, std::move(bodies));
    };
    const auto with = [&](int type, size_t header_size,
                          const std::function<void(NetlinkSocket&)>& read) {
      KernelStandIn kernel(answer(type, header_size));
      NetlinkSocket socket = kernel.Connect();
      try {
        read(socket);
      } catch (const NetlinkError&) {  // as good
      }
    };
    with(RTM_NEWLINK, sizeof(ifinfomsg), [](NetlinkSocket& s) { ListLinks(s); });
    with(RTM_NEWADDR, sizeof(ifaddrmsg), [](NetlinkSocket& s) { ListAddresses(s); });
    with(RTM_NEWROUTE, sizeof(rtmsg), [](NetlinkSocket& s) { ListRoutes(s); });
    with(RTM_NEWRULE, sizeof(fib_rule_hdr), [](NetlinkSocket& s) { ListRules(s); });
    with(RTM_NEWNEIGH, sizeof(ndmsg), [](NetlinkSocket& s) { ListPermanentNeighbours(s, 1); });
    with(RdmaType(RDMA_NLDEV_CMD_GET), 0, [](NetlinkSocket& s) { ListRdmaLinks(s); });
    with(RdmaType(RDMA_NLDEV_CMD_SYS_GET), 0, [](NetlinkSocket& s) { GetNamespaceMode(s); });
  }
}

}  // namespace
}  // namespace rdma
