#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>

#include "dra/loader/uncreated_backend.h"
#include "test/claims/claims_rig.h"

namespace dra::claims {
namespace {

using ::testing::IsEmpty;

FakeBackend::PrepareHook Saves(ClaimsRig& rig, int saves) {
  return [&rig, saves](const loader::PrepareArgs& args,
                       const Call&) -> absl::StatusOr<loader::PrepareResult> {
    for (int i = 0; i < saves; ++i) {
      DRA_RETURN_IF_ERROR(rig.manager_->SaveUndo(args.claim.uid, absl::StrCat("undo ", i)));
    }
    return FakeBackend::Plain(args);
  };
}

struct FaultCase {
  const char* name;
  int error;
  int saves;
};

class Faults : public ::testing::TestWithParam<FaultCase> {};

// Each file operation of a prepare fails once: the claim gets an error (or succeeds), a repeat succeeds, and after
// unprepare nothing is left and nothing is held.
TEST_P(Faults, OfAPrepareCostAnErrorAndNothingElse) {
  int points = 0;
  for (int n = 1;; ++n) {
    SCOPED_TRACE(absl::StrCat("operation ", n));
    ClaimsRig rig;
    rig.Allocate("U1", {Result("d0"), Result("d1", "r1")});
    rig.Allocate("U3", {Result("d0")});
    rig.backend_.OnPrepare(Saves(rig, GetParam().saves));
    rig.fs_.ResetCount();
    rig.fs_.FailNth(n, {}, GetParam().error);
    (void)rig.Prepare("U1");
    const bool reached = rig.fs_.count() >= n;
    rig.fs_.ClearFaults();
    if (!reached) break;
    ++points;
    const auto repeated = rig.Prepare("U1");
    ASSERT_TRUE(repeated.ok()) << repeated.status();
    EXPECT_TRUE(rig.cdi_.Has("U1"));
    EXPECT_EQ(rig.manager_->HeldDevices().size(), 2u);
    ASSERT_TRUE(rig.Unprepare("U1").ok());
    EXPECT_THAT(rig.Leftovers(), IsEmpty());
    EXPECT_TRUE(rig.Prepare("U3").ok());
  }
  EXPECT_GE(points, 10);
  RecordProperty("points", points);
}

TEST_P(Faults, OfAnUnprepareCostAnErrorAndNothingElse) {
  int points = 0;
  for (int n = 1;; ++n) {
    SCOPED_TRACE(absl::StrCat("operation ", n));
    ClaimsRig rig;
    rig.Allocate("U1", {Result("d0"), Result("d1", "r1")});
    rig.Allocate("U3", {Result("d0")});
    rig.backend_.OnPrepare(Saves(rig, GetParam().saves));
    ASSERT_TRUE(rig.Prepare("U1").ok());
    rig.fs_.ResetCount();
    rig.fs_.FailNth(n, {}, GetParam().error);
    (void)rig.Unprepare("U1");
    const bool reached = rig.fs_.count() >= n;
    rig.fs_.ClearFaults();
    if (!reached) break;
    ++points;
    ASSERT_TRUE(rig.Unprepare("U1").ok());
    EXPECT_EQ(rig.Phase("U1"), "none");
    EXPECT_TRUE(rig.Prepare("U3").ok());
    ASSERT_TRUE(rig.Unprepare("U3").ok());
    rig.Boot();
    rig.manager_->Restore({});
    EXPECT_THAT(rig.Leftovers(), IsEmpty());
    EXPECT_THAT(rig.manager_->HeldDevices(), IsEmpty());
  }
  EXPECT_GE(points, 5);
  RecordProperty("points", points);
}

// The process dies at each file operation of a prepare; the next one answers the kubelet's repeat.
TEST_P(Faults, ADeathAtAnyFileOperationOfAPrepareIsSurvived) {
  for (int n = 1;; ++n) {
    SCOPED_TRACE(absl::StrCat("operation ", n));
    ClaimsRig rig;
    rig.Allocate("U1", {Result("d0"), Result("d1", "r1")});
    rig.backend_.OnPrepare(Saves(rig, GetParam().saves));
    rig.fs_.ResetCount();
    rig.fs_.StopAt(n);
    (void)rig.Prepare("U1", Call::WithTimeout(absl::Milliseconds(200)));
    const bool stopped = rig.fs_.stopped();
    rig.manager_->Shutdown(absl::ZeroDuration());  // a hook that still runs uses the manager
    rig.manager_.reset();
    rig.fs_.ClearFaults();
    if (!stopped) break;
    rig.Boot();
    ASSERT_TRUE(rig.start_error_.ok()) << rig.start_error_;
    rig.manager_->Restore({});
    const auto repeated = rig.Prepare("U1");
    ASSERT_TRUE(repeated.ok()) << repeated.status();
    EXPECT_EQ(rig.manager_->HeldDevices().size(), 2u);
    ASSERT_TRUE(rig.Unprepare("U1").ok());
    rig.manager_->Restore({});
    EXPECT_THAT(rig.Leftovers(), IsEmpty());
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, Faults,
                         ::testing::Values(FaultCase{"EioWithoutUndo", EIO, 0},
                                           FaultCase{"EioWithUndo", EIO, 2},
                                           FaultCase{"EnospcWithoutUndo", ENOSPC, 0},
                                           FaultCase{"EnospcWithUndo", ENOSPC, 2}),
                         [](const auto& tested) { return std::string(tested.param.name); });

// A record that cannot be written after the backend has succeeded, and an undo that fails too: nothing is forgotten.
TEST(FullDisk, LeftoversThatCannotBeRecordedStayKnownAndHeld) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U3", {Result("d0")});
  rig.backend_.OnUnprepare(
      [](const loader::UnprepareArgs&, const Call&) { return absl::InternalError("E2"); });
  rig.fs_.FailAlways({testing::FileOperation::kCreateFile, "claims"}, ENOSPC);
  EXPECT_FALSE(rig.Prepare("U1").ok());
  EXPECT_EQ(rig.Phase("U1"), "dirty");
  EXPECT_FALSE(rig.Prepare("U3", Call::WithTimeout(absl::Milliseconds(50))).ok());
  rig.backend_.OnUnprepare(nullptr);
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  rig.fs_.ClearFaults();
  EXPECT_TRUE(rig.Prepare("U3").ok());
}

TEST(FullDisk, DoesNotKeepAClaimFromBeingReleased) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.backend_.OnPrepare(Saves(rig, 1));
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.fs_.FailAlways({testing::FileOperation::kCreateFile, ""}, ENOSPC);
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  rig.fs_.ClearFaults();
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

// A kubelet's Unprepare may come before the backend's create: it waits instead of costing the pod a retry.
TEST(Uncreated, AnUnprepareWaitsForTheBackendsCreate) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  const auto asked = std::make_shared<std::atomic<int>>(0);
  rig.backend_.OnUnprepare([asked](const loader::UnprepareArgs&, const Call&) {
    if (++*asked > 2) return absl::OkStatus();
    return loader::MarkUncreated(absl::FailedPreconditionError("the backend is not created"));
  });
  EXPECT_EQ(rig.Unprepare("U1"), absl::OkStatus());
  EXPECT_EQ(*asked, 3);
  EXPECT_THAT(rig.manager_->HeldDevices(), IsEmpty());
}

TEST(Uncreated, APrepareWaitsForTheBackendsCreateToo) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  const auto asked = std::make_shared<std::atomic<int>>(0);
  rig.backend_.OnPrepare([asked](const loader::PrepareArgs& args,
                                 const Call&) -> absl::StatusOr<loader::PrepareResult> {
    if (++*asked > 2) return FakeBackend::Plain(args);
    return loader::MarkUncreated(absl::FailedPreconditionError("the backend is not created"));
  });
  EXPECT_TRUE(rig.Prepare("U1").ok());
  EXPECT_EQ(*asked, 3);
}

TEST(Uncreated, AnUnprepareStopsWaitingForTheCreateAfterHalfAMinute) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  const auto asked = std::make_shared<std::atomic<int>>(0);
  rig.backend_.OnUnprepare([asked, &rig](const loader::UnprepareArgs&, const Call&) {
    if (++*asked == 2) rig.clock_.Advance(absl::Seconds(28));
    if (*asked == 3) rig.clock_.Advance(absl::Seconds(3));
    return loader::MarkUncreated(absl::FailedPreconditionError("the backend is not created"));
  });
  const absl::Status given_up = rig.Unprepare("U1");
  EXPECT_TRUE(absl::IsFailedPrecondition(given_up)) << given_up;
  EXPECT_EQ(*asked, 3);
  EXPECT_EQ(rig.Phase("U1"), "unpreparing");
  // The kubelet comes again, and has half a minute again.
  rig.backend_.OnUnprepare(
      [](const loader::UnprepareArgs&, const Call&) { return absl::OkStatus(); });
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

TEST(Uncreated, ARefusalOfTheBackendItselfIsAnErrorAtOnce) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  const auto asked = std::make_shared<std::atomic<int>>(0);
  rig.backend_.OnUnprepare([asked](const loader::UnprepareArgs&, const Call&) {
    ++*asked;
    return absl::FailedPreconditionError("refused");
  });
  EXPECT_FALSE(rig.Unprepare("U1").ok());
  EXPECT_EQ(*asked, 1);
}

}  // namespace
}  // namespace dra::claims
