#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <thread>

#include "dra/records/claim_locks.h"
#include "dra/records/record.h"
#include "test/claims/claims_rig.h"

namespace dra::claims {
namespace {

using loader::ReconcileVerdict;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

FakeBackend::ReconcileHook Says(ReconcileVerdict verdict) {
  return [verdict](const loader::ReconcileRecord&) -> absl::StatusOr<loader::ReconcileResult> {
    loader::ReconcileResult result;
    result.verdict = verdict;
    return result;
  };
}

FakeBackend::PrepareHook WithUndo(const std::string& undo) {
  return [undo](const loader::PrepareArgs& args, const Call&) {
    loader::PrepareResult result = FakeBackend::Plain(args);
    result.undo = undo;
    result.has_undo = true;
    return result;
  };
}

TEST(Reconcile, TellsTheBackendEveryRecordBetweenBeginAndEnd) {
  ClaimsRig rig;
  rig.backend_.OnPrepare(WithUndo("previous"));
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U2", {Result("d1")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.Reboot();
  ASSERT_TRUE(rig.Prepare("U2").ok());
  ASSERT_TRUE(rig.manager_->Reconcile({}).ok());
  EXPECT_THAT(rig.backend_.Order(), HasSubstr("begin, record U1, record U2, end"));
  const auto told = rig.backend_.Reconciled();
  ASSERT_THAT(told, SizeIs(2));
  EXPECT_FALSE(told[0].same_boot);
  EXPECT_TRUE(told[1].same_boot);
  EXPECT_EQ(told[1].record.undo, "previous");
  EXPECT_EQ(told[1].record.claim.name, "claim-U2");
  ASSERT_THAT(told[1].record.devices, SizeIs(1));
  EXPECT_EQ(told[1].record.devices[0].identity, "serial-d1");
  EXPECT_EQ(rig.Phase("U1"), "prepared");
  EXPECT_EQ(rig.Phase("U2"), "prepared");
}

TEST(Reconcile, ABackendThatCannotReconcileIsAskedNothingMore) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.backend_.begin_error = absl::UnimplementedError("no hook");
  EXPECT_TRUE(rig.manager_->Reconcile({}).ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, begin");
  rig.backend_.begin_error = absl::InternalError("no");
  EXPECT_THAT(Text(rig.manager_->Reconcile({})), HasSubstr("begin: no"));
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, begin, begin");
}

TEST(Reconcile, NewEditsAreRecordedAndWritten) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  const std::string before = rig.cdi_.files["U1"];
  rig.backend_.OnReconcile([](const loader::ReconcileRecord&) {
    loader::ReconcileResult result;
    result.verdict = ReconcileVerdict::kTrueWithEdits;
    result.device_edits = {Json{{"deviceNodes", {{{"path", "/dev/renumbered"}}}}}};
    return result;
  });
  ASSERT_TRUE(rig.manager_->Reconcile({}).ok());
  EXPECT_NE(rig.cdi_.files["U1"], before);
  EXPECT_THAT(DumpJson(rig.Recorded("U1").devices.at(0).edits), HasSubstr("/dev/renumbered"));
  const int writes = rig.cdi_.writes;
  // A backend may give what it would give now each time it is asked.
  ASSERT_TRUE(rig.manager_->Reconcile({}).ok());
  EXPECT_EQ(rig.cdi_.writes, writes);
  rig.Boot();
  rig.manager_->Restore({});
  EXPECT_EQ(rig.cdi_.writes, writes) << "file and record agree";
  EXPECT_EQ(rig.Phase("U1"), "prepared");
}

TEST(Reconcile, EditsThatCdiRefusesCostTheClaimAnErrorAndChangeNothing) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  const std::string record = *rig.posix_.ReadFile(rig.RecordPath("U1"));
  rig.backend_.OnReconcile([](const loader::ReconcileRecord&) {
    loader::ReconcileResult result;
    result.verdict = ReconcileVerdict::kTrueWithEdits;
    result.device_edits = {Json{{"env", "not a list"}}};
    return result;
  });
  rig.cdi_.Set(absl::InvalidArgumentError("env: must be an array"));
  EXPECT_TRUE(rig.manager_->Reconcile({}).ok()) << "the others are reconciled";
  EXPECT_EQ(*rig.posix_.ReadFile(rig.RecordPath("U1")), record);
  EXPECT_THAT(rig.backend_.Order(), HasSubstr("record U1, end"));
}

TEST(Reconcile, WhatIsToBeDoneAgainIsPreparedByTheDriverItself) {
  ClaimsRig rig;
  rig.backend_.OnPrepare(WithUndo("previous"));
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.backend_.OnReconcile(Says(ReconcileVerdict::kRedo));
  ASSERT_TRUE(rig.manager_->Reconcile({}).ok());
  EXPECT_EQ(rig.Phase("U1"), "preparing");
  EXPECT_FALSE(rig.cdi_.Has("U1")) << "no container starts on hardware that is not set up";
  EXPECT_THAT(rig.manager_->HeldDevices(), SizeIs(1));

  EXPECT_EQ(rig.manager_->PrepareAgain({}), 0);
  EXPECT_EQ(rig.Phase("U1"), "prepared");
  EXPECT_TRUE(rig.cdi_.Has("U1"));
  EXPECT_EQ(rig.backend_.LastPrepare().saved_undo, "previous");
  EXPECT_EQ(rig.Recorded("U1").last_error, "");
  EXPECT_TRUE(rig.Prepare("U1").ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, begin, record U1, end, prepare U1");
}

TEST(Reconcile, WhatIsToBeDoneAgainIsTriedUntilTheApiAnswersAlsoAfterARestart) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.backend_.OnReconcile(Says(ReconcileVerdict::kRedo));
  ASSERT_TRUE(rig.manager_->Reconcile({}).ok());
  rig.claims_.Fail({absl::UnavailableError("away"), absl::NotFoundError("a lie")});
  EXPECT_EQ(rig.manager_->PrepareAgain({}), 1);
  EXPECT_EQ(rig.manager_->PrepareAgain({}), 1) << "one 404 is no reason to give the claim up";
  rig.Boot();
  EXPECT_EQ(rig.manager_->PrepareAgain({}), 0) << "not known before the records are restored";
  rig.manager_->Restore({});
  rig.backend_.OnPrepare(
      [](const loader::PrepareArgs&, const Call&) { return absl::InternalError("E7"); });
  EXPECT_EQ(rig.manager_->PrepareAgain({}), 1);
  EXPECT_THAT(rig.Recorded("U1").last_error, HasSubstr("E7"));
  EXPECT_THAT(rig.manager_->HeldDevices(), SizeIs(1)) << "a pod runs on it";
  rig.backend_.OnPrepare(nullptr);
  EXPECT_EQ(rig.manager_->PrepareAgain({}), 0);
  EXPECT_EQ(rig.Phase("U1"), "prepared");
}

TEST(Prp03, WhatWasUnpreparedIsNotPreparedAgain) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.backend_.OnReconcile(Says(ReconcileVerdict::kRedo));
  ASSERT_TRUE(rig.manager_->Reconcile({}).ok());
  ASSERT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_EQ(rig.manager_->PrepareAgain({}), 0);
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, begin, record U1, end, unprepare U1")
      << "the unprepare reaches a backend that saves no undo data";
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

TEST(Reconcile, AnotherAllocationIsLeftToTheKubeletsCall) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.backend_.OnReconcile(Says(ReconcileVerdict::kRedo));
  ASSERT_TRUE(rig.manager_->Reconcile({}).ok());
  rig.Allocate("U1", {Result("d1")});
  EXPECT_EQ(rig.manager_->PrepareAgain({}), 0);
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, begin, record U1, end");
  const auto answer = rig.Prepare("U1");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ((*answer)[0].device, "d1");
}

TEST(Reconcile, ALostDeviceMakesTheClaimDirtyAndKeepsItsDevicesHeld) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.backend_.OnReconcile(Says(ReconcileVerdict::kLost));
  ASSERT_TRUE(rig.manager_->Reconcile({}).ok());
  EXPECT_EQ(rig.Recorded("U1").phase, records::Phase::kDirty);
  EXPECT_THAT(rig.Recorded("U1").last_error, HasSubstr("lost"));
  EXPECT_TRUE(rig.manager_->Claims().at(0).lost);
  EXPECT_FALSE(rig.cdi_.Has("U1"));
  EXPECT_THAT(rig.manager_->HeldDevices(), SizeIs(1));
  rig.Boot();
  EXPECT_TRUE(rig.manager_->Claims().at(0).lost) << "the next process knows it too";
  ASSERT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

TEST(Reconcile, AHookThatFailsCostsItsOwnClaimOnly) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U2", {Result("d1")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  ASSERT_TRUE(rig.Prepare("U2").ok());
  absl::Status fails = absl::InternalError("junk");
  rig.backend_.OnReconcile(
      [&](const loader::ReconcileRecord& args) -> absl::StatusOr<loader::ReconcileResult> {
        if (args.record.claim.uid == "U1") return fails;
        loader::ReconcileResult result;
        result.verdict = ReconcileVerdict::kLost;
        return result;
      });
  EXPECT_TRUE(rig.manager_->Reconcile({}).ok());
  EXPECT_EQ(rig.Phase("U1"), "prepared");
  EXPECT_EQ(rig.Phase("U2"), "dirty");
  EXPECT_THAT(rig.backend_.Order(), HasSubstr("record U1, record U2, end"));

  // It may not have reached the backend: then leftovers may be this claim's hardware.
  fails = absl::DeadlineExceededError("hook reconcile_record");
  EXPECT_THAT(Text(rig.manager_->Reconcile({})), HasSubstr("leftovers on the hardware stay"));
  EXPECT_THAT(rig.backend_.Order(), ::testing::EndsWith("record U1, record U2"));
}

TEST(Reconcile, ARecordThatCannotBeReadKeepsLeftoversOnTheHardware) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U2", {Result("d1")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  ASSERT_TRUE(rig.Prepare("U2").ok());
  rig.fs_.FailAlways({std::nullopt, "claims/U1.json"}, EIO);
  EXPECT_FALSE(rig.manager_->Reconcile({}).ok());
  EXPECT_THAT(rig.backend_.Order(), ::testing::EndsWith("begin, record U2"));
  rig.fs_.ClearFaults();
  EXPECT_TRUE(rig.manager_->Reconcile({}).ok());
  EXPECT_THAT(rig.backend_.Order(), ::testing::EndsWith("begin, record U1, record U2, end"));
}

TEST(Reconcile, ALostRecordKeepsLeftoversOnTheHardware) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.manager_.reset();
  ASSERT_TRUE(rig.posix_.Remove(rig.RecordPath("U1")).ok());
  rig.Boot();
  EXPECT_FALSE(rig.manager_->Reconcile({}).ok()) << "its hardware looks like leftovers";
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, begin");
  rig.kubelet_.Set(std::vector<loader::ClaimIdentity>{Identity("U1")});
  rig.manager_->Restore({});
  EXPECT_TRUE(rig.manager_->Reconcile({}).ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, begin, begin, record U1, end");
}

TEST(Reconcile, AQuarantinedClaimIsToldWithWhatItHoldsAndNoUndo) {
  ClaimsRig rig;
  rig.backend_.OnPrepare(WithUndo("previous"));
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  ASSERT_TRUE(
      WriteFileAtomically(rig.posix_, rig.RecordPath("U1"), "{", 0600, Durability::kVolatile).ok());
  rig.backend_.OnReconcile(Says(ReconcileVerdict::kLost));
  ASSERT_TRUE(rig.manager_->Reconcile({}).ok());
  const auto told = rig.backend_.Reconciled();
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_EQ(told[0].record.undo, "");
  ASSERT_THAT(told[0].record.devices, SizeIs(1));
  EXPECT_EQ(StringOr(told[0].record.devices[0].result, "device"), "d0");
  EXPECT_EQ(rig.Phase("U1"), "quarantined") << "the verdict does not make it whole";
  ASSERT_TRUE(rig.Unprepare("U1").ok());
}

TEST(Reconcile, WaitsForARunningOperationAndKeepsNewOnesWaiting) {
  ClaimsRig rig;
  absl::Notification inside;
  absl::Notification go_on;
  rig.backend_.OnPrepare([&](const loader::PrepareArgs& args, const Call&) {
    if (args.claim.uid == "U1") {
      inside.Notify();
      go_on.WaitForNotificationWithTimeout(kPatience);
    }
    return FakeBackend::Plain(args);
  });
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U2", {Result("d1")});
  PrepareAnswer first = rig.StartPrepare(Identity("U1"));
  ASSERT_TRUE(inside.WaitForNotificationWithTimeout(kPatience));
  absl::Status reconciled = absl::UnknownError("");
  std::thread reconciler([&] { reconciled = rig.manager_->Reconcile({}); });
  // Once it waits, nobody else gets a claim's lock.
  const records::ClaimLocks locks(rig.directory_.Path("data/serialize.lock"));
  const absl::Time limit = absl::Now() + kPatience;
  while (locks.TryLockClaim("other").ok() && absl::Now() < limit) std::this_thread::yield();
  PrepareAnswer second = rig.StartPrepare(Identity("U2"));
  go_on.Notify();
  reconciler.join();
  EXPECT_TRUE(reconciled.ok()) << reconciled;
  EXPECT_TRUE(first.Get().ok());
  EXPECT_TRUE(second.Get().ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, begin, record U1, end, prepare U2");
}

}  // namespace
}  // namespace dra::claims
