#include "give_back.h"

#include <fcntl.h>
#include <sys/file.h>

#include "ethtool.h"
#include "find_interface.h"
#include "gmock/gmock.h"
#include "pod_fixture.h"

namespace rdma {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class GiveBackTest : public PodTest {
 protected:
  void SetUp() override {
    PodTest::SetUp();
    if (IsSkipped()) return;
    AddNic();
    before_ = HostPicture();
  }
  void AttachNic() {
    WritePlan({AttachmentOf("eth3", "net1")});
    AttachTo(pod());
  }
  // As the kernel does with hardware when a namespace ends: it is on the host, down, under a name that was free.
  void ReturnAsTheKernelDoes(const std::string& pod_name, const std::string& host_name) {
    Pod("ip link set " + pod_name + " down");
    Pod("ip link set " + pod_name + " name " + host_name + " netns /proc/" +
        std::to_string(getpid()) + "/ns/net");
    UnpinNamespace(folder().pin());
    pod_.emplace(NewPod());
  }
  void MakePciFunction(const std::string& address, const std::string& interface,
                       const std::string& driver) {
    namespace fs = std::filesystem;
    const fs::path device = fs::path(sys()) / "bus/pci/devices" / address;
    fs::create_directories(interface.empty() ? device / "net" : device / "net" / interface);
    if (!driver.empty())
      fs::create_symlink("../../../bus/pci/drivers/" + driver, device / "driver");
  }
  void ExpectHome(const std::vector<GivenBack>& back, const std::string& remark = "") {
    ASSERT_EQ(back.size(), 1u);
    EXPECT_EQ(back[0].device, "net-eth3");
    EXPECT_EQ(back[0].host_name, "eth3");
    EXPECT_EQ(back[0].remark, remark);
    EXPECT_TRUE(BecomesLike(before_));
    EXPECT_THAT(Files(), ElementsAre("plan.json"));
  }
  Json before_;
};

TEST_F(GiveBackTest, MakesItWhatItWas) {
  AttachNic();
  ExpectHome(Back());
}

TEST_F(GiveBackTest, MayBeRepeated) {
  AttachNic();
  ExpectHome(Back());
  ExpectHome(Back());
  folder().Close();
  folder().Clear();
  EXPECT_THAT(Back(), testing::IsEmpty());
  std::filesystem::remove(folder().path());
  EXPECT_THAT(Back(), testing::IsEmpty());
}

TEST_F(GiveBackTest, WorksOnAClosedPlan) {
  AttachNic();
  folder().Close();
  const std::vector<GivenBack> back = Back();
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].host_name, "eth3");
  EXPECT_TRUE(BecomesLike(before_));
}

TEST_F(GiveBackTest, UndoesWhatThePodDid) {
  AttachNic();
  Pod("ip link set net1 down");
  Pod("ip link set net1 name mine address 02:00:5e:00:53:ee mtu 1300 gso_max_size 30000 "
      "gro_max_size 20000");
  Pod("ip link add br0 type bridge");
  Pod("ip link set br0 up");
  Pod("ip link set mine master br0 up");
  ExpectHome(Back());
}

TEST_F(GiveBackTest, LeavesTheHostsInterfacesOfThePodsNameAlone) {
  Host("ip link add net1 type veth peer name x1");
  before_ = HostPicture();
  AttachNic();
  ExpectHome(Back());
}

TEST_F(GiveBackTest, SetsSysctlsAndFeaturesAgain) {
  const std::string sysctls =
      "cd /proc/sys/net && cat ipv6/conf/eth3/accept_ra ipv6/conf/eth3/addr_gen_mode "
      "ipv4/conf/eth3/rp_filter "
      "ipv4/conf/eth3/arp_ignore ipv4/conf/eth3/forwarding";
  Host(
      "sh -c 'cd /proc/sys/net && echo 0 > ipv6/conf/eth3/accept_ra && echo 1 > "
      "ipv6/conf/eth3/addr_gen_mode && "
      "echo 2 > ipv4/conf/eth3/rp_filter && echo 1 > ipv4/conf/eth3/arp_ignore && echo 1 > "
      "ipv4/conf/eth3/forwarding'");
  const std::string before = Host(sysctls);
  NetlinkSocket route(NETLINK_ROUTE);
  Attachment attachment = AttachmentOf("eth3", "net1");
  attachment.config.features = {{"tx-checksum-ip-generic", false}, {"rx-gro", false}};
  attachment.config.interface.arp_ignore = 8;
  const auto features = GetFeatures("eth3");
  EXPECT_TRUE(features.at("tx-checksum-ip-generic"));
  WritePlan({attachment});
  AttachTo(pod());
  pod().Run([] {
    EXPECT_FALSE(GetFeatures("net1").at("tx-checksum-ip-generic"));
    EXPECT_TRUE(GetFeatures("net1").at("tx-generic-segmentation"));
  });
  EXPECT_EQ(Pod("cat /proc/sys/net/ipv4/conf/net1/arp_ignore"), "8\n");
  ExpectHome(Back());
  EXPECT_EQ(Host(sysctls), before);
  EXPECT_EQ(GetFeatures("eth3"), features);
}

TEST_F(GiveBackTest, TellsOfANameThatIsTaken) {
  AttachNic();
  Host("ip link add eth3 address 02:00:5e:00:53:77 type veth peer name x1");
  const std::string temporary = TemporaryName(kClaim, "net-eth3");
  const AttachState state = *folder().ReadState();
  for (int repeat = 0; repeat < 2; ++repeat) {
    folder().WriteState(state);
    const std::vector<GivenBack> back = Back();
    ASSERT_EQ(back.size(), 1u);
    EXPECT_EQ(back[0].host_name, temporary);
    EXPECT_THAT(back[0].remark,
                AllOf(HasSubstr("eth3 is taken by another interface: it is " + temporary + " now"),
                      HasSubstr("its addresses and routes are not set again")));
    const Json picture = HostPicture();
    EXPECT_EQ(picture["links"]["eth3"]["address"], "02:00:5e:00:53:77");
    EXPECT_EQ(picture["links"][temporary]["address"], "02:00:5e:00:53:03");
    EXPECT_EQ(picture["links"][temporary]["mtu"], 1600);
    EXPECT_EQ(picture["links"][temporary]["addresses"], Json::array());
  }
}

TEST_F(GiveBackTest, TellsOfAnAddressThatIsOnAnotherInterfaceNow) {
  AttachNic();
  Host("ip link add other type veth peer name x1");
  Host("ip addr add 192.0.3.7/24 dev other");
  const std::vector<GivenBack> back = Back();
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].host_name, "eth3");
  EXPECT_THAT(back[0].remark, HasSubstr("address 192.0.3.7/24 is on another interface now"));
  EXPECT_EQ(HostPicture()["links"]["eth3"]["addresses"], Json::array({"2001:db8:3::7/64  global"}));
}

TEST_F(GiveBackTest, LeavesAnInterfaceDownThatWasDown) {
  Host("ip link set eth3 down");
  before_ = HostPicture();
  AttachNic();
  EXPECT_THAT(PodLink("net1")["flags"], testing::Contains("UP"));
  ExpectHome(Back());
}

TEST_F(GiveBackTest, TouchesNothingBeforeAHookHasCome) {
  WritePlan({AttachmentOf("eth3", "net1")});
  Host("ip link set eth3 mtu 1700");
  before_ = HostPicture();
  ExpectHome(Back());
  // Killed between pin and state.
  PinNamespace(pod(), folder().pin());
  ExpectHome(Back());
}

TEST_F(GiveBackTest, TellsThatAVethWentWithItsNamespace) {
  AttachNic();
  UnpinNamespace(folder().pin());
  pod_.emplace(NewPod());
  ASSERT_TRUE(VethIsDestroyed("sw3"));
  const AttachState state = *folder().ReadState();
  for (int repeat = 0; repeat < 2; ++repeat) {
    folder().WriteState(state);  // the second time it was killed before its last step
    const std::vector<GivenBack> back = Back();
    ASSERT_EQ(back.size(), 1u);
    EXPECT_EQ(back[0].host_name, "");
    EXPECT_THAT(back[0].remark,
                HasSubstr("interface eth3 is gone: it was destroyed with its namespace"));
    EXPECT_THAT(Files(), ElementsAre("plan.json"));
  }
}

TEST_F(GiveBackTest, FindsByHardwareAddressWhatTheKernelReturned) {
  AttachNic();
  ReturnAsTheKernelDoes("net1", "dev7");
  ExpectHome(Back());
}

TEST_F(GiveBackTest, FindsByPciAddressWhatTheKernelReturned) {
  Attachment attachment = AttachmentOf("eth3", "net1");
  attachment.home.pci_address = "0000:8d:00.0";
  WritePlan({attachment});
  AttachTo(pod());
  Pod("ip link set net1 down");
  Pod("ip link set net1 address 02:00:5e:00:53:ee");
  ReturnAsTheKernelDoes("net1", "dev7");
  MakePciFunction("0000:8d:00.0", "dev7", "mlx5_core");
  ExpectHome(Back());
}

TEST_F(GiveBackTest, SurvivesAHostInterfaceThatTookTheNameMeanwhile) {
  AttachNic();
  Host("ip link add eth3 address 02:00:5e:00:53:77 type veth peer name x1");
  ReturnAsTheKernelDoes("net1", "dev7");
  const std::vector<GivenBack> back = Back();
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].host_name, "dev7");
  EXPECT_THAT(back[0].remark, HasSubstr("eth3 is taken by another interface: it is dev7 now"));
}

TEST_F(GiveBackTest, WaitsForAFunctionThatTheKernelHasNotReturnedYet) {
  Attachment attachment = AttachmentOf("eth3", "net1");
  attachment.home.pci_address = "0000:8d:00.0";
  WritePlan({attachment});
  AttachTo(pod());
  MakePciFunction("0000:8d:00.0", "", "mlx5_core");
  // Seen nowhere: in a namespace that has no pin. Its address is another one's, as the pod may change it.
  const NetworkNamespace elsewhere = NewPod();
  Pod("ip link set net1 down");
  Pod("ip link set net1 address 02:00:5e:00:53:ee netns /proc/" + std::to_string(getpid()) +
      "/fd/" + std::to_string(elsewhere.fd()));
  EXPECT_THAT(
      BackError(milliseconds(100)),
      AllOf(HasSubstr("bring device net-eth3 back to the host: PCI function 0000:8d:00.0 is there"),
            HasSubstr("neither on the host nor in the pod's namespace")));
  EXPECT_THAT(Files(), ElementsAre("netns", "plan.json", "state.json", "mount"));
  std::thread kernel([&] {
    usleep(300000);
    Output(In(elsewhere,
              "ip link set net1 name dev7 netns /proc/" + std::to_string(getpid()) + "/ns/net"));
    std::filesystem::create_directories(sys() + "/bus/pci/devices/0000:8d:00.0/net/dev7");
  });
  const std::vector<GivenBack> back = Back(milliseconds(20000));
  kernel.join();
  ExpectHome(back);
}

TEST_F(GiveBackTest, TellsOfACardThatIsGoneOrHasNoNetworkDriver) {
  for (const char* driver : {"", "vfio-pci"}) {
    SCOPED_TRACE(driver);
    Attachment attachment = AttachmentOf("eth3", "net1");
    attachment.home.pci_address = "0000:8d:00.0";
    WritePlan({attachment});
    AttachTo(pod());
    if (*driver != '\0') MakePciFunction("0000:8d:00.0", "", driver);
    Pod("ip link del net1");
    const std::vector<GivenBack> back = Back();
    ASSERT_EQ(back.size(), 1u);
    EXPECT_EQ(back[0].host_name, "");
    EXPECT_THAT(
        back[0].remark,
        HasSubstr("interface eth3 is gone: the card has no interface or is not there any more"));
    EXPECT_THAT(Files(), ElementsAre("plan.json"));
    AddNic();
  }
}

TEST_F(GiveBackTest, GoesOnWithAPinThatIsNotSeen) {
  AttachNic();
  ReturnAsTheKernelDoes("net1", "dev7");
  std::ofstream(folder().pin()) << "";  // as after a new start of the machine
  ExpectHome(Back());
}

TEST_F(GiveBackTest, DoesWithoutADamagedState) {
  AttachNic();
  std::ofstream(folder().path() + "/state.json") << "{\"version\": 1, \"pha";
  ExpectHome(Back());
}

TEST_F(GiveBackTest, NamesAPlanThatIsDamaged) {
  AttachNic();
  std::ofstream(folder().path() + "/plan.json") << "{";
  EXPECT_THAT(BackError(milliseconds(100)), HasSubstr(folder().path() + "/plan.json: damaged"));
  EXPECT_FALSE(PodLink("net1").is_null());
}

TEST_F(GiveBackTest, TriesTheOthersWhenOneCannotBeMoved) {
  AddNic("eth4", 4);
  const Json before = HostPicture();
  Attachment first = AttachmentOf("eth3", "net1");
  first.home.pci_address = "0000:8d:00.0";
  WritePlan({first, AttachmentOf("eth4", "net2")});
  AttachTo(pod());
  MakePciFunction("0000:8d:00.0", "", "mlx5_core");
  Pod("ip link del net1");
  EXPECT_THAT(BackError(milliseconds(50)), HasSubstr("device net-eth3"));
  EXPECT_EQ(HostPicture()["links"]["eth4"]["addresses"], before["links"]["eth4"]["addresses"]);
}

TEST_F(GiveBackTest, WaitsForTheLockOnlySoLong) {
  AttachNic();
  const int fd = open(folder().path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_THAT(BackError(milliseconds(50)),
              AllOf(HasSubstr(folder().path()), HasSubstr("for more than 50 ms")));
  close(fd);
  ExpectHome(Back());
}

TEST_F(GiveBackTest, OfAMacvlanTellsOfItsNic) {
  WritePlan({MacvlanOn("eth3", "net1")});
  AttachTo(pod());
  Host("ip link del eth3");  // and with it the macvlan
  const std::vector<GivenBack> back = Back();
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].host_name, "");
  EXPECT_THAT(back[0].remark, HasSubstr("interface eth3 is not on the host any more"));
}

TEST_F(GiveBackTest, FindsAMacvlanThatThePodRenamed) {
  WritePlan({MacvlanOn("eth3", "net1")});
  AttachTo(pod());
  Pod("ip link set net1 down");
  Pod("ip link set net1 name mine");
  ExpectHome(Back());
  EXPECT_TRUE(PodLink("mine").is_null());
}

// Which of several interfaces of one function is meant.
TEST(FindInterface, KnowsHardwareAgain) {
  Attachment attachment;
  attachment.device = "pci-0000-8d-00-0";
  attachment.pod_name = "net1";
  attachment.home.name = "eth3";
  attachment.home.pci_address = "0000:8d:00.0";
  attachment.home.address = attachment.home.permanent_address = "02:00:5e:00:53:03";
  Link own;
  own.index = 5;
  own.name = "renamed";
  own.address = "02:00:5e:00:53:ee";
  own.permanent_address = "02:00:5e:00:53:03";
  own.parent_bus = "pci";
  own.parent_device = "0000:8d:00.0";
  Link port = own;  // the function's second port
  port.index = 6;
  port.name = "eth3";
  port.permanent_address = "02:00:5e:00:53:04";
  Link vlan;  // on it, with its address
  vlan.index = 7;
  vlan.name = "eth3.7";
  vlan.kind = "vlan";
  vlan.parent = 5;
  vlan.address = vlan.permanent_address = "02:00:5e:00:53:03";
  Link other = own;  // another card with the address that ours had
  other.index = 8;
  other.name = "net1";
  other.address = "02:00:5e:00:53:03";
  other.permanent_address.clear();
  other.parent_device = "0000:8e:00.0";
  const std::vector<Link> links = {port, vlan, other, own};
  EXPECT_EQ(FindOnHost(links, attachment, "dra0", "/nowhere").value().index, 5);
  EXPECT_EQ(FindInPod(links, attachment, nullptr).value().index, 5);
  EXPECT_EQ(FindInPod({port, vlan, other}, attachment, nullptr), std::nullopt);
  // Without permanent address and netlink's word: by the address in use.
  Link old = own;
  old.parent_bus.clear();
  old.parent_device.clear();
  old.permanent_address.clear();
  old.address = "02:00:5e:00:53:03";
  EXPECT_EQ(FindInPod({port, vlan, other, old}, attachment, nullptr).value().index, 5);
  // What was noted in the namespace counts where nothing else is known.
  old.address = "02:00:5e:00:53:dd";
  const AttachedInterface noted{"pci-0000-8d-00-0", "net1", 5, "02:00:5e:00:53:03", {}};
  EXPECT_EQ(FindInPod({port, vlan, other, old}, attachment, nullptr), std::nullopt);
  EXPECT_EQ(FindInPod({port, vlan, other, old}, attachment, &noted).value().index, 5);
}

TEST(FindInterface, MakesTemporaryNamesThatTheKernelTakes) {
  const std::string name = TemporaryName("claim", "device");
  EXPECT_EQ(name.size(), 15u);
  EXPECT_EQ(name, TemporaryName("claim", "device"));
  EXPECT_NE(name, TemporaryName("claim", "device2"));
  EXPECT_NE(name, TemporaryName("claim2", "device"));
}

}  // namespace
}  // namespace rdma
