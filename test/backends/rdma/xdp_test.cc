// XDP programs on an interface that goes into a pod and comes back.
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "gmock/gmock.h"
#include "message.h"
#include "pod_fixture.h"

namespace rdma {
namespace {

using testing::HasSubstr;

int Bpf(int command, bpf_attr& attributes) {
  return static_cast<int>(syscall(SYS_bpf, command, &attributes, sizeof(attributes)));
}

class XdpTest : public PodTest {
 protected:
  void SetUp() override {
    PodTest::SetUp();
    if (IsSkipped()) return;
    AddNic();
    // veth's own mode takes no larger packets.
    Output(In(*switch_, "ip link set sw3 mtu 1600"));
    first_ = LoadProgram();
    if (first_ < 0) {
      ASSERT_TRUE(errno == EPERM || errno == ENOSYS) << strerror(errno);
      GTEST_SKIP() << "loading an XDP program: " << strerror(errno);
    }
    second_ = LoadProgram();
    ASSERT_GE(second_, 0) << strerror(errno);
  }
  void TearDown() override {
    for (const int fd : {first_, second_, link_}) {
      if (fd >= 0) close(fd);
    }
    PodTest::TearDown();
  }

  // Lets everything through.
  static int LoadProgram() {
    bpf_insn instructions[2] = {};
    instructions[0].code = BPF_ALU64 | BPF_MOV | BPF_K;
    instructions[0].imm = XDP_PASS;
    instructions[1].code = BPF_JMP | BPF_EXIT;
    bpf_attr attributes{};
    attributes.prog_type = BPF_PROG_TYPE_XDP;
    attributes.insns = reinterpret_cast<uint64_t>(instructions);
    attributes.insn_cnt = 2;
    attributes.license = reinterpret_cast<uint64_t>("GPL");
    return Bpf(BPF_PROG_LOAD, attributes);
  }
  static void Put(NetlinkSocket& route, const std::string& interface, int program, uint32_t mode) {
    RequestMessage message(RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK);
    message.Reserve<ifinfomsg>().ifi_index = FindLink(route, interface).value().index;
    nlattr* xdp = message.Begin(IFLA_XDP);
    message.PutU32(IFLA_XDP_FD, static_cast<uint32_t>(program));
    message.PutU32(IFLA_XDP_FLAGS, mode);
    message.End(xdp);
    route.Request(message.get(), "attach to " + interface);
  }
  void PutOnHost(int program, uint32_t mode) {
    NetlinkSocket route(NETLINK_ROUTE);
    Put(route, "eth3", program, mode);
  }
  void PutInPod(int program, uint32_t mode) {
    NetlinkSocket route(NETLINK_ROUTE, pod());
    Put(route, "net1", program, mode);
  }
  // By a BPF link, which no request of netlink's undoes.
  void PutByLink(const NetworkNamespace& place, const std::string& interface) {
    place.Run([&] {
      NetlinkSocket route(NETLINK_ROUTE);
      bpf_attr attributes{};
      attributes.link_create.prog_fd = static_cast<uint32_t>(first_);
      attributes.link_create.target_ifindex =
          static_cast<uint32_t>(FindLink(route, interface).value().index);
      attributes.link_create.attach_type = BPF_XDP;
      link_ = Bpf(BPF_LINK_CREATE, attributes);
      ASSERT_GE(link_, 0) << strerror(errno);
    });
  }
  // Of what `ip` shows; 0: there is none.
  static int Program(const Json& links) {
    const Json& link = links.at(0);
    return link.contains("xdp") ? link["xdp"]["prog"]["id"].get<int>() : 0;
  }
  static int OnHost() { return Program(Parse(Host("ip -j link show eth3"))); }
  int InPod() { return Program(Parse(Pod("ip -j link show net1"))); }

  void Prepare() { WritePlan({AttachmentOf("eth3", "net1")}); }
  void ComesHome(const std::string& remark = "") {
    const std::vector<GivenBack> back = Back();
    ASSERT_EQ(back.size(), 1u);
    EXPECT_EQ(back[0].host_name, "eth3");
    if (remark.empty()) {
      EXPECT_EQ(back[0].remark, "");
    } else {
      EXPECT_THAT(back[0].remark, HasSubstr(remark));
    }
  }

  static constexpr uint32_t kModes[] = {XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE};
  int first_ = -1, second_ = -1, link_ = -1;
};

TEST_F(XdpTest, AProgramOfThePodsDoesNotComeAlong) {
  for (const uint32_t mode : kModes) {
    SCOPED_TRACE(mode);
    Prepare();
    const Json before = HostPicture();
    AttachTo(pod());
    PutInPod(first_, mode);
    EXPECT_NE(InPod(), 0);
    ComesHome();
    EXPECT_EQ(OnHost(), 0);
    EXPECT_TRUE(BecomesLike(before));
  }
}

TEST_F(XdpTest, TheHostsOwnGoesAlongAndComesBack) {
  for (const uint32_t mode : kModes) {
    SCOPED_TRACE(mode);
    PutOnHost(first_, mode);
    const int own = OnHost();
    ASSERT_NE(own, 0);
    Prepare();
    AttachTo(pod());
    EXPECT_EQ(InPod(), own);
    ComesHome();
    EXPECT_EQ(OnHost(), own);
    PutOnHost(-1, mode);
  }
}

TEST_F(XdpTest, OneThatThePodPutInItsPlaceDoesNotComeAlong) {
  PutOnHost(first_, XDP_FLAGS_DRV_MODE);
  Prepare();
  AttachTo(pod());
  PutInPod(second_, XDP_FLAGS_DRV_MODE);
  ComesHome();
  EXPECT_EQ(OnHost(), 0);
}

TEST_F(XdpTest, OneThatCameAfterPrepareStaysOutOfThePod) {
  for (const uint32_t mode : kModes) {
    SCOPED_TRACE(mode);
    Prepare();
    PutOnHost(first_, mode);
    AttachTo(pod());
    EXPECT_EQ(InPod(), 0);
    ComesHome();
    EXPECT_EQ(OnHost(), 0);
  }
}

TEST_F(XdpTest, OneThatCannotBeDetachedIsTold) {
  Prepare();
  AttachTo(pod());
  PutByLink(pod(), "net1");
  if (HasFatalFailure()) return;
  ComesHome("detach XDP program");
  EXPECT_NE(OnHost(), 0);
  close(std::exchange(link_, -1));
  EXPECT_EQ(OnHost(), 0);
}

TEST_F(XdpTest, OneThatCannotBeDetachedKeepsItOutOfThePod) {
  Prepare();
  PutByLink(NetworkNamespace::Open("/proc/thread-self/ns/net"), "eth3");
  if (HasFatalFailure()) return;
  const int own = OnHost();
  EXPECT_THAT(AttachError(pod()),
              testing::AllOf(HasSubstr("device net-eth3 (interface eth3): detach XDP program " +
                                       std::to_string(own)),
                             HasSubstr("Device or resource busy")));
  EXPECT_EQ(OnHost(), own);
}

}  // namespace
}  // namespace rdma
