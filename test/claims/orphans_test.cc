#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "dra/records/claim_locks.h"
#include "test/claims/claims_rig.h"

namespace dra::claims {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kGrace = absl::Minutes(5);  // the default

class Orphans : public ::testing::Test {
 protected:
  Orphans() {
    rig_.Allocate("U1", {Result("d0")});
    rig_.backend_.SetBusy(loader::Busy::kIdle);
    EXPECT_TRUE(rig_.Prepare("U1").ok());
  }
  OrphanReport Pass() { return rig_.manager_->CollectOrphans({}); }
  OrphanReport PassAfterGrace() {
    rig_.clock_.Advance(kGrace);
    return Pass();
  }
  void Withdraw() {
    Json claim = ClaimObject(Identity("U1"), {});
    claim["status"] = Json::object();
    rig_.claims_.Put(claim);
  }

  ClaimsRig rig_;
};
using Ckp08 = Orphans;

TEST_F(Ckp08, AnErrorIsNoEvidenceAndTwo404BeyondTheGraceAre) {
  rig_.claims_.Erase(Identity("U1"));
  rig_.claims_.Fail({absl::UnavailableError("500 InternalError")});
  EXPECT_EQ(Pass().unknown, 1);
  rig_.clock_.Advance(kGrace);
  EXPECT_EQ(Pass().suspected, 1) << "the first evidence, however long ago the error was";
  EXPECT_EQ(rig_.Phase("U1"), "prepared");
  EXPECT_EQ(Pass().suspected, 1) << "within the grace";
  EXPECT_EQ(PassAfterGrace().released, 1);
  EXPECT_EQ(rig_.Phase("U1"), "none");
  EXPECT_EQ(rig_.backend_.Order(), "prepare U1, unprepare U1");
  EXPECT_THAT(rig_.Leftovers(), IsEmpty());
  EXPECT_THAT(rig_.manager_->HeldDevices(), IsEmpty());
  EXPECT_FALSE(rig_.cdi_.Has("U1"));
  EXPECT_EQ(
      rig_.metrics_.Value("dra_claims_released_total", {{"driver", kDriver}, {"reason", "gone"}}),
      1);
}

TEST_F(Ckp08, AClaimWhoseDeviceIsInUseIsKeptAndSaid) {
  rig_.claims_.Erase(Identity("U1"));
  rig_.backend_.SetBusy(loader::Busy::kBusy);
  Pass();
  EXPECT_EQ(PassAfterGrace().kept, 1);
  EXPECT_EQ(rig_.Phase("U1"), "prepared");
  EXPECT_EQ(rig_.metrics_.Value("dra_orphaned_claims", {{"driver", kDriver}}), 1);
  EXPECT_THAT(rig_.manager_->HeldDevices(), SizeIs(1));
  rig_.backend_.SetBusy(loader::Busy::kIdle);
  EXPECT_EQ(Pass().released, 1);
  EXPECT_EQ(rig_.metrics_.Value("dra_orphaned_claims", {{"driver", kDriver}}), 0);
}

TEST_F(Orphans, NoErrorOfTheApiEverCounts) {
  rig_.claims_.Erase(Identity("U1"));
  for (const absl::Status& error :
       {absl::PermissionDeniedError("403"), absl::UnavailableError("429"),
        absl::UnavailableError("503"), absl::DeadlineExceededError("time-out"),
        absl::InvalidArgumentError("junk"), absl::UnauthenticatedError("401")}) {
    SCOPED_TRACE(error.ToString());
    rig_.claims_.Fail({error});
    EXPECT_EQ(PassAfterGrace().unknown, 1);
  }
  EXPECT_EQ(Pass().suspected, 1);
  // Nor do they take away what was seen.
  rig_.claims_.Fail({absl::UnavailableError("503")});
  EXPECT_EQ(PassAfterGrace().unknown, 1);
  EXPECT_EQ(rig_.Phase("U1"), "prepared");
  // And the last look has to succeed as well.
  rig_.claims_.Fail({absl::OkStatus(), absl::UnavailableError("503")});
  EXPECT_EQ(Pass().released, 0);
  EXPECT_EQ(Pass().released, 1);
}

TEST_F(Orphans, ASuccessInBetweenTakesTheEvidenceAway) {
  rig_.claims_.Erase(Identity("U1"));
  Pass();
  rig_.Allocate("U1", {Result("d0")});
  EXPECT_EQ(PassAfterGrace().asked, 1);
  rig_.claims_.Erase(Identity("U1"));
  EXPECT_EQ(PassAfterGrace().suspected, 1);
  EXPECT_EQ(rig_.Phase("U1"), "prepared");
}

TEST_F(Orphans, AnOperationInBetweenTakesTheEvidenceAway) {
  Withdraw();
  Pass();
  rig_.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig_.Unprepare("U1").ok());
  ASSERT_TRUE(rig_.Prepare("U1").ok());
  Withdraw();
  EXPECT_EQ(PassAfterGrace().suspected, 1);
  EXPECT_EQ(rig_.Phase("U1"), "prepared");
}

TEST_F(Orphans, AnotherClaimOfTheNameAndAWithdrawnAllocationAreEvidence) {
  const auto put = [&](const std::string& uid, std::vector<Json> results, bool reserved) {
    loader::ClaimIdentity claim = Identity("U1");
    claim.uid = uid;
    Json reserved_for = Json::array();
    if (reserved) reserved_for.push_back({{"resource", "pods"}, {"name", "p1"}, {"uid", "P1"}});
    rig_.claims_.Put(ClaimObject(claim, std::move(results), Json::array(), reserved_for));
  };
  Json foreign = Result("d0");
  foreign["driver"] = "other.sdk.test";
  struct {
    const char* name;
    std::function<void()> happens;
    int suspected;
  } const cases[] = {
      {"replaced", [&] { put("U9", {Result("d0")}, true); }, 1},
      {"not allocated", [&] { Withdraw(); }, 1},
      {"no result of ours", [&] { put("U1", {foreign}, true); }, 1},
      {"other devices", [&] { put("U1", {Result("d1")}, true); }, 1},
      {"changed and not reserved",
       [&] {
         put("U1", {Result("d0"), Result("d1", "r1")}, false);
       },
       1},
      {"changed and reserved",
       [&] {
         put("U1", {Result("d0"), Result("d1", "r1")}, true);
       },
       0},
      {"the same, not reserved", [&] { put("U1", {Result("d0")}, false); }, 0},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    rig_.Allocate("U1", {Result("d0")});
    Pass();
    test.happens();
    EXPECT_EQ(Pass().suspected, test.suspected);
  }
}

TEST_F(Orphans, AnAllocationMadeAgainBetweenEvidenceAndReleaseKeepsTheClaim) {
  Withdraw();
  Pass();
  rig_.clock_.Advance(kGrace);
  int looks = 0;
  rig_.claims_.on_get = [&] {
    if (++looks == 2) rig_.Allocate("U1", {Result("d0")});  // the look under the lock
  };
  const OrphanReport report = Pass();
  EXPECT_EQ(looks, 2);
  EXPECT_EQ(report.released, 0);
  EXPECT_EQ(rig_.Phase("U1"), "prepared");
  EXPECT_EQ(rig_.backend_.BusyAsked(), 0);
}

TEST_F(Orphans, AnOperationThatRunsWins) {
  rig_.claims_.Erase(Identity("U1"));
  Pass();
  rig_.clock_.Advance(kGrace);
  {
    const records::ClaimLocks locks(rig_.directory_.Path("data/serialize.lock"));
    const auto lock = locks.TryLockClaim("U1");
    ASSERT_TRUE(lock.ok());
    EXPECT_EQ(Pass().suspected, 1);
  }
  EXPECT_EQ(rig_.Phase("U1"), "prepared");
  EXPECT_EQ(Pass().released, 1);
}

TEST_F(Orphans, APrepareBesideTheCollectorEndsPrepared) {
  // The claim comes back while the collector releases it: in whichever order they run, the prepare's answer is true.
  for (int round = 0; round < 5; ++round) {
    Withdraw();
    Pass();
    rig_.clock_.Advance(kGrace);
    std::thread collector([&] { Pass(); });
    rig_.Allocate("U1", {Result("d0")});
    const auto answer = rig_.Prepare("U1");
    collector.join();
    ASSERT_TRUE(answer.ok()) << answer.status();
    // The collector's last look was before the claim came back, or it found the claim in order.
    ASSERT_TRUE(rig_.Prepare("U1").ok());
    EXPECT_EQ(rig_.Phase("U1"), "prepared");
    EXPECT_TRUE(rig_.cdi_.Has("U1"));
  }
}

TEST_F(Orphans, WhatTheBackendDoesNotKnowIsKept) {
  rig_.claims_.Erase(Identity("U1"));
  rig_.kubelet_.Set(std::vector<loader::ClaimIdentity>());
  Pass();
  rig_.backend_.SetBusy(loader::Busy::kUnknown);
  EXPECT_EQ(PassAfterGrace().kept, 1);
  rig_.backend_.SetBusy(absl::InternalError("junk"));
  EXPECT_EQ(Pass().kept, 1);
  EXPECT_EQ(rig_.Phase("U1"), "prepared");
}

TEST_F(Orphans, WithoutABusyHookTheKubeletsOwnStateDecides) {
  rig_.claims_.Erase(Identity("U1"));
  rig_.backend_.SetBusy(absl::UnimplementedError("no hook busy"));
  Pass();
  EXPECT_EQ(PassAfterGrace().kept, 1) << "the kubelet's state cannot be read";
  rig_.kubelet_.Set(std::vector<loader::ClaimIdentity>{Identity("U1")});
  EXPECT_EQ(Pass().kept, 1);
  rig_.kubelet_.Set(std::vector<loader::ClaimIdentity>{Identity("U2")});
  EXPECT_EQ(Pass().released, 1);
}

TEST_F(Orphans, ABusySharedDeviceSaysNothingAboutOneOfItsClaims) {
  rig_.catalog_.Put("s0", {{"card-s", "shared"}}, {{"allowMultipleAllocations", true}});
  const auto share = [](const char* id) { return Result("s0", "r0", {{"shareID", id}}); };
  rig_.Allocate("S1", {share("6f1c2a34-0d1b-4c58-8a53-1f1f3f0f9e77")});
  rig_.Allocate("S2", {share("7f1c2a34-0d1b-4c58-8a53-1f1f3f0f9e77")});
  ASSERT_TRUE(rig_.Prepare("S1").ok());
  ASSERT_TRUE(rig_.Prepare("S2").ok());
  rig_.backend_.SetBusy(loader::Busy::kBusy);
  rig_.claims_.Erase(Identity("S1"));
  Pass();
  EXPECT_EQ(PassAfterGrace().kept, 1);
  rig_.kubelet_.Set(std::vector<loader::ClaimIdentity>{Identity("S2")});
  EXPECT_EQ(Pass().released, 1);
  EXPECT_EQ(rig_.Phase("S2"), "prepared");
}

TEST_F(Orphans, ARecordOfAnotherBootIsReleasedOnTheApisWordAlone) {
  rig_.Reboot();
  rig_.backend_.SetBusy(loader::Busy::kBusy);
  EXPECT_EQ(Pass().asked, 1);
  EXPECT_EQ(rig_.Phase("U1"), "prepared");
  rig_.claims_.Erase(Identity("U1"));
  EXPECT_EQ(Pass().suspected, 1);
  EXPECT_EQ(Pass().suspected, 1) << "the grace counts here as well";
  EXPECT_EQ(PassAfterGrace().released, 1);
  EXPECT_EQ(rig_.backend_.BusyAsked(), 0);
  EXPECT_EQ(rig_.backend_.Order(), "prepare U1, unprepare U1");
}

TEST_F(Orphans, ADirtyClaimIsReleasedToo) {
  rig_.backend_.OnUnprepare(
      [](const loader::UnprepareArgs&, const Call&) { return absl::InternalError("E1"); });
  EXPECT_FALSE(rig_.Unprepare("U1").ok());
  EXPECT_EQ(rig_.Phase("U1"), "dirty");
  rig_.claims_.Erase(Identity("U1"));
  Pass();
  EXPECT_EQ(PassAfterGrace().kept, 1) << "it still cannot be undone";
  rig_.backend_.OnUnprepare(nullptr);
  EXPECT_EQ(Pass().released, 1);
  EXPECT_THAT(rig_.Leftovers(), IsEmpty());
}

TEST_F(Orphans, AQuarantinedClaimNeedsAName) {
  ASSERT_TRUE(
      WriteFileAtomically(rig_.posix_, rig_.RecordPath("U1"), "", 0600, Durability::kVolatile)
          .ok());
  rig_.Boot();
  ASSERT_EQ(rig_.Phase("U1"), "quarantined");
  rig_.claims_.Erase(Identity("U1"));
  EXPECT_EQ(Pass().unknown, 1);
  EXPECT_EQ(PassAfterGrace().unknown, 1);
  // The kubelet knows it.
  rig_.kubelet_.Set(std::vector<loader::ClaimIdentity>{Identity("U1")});
  Pass();
  EXPECT_EQ(PassAfterGrace().released, 1);
  EXPECT_EQ(rig_.backend_.LastUnprepare().undo, "");
  EXPECT_THAT(rig_.manager_->HeldDevices(), IsEmpty());
}

TEST_F(Orphans, APassThatIsCancelledDecidesNothing) {
  rig_.claims_.Erase(Identity("U1"));
  Pass();
  rig_.clock_.Advance(kGrace);
  std::stop_source stop;
  stop.request_stop();
  Call call;
  call.stop = stop.get_token();
  EXPECT_EQ(rig_.manager_->CollectOrphans(call).released, 0);
  EXPECT_EQ(rig_.Phase("U1"), "prepared");
}

}  // namespace
}  // namespace dra::claims
