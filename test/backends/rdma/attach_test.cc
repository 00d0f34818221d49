#include "attach.h"

#include <cerrno>
#include <set>

#include "gmock/gmock.h"
#include "netlink_error.h"
#include "pod_fixture.h"

namespace rdma {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class AttachTest : public PodTest {};

TEST_F(AttachTest, SetsUpWhatTheConfigAsksFor) {
  AddNic();
  Attachment attachment = AttachmentOf("eth3", "net1");
  NetworkConfig& config = attachment.config;
  config.interface.addresses = {"192.0.2.70/24", "2001:db8:77::70/64"};
  config.interface.mtu = 8000;
  config.interface.hardware_address = "02:00:5e:00:53:aa";
  config.interface.gso_max_size = 40000;
  config.interface.forwarding = true;
  config.interface.arp_ignore = 8;
  config.interface.arp_announce = 2;
  config.routes.resize(3);
  config.routes[0].destination = "203.0.113.0/24";  // before the route that its gateway needs
  config.routes[0].gateway = "198.51.100.1";
  config.routes[1].destination = "198.51.100.0/24";
  config.routes[1].scope = 253;
  config.routes[1].metric = 70;
  config.routes[2].destination = "2001:db8:5::/48";
  config.routes[2].gateway = "2001:db8:77::1";
  config.routes[2].table = 1000;
  config.rules.resize(1);
  config.rules[0].priority = 500;
  config.rules[0].source = "2001:db8:77::70/128";
  config.rules[0].table = 1000;
  config.neighbors.resize(1);
  config.neighbors[0].destination = "192.0.2.1";
  config.neighbors[0].hardware_address = "02:00:5e:00:53:bb";
  config.features = {{"tx-checksum-ip-generic", false}};
  WritePlan({attachment});
  // As some runtimes do.
  Pod("sh -c 'echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 > "
      "/proc/sys/net/ipv6/conf/default/disable_ipv6'");

  AttachTo(pod());

  EXPECT_FALSE(HostHas("eth3"));
  const Json link = PodLink("net1");
  ASSERT_FALSE(link.is_null());
  EXPECT_EQ(link["mtu"], 8000);
  EXPECT_EQ(link["address"], "02:00:5e:00:53:aa");
  EXPECT_EQ(link["gso_max_size"], 40000);
  EXPECT_THAT(link["flags"], testing::Contains("UP"));
  EXPECT_THAT(AddressesOf(link), UnorderedElementsAre("192.0.2.70/24", "2001:db8:77::70/64"));
  EXPECT_THAT(Pod("ip addr show net1"),
              AllOf(HasSubstr("192.0.2.70/24 brd 192.0.2.255 scope global"),
                    HasSubstr("2001:db8:77::70/64 scope global nodad")));
  EXPECT_THAT(Pod("ip route"),
              AllOf(HasSubstr("203.0.113.0/24 via 198.51.100.1 dev net1 proto static"),
                    HasSubstr("198.51.100.0/24 dev net1 proto static scope link metric 70")));
  EXPECT_THAT(Pod("ip -6 route show table 1000"),
              HasSubstr("2001:db8:5::/48 via 2001:db8:77::1 dev net1"));
  EXPECT_THAT(Pod("ip -6 rule"), HasSubstr("500:\tfrom 2001:db8:77::70 lookup 1000"));
  EXPECT_THAT(Pod("ip neigh"), HasSubstr("192.0.2.1 dev net1 lladdr 02:00:5e:00:53:bb PERMANENT"));
  EXPECT_EQ(
      Pod("cat /proc/sys/net/ipv4/conf/net1/forwarding /proc/sys/net/ipv6/conf/net1/forwarding "
          "/proc/sys/net/ipv4/conf/net1/arp_ignore /proc/sys/net/ipv4/conf/net1/arp_announce"),
      "1\n1\n8\n2\n");

  const std::optional<AttachState> state = folder().ReadState();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->phase, AttachState::Phase::kAttached);
  EXPECT_EQ(state->pod_uid, kPod);
  EXPECT_EQ(state->sandbox, "sandbox-1");
  EXPECT_EQ(state->error, "");
  ASSERT_EQ(state->interfaces.size(), 1u);
  EXPECT_EQ(state->interfaces[0].device, "net-eth3");
  EXPECT_EQ(state->interfaces[0].pod_name, "net1");
  EXPECT_EQ(state->interfaces[0].index, link["ifindex"]);
  EXPECT_EQ(state->interfaces[0].address, "02:00:5e:00:53:aa");
  EXPECT_THAT(state->interfaces[0].ips,
              UnorderedElementsAre("192.0.2.70/24", "2001:db8:77::70/64"));
  EXPECT_THAT(Files(), ElementsAre("netns", "plan.json", "state.json", "mount"));
  EXPECT_EQ(NetworkNamespace::Open(folder().pin()).Identity(), pod().Identity());
}

TEST_F(AttachTest, LetsThePodTalkToTheOtherEnd) {
  AddNic();
  WritePlan({AttachmentOf("eth3", "net1")});
  AttachTo(pod());
  // The other end's neighbour entry tells that an answer came: the kernel asks by ARP when something is sent.
  Pod("ip neigh flush dev net1");
  Pod("bash -c 'echo hello > /dev/udp/192.0.3.1/9'");
  std::string neighbours;
  for (int i = 0; i < 100 && neighbours.find("REACHABLE") == std::string::npos; ++i) {
    neighbours = Pod("ip neigh show 192.0.3.1 dev net1");
    usleep(20000);
  }
  EXPECT_THAT(neighbours, HasSubstr("REACHABLE"));
}

TEST_F(AttachTest, OfASecondContainerLeavesThePodsOwnChanges) {
  AddNic();
  WritePlan({AttachmentOf("eth3", "net1")});
  AttachTo(pod());
  Pod("ip link set net1 mtu 1400 && true");
  Pod("ip addr del 192.0.3.7/24 dev net1");
  AttachTo(pod(), "sandbox-1");
  const Json link = PodLink("net1");
  EXPECT_EQ(link["mtu"], 1400);
  EXPECT_THAT(AddressesOf(link), UnorderedElementsAre("192.0.3.7/24", "2001:db8:3::7/64"));
  Pod("ip link set net1 down");
  Pod("ip link set net1 name mine address 02:00:5e:00:53:cc up");
  AttachTo(pod(), "sandbox-1");
  EXPECT_TRUE(PodLink("net1").is_null());
  EXPECT_EQ(PodLink("mine")["address"], "02:00:5e:00:53:cc");
  EXPECT_EQ(folder().ReadState()->interfaces[0].pod_name, "mine");
}

TEST_F(AttachTest, BringsThemOverToANewSandboxOfTheSamePod) {
  AddNic();
  WritePlan({AttachmentOf("eth3", "net1")});
  AttachTo(pod());
  Pod("ip link set net1 down");
  Pod("ip link set net1 name mine address 02:00:5e:00:53:cc mtu 1300");
  const NetworkNamespace second = NewPod();
  AttachTo(second, "sandbox-2");
  EXPECT_TRUE(PodLink("mine").is_null());
  const Json link = LinkIn(second, "net1");
  ASSERT_FALSE(link.is_null());
  EXPECT_EQ(link["mtu"], 1600);
  EXPECT_EQ(link["address"], "02:00:5e:00:53:03");
  EXPECT_EQ(folder().ReadState()->sandbox, "sandbox-2");
  EXPECT_EQ(NetworkNamespace::Open(folder().pin()).Identity(), second.Identity());
  EXPECT_THAT(Files(), ElementsAre("netns", "plan.json", "state.json", "mount"));
}

TEST_F(AttachTest, OfANewSandboxSaysWhatWentWithTheOld) {
  AddNic();
  WritePlan({AttachmentOf("eth3", "net1")});
  AttachTo(pod());
  UnpinNamespace(folder().pin());
  pod_.emplace(NewPod());  // the veth is destroyed with the first one
  ASSERT_TRUE(VethIsDestroyed("sw3"));
  EXPECT_THAT(AttachError(pod()),
              HasSubstr("device net-eth3 (interface eth3): is not on the host any more"));
}

TEST_F(AttachTest, FindsANicThatWasRenamedSincePrepare) {
  AddNic();
  WritePlan({AttachmentOf("eth3", "net1")});
  Host("ip link set eth3 down");
  Host("ip link set eth3 name enp3s0");
  AttachTo(pod());
  EXPECT_FALSE(PodLink("net1").is_null());
  EXPECT_FALSE(HostHas("enp3s0"));
}

TEST_F(AttachTest, RefusesAnotherPod) {
  AddNic();
  WritePlan({AttachmentOf("eth3", "net1")});
  AttachTo(pod());
  const AttachState before = *folder().ReadState();
  const NetworkNamespace second = NewPod();
  EXPECT_THAT(AttachError(second, "another"), AllOf(HasSubstr("is prepared for pod 0b8e7c11"),
                                                    HasSubstr("cannot be in pod another too")));
  EXPECT_EQ(*folder().ReadState(), before);
  EXPECT_FALSE(PodLink("net1").is_null());
}

TEST_F(AttachTest, RefusesTheHostsNetwork) {
  AddNic();
  const Json before = HostPicture();
  WritePlan({AttachmentOf("eth3", "net1")});
  EXPECT_THAT(AttachError(NetworkNamespace::Open("/proc/self/ns/net")),
              HasSubstr("hostNetwork: true"));
  EXPECT_THAT(folder().ReadState()->error, HasSubstr("hostNetwork: true"));
  EXPECT_THAT(Files(), ElementsAre("plan.json", "state.json"));
  EXPECT_TRUE(BecomesLike(before));
  AttachTo(pod());  // the state of before does not disturb
  EXPECT_EQ(folder().ReadState()->error, "");
}

TEST_F(AttachTest, RefusesWhatIsNotPreparedAnyMore) {
  AddNic();
  EXPECT_THAT(AttachError(pod()), HasSubstr("the claim is not prepared any more"));
  WritePlan({AttachmentOf("eth3", "net1")});
  folder().Close();
  EXPECT_THAT(AttachError(pod()), HasSubstr("the claim is not prepared any more"));
  EXPECT_TRUE(HostHas("eth3"));
}

TEST_F(AttachTest, FindsATakenNameBeforeItMoves) {
  AddNic();
  const Json before = HostPicture();
  const int index = ReadHome("eth3").index;
  WritePlan({AttachmentOf("eth3", "net1")});
  for (const char* pod_has :
       {"ip link add net1 type veth peer name x1", "ip link property add dev x2 altname net1"}) {
    pod_.emplace(NewPod());
    Pod("ip link add x2 type veth peer name y2");
    Pod(pod_has);
    EXPECT_THAT(AttachError(pod()), HasSubstr("the pod has an interface net1 already"));
    EXPECT_EQ(HostPicture(), before);
    EXPECT_EQ(ReadHome("eth3").index, index);
    EXPECT_THAT(Files(), ElementsAre("plan.json", "state.json"));
  }
}

TEST_F(AttachTest, DoesNotMindThatThePodHasAnInterfaceOfTheHostsName) {
  AddNic("eth0", 5);
  const Json before = HostPicture();
  WritePlan({AttachmentOf("eth0", "net1")});
  Pod("ip link add eth0 type veth peer name x1");
  AttachTo(pod());
  EXPECT_EQ(PodLink("net1")["address"], "02:00:5e:00:53:05");
  EXPECT_NE(PodLink("eth0")["address"], "02:00:5e:00:53:05");
  Back();
  EXPECT_TRUE(BecomesLike(before));
  EXPECT_FALSE(PodLink("eth0").is_null());
}

TEST_F(AttachTest, PutsEverythingBackWhenASettingFails) {
  AddNic();
  AddNic("eth4", 4);
  Host("sh -c 'echo 0 > /proc/sys/net/ipv6/conf/eth3/accept_ra'");
  const Json before = HostPicture();
  const Attachment first = AttachmentOf("eth3", "net1");
  const struct {
    const char* name;
    std::function<void(NetworkConfig&)> spoil;
    const char* text;
  } cases[] = {
      {"gateway that is not reached",
       [](NetworkConfig& config) {
         config.routes.resize(1);
         config.routes[0].destination = "203.0.113.0/24";
         config.routes[0].gateway = "10.1.1.1";
       },
       "device net-eth4 (interface eth4): add route 203.0.113.0/24: "},
      {"default route that the pod has",
       [](NetworkConfig& config) {
         config.routes.resize(1);
         config.routes[0].destination = "0.0.0.0/0";
         config.routes[0].gateway = "192.0.4.1";
       },
       "device net-eth4 (interface eth4): add route 0.0.0.0/0: "},
      {"MTU", [](NetworkConfig& config) { config.interface.mtu = 70000; },
       "MTU 70000: set link net2: "},
      {"GSO", [](NetworkConfig& config) { config.interface.gso_max_size = 600000; },
       "GSO and GRO sizes: set link net2: "},
      {"feature",
       [](NetworkConfig& config) {
         config.features = {{"warp", true}};
       },
       "warp"},
      {"private flag",
       [](NetworkConfig& config) {
         config.private_flags = {{"warp", true}};
       },
       "net-eth4"},
      {"same name", [](NetworkConfig&) {}, "another device of the claim has the name net1 too"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    pod_.emplace(NewPod());
    Pod("ip link add eth0 type veth peer name x1");
    Pod("ip addr add 10.0.0.2/24 dev eth0 && true");
    Pod("ip link set x1 up");
    Pod("ip link set eth0 up");
    Pod("ip route add default via 10.0.0.1");
    Attachment second = AttachmentOf("eth4", c.name == std::string("same name") ? "net1" : "net2");
    c.spoil(second.config);
    WritePlan({first, second});
    const std::string error = AttachError(pod());
    EXPECT_THAT(error, HasSubstr(c.text));
    EXPECT_THAT(error, testing::Not(HasSubstr("undone")));
    EXPECT_EQ(folder().ReadState()->error, error);
    EXPECT_TRUE(BecomesLike(before));
    EXPECT_EQ(Host("cat /proc/sys/net/ipv6/conf/eth3/accept_ra"), "0\n");
    EXPECT_TRUE(PodLink("net1").is_null());
    EXPECT_THAT(Files(), ElementsAre("plan.json", "state.json"));
    for (const GivenBack& back : Back()) EXPECT_EQ(back.remark, "") << back.device;
    EXPECT_TRUE(BecomesLike(before));
  }
}

TEST_F(AttachTest, OfASecondContainerTakesNothingAwayWhenItFails) {
  AddNic();
  Attachment attachment = AttachmentOf("eth3", "net1");
  attachment.config.routes.resize(1);
  attachment.config.routes[0].destination = "203.0.113.0/24";
  attachment.config.routes[0].gateway = "192.0.3.1";
  WritePlan({attachment});
  AttachTo(pod());
  Pod("ip link add other type veth peer name x1");
  Pod("ip link set other up");
  Pod("ip route del 203.0.113.0/24");
  Pod("ip route add 203.0.113.0/24 dev other");
  EXPECT_THAT(AttachError(pod()), HasSubstr("add route 203.0.113.0/24"));
  EXPECT_FALSE(PodLink("net1").is_null());
  const AttachState state = *folder().ReadState();
  EXPECT_EQ(state.phase, AttachState::Phase::kAttached);
  EXPECT_THAT(state.error, HasSubstr("add route 203.0.113.0/24"));
  EXPECT_EQ(state.interfaces.size(), 1u);
  EXPECT_THAT(Files(), ElementsAre("netns", "plan.json", "state.json", "mount"));
}

TEST_F(AttachTest, MakesAMacvlanOnASharedNic) {
  AddNic();
  const Json before = HostPicture();
  Attachment attachment = MacvlanOn("eth3", "net1");
  attachment.config.interface.hardware_address = "02:00:5e:00:53:aa";
  attachment.config.interface.mtu = 1500;
  WritePlan({attachment});
  for (int container = 0; container < 2; ++container) {
    AttachTo(pod());
    const Json link = PodLink("net1");
    ASSERT_FALSE(link.is_null());
    EXPECT_EQ(link["linkinfo"]["info_kind"], "macvlan");
    EXPECT_EQ(link["linkinfo"]["info_data"]["mode"], "bridge");
    EXPECT_EQ(link["address"], "02:00:5e:00:53:aa");
    EXPECT_EQ(link["mtu"], 1500);
    EXPECT_THAT(AddressesOf(link), ElementsAre("192.0.3.77/24"));
    EXPECT_TRUE(BecomesLike(before));
  }
  // Two pods have one each.
  const std::vector<GivenBack> back = Back();
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].host_name, "eth3");
  EXPECT_EQ(back[0].remark, "");
  EXPECT_TRUE(PodLink("net1").is_null());
  EXPECT_TRUE(BecomesLike(before));
}

TEST_F(AttachTest, LeavesAMacvlanOfAnotherAlone) {
  AddNic();
  WritePlan({MacvlanOn("eth3", "net1")});
  Host("ip link add other link eth3 type macvlan mode bridge");
  Host("ip link set other netns /proc/" + std::to_string(getpid()) + "/fd/" +
       std::to_string(pod().fd()) + " name net1");
  EXPECT_THAT(AttachError(pod()), HasSubstr("the pod has an interface net1 already"));
  EXPECT_FALSE(PodLink("net1").is_null());
  Back();
  EXPECT_FALSE(PodLink("net1").is_null());
}

TEST_F(AttachTest, DeletesTheMacvlanWhenASettingFails) {
  AddNic();
  const Json before = HostPicture();
  Attachment attachment = MacvlanOn("eth3", "net1");
  attachment.config.routes.resize(1);
  attachment.config.routes[0].destination = "203.0.113.0/24";
  attachment.config.routes[0].gateway = "10.1.1.1";
  WritePlan({attachment});
  EXPECT_THAT(AttachError(pod()), HasSubstr("add route 203.0.113.0/24"));
  EXPECT_TRUE(PodLink("net1").is_null());
  EXPECT_TRUE(BecomesLike(before));
}

// RDMA devices by name, each in one namespace, and what was asked in order.
class FakeRdma : public RdmaMoves {
 public:
  explicit FakeRdma(std::function<bool()> netdev_on_host)
      : netdev_on_host_(std::move(netdev_on_host)) {}
  bool Has(const std::string& device, const NetworkNamespace& in) override {
    const auto found = where.find(device);
    return found != where.end() && found->second == in.Identity();
  }
  void Move(const std::string& device, const NetworkNamespace& from,
            const NetworkNamespace& to) override {
    if (!Has(device, from))
      throw NetlinkError(ENODEV, "move RDMA device " + device + ": No such device");
    if (busy) throw NetlinkError(EBUSY, "move RDMA device " + device + ": Device or resource busy");
    moves.push_back(
        device + (netdev_on_host_() ? " while eth3 is on the host" : " while eth3 is in the pod"));
    where[device] = to.Identity();
  }
  std::map<std::string, std::pair<dev_t, ino_t>> where;
  bool busy = false;
  std::vector<std::string> moves;

 private:
  std::function<bool()> netdev_on_host_;
};

class AttachRdmaTest : public AttachTest {
 protected:
  void SetUp() override {
    AttachTest::SetUp();
    if (IsSkipped()) return;
    AddNic();
    host_ = NetworkNamespace::Open("/proc/self/ns/net").Identity();
    rdma_.where["mlx5_0"] = host_;
    Attachment attachment = AttachmentOf("eth3", "net1");
    attachment.rdma_device = "mlx5_0";
    WritePlan({attachment});
  }
  std::string TryAttach() {
    try {
      Attach(folder(), {kPod, "sandbox-1"}, pod(), rdma_);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "attached";
  }
  FakeRdma rdma_{[] { return HostHas("eth3"); }};
  std::pair<dev_t, ino_t> host_;
};

TEST_F(AttachRdmaTest, FollowsItsInterfaceAndGoesBackBeforeIt) {
  const Json before = HostPicture();
  for (int container = 0; container < 2; ++container) EXPECT_EQ(TryAttach(), "attached");
  EXPECT_EQ(rdma_.where["mlx5_0"], pod().Identity());
  EXPECT_THAT(rdma_.moves, ElementsAre("mlx5_0 while eth3 is in the pod"));
  for (const GivenBack& back : GiveBack(folder(), sys(), std::chrono::seconds(1), rdma_))
    EXPECT_EQ(back.remark, "");
  EXPECT_EQ(rdma_.where["mlx5_0"], host_);
  EXPECT_THAT(rdma_.moves,
              ElementsAre("mlx5_0 while eth3 is in the pod", "mlx5_0 while eth3 is in the pod"));
  EXPECT_TRUE(BecomesLike(before));
}

TEST_F(AttachRdmaTest, TakesItsInterfaceBackWhenItIsBusy) {
  const Json before = HostPicture();
  rdma_.busy = true;
  EXPECT_THAT(TryAttach(),
              AllOf(HasSubstr("device net-eth3 (interface eth3): move RDMA device mlx5_0: "),
                    HasSubstr("busy")));
  EXPECT_TRUE(BecomesLike(before));
  EXPECT_EQ(rdma_.where["mlx5_0"], host_);
}

TEST_F(AttachRdmaTest, ThatIsBusyIsNotGivenBackYet) {
  EXPECT_EQ(TryAttach(), "attached");
  rdma_.busy = true;
  EXPECT_THROW(GiveBack(folder(), sys(), std::chrono::seconds(1), rdma_), std::runtime_error);
  EXPECT_THAT(Files(), ElementsAre("netns", "plan.json", "state.json", "mount"));
  rdma_.busy = false;
  EXPECT_EQ(GiveBack(folder(), sys(), std::chrono::seconds(1), rdma_).at(0).host_name, "eth3");
  EXPECT_EQ(rdma_.where["mlx5_0"], host_);
}

TEST_F(AttachRdmaTest, IsMovedAloneWhereThereIsNoInterface) {
  Attachment attachment;
  attachment.device = "pci-0000-8d-00-0";
  attachment.rdma_device = "mlx5_0";
  WritePlan({attachment});
  EXPECT_EQ(TryAttach(), "attached");
  EXPECT_EQ(rdma_.where["mlx5_0"], pod().Identity());
  const std::vector<GivenBack> back = GiveBack(folder(), sys(), std::chrono::seconds(1), rdma_);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].host_name, "mlx5_0");
  EXPECT_EQ(rdma_.where["mlx5_0"], host_);
}

TEST_F(AttachRdmaTest, ThatIsGoneIsTold) {
  EXPECT_EQ(TryAttach(), "attached");
  rdma_.where.clear();
  const std::vector<GivenBack> back =
      GiveBack(folder(), sys(), std::chrono::milliseconds(50), rdma_);
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].host_name, "eth3");
  EXPECT_THAT(back[0].remark, HasSubstr("RDMA device mlx5_0 is not on the host any more"));
}

}  // namespace
}  // namespace rdma
