#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dra/records/claim_files.h"
#include "dra/records/claim_locks.h"
#include "dra/records/notes.h"
#include "test/claims/claims_rig.h"

namespace dra::claims {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Known = std::vector<loader::ClaimIdentity>;

class LostRecords : public ::testing::Test {
 protected:
  LostRecords() {
    rig_.Allocate("U1", {Result("d0")});
    EXPECT_TRUE(rig_.Prepare("U1").ok());
  }
  // The records, and what else the driver wrote down of them, are gone; the process starts anew.
  void LoseRecords() {
    rig_.manager_.reset();
    EXPECT_TRUE(RemoveTree(rig_.posix_, rig_.directory_.Path("data")).ok());
    rig_.Boot();
    ASSERT_TRUE(rig_.cdi_.Has("U1"));
  }
  void Restore() { rig_.manager_->Restore({}); }
  bool Exists(const std::string& path) {
    return rig_.posix_.Stat(rig_.directory_.Path("data/" + path), false).ok();
  }

  ClaimsRig rig_;
};

TEST_F(LostRecords, WhatTheKubeletHasForgottenIsSwept) {
  LoseRecords();
  rig_.kubelet_.Set(Known{Identity("U2")});
  Restore();
  EXPECT_FALSE(rig_.cdi_.Has("U1"));
  EXPECT_EQ(rig_.Phase("U1"), "none");
  EXPECT_THAT(rig_.manager_->HeldDevices(), IsEmpty());
}

TEST_F(LostRecords, NothingIsDecidedWhileTheKubeletsStateIsUnknown) {
  LoseRecords();
  rig_.Allocate("U2", {Result("d1")});
  ASSERT_TRUE(rig_.Prepare("U2").ok());
  for (const absl::Status& error :
       {absl::NotFoundError("no file"), absl::PermissionDeniedError("EACCES"),
        absl::DataLossError("half a file")}) {
    SCOPED_TRACE(error.ToString());
    rig_.kubelet_.Set(error);
    Restore();
    EXPECT_TRUE(rig_.cdi_.Has("U1")) << "not even beside records";
    EXPECT_EQ(rig_.Phase("U1"), "none");
  }
}

TEST_F(LostRecords, WhatTheKubeletAndTheApiKnowIsHeldAgain) {
  LoseRecords();
  rig_.kubelet_.Set(Known{Identity("U1")});
  Restore();
  EXPECT_TRUE(rig_.cdi_.Has("U1")) << "a container of the pod may start again";
  const records::Record record = rig_.Recorded("U1");
  EXPECT_EQ(record.phase, records::Phase::kDirty);
  EXPECT_EQ(record.last_error, "the record was lost");
  ASSERT_THAT(record.devices, SizeIs(1));
  EXPECT_EQ(record.devices[0].identity, "serial-d0");
  ASSERT_THAT(record.devices[0].exclusion_keys, SizeIs(1));
  EXPECT_EQ(record.devices[0].exclusion_keys[0].key, "card-0");
  EXPECT_THAT(rig_.manager_->HeldDevices(), ElementsAre(std::make_pair("n1", "d0")));
  rig_.Allocate("U2", {Result("d0")});
  Call soon = Call::WithTimeout(absl::Milliseconds(200));
  EXPECT_FALSE(rig_.Prepare("U2", soon).ok());

  EXPECT_TRUE(rig_.Unprepare("U1").ok());
  EXPECT_FALSE(rig_.cdi_.Has("U1"));
  EXPECT_THAT(rig_.Leftovers(), IsEmpty());
}

TEST_F(LostRecords, APrepareMakesTheClaimWhole) {
  LoseRecords();
  rig_.kubelet_.Set(Known{Identity("U1")});
  Restore();
  ASSERT_TRUE(rig_.Prepare("U1").ok());
  EXPECT_EQ(rig_.Phase("U1"), "prepared");
  EXPECT_EQ(rig_.backend_.Order(), "prepare U1, unprepare U1, prepare U1");
}

TEST_F(LostRecords, OneLostRecordBesideOthersIsDecidedTheSameWay) {
  rig_.Allocate("U2", {Result("d1")});
  ASSERT_TRUE(rig_.Prepare("U2").ok());
  ASSERT_TRUE(rig_.posix_.Remove(rig_.RecordPath("U1")).ok());
  rig_.Boot();
  rig_.kubelet_.Set(Known{Identity("U1"), Identity("U2")});
  Restore();
  EXPECT_EQ(rig_.Phase("U1"), "dirty");
  EXPECT_EQ(rig_.Phase("U2"), "prepared");
}

TEST_F(LostRecords, AnApiThatIsAwayIsAskedAgain) {
  LoseRecords();
  rig_.kubelet_.Set(Known{Identity("U1")});
  rig_.claims_.Fail({absl::UnavailableError("away")});
  Restore();
  EXPECT_TRUE(rig_.cdi_.Has("U1"));
  EXPECT_EQ(rig_.Phase("U1"), "none");
  Restore();
  EXPECT_EQ(rig_.Phase("U1"), "dirty");
}

TEST_F(LostRecords, WhatTheApiDoesNotKnowWaitsForTheKubelet) {
  LoseRecords();
  rig_.kubelet_.Set(Known{Identity("U1")});
  loader::ClaimIdentity other = Identity("U1");
  other.uid = "U9";
  rig_.claims_.Put(ClaimObject(other, {Result("d0")}));
  Restore();
  rig_.claims_.Erase(Identity("U1"));
  Restore();
  EXPECT_TRUE(rig_.cdi_.Has("U1"));
  EXPECT_EQ(rig_.Phase("U1"), "none");
  EXPECT_TRUE(rig_.Unprepare("U1").ok());
  EXPECT_FALSE(rig_.cdi_.Has("U1"));
}

TEST_F(LostRecords, WithoutTheInventoryADeviceIsItsOwnKey) {
  LoseRecords();
  rig_.catalog_.Erase("d0");
  rig_.kubelet_.Set(Known{Identity("U1")});
  Restore();
  EXPECT_EQ(rig_.Phase("U1"), "dirty");
  EXPECT_THAT(rig_.manager_->HeldDevices(), SizeIs(1));
}

TEST_F(LostRecords, AClaimUnderWayIsLeftAlone) {
  LoseRecords();
  rig_.kubelet_.Set(Known());
  const records::ClaimLocks locks(rig_.directory_.Path("data/serialize.lock"));
  {
    const auto lock = locks.TryLockClaim("U1");
    ASSERT_TRUE(lock.ok());
    Restore();
    EXPECT_TRUE(rig_.cdi_.Has("U1"));
  }
  Restore();
  EXPECT_FALSE(rig_.cdi_.Has("U1"));
}

class Sweep : public LostRecords {
 protected:
  void Touch(const std::string& path, absl::Duration age = absl::ZeroDuration()) {
    const std::string full = rig_.directory_.Path("data/" + path);
    ASSERT_TRUE(MakeDirectories(rig_.posix_, DirectoryName(full), 0700).ok());
    ASSERT_TRUE(rig_.posix_.CreateFile(full, "x", 0600, false).ok());
    const timespec then = absl::ToTimespec(absl::Now() - age);
    const timespec times[2] = {then, then};
    ASSERT_EQ(::utimensat(AT_FDCWD, full.c_str(), times, 0), 0);
  }
};

TEST_F(Sweep, DirectoriesOfForgottenClaimsGoAndWhatIsNoneStays) {
  Touch("files/GONE/deep/file");
  Touch("files/U1/file");
  Touch("files/README");
  Touch("outside/file");
  ASSERT_EQ(::symlink(rig_.directory_.Path("data/outside").c_str(),
                      rig_.directory_.Path("data/files/LINK").c_str()),
            0);
  Restore();
  EXPECT_FALSE(Exists("files/GONE"));
  EXPECT_TRUE(Exists("files/U1/file"));
  EXPECT_TRUE(Exists("files/README"));
  EXPECT_TRUE(Exists("files/LINK"));
  EXPECT_TRUE(Exists("outside/file"));
}

TEST_F(Sweep, FilesOfAClaimWhoseRecordWasLostStayAsLongAsItsCdiFile) {
  Touch("files/U1/file");
  rig_.manager_.reset();
  ASSERT_TRUE(rig_.posix_.Remove(rig_.RecordPath("U1")).ok());
  rig_.Boot();
  Restore();
  EXPECT_TRUE(Exists("files/U1/file"));
  rig_.kubelet_.Set(Known());
  Restore();
  EXPECT_FALSE(Exists("files/U1"));
}

TEST_F(Sweep, SharedFilesGoWithTheirLastUser) {
  const std::string used = records::ClaimFiles::SharedName("used");
  const std::string unused = records::ClaimFiles::SharedName("unused");
  const std::string of_gone = records::ClaimFiles::SharedName("of GONE");
  Touch("shared-files/" + used + "/file");
  Touch("shared-files/" + used + "/.file.0123456789abcdef.tmp");
  Touch("shared-files/" + used + "/users/U1");
  Touch("shared-files/" + unused + "/file");
  Touch("shared-files/" + of_gone + "/file");
  Touch("shared-files/" + of_gone + "/users/GONE");
  Touch("shared-files/notes.txt");
  Touch("shared-files/other/file");
  Restore();
  EXPECT_TRUE(Exists("shared-files/" + used + "/file"));
  EXPECT_TRUE(Exists("shared-files/" + used + "/users/U1"));
  EXPECT_FALSE(Exists("shared-files/" + used + "/.file.0123456789abcdef.tmp"));
  EXPECT_FALSE(Exists("shared-files/" + unused));
  EXPECT_FALSE(Exists("shared-files/" + of_gone));
  EXPECT_TRUE(Exists("shared-files/notes.txt"));
  EXPECT_TRUE(Exists("shared-files/other/file"));
}

TEST_F(Sweep, ATemporaryFileOfANoteGoesOnceItHasBeenThereForAMinute) {
  ASSERT_TRUE(rig_.manager_->NotePut("serial-d0", "health", "bad").ok());
  // As old as can be by the wall clock, which may have jumped: somebody may be writing it all the same.
  Touch("notes/backend/0123/.k.json.0123456789abcdef.tmp", absl::Hours(1));
  Touch("notes/host/0123/mine", absl::Hours(1));
  Restore();
  EXPECT_TRUE(Exists("notes/backend/0123/.k.json.0123456789abcdef.tmp"));
  rig_.clock_.Advance(absl::Seconds(61));
  Touch("notes/host/0123/.k.json.0123456789abcdef.tmp");
  Restore();
  EXPECT_FALSE(Exists("notes/backend/0123/.k.json.0123456789abcdef.tmp"));
  EXPECT_TRUE(Exists("notes/host/0123/.k.json.0123456789abcdef.tmp")) << "first seen just now";
  EXPECT_TRUE(Exists("notes/host/0123/mine"));
  EXPECT_EQ(*rig_.manager_->NoteGet("serial-d0", "health"), "bad");
}

TEST_F(Sweep, AHalfWrittenCdiFileStaysWhileItsClaimIsLocked) {
  rig_.cdi_.temporaries = {"GONE", "U1"};
  const records::ClaimLocks locks(rig_.directory_.Path("data/serialize.lock"));
  {
    const auto lock = locks.TryLockClaim("U1");
    ASSERT_TRUE(lock.ok()) << lock.status();
    Restore();
    EXPECT_EQ(rig_.cdi_.temporaries, std::set<std::string>{"U1"});
  }
  Restore();
  EXPECT_TRUE(rig_.cdi_.temporaries.empty());
}

TEST_F(Sweep, KeptRecordsAndForeignFilesBesideTheRecordsStay) {
  Touch("claims/released/GONE.json.corrupt-1");
  Touch("claims/README.txt");
  Touch("claims/.README.txt.0123456789abcdef.tmp");
  Restore();
  EXPECT_TRUE(Exists("claims/released/GONE.json.corrupt-1"));
  EXPECT_TRUE(Exists("claims/README.txt"));
  EXPECT_TRUE(Exists("claims/.README.txt.0123456789abcdef.tmp")) << "no temporary file of a record";
  EXPECT_EQ(rig_.Phase("U1"), "prepared");
}

}  // namespace
}  // namespace dra::claims
