#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "test/claims/claims_rig.h"

// A full disk, a read-only one, and what else a write can meet: a clear error, and nothing has changed.
namespace dra::claims {
namespace {

using testing::FileOperation;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Fault {
  const char* name;
  FileOperation operation;
  const char* path;
};

std::string FaultName(const ::testing::TestParamInfo<std::tuple<Fault, int, bool>>& tested) {
  const auto& [fault, error, undo] = tested.param;
  return absl::StrCat(fault.name, "_", ::strerrorname_np(error), undo ? "_WithUndo" : "");
}

class WriteFaults : public ::testing::TestWithParam<std::tuple<Fault, int, bool>> {
 protected:
  WriteFaults() {
    rig_.Allocate("u1", {Result("d0")});
    if (undo()) {
      rig_.backend_.OnPrepare([this](const loader::PrepareArgs& args,
                                     const Call&) -> absl::StatusOr<loader::PrepareResult> {
        DRA_RETURN_IF_ERROR(rig_.manager_->SaveUndo(args.claim.uid, "undo"));
        return FakeBackend::Plain(args);
      });
    }
  }
  int error() const { return std::get<1>(GetParam()); }
  bool undo() const { return std::get<2>(GetParam()); }
  void Fail() {
    const Fault& fault = std::get<0>(GetParam());
    rig_.fs_.FailAlways({fault.operation, fault.path}, error());
  }
  void ExpectClear(const absl::Status& status) const {
    EXPECT_THAT(Text(status), HasSubstr("claim-u1"));
    EXPECT_THAT(Text(status), HasSubstr(::strerror(error())));
    EXPECT_THAT(Text(status), HasSubstr("/data/")) << "names the file";
  }
  void ExpectPrepared() {
    EXPECT_EQ(rig_.Phase("u1"), "prepared");
    EXPECT_TRUE(rig_.cdi_.Has("u1"));
    EXPECT_THAT(rig_.manager_->HeldDevices(), SizeIs(1));
  }
  void ExpectNothing() {
    EXPECT_EQ(rig_.Phase("u1"), "none");
    EXPECT_FALSE(rig_.cdi_.Has("u1"));
    EXPECT_THAT(rig_.manager_->HeldDevices(), IsEmpty());
    EXPECT_THAT(rig_.Leftovers(), IsEmpty());
  }

  ClaimsRig rig_;
};

const auto kErrors = ::testing::Values(ENOSPC, EROFS, EDQUOT, EIO, EMFILE);

// What a prepare cannot do without.
class PrepareFaults : public WriteFaults {};

TEST_P(PrepareFaults, AreSaidAndLeaveNothing) {
  Fail();
  const auto failed = rig_.Prepare("u1", Call::WithTimeout(absl::Milliseconds(300)));
  ASSERT_FALSE(failed.ok());
  ExpectClear(failed.status());
  rig_.fs_.ClearFaults();
  ExpectNothing();
  const auto repeated = rig_.Prepare("u1");
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  ExpectPrepared();
}

INSTANTIATE_TEST_SUITE_P(
    Writes, PrepareFaults,
    ::testing::Combine(
        ::testing::Values(Fault{"MakeHoldDirectory", FileOperation::kMakeDirectory, "/held/"},
                          Fault{"CreateHold", FileOperation::kCreateFile, "/held/"},
                          Fault{"RenameHold", FileOperation::kRename, "/held/"},
                          Fault{"CreateRecord", FileOperation::kCreateFile, "/claims/"},
                          Fault{"RenameRecord", FileOperation::kRename, "/claims/"},
                          Fault{"SyncRecords", FileOperation::kSyncDirectory, "/claims"},
                          Fault{"ReadRecord", FileOperation::kReadFile, "/claims/"},
                          Fault{"ListHolds", FileOperation::kList, "/held/"}),
        kErrors, ::testing::Bool()),
    FaultName);

// What comes before the backend is asked to undo.
class UnprepareFaults : public WriteFaults {};

TEST_P(UnprepareFaults, AreSaidAndChangeNothing) {
  ASSERT_TRUE(rig_.Prepare("u1").ok());
  const std::string hooks = rig_.backend_.Order();
  Fail();
  const absl::Status failed = rig_.Unprepare("u1");
  const bool is_mark = std::get<0>(GetParam()).operation == FileOperation::kRename;
  if (is_mark && (error() == ENOSPC || error() == EDQUOT)) {
    // A full disk is no reason to keep a claim: its release frees space.
    EXPECT_TRUE(failed.ok()) << failed;
    rig_.fs_.ClearFaults();
    return ExpectNothing();
  }
  ASSERT_FALSE(failed.ok());
  ExpectClear(failed);
  EXPECT_EQ(rig_.backend_.Order(), hooks);
  rig_.fs_.ClearFaults();
  ExpectPrepared();
  ASSERT_TRUE(rig_.Unprepare("u1").ok());
  ExpectNothing();
}

INSTANTIATE_TEST_SUITE_P(
    Writes, UnprepareFaults,
    ::testing::Combine(::testing::Values(Fault{"MarkRecord", FileOperation::kRename, "/claims/"},
                                         Fault{"ReadRecord", FileOperation::kReadFile, "/claims/"},
                                         Fault{"ListHolds", FileOperation::kList, "/held/"}),
                       ::testing::Values(ENOSPC, EROFS, EDQUOT, EIO, EMFILE), ::testing::Bool()),
    FaultName);

// The one durable step of an unprepare: the name may have changed, nothing else has.
using SyncFault = WriteFaults;

TEST_P(SyncFault, OfTheMarkIsSaidBeforeTheBackendIsAsked) {
  ASSERT_TRUE(rig_.Prepare("u1").ok());
  const std::string hooks = rig_.backend_.Order();
  Fail();
  const absl::Status failed = rig_.Unprepare("u1");
  ASSERT_FALSE(failed.ok());
  ExpectClear(failed);
  EXPECT_EQ(rig_.backend_.Order(), hooks);
  EXPECT_TRUE(rig_.cdi_.Has("u1"));
  EXPECT_THAT(rig_.manager_->HeldDevices(), SizeIs(1));
  rig_.fs_.ClearFaults();
  ASSERT_TRUE(rig_.Unprepare("u1").ok());
  EXPECT_EQ(rig_.backend_.LastUnprepare().undo, "undo");
  ExpectNothing();
}

INSTANTIATE_TEST_SUITE_P(
    Writes, SyncFault,
    ::testing::Combine(::testing::Values(Fault{"SyncRecords", FileOperation::kSyncDirectory,
                                               "/claims"}),
                       ::testing::Values(EROFS, EIO, EMFILE), ::testing::Values(true)),
    FaultName);

// The hardware is free and the record cannot go: the claim stays known as one on its way back.
using RemoveFault = WriteFaults;

TEST_P(RemoveFault, OfTheRecordKeepsTheClaimUntilARepeat) {
  ASSERT_TRUE(rig_.Prepare("u1").ok());
  Fail();
  const absl::Status failed = rig_.Unprepare("u1");
  ASSERT_FALSE(failed.ok());
  ExpectClear(failed);
  EXPECT_EQ(rig_.Phase("u1"), "unpreparing");
  EXPECT_THAT(rig_.manager_->HeldDevices(), SizeIs(1));
  rig_.fs_.ClearFaults();
  rig_.Boot();
  EXPECT_EQ(rig_.Phase("u1"), "unpreparing");
  ASSERT_TRUE(rig_.Unprepare("u1").ok());
  ExpectNothing();
}

INSTANTIATE_TEST_SUITE_P(
    Writes, RemoveFault,
    ::testing::Combine(::testing::Values(Fault{"RemoveRecord", FileOperation::kRemove, "/claims/"}),
                       ::testing::Values(EROFS, EIO), ::testing::Bool()),
    FaultName);

TEST(FullDisk, AHoldThatCannotBeRemovedHoldsNothing) {
  ClaimsRig rig;
  rig.Allocate("u1", {Result("d0")});
  rig.Allocate("u3", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("u1").ok());
  rig.fs_.FailAlways({FileOperation::kRemove, "/held/"}, EROFS);
  EXPECT_TRUE(rig.Unprepare("u1").ok());
  rig.fs_.ClearFaults();
  EXPECT_TRUE(rig.Prepare("u3").ok());
  ASSERT_TRUE(rig.Unprepare("u3").ok());
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

TEST(FullDisk, ACdiFileThatCannotBeRemovedKeepsTheBackendOut) {
  ClaimsRig rig;
  rig.Allocate("u1", {Result("d0")});
  ASSERT_TRUE(rig.Prepare("u1").ok());
  rig.cdi_.remove_error = absl::PermissionDeniedError("read-only file system");
  EXPECT_THAT(Text(rig.Unprepare("u1")), HasSubstr("read-only"));
  EXPECT_EQ(rig.backend_.Order(), "prepare u1");
  rig.cdi_.remove_error = absl::OkStatus();
  EXPECT_TRUE(rig.Unprepare("u1").ok());
  EXPECT_THAT(rig.Leftovers(), IsEmpty());
}

}  // namespace
}  // namespace dra::claims
