// Prepares and unprepares go on while the instance that serves them is replaced ten times.
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "test/handover/node.h"

namespace dra::handover {
namespace {

using ::testing::IsEmpty;

constexpr int kReplacements = 10;
constexpr int kSick = 7;  // the device whose health is bad throughout

class Load : public NodeTest {
 protected:
  struct Figures {
    std::atomic<int> operations = 0;
    std::atomic<int> broken_off = 0;  // calls that ended with the connection, and were repeated
    absl::Duration longest_call;
    absl::Duration longest_without_health;
    absl::Mutex mutex;
    std::vector<std::string> failures ABSL_GUARDED_BY(mutex);
    std::vector<std::string> contradictions ABSL_GUARDED_BY(mutex);
  };

  // A call as the kubelet makes it. `may_break`: a connection that is lost with its process is no failure, and the
  // call is repeated. So is one that the kubelet itself breaks off: it may have chosen an endpoint that it then
  // deregisters before the call is sent, which no driver can see. On an idle machine there is none.
  void Call(bool prepare, const testing::KubeletClaim& claim, bool may_break) {
    const absl::Time begin = absl::Now();
    for (;;) {
      const testing::KubeletReply reply = prepare ? kubelet_->PrepareResources(kDriver, {claim})
                                                  : kubelet_->UnprepareResources(kDriver, {claim});
      ++figures_.operations;
      const bool broken = !reply.verdict.ok() && reply.errors.empty();
      const bool withdrawn = broken && absl::IsCancelled(reply.verdict);
      if (broken && (may_break || withdrawn) && absl::Now() < begin + kPatience) {
        ++figures_.broken_off;
        absl::SleepFor(absl::Milliseconds(20));
        continue;
      }
      absl::MutexLock lock(&figures_.mutex);
      figures_.longest_call = std::max(figures_.longest_call, absl::Now() - begin);
      if (!reply.verdict.ok()) {
        figures_.failures.push_back(
            absl::StrCat(prepare ? "prepare " : "unprepare ", reply.verdict.ToString()));
      }
      return;
    }
  }

  // One device's life: claim after claim. Every other device has claims that set the card, and so undo data.
  void Work(int device, int least, bool may_break) {
    const std::string name = absl::StrCat("gpu-", device);
    while (!replaced_all_ || figures_.operations < least) {
      const testing::KubeletClaim claim = MakeClaim(name, device % 2 == 0);
      Call(true, claim, may_break);
      Call(false, claim, may_break);
      api_->store().Erase(kube::ResourceClaims(), claim.namespace_name, claim.name);
    }
  }

  // What a kubelet would tell the pods: each device's true health, or nothing while it has forgotten it.
  void WatchHealth() {
    absl::Time complete = absl::Now();
    int wrong = 0;
    while (!stop_watching_) {
      const bool before = kubelet_->KnownHealth(kDriver) == kDevices;
      bool right = true;
      for (int i = 0; i < kDevices; ++i) {
        const testing::KubeletHealth health =
            kubelet_->Health(kDriver, kNode, absl::StrCat("gpu-", i)).health;
        const testing::KubeletHealth expected =
            i == kSick ? testing::KubeletHealth::kUnhealthy : testing::KubeletHealth::kHealthy;
        right = right && health == expected;
      }
      const bool all = before && kubelet_->KnownHealth(kDriver) == kDevices;
      // The cache may be emptied and filled between two looks at it, so one look shows nothing.
      wrong = all && !right ? wrong + 1 : 0;
      {
        absl::MutexLock lock(&figures_.mutex);
        if (wrong >= 3) figures_.contradictions.push_back("a device with a health it has not");
        if (all && right) complete = absl::Now();
        figures_.longest_without_health =
            std::max(figures_.longest_without_health, absl::Now() - complete);
      }
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  // The backend's own log: what was prepared on a device, and by whom, strictly one after the other.
  void CheckHooks() {
    std::map<std::string, std::string> holder;                // claim by device
    std::map<std::string, std::vector<std::string>> devices;  // by claim
    for (const Json& event : Hooks()) {
      const std::string hook = StringOr(event, "hook");
      const std::string claim = StringOr(event, "claim");
      if (StringOr(event, "event") == "begin" && hook == "prepare") {
        for (const Json& device : event["devices"]) {
          const std::string name = device.is_string() ? device.get<std::string>() : device.dump();
          devices[claim].push_back(name);
          EXPECT_TRUE(holder[name].empty() || holder[name] == claim)
              << name << " is prepared for " << claim << " while " << holder[name] << " has it";
          holder[name] = claim;
        }
      }
      if (StringOr(event, "event") == "end" && hook == "unprepare" && event["code"] == 0) {
        for (const std::string& name : devices[claim]) holder[name].clear();
      }
    }
    for (const auto& [name, claim] : holder) EXPECT_EQ(claim, "") << name << " stays prepared";
    EXPECT_FALSE(holder.empty());
  }

  void Replace(int least, bool kill) {
    Control({{"health",
              {{absl::StrCat("gpu-", kSick),
                {{"state", "unhealthy"}, {"faultClass", "ecc"}, {"message", "bits flip"}}}}}});
    std::unique_ptr<Instance> instance = StartReady();
    ASSERT_TRUE(instance->WaitForOwner());
    ASSERT_TRUE(WaitUntil([&] {
      return kubelet_->KnownHealth(kDriver) == kDevices &&
             kubelet_->Health(kDriver, kNode, absl::StrCat("gpu-", kSick)).health ==
                 testing::KubeletHealth::kUnhealthy;
    }));
    // The taint of the sick device is written by now.
    ASSERT_TRUE(WaitUntil([&] { return Slices().size() == 1 && HasTaint(); }));
    const std::vector<Json> slices = Slices();
    const int writes = SliceWrites();

    std::thread health([this] { WatchHealth(); });
    std::vector<std::thread> workers;
    for (int device = 0; device < 4; ++device) {
      workers.emplace_back([this, device, least, kill] { Work(device, least, kill); });
    }
    int replaced = 0;
    for (; replaced < kReplacements && !HasFatalFailure(); ++replaced) {
      std::unique_ptr<Instance> newer = StartReady();
      if (kill) {
        instance->Kill();
      } else {
        EXPECT_EQ(instance->Terminate(), 0) << instance->Log();
      }
      instance = std::move(newer);
      // The next one starts when this one serves alone and the health of all devices is known.
      EXPECT_TRUE(instance->WaitForOwner()) << instance->Log();
      EXPECT_TRUE(WaitUntil([&] { return kubelet_->KnownHealth(kDriver) == kDevices; }));
    }
    replaced_all_ = true;
    for (std::thread& worker : workers) worker.join();
    stop_watching_ = true;
    health.join();

    EXPECT_EQ(Slices(), slices) << "no slice was written, lost or made twice";
    const int rewritten = SliceWrites() - writes;
    EXPECT_EQ(rewritten, 0);
    CheckHooks();
    EXPECT_THAT(Files("cdi"), IsEmpty());
    EXPECT_THAT(Files(absl::StrCat("kubelet/plugins/", kDriver, "/claims")), IsEmpty());
    absl::MutexLock lock(&figures_.mutex);
    EXPECT_THAT(figures_.failures, IsEmpty());
    EXPECT_THAT(figures_.contradictions, IsEmpty());
    if (!kill) {
      EXPECT_LE(figures_.broken_off.load(), 2);
    }
    EXPECT_GE(figures_.operations, least);
    std::printf(
        "hand-over by %s: %d calls, %d replacements, %zu failed, %d repeated after a lost "
        "connection, %d slice "
        "writes, longest call %.0f ms, longest time without the health of all devices %.0f ms\n",
        kill ? "SIGKILL" : "SIGTERM", figures_.operations.load(), replaced,
        figures_.failures.size(), figures_.broken_off.load(), rewritten,
        absl::ToDoubleMilliseconds(figures_.longest_call),
        absl::ToDoubleMilliseconds(figures_.longest_without_health));
  }

  // Without the temporary file of a write in whose middle a process was killed: it is removed when it is a minute old.
  std::vector<std::string> Files(const std::string& directory) {
    std::vector<std::string> files;
    for (const std::string& name :
         fs_.List(directory_.Path(directory)).value_or(std::vector<std::string>{"unreadable"})) {
      if (name[0] != '.') files.push_back(name);
    }
    return files;
  }

  bool HasTaint() const {
    for (const Json& slice : Slices()) {
      for (const Json& device : slice["spec"]["devices"]) {
        if (StringOr(device, "name") == absl::StrCat("gpu-", kSick))
          return device.contains("taints");
      }
    }
    return false;
  }

  Figures figures_;
  std::atomic<bool> replaced_all_ = false;
  std::atomic<bool> stop_watching_ = false;
};

TEST_F(Load, AThousandCallsAndTenRollingUpdatesFailNoCall) { Replace(1000, /*kill=*/false); }

TEST_F(Load, TenKillsUnderLoadLoseAndDoubleNothing) { Replace(400, /*kill=*/true); }

}  // namespace
}  // namespace dra::handover
