#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "dra/records/record.h"
#include "test/claims/claims_rig.h"

namespace dra::claims {
namespace {

using ::testing::ElementsAre;
using testing::FileOperation;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void Overwrite(ClaimsRig& rig, const std::string& path, const std::string& text) {
  ASSERT_TRUE(WriteFileAtomically(rig.posix_, path, text, 0600, Durability::kVolatile).ok());
}

TEST(Ckp05, ARestartKeepsThePreparedClaimAndARebootAsksTheBackendAgain) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.backend_.OnPrepare([](const loader::PrepareArgs& args, const Call&) {
    loader::PrepareResult result = FakeBackend::Plain(args);
    result.undo = "previous";
    result.has_undo = true;
    return result;
  });
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.Boot();
  ASSERT_TRUE(rig.Prepare("U1").ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U1");
  rig.Reboot();
  EXPECT_FALSE(rig.manager_->Claims()[0].same_boot);
  EXPECT_THAT(rig.manager_->HeldDevices(), IsEmpty());
  const auto answer = rig.Prepare("U1");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ((*answer)[0].device, "d0");
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, prepare U1");
  EXPECT_EQ(rig.backend_.LastPrepare().saved_undo, "previous");
  EXPECT_TRUE(rig.cdi_.Has("U1"));
  EXPECT_THAT(rig.manager_->HeldDevices(), ElementsAre(std::make_pair("n1", "d0")));
}

TEST(Restart, HeldIdentitiesAreKnownFromTheRecordsBeforeAnyDiscovery) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  const std::vector<std::string> held = rig.manager_->HeldIdentities();
  EXPECT_EQ(held.size(), 1u);
  rig.Boot();
  EXPECT_EQ(rig.manager_->HeldIdentities(), held);
  ASSERT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_THAT(rig.manager_->HeldIdentities(), IsEmpty());
}

TEST(Ckp05, AfterARebootUnprepareUndoesWithoutAPrepare) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.Reboot();
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, unprepare U1");
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

TEST(Ckp05, AFailedPrepareAfterARebootKeepsTheRecord) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.Reboot();
  rig.backend_.OnPrepare(
      [](const loader::PrepareArgs&, const Call&) { return absl::InternalError("no"); });
  EXPECT_FALSE(rig.Prepare("U1").ok());
  EXPECT_TRUE(rig.HasRecord("U1"));
  EXPECT_THAT(rig.manager_->HeldDevices(), IsEmpty());
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, prepare U1, unprepare U1");
}

TEST(Ckp06, ALostCdiFileIsRestoredAtStartAndByAnyPrepare) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  const auto drop = [&] {
    const absl::MutexLock lock(&rig.cdi_.mutex_);
    rig.cdi_.files.clear();
  };
  drop();
  rig.Boot();
  rig.manager_->Restore({});
  EXPECT_TRUE(rig.cdi_.Has("U1"));
  drop();
  ASSERT_TRUE(rig.Prepare("U1").ok());
  EXPECT_TRUE(rig.cdi_.Has("U1"));
  {
    const absl::MutexLock lock(&rig.cdi_.mutex_);
    rig.cdi_.files["U1"] = "edited";
  }
  ASSERT_TRUE(rig.Prepare("U1").ok());
  EXPECT_NE(rig.cdi_.files["U1"], "edited");
  EXPECT_EQ(rig.backend_.Order(), "prepare U1");
}

TEST(Restore, SweepsOnlyWhatBelongsToNobody) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  {
    const absl::MutexLock lock(&rig.cdi_.mutex_);
    rig.cdi_.files["GONE"] = "x";
  }
  rig.manager_->Restore({});
  EXPECT_TRUE(rig.cdi_.Has("GONE")) << "what the kubelet still needs is not known";
  rig.kubelet_.Set(std::vector<loader::ClaimIdentity>());
  ASSERT_TRUE(rig.Prepare("U1").ok());
  const std::string orphan = rig.directory_.Path("data/files/GONE");
  ASSERT_TRUE(MakeDirectories(rig.posix_, orphan, 0700).ok());
  Overwrite(rig, rig.directory_.Path("data/claims/.GONE.json.01.tmp"), "");
  rig.manager_->Restore({});
  EXPECT_FALSE(rig.cdi_.Has("GONE"));
  EXPECT_TRUE(rig.cdi_.Has("U1"));
  EXPECT_FALSE(rig.posix_.Stat(orphan, false).ok());
  EXPECT_FALSE(rig.posix_.Stat(rig.directory_.Path("data/claims/.GONE.json.01.tmp"), false).ok());
}

TEST(Ckp03, ADamagedRecordIsKeptAsideAndItsClaimReleasedByUnprepare) {
  for (const char* how : {"empty", "cut", "checksum"}) {
    SCOPED_TRACE(how);
    ClaimsRig rig;
    rig.Allocate("U1", {Result("d0")});
    rig.Allocate("U2", {Result("d1")});
    rig.Allocate("U3", {Result("d0")});
    ASSERT_TRUE(rig.Prepare("U1").ok());
    ASSERT_TRUE(rig.Prepare("U2").ok());
    const std::string good = *rig.posix_.ReadFile(rig.RecordPath("U1"), 1u << 20);
    const std::string bad = how == std::string("empty") ? ""
                            : how == std::string("cut")
                                ? good.substr(0, good.size() / 2)
                                : absl::StrReplaceAll(good, {{"serial-d0", "serial-d9"}});
    Overwrite(rig, rig.RecordPath("U1"), bad);
    rig.Boot();
    ASSERT_TRUE(rig.start_error_.ok());
    EXPECT_EQ(rig.Phase("U1"), "quarantined");
    EXPECT_EQ(rig.Phase("U2"), "prepared");
    EXPECT_EQ(*rig.posix_.ReadFile(rig.RecordPath("U1") + ".corrupt-1", 1u << 20), bad);
    EXPECT_EQ(rig.metrics_.Value("dra_records_quarantined_total", {{"driver", kDriver}}), 1);
    EXPECT_THAT(rig.manager_->HeldDevices(),
                ElementsAre(std::make_pair("n1", "d0"), std::make_pair("n1", "d1")));
    EXPECT_THAT(Text(rig.Prepare("U3", Call::WithTimeout(absl::Seconds(1))).status()),
                HasSubstr("U1"));
    rig.Boot();
    EXPECT_EQ(rig.Phase("U1"), "quarantined");
    EXPECT_TRUE(rig.Unprepare("U1").ok());
    EXPECT_EQ(rig.backend_.LastUnprepare().undo, "");
    ASSERT_EQ(rig.backend_.LastUnprepare().devices.size(), 1u);
    EXPECT_EQ(rig.Phase("U1"), "none");
    EXPECT_TRUE(rig.Prepare("U3").ok());
  }
}

TEST(Ckp03, PrepareOfAQuarantinedClaimUndoesItFirst) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  Overwrite(rig, rig.RecordPath("U1"), "{}");
  ASSERT_TRUE(rig.Prepare("U1").ok());
  EXPECT_EQ(rig.backend_.Order(), "prepare U1, unprepare U1, prepare U1");
  EXPECT_EQ(rig.Phase("U1"), "prepared");
}

TEST(Ckp01, ARecordOfANewerMinorIsUnderstoodAndItsMembersSurvive) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  auto record = records::DecodeRecord(*rig.posix_.ReadFile(rig.RecordPath("U1"), 1u << 20), "U1");
  ASSERT_TRUE(record.ok());
  record->format_minor = 3;
  record->unknown["addedLater"] = Json::parse(R"({"x":1})");
  Overwrite(rig, rig.RecordPath("U1"), records::EncodeRecord(*record));
  rig.Boot();
  EXPECT_EQ(rig.Phase("U1"), "prepared");
  ASSERT_TRUE(
      rig.manager_->UpdateDevice("U1", "n1", "d0", "", Json::parse(R"({"data":{"t":1}})")).ok());
  const std::string text = *rig.posix_.ReadFile(rig.RecordPath("U1"), 1u << 20);
  EXPECT_TRUE(absl::StartsWith(text, "{\"format\":\"dra-record/1.3\""));
  EXPECT_THAT(text, HasSubstr("addedLater"));
  EXPECT_TRUE(rig.Unprepare("U1").ok());
}

TEST(Records, WhatCannotBeReadIsAnErrorAndNeverAnUnknownClaim) {
  for (const int error : {EIO, EACCES}) {
    ClaimsRig rig;
    rig.Allocate("U1", {Result("d0")});
    ASSERT_TRUE(rig.Prepare("U1").ok());
    rig.fs_.FailAlways({FileOperation::kReadFile, "U1.json"}, error);
    EXPECT_FALSE(rig.Unprepare("U1").ok());
    EXPECT_FALSE(rig.Prepare("U1").ok());
    rig.Boot();
    ASSERT_TRUE(rig.start_error_.ok());
    EXPECT_THAT(rig.manager_->HeldDevices(), ElementsAre(std::make_pair("n1", "d0")));
    rig.fs_.ClearFaults();
    EXPECT_TRUE(rig.Unprepare("U1").ok());
    EXPECT_EQ(rig.backend_.Order(), "prepare U1, unprepare U1");
  }
}

TEST(Records, ADirectoryThatCannotBeListedStopsTheStart) {
  ClaimsRig rig;
  rig.fs_.FailAlways({FileOperation::kList, "data/claims"}, EACCES);
  rig.Boot();
  EXPECT_FALSE(rig.start_error_.ok());
  EXPECT_FALSE(absl::IsNotFound(rig.start_error_));
}

TEST(Start, CompletesTheHoldsOfThisBootFromTheRecords) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U3", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.manager_.reset();
  ASSERT_TRUE(RemoveTree(rig.posix_, rig.directory_.Path("data/held")).ok());
  rig.Boot();
  EXPECT_THAT(rig.manager_->HeldDevices(), ElementsAre(std::make_pair("n1", "d0")));
  EXPECT_THAT(Text(rig.Prepare("U3", Call::WithTimeout(absl::Seconds(1))).status()),
              HasSubstr("U1"));
}

TEST(Start, RemovesHoldsOfAPrepareThatDiedWithoutARecord) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.manager_.reset();
  ASSERT_TRUE(rig.posix_.Remove(rig.RecordPath("U1")).ok());
  rig.Boot();
  EXPECT_THAT(rig.manager_->HeldDevices(), IsEmpty());
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

TEST(Unprepare, AnAbsentBackendKeepsTheRecordAndARepeatGoesOn) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.backend_.OnUnprepare([](const loader::UnprepareArgs&, const Call&) {
    return absl::FailedPreconditionError("backend is not loaded");
  });
  const absl::Status failed = rig.Unprepare("U1");
  EXPECT_THAT(Text(failed), HasSubstr("ns1/claim-U1"));
  EXPECT_THAT(Text(failed), HasSubstr("not loaded"));
  EXPECT_EQ(rig.Phase("U1"), "unpreparing");
  EXPECT_TRUE(rig.HasRecord("U1"));
  EXPECT_FALSE(rig.cdi_.Has("U1"));
  rig.Boot();
  EXPECT_EQ(rig.Phase("U1"), "unpreparing");
  rig.backend_.OnUnprepare(nullptr);
  EXPECT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

// A claim whose way back has begun is not taken for a prepared one, whatever its undo data.
TEST(Prepare, AfterAnUnfinishedUnprepareTheUndoIsFinishedFirst) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("U1").ok());
  rig.backend_.OnUnprepare(
      [](const loader::UnprepareArgs&, const Call&) { return absl::InternalError("stuck"); });
  EXPECT_FALSE(rig.Unprepare("U1").ok());
  rig.Boot();
  EXPECT_THAT(Text(rig.Prepare("U1").status()), HasSubstr("stuck"));
  rig.backend_.OnUnprepare(nullptr);
  ASSERT_TRUE(rig.Prepare("U1").ok());
  EXPECT_EQ(rig.backend_.Order(),
            "prepare U1, unprepare U1, unprepare U1, unprepare U1, prepare U1");
}

// Two instances over one directory, as in a rolling update.
TEST(TwoInstances, SeeEachOthersClaims) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U3", {Result("d0")});
  auto second = ClaimManager::Create(rig.MakeOptions("boot-1"), rig.MakeDependencies());
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(rig.Prepare("U1").ok());
  PrepareAnswer refused;
  (*second)->Prepare(Identity("U3"), Call::WithTimeout(absl::Seconds(1)), refused.Done());
  EXPECT_THAT(Text(refused.Get().status()), HasSubstr("U1"));
  PrepareAnswer waiting;
  (*second)->Prepare(Identity("U3"), {}, waiting.Done());
  UnprepareAnswer released;
  (*second)->Unprepare(Identity("U1"), {}, released.Done());
  EXPECT_TRUE(released.Get().ok());
  EXPECT_TRUE(waiting.Get().ok()) << waiting.Get().status();
}

// The other instance releases the holder: the poll notices without a word from it.
TEST(TwoInstances, AReleaseByTheOtherInstanceIsNoticed) {
  ClaimsRig rig;
  rig.Allocate("U1", {Result("d0")});
  rig.Allocate("U3", {Result("d0")});
  auto second = ClaimManager::Create(rig.MakeOptions("boot-1"), rig.MakeDependencies());
  ASSERT_TRUE(second.ok());
  ASSERT_TRUE(rig.Prepare("U1").ok());
  PrepareAnswer waiting;
  (*second)->Prepare(Identity("U3"), {}, waiting.Done());
  ASSERT_TRUE(rig.Unprepare("U1").ok());
  EXPECT_TRUE(waiting.Get().ok()) << waiting.Get().status();
}

}  // namespace
}  // namespace dra::claims
