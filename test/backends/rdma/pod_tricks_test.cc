// What a pod with the right to administer its network does to the NIC that it has, and what the host gets back.
#include <chrono>

#include "find_interface.h"
#include "pod_fixture.h"

namespace rdma {
namespace {

class PodTricksTest : public PodTest {
 protected:
  void SetUp() override {
    PodTest::SetUp();
    if (IsSkipped()) return;
    AddNic();
    before_ = HostPicture();
  }
  void AttachNet1() {
    WritePlan({AttachmentOf("eth3", "net1")});
    AttachTo(pod());
  }
  Json before_;
};

// The name of a device on its way back can be computed by whoever knows the claim.
TEST_F(PodTricksTest, AnInterfaceOfTheTemporaryNameIsNotTakenForTheNic) {
  AttachNet1();
  Pod("ip link add " + TemporaryName(kClaim, "net-eth3") + " type veth peer name other");
  Back();
  EXPECT_TRUE(BecomesLike(before_));
}

TEST_F(PodTricksTest, AnAlternativeNameThatTheHostHasDoesNotKeepTheNic) {
  AddNic("eth4", 4);
  before_ = HostPicture();
  AttachNet1();
  Pod("ip link property add dev net1 altname eth4");
  EXPECT_EQ(BackError(std::chrono::milliseconds(500)), "given back");
  EXPECT_TRUE(BecomesLike(before_));
}

TEST_F(PodTricksTest, AnAlternativeNameOfThePodDoesNotStay) {
  AttachNet1();
  Pod("ip link property add dev net1 altname mine");
  Back();
  EXPECT_EQ(Host("ip -d link show eth3").find("mine"), std::string::npos);
}

TEST_F(PodTricksTest, FlagsAndAliasAreAsBefore) {
  AttachNet1();
  Pod("ip link set net1 promisc on");
  Pod("ip link set net1 allmulticast on");
  Pod("ip link set net1 arp off");
  Pod("ip link set net1 alias mine");
  Back();
  EXPECT_TRUE(BecomesLike(before_));
  EXPECT_EQ(Host("ip -d link show eth3").find("mine"), std::string::npos);
}

TEST_F(PodTricksTest, EnslavedToABridgeAndUnderAMacvlanItComesBack) {
  AttachNet1();
  Pod("ip link add br0 type bridge");
  Pod("ip link add link net1 name mv0 type macvlan mode bridge");
  Pod("ip link del mv0");
  Pod("ip link set net1 master br0");
  Back();
  EXPECT_TRUE(BecomesLike(before_));
}

TEST_F(PodTricksTest, UnderAMacvlanItComesBack) {
  AttachNet1();
  Pod("ip link add link net1 name mv0 type macvlan mode bridge");
  Back();
  EXPECT_TRUE(BecomesLike(before_));
}

// VLANs of one NIC have its address, veths may. One that went with its pod is not another that lives.
TEST_F(PodTricksTest, AnInterfaceOfTheSameAddressIsNotTakenForOneThatIsGone) {
  AddNic("eth4", 4);
  Host("ip link set eth4 address 02:00:5e:00:53:03");
  AttachNet1();
  before_ = HostPicture();
  umount2(folder().pin().c_str(), MNT_DETACH);
  pod_.reset();
  ASSERT_TRUE(VethIsDestroyed("sw3"));
  EXPECT_EQ(Back().at(0).host_name, "");
  EXPECT_TRUE(BecomesLike(before_));
}

// The claim has one shared NIC twice: two macvlans on it.
TEST_F(PodTricksTest, TwoMacvlansOnOneNicAreToldApart) {
  Attachment one = MacvlanOn("eth3", "a0"), two = MacvlanOn("eth3", "a1");
  one.device += "/share-1";
  two.device += "/share-2";
  two.config.interface.addresses = {"192.0.3.78/24"};
  WritePlan({one, two});
  AttachTo(pod());
  AttachTo(pod());  // a second container
  EXPECT_EQ(AddressesOf(PodLink("a0")), std::vector<std::string>{"192.0.3.77/24"});
  EXPECT_EQ(AddressesOf(PodLink("a1")), std::vector<std::string>{"192.0.3.78/24"});
  const auto state = folder().ReadState().value();
  ASSERT_EQ(state.interfaces.size(), 2u);
  EXPECT_EQ(state.interfaces[0].pod_name, "a0");
  EXPECT_EQ(state.interfaces[1].pod_name, "a1");
  Back();
  EXPECT_TRUE(PodLink("a0").is_null());
  EXPECT_TRUE(PodLink("a1").is_null());
  EXPECT_TRUE(BecomesLike(before_));
}

// The limit is that of the call, not of each device.
TEST_F(PodTricksTest, SeveralThatTheKernelHasNotReturnedCostOneLimit) {
  std::vector<Attachment> all;
  for (int i = 0; i < 4; ++i) {
    const std::string address = "0000:8d:00." + std::to_string(i);
    const std::string function = sys() + "/bus/pci/devices/" + address;
    std::filesystem::create_directories(function);
    std::filesystem::create_symlink("../../drivers/mlx5_core", function + "/driver");
    Attachment attachment = AttachmentOf("eth3", "net" + std::to_string(i));
    attachment.device = "pci-" + std::to_string(i);
    attachment.home.name = "gone" + std::to_string(i);
    attachment.home.kind = "";
    attachment.home.address = "02:00:5e:00:54:0" + std::to_string(i);
    attachment.home.pci_address = address;
    all.push_back(attachment);
  }
  WritePlan(all);
  AttachState state;
  state.pod_uid = kPod;
  state.namespace_device = 1;
  state.namespace_inode = 1;
  folder().WriteState(state);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_NE(BackError(std::chrono::milliseconds(600)), "given back");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(1500));
}

}  // namespace
}  // namespace rdma
