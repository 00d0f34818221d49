// 5,000 claims on one node: no operation costs more than with none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>

#include "test/claims/claims_rig.h"

namespace dra::claims {
namespace {

constexpr int kClaims = 5000;
constexpr int kAtOnce = 50;
constexpr int64_t kMaxBytesPerClaim = 32 << 10;

int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0;
  int64_t resident = 0;
  statm >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

double Seconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
}

// A /tmp in memory that only this process sees: fsync is not what is tested here. The disk's own where that is not
// permitted.
void HideDisk() {
  if (::unshare(CLONE_NEWNS) != 0) return;
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return;
  (void)::mount("tmpfs", "/tmp", "tmpfs", 0, "size=512m,mode=1777");
}

class Size {
 public:
  Size() {
    for (int i = 0; i < kClaims + 1; ++i) {
      rig_.catalog_.Put(Device(i), {{absl::StrCat("card-of-", i), "whole"}});
    }
  }
  static std::string Device(int i) { return absl::StrCat("n", i); }
  static std::string Uid(int i) { return absl::StrCat("uid-", i); }
  void Prepare(int i) {
    rig_.Allocate(Uid(i), {Result(Device(i))});
    const auto prepared = rig_.Prepare(Uid(i));
    ASSERT_TRUE(prepared.ok()) << prepared.status();
  }
  // Many at once, as kubelets do after a start: one after the other is only slower.
  void PrepareAll() {
    for (int first = 0; first < kClaims; first += kAtOnce) {
      std::vector<PrepareAnswer> answers;
      for (int i = first; i < first + kAtOnce; ++i) {
        rig_.Allocate(Uid(i), {Result(Device(i))});
        answers.push_back(rig_.StartPrepare(Identity(Uid(i))));
      }
      for (PrepareAnswer& answer : answers) {
        const auto prepared = answer.Get();
        ASSERT_TRUE(prepared.ok()) << prepared.status();
      }
      rig_.fs_.ResetCount();  // its log is not what is measured
    }
  }
  void UnprepareAll() {
    for (int first = 0; first < kClaims; first += kAtOnce) {
      std::vector<UnprepareAnswer> answers;
      for (int i = first; i < first + kAtOnce; ++i) {
        answers.push_back(rig_.StartUnprepare(Identity(Uid(i))));
      }
      for (UnprepareAnswer& answer : answers) {
        const absl::Status unprepared = answer.Get();
        ASSERT_TRUE(unprepared.ok()) << unprepared;
      }
      rig_.fs_.ResetCount();
    }
  }
  // File operations of one prepare, one repeated prepare and one unprepare.
  std::vector<int> Operations(int i) {
    std::vector<int> counts;
    rig_.fs_.ResetCount();
    Prepare(i);
    counts.push_back(rig_.fs_.count());
    rig_.fs_.ResetCount();
    Prepare(i);
    counts.push_back(rig_.fs_.count());
    rig_.fs_.ResetCount();
    EXPECT_TRUE(rig_.Unprepare(Uid(i)).ok());
    counts.push_back(rig_.fs_.count());
    rig_.fs_.ResetCount();
    return counts;
  }

  ClaimsRig rig_;
};

TEST(FiveThousandClaims, CostEachOperationNothingAndSurviveARestart) {
  HideDisk();
  Size node;
  (void)node.Operations(kClaims);  // the first makes the directories
  const std::vector<int> with_none = node.Operations(kClaims);
  const int64_t before = ResidentBytes();
  auto start = std::chrono::steady_clock::now();
  node.PrepareAll();
  std::cout << kClaims << " prepares: " << Seconds(start) << " s\n";
  const int64_t per_claim = (ResidentBytes() - before) / kClaims;
  std::cout << per_claim << " bytes of memory a claim, the test's own objects included\n";
  EXPECT_LE(per_claim, kMaxBytesPerClaim);

  EXPECT_EQ(node.Operations(kClaims), with_none) << "prepare, repeated prepare, unprepare";

  start = std::chrono::steady_clock::now();
  node.rig_.Boot();
  std::cout << "start with " << kClaims << " records: " << Seconds(start) << " s, "
            << node.rig_.fs_.count() / kClaims << " file operations a record\n";
  ASSERT_TRUE(node.rig_.start_error_.ok()) << node.rig_.start_error_;
  EXPECT_LE(node.rig_.fs_.count(), 9 * kClaims);
  node.rig_.fs_.ResetCount();
  EXPECT_EQ(node.rig_.manager_->Claims().size(), static_cast<size_t>(kClaims));
  EXPECT_EQ(node.rig_.manager_->HeldDevices().size(), static_cast<size_t>(kClaims));
  (void)node.Operations(kClaims);
  EXPECT_EQ(node.Operations(kClaims), with_none) << "after a restart";

  node.UnprepareAll();
  EXPECT_THAT(node.rig_.Leftovers(), ::testing::IsEmpty());
  EXPECT_TRUE(node.rig_.manager_->HeldDevices().empty());
}

}  // namespace
}  // namespace dra::claims
