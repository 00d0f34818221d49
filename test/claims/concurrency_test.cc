#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stop_token>

#include "absl/time/clock.h"
#include "dra/records/claim_locks.h"
#include "test/claims/claims_rig.h"

namespace dra::claims {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Holds a hook until the test lets it go.
struct Latch {
  absl::Notification entered;
  absl::Notification release;
  std::atomic<int> calls{0};

  // The first call enters and waits; `honours_stop`: it returns Cancelled when it is cancelled.
  absl::Status Pass(const Call& call, bool honours_stop) {
    if (calls++ > 0) return absl::OkStatus();
    entered.Notify();
    const MonotonicTime end = std::chrono::steady_clock::now() + absl::ToChronoSeconds(kPatience);
    while (!release.WaitForNotificationWithTimeout(absl::Milliseconds(2))) {
      if (honours_stop && call.stop.stop_requested()) return absl::CancelledError("cancelled");
      if (std::chrono::steady_clock::now() > end)
        return absl::InternalError("the test forgot the latch");
    }
    return absl::OkStatus();
  }
};

void HoldPrepare(ClaimsRig& rig, Latch& latch, bool honours_stop, const std::string& uid = "U1") {
  rig.backend_.OnPrepare(
      [&latch, honours_stop, uid](const loader::PrepareArgs& args,
                                  const Call& call) -> absl::StatusOr<loader::PrepareResult> {
        if (args.claim.uid == uid) DRA_RETURN_IF_ERROR(latch.Pass(call, honours_stop));
        return FakeBackend::Plain(args);
      });
}

TEST(Prp11, ASecondCallJoinsTheRunningOperation) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  Latch latch;
  HoldPrepare(rig, latch, false);
  PrepareAnswer first = rig.StartPrepare(Identity("U1"), Call::WithTimeout(absl::Milliseconds(50)));
  ASSERT_TRUE(latch.entered.WaitForNotificationWithTimeout(kPatience));
  EXPECT_THAT(Text(first.Get().status()), HasSubstr("still working"));
  EXPECT_TRUE(absl::IsUnavailable(first.Get().status()));
  PrepareAnswer second = rig.StartPrepare(Identity("U1"));
  PrepareAnswer third = rig.StartPrepare(Identity("U1"));
  EXPECT_FALSE(second.done());
  latch.release.Notify();
  EXPECT_TRUE(second.Get().ok()) << second.Get().status();
  EXPECT_TRUE(third.Get().ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U1");
}

TEST(Prp11, ACallerThatLeavesDoesNotEndTheOperation) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  Latch latch;
  HoldPrepare(rig, latch, true);
  std::stop_source caller;
  Call call;
  call.stop = caller.get_token();
  PrepareAnswer first = rig.StartPrepare(Identity("U1"), call);
  ASSERT_TRUE(latch.entered.WaitForNotificationWithTimeout(kPatience));
  caller.request_stop();
  EXPECT_TRUE(absl::IsCancelled(first.Get().status()));
  PrepareAnswer second = rig.StartPrepare(Identity("U1"));
  latch.release.Notify();
  EXPECT_TRUE(second.Get().ok()) << second.Get().status();
  EXPECT_EQ(rig.backend_.Order(), "prepare U1");
}

TEST(Prp03, UnprepareCancelsARunningPrepareAndWins) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  Latch latch;
  HoldPrepare(rig, latch, true);
  PrepareAnswer prepare = rig.StartPrepare(Identity("U1"));
  ASSERT_TRUE(latch.entered.WaitForNotificationWithTimeout(kPatience));
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_FALSE(prepare.Get().ok());
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
  EXPECT_FALSE(rig.cdi_.Has("U1"));
  EXPECT_TRUE(rig.Prepare("U1").ok());
}

TEST(Prp03, UnprepareWinsOverAPrepareThatCannotBeCancelled) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  Latch latch;
  HoldPrepare(rig, latch, false);
  PrepareAnswer prepare = rig.StartPrepare(Identity("U1"));
  ASSERT_TRUE(latch.entered.WaitForNotificationWithTimeout(kPatience));
  UnprepareAnswer unprepare = rig.StartUnprepare(Identity("U1"));
  latch.release.Notify();
  EXPECT_TRUE(unprepare.Get().ok());
  EXPECT_TRUE(prepare.Wait());
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
  EXPECT_EQ(rig.Phase("U1"), "none");
}

// HOOK prepare: fail, fail, then it would succeed; the caller has gone and the claim was unprepared.
TEST(Prp03, NoFurtherAttemptIsMadeWhenNobodyWaits) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  std::stop_source caller;
  Call call;
  call.stop = caller.get_token();
  std::atomic<int> calls{0};
  rig.backend_.OnPrepare(
      [&](const loader::PrepareArgs&, const Call&) -> absl::StatusOr<loader::PrepareResult> {
        if (++calls == 2) caller.request_stop();
        return absl::UnavailableError("not now");
      });
  PrepareAnswer prepare = rig.StartPrepare(Identity("U1"), call);
  EXPECT_FALSE(prepare.Get().ok());
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
  rig.backend_.OnPrepare(nullptr);
  EXPECT_TRUE(rig.Prepare("U1").ok());
}

TEST(Prepare, RetriesWhatMayPassWithinTheCall) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.claims_.Fail({absl::UnavailableError("503"), absl::DeadlineExceededError("504")});
  std::atomic<int> calls{0};
  rig.backend_.OnPrepare(
      [&](const loader::PrepareArgs& args, const Call&) -> absl::StatusOr<loader::PrepareResult> {
        if (++calls == 1) return absl::UnavailableError("library reloading");
        return FakeBackend::Plain(args);
      });
  EXPECT_TRUE(rig.Prepare("U1").ok());
  EXPECT_EQ(rig.claims_.gets(), 4);  // two failures, one success, one more after the wait
}

TEST(Prepare, AnErrorThatWillNotPassIsAnsweredAtOnce) {
  ClaimsRig rig;
  rig.claims_.Fail({absl::PermissionDeniedError("get resourceclaims: forbidden")});
  EXPECT_THAT(Text(rig.Prepare("U1").status()), HasSubstr("forbidden"));
  EXPECT_TRUE(absl::IsNotFound(rig.Prepare("U1").status()));
  EXPECT_EQ(rig.claims_.gets(), 2);
}

TEST(Prp15, APrepareDuringUnprepareWaitsAndPreparesAfresh) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  Latch latch;
  rig.backend_.OnUnprepare(
      [&](const loader::UnprepareArgs&, const Call& call) { return latch.Pass(call, false); });
  UnprepareAnswer unprepare = rig.StartUnprepare(Identity("U1"));
  ASSERT_TRUE(latch.entered.WaitForNotificationWithTimeout(kPatience));
  PrepareAnswer prepare = rig.StartPrepare(Identity("U1"));
  latch.release.Notify();
  EXPECT_TRUE(unprepare.Get().ok());
  EXPECT_TRUE(prepare.Get().ok()) << prepare.Get().status();
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, unprepare U1, prepare U1");
  EXPECT_EQ(rig.Phase("U1"), "prepared");
}

TEST(Prp04, APrepareWaitsForTheHolderAndReadsItsClaimAgain) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U3", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  Latch latch;
  rig.backend_.OnUnprepare(
      [&](const loader::UnprepareArgs&, const Call& call) { return latch.Pass(call, false); });
  UnprepareAnswer unprepare = rig.StartUnprepare(Identity("U1"));
  ASSERT_TRUE(latch.entered.WaitForNotificationWithTimeout(kPatience));
  PrepareAnswer waiting = rig.StartPrepare(Identity("U3"));
  // A caller that joins and leaves is told why the operation waits: then it does wait.
  std::string why;
  for (int i = 0; i < 200 && why.find("locked") == std::string::npos; ++i) {
    why = Text(rig.Prepare("U3", Call::WithTimeout(absl::Milliseconds(100))).status());
  }
  EXPECT_THAT(why, HasSubstr("locked by another operation"));
  const int gets = rig.claims_.gets();
  EXPECT_FALSE(waiting.done());
  latch.release.Notify();
  EXPECT_TRUE(unprepare.Get().ok());
  EXPECT_TRUE(waiting.Get().ok()) << waiting.Get().status();
  EXPECT_EQ(rig.claims_.gets(), gets + 1);
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, unprepare U1, prepare U3");
}

// More claims wait for a holder than there are threads: the others go on all the same.
TEST(Prepare, WaitingForAHolderTakesNoThread) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  std::vector<PrepareAnswer> waiting;
  for (int i = 0; i < 12; ++i) {
    const std::string uid = absl::StrCat("W", i);
    rig.Allocate(uid, {Result("d0")});
    waiting.push_back(rig.StartPrepare(Identity(uid)));
  }
  rig.Allocate("U2", {Result("d1")});
  EXPECT_TRUE(rig.Prepare("U2").ok());
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  // One after another each gets the device, and gives it back.
  int prepared = 0;
  for (int round = 0; round < 12; ++round) {
    int winner = -1;
    const MonotonicTime end = std::chrono::steady_clock::now() + absl::ToChronoSeconds(kPatience);
    while (winner < 0 && std::chrono::steady_clock::now() < end) {
      for (int i = 0; i < 12; ++i) {
        if (rig.Phase(absl::StrCat("W", i)) == "prepared") winner = i;
      }
    }
    ASSERT_GE(winner, 0);
    ++prepared;
    ASSERT_TRUE(waiting[static_cast<size_t>(winner)].Get().ok());
    ASSERT_TRUE(rig.Unprepare(absl::StrCat("W", winner)).ok());
  }
  EXPECT_EQ(prepared, 12);
}

TEST(Prepare, AnotherAllocationCancelsAndUndoesTheRunningOne) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  Latch latch;
  HoldPrepare(rig, latch, true);
  PrepareAnswer first = rig.StartPrepare(Identity("U1"));
  ASSERT_TRUE(latch.entered.WaitForNotificationWithTimeout(kPatience));
  rig.Allocate("U1", {Result("d2")});
  PrepareAnswer second = rig.StartPrepare(Identity("U1"));
  ASSERT_TRUE(second.Get().ok()) << second.Get().status();
  EXPECT_EQ((*second.Get())[0].device, "d2");
  EXPECT_FALSE(first.Get().ok());
  EXPECT_THAT(rig.manager_->HeldDevices(), ::testing::ElementsAre(std::make_pair("n1", "d2")));
}

TEST(Batch, MembersRunInParallelAndASlowOneDelaysNobody) {
  ClaimsRig rig;
  Latch latch;
  HoldPrepare(rig, latch, false, "U1");
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U2", {Result("d1")});
  PrepareAnswer slow = rig.StartPrepare(Identity("U1"));
  ASSERT_TRUE(latch.entered.WaitForNotificationWithTimeout(kPatience));
  EXPECT_TRUE(rig.Prepare("U2").ok());
  EXPECT_TRUE(rig.Unprepare("U2").ok());
  EXPECT_FALSE(slow.done());
  latch.release.Notify();
  EXPECT_TRUE(slow.Get().ok());
}

TEST(Unprepare, HasThreadsOfItsOwn) {
  ClaimsRig rig;
  rig.Allocate("V", {Result("d7")});
  ASSERT_TRUE(rig.Prepare("V").ok());
  absl::Notification release;
  rig.backend_.OnPrepare([&](const loader::PrepareArgs& args, const Call&) {
    release.WaitForNotificationWithTimeout(kPatience);
    return FakeBackend::Plain(args);
  });
  std::vector<PrepareAnswer> busy;
  for (int i = 0; i < 6; ++i) {  // more than there are prepare threads
    rig.Allocate(absl::StrCat("U", i), {Result(absl::StrCat("d", i))});
    busy.push_back(rig.StartPrepare(Identity(absl::StrCat("U", i))));
  }
  EXPECT_TRUE(rig.Unprepare("V").ok());
  release.Notify();
  for (PrepareAnswer& answer : busy) EXPECT_TRUE(answer.Get().ok());
}

TEST(Locks, AnotherInstanceOnTheClaimIsWaitedFor) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  const records::ClaimLocks other(rig.directory_.Path("data/serialize.lock"));
  auto lock = other.TryLockClaim("U1");
  ASSERT_TRUE(lock.ok());
  PrepareAnswer prepare = rig.StartPrepare(Identity("U1"));
  while (rig.claims_.gets() < 1) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_FALSE(prepare.done());
  lock = records::OperationLock();
  EXPECT_TRUE(prepare.Get().ok()) << prepare.Get().status();
}

TEST(Shutdown, RefusesNewCallsAndKeepsRecordsAndFiles) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U2", {Result("d1")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  Latch latch;
  HoldPrepare(rig, latch, true, "U2");
  PrepareAnswer running = rig.StartPrepare(Identity("U2"));
  ASSERT_TRUE(latch.entered.WaitForNotificationWithTimeout(kPatience));
  rig.manager_->Shutdown(absl::ZeroDuration());
  EXPECT_FALSE(running.Get().ok());
  EXPECT_TRUE(absl::IsUnavailable(rig.Prepare("U1").status()));
  EXPECT_TRUE(absl::IsUnavailable(rig.Unprepare("U1")));
  EXPECT_TRUE(rig.HasRecord("U1"));
  EXPECT_TRUE(rig.cdi_.Has("U1"));
}

TEST(Shutdown, EndsOperationsThatOnlyWait) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U3", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  PrepareAnswer waiting = rig.StartPrepare(Identity("U3"));
  rig.manager_->Shutdown(absl::ZeroDuration());
  EXPECT_FALSE(waiting.Get().ok());
}

TEST(Prepare, ManyClaimsAtOnceFromManyThreads) {
  ClaimsRig rig;
  for (int i = 0; i < 24; ++i) {
    rig.catalog_.Put(absl::StrCat("m", i), {{absl::StrCat("key-", i % 6), "part"}});
    rig.Allocate(absl::StrCat("U", i), {Result(absl::StrCat("m", i))});
  }
  for (int round = 0; round < 3; ++round) {
    std::vector<PrepareAnswer> prepared;
    for (int i = 0; i < 24; ++i)
      prepared.push_back(rig.StartPrepare(Identity(absl::StrCat("U", i))));
    for (PrepareAnswer& answer : prepared) EXPECT_TRUE(answer.Get().ok()) << answer.Get().status();
    EXPECT_EQ(rig.manager_->HeldDevices().size(), 24u);
    std::vector<UnprepareAnswer> released;
    for (int i = 0; i < 24; ++i)
      released.push_back(rig.StartUnprepare(Identity(absl::StrCat("U", i))));
    for (UnprepareAnswer& answer : released) EXPECT_TRUE(answer.Get().ok()) << answer.Get();
  }
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

}  // namespace
}  // namespace dra::claims
