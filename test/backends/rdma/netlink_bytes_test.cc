// Compares our requests, byte for byte, with what iproute2's programs send for the same, as strace shows it. Nothing of
// the comparison is made by our encoder. What may differ and is made equal here:
//   - sequence number and port of the sender;
//   - the order of attributes;
//   - NLA_F_NESTED, which kernels do not look at in these messages;
//   - the number of a file descriptor, which is each process's own.
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "addresses.h"
#include "kernel_stand_in.h"
#include "namespaces.h"
#include "rdma_links.h"
#include "routes.h"

namespace rdma {
namespace {

namespace fs = std::filesystem;

bool HaveProgram(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) ==
         0;  // NOLINT: of a test's own words
}

std::string Hex(const Bytes& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) (text += kDigits[byte >> 4]) += kDigits[byte & 15];
  return text;
}

// Type and value of an attribute as text, nests as such.
std::string Describe(int type, const Bytes& value, const std::set<int>& nests,
                     const std::set<int>& descriptors);

// All of it, in an order of its own. What is no attribute shows as such.
std::string DescribeAll(Bytes bytes, const std::set<int>& nests, const std::set<int>& descriptors) {
  std::vector<std::string> parts;
  while (!bytes.empty()) {
    nlattr header{};
    if (bytes.size() >= sizeof(header)) std::memcpy(&header, bytes.data(), sizeof(header));
    if (header.nla_len < sizeof(header) || header.nla_len > bytes.size()) {
      parts.push_back("rest " + Hex(bytes));
      break;
    }
    parts.push_back(Describe(header.nla_type & NLA_TYPE_MASK,
                             Bytes(bytes.begin() + NLA_HDRLEN, bytes.begin() + header.nla_len),
                             nests, descriptors));
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<ssize_t>(std::min<size_t>(
                                                   NLA_ALIGN(header.nla_len), bytes.size())));
  }
  std::sort(parts.begin(), parts.end());
  std::string text;
  for (const std::string& part : parts) text += part + "; ";
  return text;
}

std::string Describe(int type, const Bytes& value, const std::set<int>& nests,
                     const std::set<int>& descriptors) {
  std::string text = std::to_string(type) + ": ";
  if (descriptors.count(type) != 0) return text + (value.size() == 4 ? "a descriptor" : Hex(value));
  // Within IFLA_LINKINFO the data is a nest, and its numbers are its own.
  if (nests.count(type) != 0) return text + "{" + DescribeAll(value, {IFLA_INFO_DATA}, {}) + "}";
  return text + Hex(value);
}

struct Shape {
  size_t header = 0;            // of the family
  std::set<int> nests{};        // attributes that hold others
  std::set<int> descriptors{};  // attributes with a file descriptor
};

std::string Describe(const Bytes& message, const Shape& shape) {
  nlmsghdr header{};
  if (message.size() < sizeof(header) + shape.header) return "short " + Hex(message);
  std::memcpy(&header, message.data(), sizeof(header));
  const auto at = message.begin() + sizeof(header);
  std::string text =
      "type " + std::to_string(header.nlmsg_type) + " flags " + std::to_string(header.nlmsg_flags);
  if (header.nlmsg_len != message.size()) text += " of length " + std::to_string(header.nlmsg_len);
  return text + " header " + Hex(Bytes(at, at + static_cast<ssize_t>(shape.header))) +
         " attributes " +
         DescribeAll(Bytes(at + static_cast<ssize_t>(shape.header), message.end()), shape.nests,
                     shape.descriptors);
}

// The datagrams in strace's output of -e write=all: lines like " | 00010  00 01 ...  02 ...  text |".
std::vector<Bytes> Datagrams(const std::string& path) {
  std::vector<Bytes> datagrams;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find(" | ");
    // With the process's number before it.
    if (at == std::string::npos || line.find_first_not_of("0123456789 ") != at + 1) continue;
    std::istringstream words(line.substr(at + 3, 5 + 2 + 16 * 3 + 1));
    std::string offset, byte;
    words >> offset;
    if (std::stoul(offset, nullptr, 16) == 0) datagrams.emplace_back();
    while (words >> byte)
      datagrams.back().push_back(static_cast<uint8_t>(std::stoul(byte, nullptr, 16)));
  }
  return datagrams;
}

class BytesTest : public NamespacesTest {
 protected:
  void SetUp() override {
    NamespacesTest::SetUp();
    if (IsSkipped()) return;
    for (const char* program : {"strace", "ip"}) {
      if (!HaveProgram(program)) GTEST_SKIP() << program << " is not installed";
    }
    std::string pattern = testing::TempDir() + "dra-bytes-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    nic_ = AddVethOnHost("nic", "far");
    for (const char* name : {"nic", "far"}) {
      ChangeLink(host_route(), FindLink(host_route(), name)->index, name, {.up = true});
    }
  }
  void TearDown() override {
    if (!directory_.empty()) fs::remove_all(directory_);
  }

  // What `ip` sends of this type. It may fail for reasons of this kernel; what it sent counts.
  Bytes Sent(const std::string& arguments, int type) {
    const std::string trace = directory_ + "/trace", errors = directory_ + "/errors";
    host().Run([&] {
      static_cast<void>(std::system(("strace -qq -f -o " + trace +
                                     " -e trace=sendmsg,sendto -e write=all -s 0 ip " + arguments +
                                     " >/dev/null 2>" + errors)
                                        .c_str()));
    });
    Bytes found;
    for (const Bytes& datagram : Datagrams(trace)) {
      if (datagram.size() >= sizeof(nlmsghdr) && datagram[4] == type && datagram[5] == 0 &&
          datagram.size() > sizeof(nlmsghdr) + sizeof(ifinfomsg)) {
        found = datagram;  // before it come shorter ones by which it finds out what the kernel can
      }
    }
    std::ifstream file(errors);
    std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_FALSE(found.empty()) << "ip " << arguments << " sent no such message: " << text;
    return found;
  }
  // The other namespace, for `ip`.
  std::string PodPath() {
    return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(pod().fd());
  }
  static Shape LinkShape() {
    return {sizeof(ifinfomsg), {IFLA_LINKINFO, IFLA_XDP}, {IFLA_NET_NS_FD}};
  }

  std::string directory_;
  int nic_ = 0;
};

TEST_F(BytesTest, LinksAreSetAsIpDoes) {
  const auto compare = [&](const std::string& arguments, const LinkChange& change) {
    SCOPED_TRACE(arguments);
    EXPECT_EQ(Describe(ChangeLinkMessage(nic_, change), LinkShape()),
              Describe(Sent("link set dev nic " + arguments, RTM_NEWLINK), LinkShape()));
  };
  compare("mtu 1400", {.mtu = 1400});
  compare("address 02:00:5e:00:53:01", {.address = "02:00:5e:00:53:01"});
  compare("name net1", {.name = "net1"});
  ChangeLink(host_route(), nic_, "net1", {.up = false, .name = "nic"});
  compare("up mtu 1300", {.up = true, .mtu = 1300});
  compare("down mtu 1300", {.up = false, .mtu = 1300});
  compare("gso_max_size 30000 gro_max_size 20000", {.gso_max_size = 30000, .gro_max_size = 20000});
  // Last: it moves away.
  compare("netns " + PodPath() + " name net1 mtu 1400 address 02:00:5e:00:53:02",
          {.name = "net1", .address = "02:00:5e:00:53:02", .mtu = 1400, .target = &pod()});
  EXPECT_TRUE(FindLink(pod_route(), "net1"));
}

TEST_F(BytesTest, XdpProgramsAreDetachedAsIpDoes) {
  const std::pair<const char*, uint32_t> modes[] = {{"xdp", 0},
                                                    {"xdpgeneric", XDP_FLAGS_SKB_MODE},
                                                    {"xdpdrv", XDP_FLAGS_DRV_MODE},
                                                    {"xdpoffload", XDP_FLAGS_HW_MODE}};
  for (const auto& [name, mode] : modes) {
    SCOPED_TRACE(name);
    // Without -force it asks that none is there, which kernels do not look at where one is taken away.
    EXPECT_EQ(Describe(ChangeLinkMessage(nic_, {.xdp_off = mode}), LinkShape()),
              Describe(Sent(std::string("-force link set dev nic ") + name + " off", RTM_NEWLINK),
                       LinkShape()));
  }
}

TEST_F(BytesTest, MacvlansAreMadeAsIpDoes) {
  for (const char* mode : {"private", "vepa", "bridge"}) {
    SCOPED_TRACE(mode);
    const std::string name = std::string("m-") + mode;
    EXPECT_EQ(Describe(AddMacvlanMessage(nic_, name, mode, "02:00:5e:00:53:07", 1300, pod().fd()),
                       LinkShape()),
              Describe(Sent("link add link nic name " + name +
                                " address 02:00:5e:00:53:07 mtu 1300 netns " + PodPath() +
                                " type macvlan mode " + mode,
                            RTM_NEWLINK),
                       LinkShape()));
    EXPECT_TRUE(FindLink(pod_route(), name));
  }
  EXPECT_EQ(
      Describe(AddMacvlanMessage(nic_, "m", "passthru", "", 0, pod().fd()), LinkShape()),
      Describe(Sent("link add link nic name m netns " + PodPath() + " type macvlan mode passthru",
                    RTM_NEWLINK),
               LinkShape()));
}

TEST_F(BytesTest, AddressesAreAddedAsIpDoes) {
  const Shape shape{sizeof(ifaddrmsg)};
  const auto compare = [&](const std::string& arguments, InterfaceAddress address) {
    SCOPED_TRACE(arguments);
    address.index = nic_;
    EXPECT_EQ(Describe(AddAddressMessage(address), shape),
              Describe(Sent("addr add " + arguments, RTM_NEWADDR), shape));
  };
  compare("192.0.2.7/24 dev nic", {.cidr = "192.0.2.7/24"});
  compare("192.0.2.8/24 broadcast 192.0.2.255 dev nic",
          {.cidr = "192.0.2.8/24", .broadcast = "192.0.2.255"});
  compare("192.0.2.9/32 dev nic scope link", {.cidr = "192.0.2.9/32", .scope = RT_SCOPE_LINK});
  compare("2001:db8::7/64 dev nic nodad", {.cidr = "2001:db8::7/64"});
}

TEST_F(BytesTest, RoutesAreAddedAsIpDoes) {
  AddAddress(host_route(), {.index = nic_, .cidr = "192.0.2.7/24"});
  AddAddress(host_route(), {.index = nic_, .cidr = "2001:db8::7/64"});
  const Shape shape{sizeof(rtmsg)};
  const auto compare = [&](const std::string& arguments, Route route) {
    SCOPED_TRACE(arguments);
    route.index = nic_;
    EXPECT_EQ(Describe(AddRouteMessage(route), shape),
              Describe(Sent("route add " + arguments, RTM_NEWROUTE), shape));
  };
  compare("default via 192.0.2.1 dev nic", {.destination = "0.0.0.0/0", .gateway = "192.0.2.1"});
  compare("10.1.0.0/16 via 192.0.2.1 dev nic src 192.0.2.7 table 200 metric 77 proto static",
          {.destination = "10.1.0.0/16",
           .gateway = "192.0.2.1",
           .source = "192.0.2.7",
           .table = 200,
           .protocol = RTPROT_STATIC,
           .metric = 77});
  compare("10.2.0.0/16 dev nic scope link table 1100",
          {.destination = "10.2.0.0/16", .table = 1100, .scope = RT_SCOPE_LINK});
  compare("10.3.0.0/16 via inet6 2001:db8::1 dev nic",
          {.destination = "10.3.0.0/16", .gateway = "2001:db8::1"});
  compare("203.0.113.9 via 192.0.2.1 dev nic",
          {.destination = "203.0.113.9", .gateway = "192.0.2.1"});
  compare("2001:db8:1::/48 via 2001:db8::1 dev nic src 2001:db8::7 table 1100",
          {.destination = "2001:db8:1::/48",
           .gateway = "2001:db8::1",
           .source = "2001:db8::7",
           .table = 1100});
  compare("default via 2001:db8::1 dev nic metric 5",
          {.destination = "::/0", .gateway = "2001:db8::1", .metric = 5});
}

TEST_F(BytesTest, RulesAreAddedAsIpDoes) {
  const Shape shape{sizeof(rtmsg)};
  const auto compare = [&](const std::string& arguments, const Rule& rule) {
    SCOPED_TRACE(arguments);
    EXPECT_EQ(Describe(AddRuleMessage(rule), shape), Describe(Sent(arguments, RTM_NEWRULE), shape));
  };
  compare("rule add from 192.0.2.7 table 200 priority 100",
          {.family = AF_INET, .priority = 100, .source = "192.0.2.7/32", .table = 200});
  compare("rule add from 192.0.2.0/24 to 10.0.0.0/8 table 1100 priority 101",
          {.family = AF_INET,
           .priority = 101,
           .source = "192.0.2.0/24",
           .destination = "10.0.0.0/8",
           .table = 1100});
  compare("rule add table 1100 priority 102", {.family = AF_INET, .priority = 102, .table = 1100});
  compare("-6 rule add from 2001:db8::7 table 200 priority 100",
          {.family = AF_INET6, .priority = 100, .source = "2001:db8::7", .table = 200});
}

TEST_F(BytesTest, NeighboursAreSetAsIpDoes) {
  const Shape shape{sizeof(ndmsg)};
  const auto compare = [&](const std::string& destination, const std::string& address) {
    SCOPED_TRACE(destination);
    EXPECT_EQ(
        Describe(
            AddNeighbourMessage({.index = nic_, .destination = destination, .address = address}),
            shape),
        Describe(
            Sent("neigh replace " + destination + " lladdr " + address + " dev nic nud permanent",
                 RTM_NEWNEIGH),
            shape));
  };
  compare("192.0.2.99", "02:00:5e:00:53:63");
  compare("2001:db8::63", "02:00:5e:00:53:64");
  // Of an InfiniBand interface, which this kernel has not.
  compare("192.0.2.98", "80:00:00:48:fe:80:00:00:00:00:00:00:ec:0d:9a:03:00:6f:a3:12");
}

// What the rdma program sends. A kernel without RDMA devices has no socket for it: strace puts ours in its place,
// behind which this test plays a kernel with one device.
class RdmaBytesTest : public NamespacesTest {
 protected:
  static constexpr uint32_t kIndex = 7;
  static constexpr int Type(int command) { return RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command); }

  void SetUp() override {
    NamespacesTest::SetUp();
    if (IsSkipped()) return;
    for (const char* program : {"strace", "rdma"}) {
      if (!HaveProgram(program)) GTEST_SKIP() << program << " is not installed";
    }
  }

  static std::vector<Bytes> Answer(const nlmsghdr& request) {
    const uint32_t n = request.nlmsg_seq;
    switch (request.nlmsg_type) {
      case Type(RDMA_NLDEV_CMD_SYS_GET):
        return {
            Message(n, request.nlmsg_type, 0, Number<uint8_t>(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, 0)),
            Result(n, 0)};
      case Type(RDMA_NLDEV_CMD_GET):
        return {Message(n, request.nlmsg_type, NLM_F_MULTI,
                        Join({Number(RDMA_NLDEV_ATTR_DEV_INDEX, kIndex),
                              Attribute(RDMA_NLDEV_ATTR_DEV_NAME, "mlx5_0"),
                              Number<uint32_t>(RDMA_NLDEV_ATTR_PORT_INDEX, 1)})),
                Done(n)};
      default:
        return {Result(n, 0)};
    }
  }

  // The requests of this command that it sends, and what it prints.
  std::vector<Bytes> Sent(const std::string& arguments, int command, std::string* printed) {
    KernelStandIn kernel(Answer);
    const int fd = fcntl(kernel.client(), F_DUPFD, 100);  // inherited
    EXPECT_GE(fd, 0);
    // getsockname: AF_NETLINK, port 1000.
    const std::string line =
        "timeout 20 strace -qq -o /dev/null -e trace=socket,bind,setsockopt,getsockname -e "
        "inject=socket:retval=" +
        std::to_string(fd) +
        " -e inject=bind:retval=0 -e inject=setsockopt:retval=0"
        " -e inject=getsockname:retval=0:poke_exit=@arg2=10000000e803000000000000"
        " rdma " +
        arguments + " 2>&1";
    if (FILE* output = popen(line.c_str(), "r")) {
      for (int c; (c = fgetc(output)) != EOF;) *printed += static_cast<char>(c);
      pclose(output);
    }
    close(fd);
    std::vector<Bytes> found;
    for (const Bytes& request : kernel.requests()) {
      if (reinterpret_cast<const nlmsghdr*>(request.data())->nlmsg_type == Type(command))
        found.push_back(request);
    }
    return found;
  }
};

TEST_F(RdmaBytesTest, TheNamespaceModeIsAskedForAsRdmaDoes) {
  std::string printed;
  const std::vector<Bytes> sent = Sent("system show netns", RDMA_NLDEV_CMD_SYS_GET, &printed);
  ASSERT_EQ(sent.size(), 1u) << printed;
  EXPECT_NE(printed.find("netns exclusive"), std::string::npos) << printed;
  EXPECT_EQ(Describe(GetNamespaceModeMessage(), {}), Describe(sent[0], {}));
}

TEST_F(RdmaBytesTest, ADeviceIsMovedAsRdmaDoes) {
  std::vector<Bytes> sent;
  std::string printed;
  // It takes the names of /run/netns: one of our own.
  if (!RunApart(CLONE_NEWNS, [&] {
        ASSERT_EQ(mount("tmpfs", "/run", "tmpfs", 0, nullptr), 0);
        fs::create_directory("/run/netns");
        PinNamespace(pod(), "/run/netns/pod");
        sent = Sent("dev set mlx5_0 netns pod", RDMA_NLDEV_CMD_SET, &printed);
        UnpinNamespace("/run/netns/pod");
      })) {
    GTEST_SKIP() << "making mount namespaces is not permitted";
  }
  ASSERT_EQ(sent.size(), 1u) << printed;
  const Shape shape{0, {}, {RDMA_NLDEV_NET_NS_FD}};
  EXPECT_EQ(Describe(MoveRdmaLinkMessage(kIndex, pod().fd()), shape), Describe(sent[0], shape));
}

}  // namespace
}  // namespace rdma
