// Two processes on one data directory, and a kubelet that asks at random while they are killed, stopped, replaced and
// their backends restarted: every call is answered, and in the end nothing is held. DRA_CRASH_SECONDS: how long (default
// 20); DRA_CRASH_SEED: which run (default: the time).
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dra/base/ids.h"
#include "test/crash/crash_node.h"

namespace dra::crash {
namespace {

constexpr absl::Duration kKubeletLimit = absl::Seconds(45);
constexpr int kPods = 4;

int FromEnvironment(const char* name, int fallback) {
  const char* value = std::getenv(name);
  int number = 0;
  return value != nullptr && absl::SimpleAtoi(value, &number) ? number : fallback;
}

class RandomTest : public ::testing::Test {
 protected:
  // One call as the kubelet makes it; a call that is not answered in its time is the failure this test is for.
  template <typename Function>
  absl::Status Call(const std::string& what, Function function) {
    const absl::Time began = absl::Now();
    const absl::Status status = function();
    const absl::Duration took = absl::Now() - began;
    ++calls_;
    if (took >= kKubeletLimit || absl::IsDeadlineExceeded(status)) {
      stuck_ = true;
      ADD_FAILURE() << what << " was not answered within 45 s: " << status;
    }
    int64_t slowest = slowest_ms_;
    while (absl::ToInt64Milliseconds(took) > slowest &&
           !slowest_ms_.compare_exchange_weak(slowest, absl::ToInt64Milliseconds(took))) {
    }
    return status;
  }

  // One pod after the other: a claim with one or two of the node's devices, prepared, perhaps again, given back.
  void RunPods(uint32_t seed) {
    std::mt19937 random(seed);
    int number = 0;
    while (!done_ && !stuck_) {
      std::vector<std::string> devices = {absl::StrCat("gpu-", random() % kDevices)};
      const std::string second = absl::StrCat("gpu-", random() % kDevices);
      if (second != devices[0]) devices.push_back(second);
      const testing::KubeletClaim claim =
          node_.MakeClaim(absl::StrCat("c", seed, "-", number++), devices, random() % 2 == 0);
      bool prepared = false;
      for (int attempt = 0; attempt < 3 && !prepared && !stuck_; ++attempt)
        prepared = Call("prepare", [&] { return node_.PrepareOnce(claim); }).ok();
      if (prepared) ++prepared_;
      if (prepared && random() % 3 == 0)
        (void)Call("repeated prepare", [&] { return node_.PrepareOnce(claim); });
      for (;;) {
        const absl::Status status = Call("unprepare", [&] { return node_.UnprepareOnce(claim); });
        if (status.ok()) break;
        if (stuck_) return;
        absl::SleepFor(absl::Milliseconds(10));
      }
      node_.DeleteClaim(claim);
    }
  }

  void Replace(std::unique_ptr<Child>* child, std::mt19937* random) {
    if (*child != nullptr) {
      if ((*random)() % 2 == 0) {
        (*child)->Kill();
      } else {
        EXPECT_TRUE((*child)->Stop()) << "did not stop in order";
      }
    }
    StartOptions options;
    options.pod_uid = NewUuid();
    options.clock_ahead_seconds = 0;  // what the other process writes now is not old
    *child = node_.StartChild(options);
    ASSERT_NE(*child, nullptr);
  }

  // The backend asks for its restart from within the n-th prepare from now.
  void AskForRestart(std::mt19937* random) {
    node_.Control(
        {{"hooks",
          {{"prepare",
            {{"id", NewUuid()},
             {"skip", (*random)() % 3},
             {"times", 1},
             {"callback", {{"function", "requestRestart"}, {"delayMs", (*random)() % 5}}}}}}}});
    ++restarts_;
  }

  CrashNode node_{/*keeps_undo=*/true};
  std::atomic<bool> done_ = false;
  std::atomic<bool> stuck_ = false;
  std::atomic<int> calls_ = 0;
  std::atomic<int> prepared_ = 0;
  std::atomic<int64_t> slowest_ms_ = 0;
  int restarts_ = 0;
};

TEST_F(RandomTest, TwoProcessesAlwaysMakeProgress) {
  const uint32_t seed = static_cast<uint32_t>(
      FromEnvironment("DRA_CRASH_SEED", static_cast<int>(absl::ToUnixSeconds(absl::Now()))));
  const absl::Time end = absl::Now() + absl::Seconds(FromEnvironment("DRA_CRASH_SECONDS", 20));
  std::cout << "DRA_CRASH_SEED=" << seed << std::endl;
  std::mt19937 random(seed);
  std::unique_ptr<Child> children[2];
  for (std::unique_ptr<Child>& child : children) Replace(&child, &random);
  ASSERT_TRUE(node_.WaitForReady(children[0].get(), 2)) << node_.LogTail();

  int replaced = 0;
  {
    std::vector<std::jthread> pods;
    for (uint32_t i = 0; i < kPods; ++i)
      pods.emplace_back([this, pod_seed = seed * kPods + i] { RunPods(pod_seed); });
    while (absl::Now() < end && !stuck_) {
      absl::SleepFor(absl::Milliseconds(100 + random() % 400));
      if (random() % 3 == 0) {
        AskForRestart(&random);
      } else {
        Replace(&children[random() % 2], &random);
        ++replaced;
      }
    }
    done_ = true;
  }
  // A process that was killed has left what only a start sweeps; a file younger than the sweep's age stays until then.
  node_.Control(Json::object());
  for (std::unique_ptr<Child>& child : children) child->Stop();
  std::unique_ptr<Child> last = node_.StartChild();
  ASSERT_NE(last, nullptr);
  EXPECT_TRUE(node_.WaitForReady(last.get()));
  const testing::KubeletClaim all =
      node_.MakeClaim("all", {"gpu-0", "gpu-1", "gpu-2", "gpu-3"}, false);
  const absl::Status taken = node_.Prepare(all);
  EXPECT_TRUE(taken.ok()) << "a device is lost: " << taken;
  EXPECT_TRUE(node_.Unprepare(all).ok());
  EXPECT_EQ(node_.WaitForNoLeftovers(absl::Seconds(2)), "");
  EXPECT_EQ(node_.CheckHardware(), "");
  EXPECT_EQ(node_.CheckHooks(), "");
  EXPECT_EQ(node_.CheckSlices(), "");
  EXPECT_GT(prepared_, 0);
  std::cout << "calls " << calls_ << ", claims prepared " << prepared_ << ", processes replaced "
            << replaced << ", restarts asked for " << restarts_ << ", slowest call " << slowest_ms_
            << " ms\n";
  if (HasFailure()) std::cout << node_.LogTail() << "\n";
}

}  // namespace
}  // namespace dra::crash
