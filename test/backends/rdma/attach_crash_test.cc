// The hook and the backend are killed at every step of every move, and whatever comes next finds its way.
#include <functional>

#include "attach.h"
#include "ethtool.h"
#include "give_back.h"
#include "gmock/gmock.h"
#include "kill_at_step.h"
#include "pod_fixture.h"

namespace rdma {
namespace {

using testing::ElementsAre;

class AttachCrashTest : public PodTest {
 protected:
  void SetUp() override {
    PodTest::SetUp();
    if (IsSkipped()) return;
    AddNic();
    AddNic("eth4", 4);
    Host("sh -c 'echo 0 > /proc/sys/net/ipv6/conf/eth3/accept_ra'");
    before_ = HostPicture();
    features_ = GetFeatures("eth3");
    Attachment nic = AttachmentOf("eth3", "net1");
    nic.config.interface.mtu = 8000;
    nic.config.interface.hardware_address = "02:00:5e:00:53:aa";
    nic.config.interface.gso_max_size = 40000;
    nic.config.interface.arp_ignore = 1;
    nic.config.features = {{"tx-checksum-ip-generic", false}};
    nic.config.routes.resize(1);
    nic.config.routes[0].destination = "203.0.113.0/24";
    nic.config.routes[0].gateway = "192.0.3.1";
    nic.config.rules.resize(1);
    nic.config.rules[0].source = "192.0.3.7/32";
    nic.config.rules[0].priority = 100;
    nic.config.rules[0].table = 77;
    nic_ = nic;
    Attachment macvlan = MacvlanOn("eth4", "net2");
    macvlan.config.interface.addresses = {"192.0.4.77/24"};
    macvlan_ = macvlan;
    WritePlan({nic_, macvlan_});
  }

  void AttachAndCheck(const NetworkNamespace& pod, const char* sandbox) {
    AttachTo(pod, sandbox);
    const Json nic = LinkIn(pod, "net1"), macvlan = LinkIn(pod, "net2");
    ASSERT_FALSE(nic.is_null());
    ASSERT_FALSE(macvlan.is_null());
    EXPECT_EQ(nic["mtu"], 8000);
    EXPECT_EQ(nic["address"], "02:00:5e:00:53:aa");
    EXPECT_THAT(AddressesOf(nic),
                testing::UnorderedElementsAre("192.0.3.7/24", "2001:db8:3::7/64"));
    EXPECT_THAT(AddressesOf(macvlan), ElementsAre("192.0.4.77/24"));
    const AttachState state = folder().ReadState().value();
    EXPECT_EQ(state.phase, AttachState::Phase::kAttached);
    EXPECT_EQ(state.interfaces.size(), 2u);
    EXPECT_EQ(state.sandbox, sandbox);
    EXPECT_EQ(NetworkNamespace::Open(folder().pin()).Identity(), pod.Identity());
  }

  // The end of every story.
  void GiveBackAndCheck() {
    for (const GivenBack& back : Back()) {
      EXPECT_EQ(back.host_name, back.device == "net-eth3" ? "eth3" : "eth4");
      EXPECT_EQ(back.remark, "");
    }
    CheckHome();
    EXPECT_THAT(Files(), ElementsAre("plan.json"));
  }
  void CheckHome() {
    EXPECT_TRUE(BecomesLike(before_));
    EXPECT_EQ(GetFeatures("eth3"), features_);
    EXPECT_EQ(Host("cat /proc/sys/net/ipv6/conf/eth3/accept_ra"), "0\n");
    EXPECT_TRUE(PodLink("net2").is_null());
  }

  // At each step of `operation`, from what `prepare` makes: killed, then `next`.
  void AtEveryStep(const std::function<void()>& prepare, const std::function<void()>& operation,
                   Ended ends, const std::function<void()>& next) {
    int n = 1;
    for (Ended ended = Ended::kKilled; ended == Ended::kKilled && !HasFailure(); ++n) {
      SCOPED_TRACE("killed before step " + std::to_string(n));
      prepare();
      ended = RunKilledAt(n, operation);
      if (ended != Ended::kKilled) {
        EXPECT_EQ(ended, ends);
      }
      next();
      GiveBackAndCheck();
    }
    RecordProperty("steps", n - 1);
    EXPECT_GT(n, 10);
  }

  std::function<void()> NewPodForEach() {
    return [&] { pod_.emplace(NewPod()); };
  }
  std::function<void()> Attached() {
    return [&] {
      pod_.emplace(NewPod());
      AttachTo(pod());
    };
  }

  Attachment nic_, macvlan_;
  Json before_;
  std::map<std::string, bool> features_;
};

TEST_F(AttachCrashTest, OfAttachIsMadeGoodByAttach) {
  AtEveryStep(
      NewPodForEach(), [&] { AttachTo(pod()); }, Ended::kReturned,
      [&] { AttachAndCheck(pod(), "sandbox-1"); });
}

TEST_F(AttachCrashTest, OfAttachIsMadeGoodByAttachInANewSandbox) {
  AtEveryStep(
      NewPodForEach(), [&] { AttachTo(pod()); }, Ended::kReturned,
      [&] {
        const NetworkNamespace second = NewPod();
        AttachAndCheck(second, "sandbox-2");
        EXPECT_TRUE(PodLink("net1").is_null());
      });
}

TEST_F(AttachCrashTest, OfAttachIsMadeGoodByGiveBack) {
  AtEveryStep(
      NewPodForEach(), [&] { AttachTo(pod()); }, Ended::kReturned, [] {});
}

TEST_F(AttachCrashTest, OfGiveBackIsMadeGoodByGiveBack) {
  AtEveryStep(
      Attached(), [&] { Back(); }, Ended::kReturned, [] {});
}

TEST_F(AttachCrashTest, OfGiveBackIsMadeGoodByAttach) {
  AtEveryStep(
      Attached(), [&] { Back(); }, Ended::kReturned, [&] { AttachAndCheck(pod(), "sandbox-1"); });
}

TEST_F(AttachCrashTest, OfANewSandboxsAttachIsMadeGoodByAttachAndGiveBack) {
  std::optional<NetworkNamespace> second;
  int turn = 0;
  AtEveryStep(
      [&] {
        Attached()();
        second.emplace(NewPod());
      },
      [&] { AttachTo(*second, "sandbox-2"); }, Ended::kReturned,
      [&] {
        if (++turn % 2 == 0) AttachAndCheck(*second, "sandbox-2");
      });
}

TEST_F(AttachCrashTest, OfAnUndoIsMadeGoodByAttachThatFailsAgainAndGiveBack) {
  macvlan_.config.routes.resize(1);
  macvlan_.config.routes[0].destination = "203.0.113.0/24";
  macvlan_.config.routes[0].gateway = "10.1.1.1";
  WritePlan({nic_, macvlan_});
  int turn = 0;
  AtEveryStep(
      NewPodForEach(), [&] { AttachTo(pod()); }, Ended::kThrew,
      [&] {
        if (++turn % 2 == 0) return;
        EXPECT_THAT(AttachError(pod()), testing::HasSubstr("add route 203.0.113.0/24"));
        CheckHome();
        EXPECT_THAT(Files(), ElementsAre("plan.json", "state.json"));
      });
}

}  // namespace
}  // namespace rdma
