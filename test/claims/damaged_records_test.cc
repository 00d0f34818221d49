#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "dra/kube/api_client.h"
#include "dra/observe/events.h"
#include "dra/testing/fake_api_client.h"
#include "test/claims/claims_rig.h"

// Records that are not what was written: each costs its own claim an undo, and nobody else anything.
namespace dra::claims {
namespace {

using ::testing::ElementsAre;
using testing::FileOperation;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Damage {
  const char* name;
  // Spoils the file at `path`, which holds `good`; `other` is a whole record of another claim.
  void (*spoil)(FileSystem& fs, const std::string& path, const std::string& good,
                const std::string& other);
};

void Put(FileSystem& fs, const std::string& path, const std::string& text) {
  ASSERT_TRUE(WriteFileAtomically(fs, path, text, 0600, Durability::kVolatile).ok());
}

const Damage kDamages[] = {
    {"Empty", [](FileSystem& fs, const std::string& path, const std::string&,
                 const std::string&) { Put(fs, path, ""); }},
    {"Cut", [](FileSystem& fs, const std::string& path, const std::string& good,
               const std::string&) { Put(fs, path, good.substr(0, good.size() / 2)); }},
    {"Checksum",
     [](FileSystem& fs, const std::string& path, const std::string& good, const std::string&) {
       Put(fs, path, absl::StrReplaceAll(good, {{"serial-d0", "serial-d9"}}));
     }},
    {"WrongType", [](FileSystem& fs, const std::string& path, const std::string&,
                     const std::string&) { Put(fs, path, "[1, 2]\n"); }},
    {"AnotherProgram",
     [](FileSystem& fs, const std::string& path, const std::string&, const std::string&) {
       Put(fs, path, R"({"checksum":1,"v1":{"preparedClaims":{"u1":[{"device":"d0"}]}}})");
     }},
    {"AnotherClaim", [](FileSystem& fs, const std::string& path, const std::string&,
                        const std::string& other) { Put(fs, path, other); }},
    {"NewerMajor",
     [](FileSystem& fs, const std::string& path, const std::string& good, const std::string&) {
       Put(fs, path, absl::StrReplaceAll(good, {{"dra-record/1.", "dra-record/2."}}));
     }},
    {"Binary", [](FileSystem& fs, const std::string& path, const std::string&,
                  const std::string&) { Put(fs, path, std::string(4096, '\xff')); }},
    {"Directory",
     [](FileSystem& fs, const std::string& path, const std::string&, const std::string&) {
       ASSERT_TRUE(fs.Remove(path).ok());
       ASSERT_TRUE(fs.MakeDirectory(path, 0700).ok());
       Put(fs, JoinPath(path, "inside"), "x");
     }},
    {"Fifo",
     [](FileSystem& fs, const std::string& path, const std::string&, const std::string&) {
       ASSERT_TRUE(fs.Remove(path).ok());
       ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
     }},
    {"Symlink",
     [](FileSystem& fs, const std::string& path, const std::string& good, const std::string&) {
       // Even one to a whole record: what it leads to is another's to change.
       ASSERT_TRUE(fs.Remove(path).ok());
       const std::string target = absl::StrCat(DirectoryName(path), "/../elsewhere");
       Put(fs, target, good);
       ASSERT_EQ(::symlink(target.c_str(), path.c_str()), 0);
     }},
};

// The claim is refused with this text. A call that is answered in the middle of another try says "still working": then
// the next one is asked.
bool IsRefused(ClaimsRig& rig, const std::string& uid, const std::string& text) {
  constexpr int kTries = 20;
  for (int i = 0; i < kTries; ++i) {
    const auto refused = rig.Prepare(uid, Call::WithTimeout(absl::Milliseconds(300)));
    if (refused.ok()) return false;
    if (absl::StrContains(Text(refused.status()), text)) return true;
  }
  return false;
}

class DamagedRecord : public ::testing::TestWithParam<Damage> {
 protected:
  DamagedRecord()
      : events_(std::make_unique<observe::EventRecorder>(&api_, &rig_.clock_, &rig_.metrics_,
                                                         Logger(), "dra", "n1")) {
    rig_.events_ = events_.get();
    rig_.Allocate("u1", {Result("d0")});
    rig_.Allocate("u2", {Result("d1")});
    rig_.Allocate("u3", {Result("d0")});
    EXPECT_TRUE(rig_.Prepare("u1").ok());
    EXPECT_TRUE(rig_.Prepare("u2").ok());
  }
  ~DamagedRecord() override { rig_.manager_.reset(); }

  void Spoil(const std::string& path) {
    const std::string good = *rig_.posix_.ReadFile(path);
    const std::string other = *rig_.posix_.ReadFile(rig_.RecordPath("u2"));
    GetParam().spoil(rig_.posix_, path, good, other);
  }
  void ExpectQuarantinedAndReleased();

  ClaimsRig rig_;
  testing::FakeApiClient api_;
  std::unique_ptr<observe::EventRecorder> events_;
};
using Ckp03 = DamagedRecord;

void DamagedRecord::ExpectQuarantinedAndReleased() {
  rig_.Boot();
  ASSERT_TRUE(rig_.start_error_.ok()) << rig_.start_error_;
  EXPECT_EQ(rig_.Phase("u1"), "quarantined");
  EXPECT_EQ(rig_.Phase("u2"), "prepared");
  EXPECT_TRUE(rig_.posix_.Stat(rig_.RecordPath("u1") + ".corrupt-1", false).ok()) << "kept";
  EXPECT_EQ(rig_.metrics_.Value("dra_records_quarantined_total", {{"driver", kDriver}}), 1);
  EXPECT_THAT(rig_.manager_->HeldDevices(),
              ElementsAre(std::make_pair("n1", "d0"), std::make_pair("n1", "d1")));
  EXPECT_TRUE(IsRefused(rig_, "u3", "u1"));
  EXPECT_TRUE(rig_.Unprepare("u2").ok());
  rig_.Boot();
  EXPECT_EQ(rig_.Phase("u1"), "quarantined") << "after a restart";
  EXPECT_TRUE(rig_.Unprepare("u1").ok());
  EXPECT_EQ(rig_.backend_.LastUnprepare().undo, "");
  EXPECT_THAT(rig_.backend_.LastUnprepare().devices, SizeIs(1));
  EXPECT_EQ(rig_.Phase("u1"), "none");
  EXPECT_TRUE(rig_.Prepare("u3").ok());
  rig_.manager_.reset();
  events_.reset();
  int quarantined = 0;
  for (const Json& event : api_.store().All(kube::Events())) {
    if (StringOr(event, "reason") != "RecordQuarantined") continue;
    ++quarantined;
    EXPECT_EQ(event["regarding"]["uid"], "u1");
    EXPECT_THAT(event["note"].get<std::string>(), HasSubstr("corrupt-1"));
  }
  EXPECT_EQ(quarantined, 1);
}

TEST_P(Ckp03, IsKeptAsideSaidAndReleasedByUnprepare) {
  Spoil(rig_.RecordPath("u1"));
  ExpectQuarantinedAndReleased();
}

TEST_P(DamagedRecord, OnItsWayBackIsTreatedAlike) {
  rig_.backend_.OnUnprepare([](const loader::UnprepareArgs&, const Call&) {
    return absl::FailedPreconditionError("not loaded");
  });
  EXPECT_FALSE(rig_.Unprepare("u1").ok());
  rig_.backend_.OnUnprepare(nullptr);
  Spoil(rig_.UnpreparingPath("u1"));
  ExpectQuarantinedAndReleased();
}

const auto kNameOf = [](const ::testing::TestParamInfo<Damage>& tested) {
  return std::string(tested.param.name);
};
INSTANTIATE_TEST_SUITE_P(All, DamagedRecord, ::testing::ValuesIn(kDamages), kNameOf);
INSTANTIATE_TEST_SUITE_P(All, Ckp03, ::testing::ValuesIn(kDamages), kNameOf);

// Ckp04 too: the shape of another release does not parse, and its claim is released all the same (see AnotherProgram above).
TEST(ForeignRecord, AFileOfAnEarlierShapeNeverMakesUnprepareHang) {
  ClaimsRig rig;
  rig.Allocate("u3", {Result("d0")});
  Put(rig.posix_, rig.RecordPath("u1"), R"({"v1":{"preparedClaims":{"u1":[{"device":"d0"}]}}})");
  rig.Boot();
  ASSERT_TRUE(rig.start_error_.ok());
  EXPECT_TRUE(rig.Unprepare("u1").ok());
  EXPECT_TRUE(rig.Prepare("u3").ok());
}

class UnreadableRecord : public ::testing::TestWithParam<int> {};

TEST_P(UnreadableRecord, IsAnErrorUnderBothNamesAndHidesNobody) {
  for (const bool unpreparing : {false, true}) {
    ClaimsRig rig;
    rig.Allocate("u1", {Result("d0")});
    rig.Allocate("u2", {Result("d1")});
    ASSERT_TRUE(rig.Prepare("u1").ok());
    if (unpreparing) {
      rig.backend_.OnUnprepare([](const loader::UnprepareArgs&, const Call&) {
        return absl::FailedPreconditionError("not loaded");
      });
      EXPECT_FALSE(rig.Unprepare("u1").ok());
      rig.backend_.OnUnprepare(nullptr);
    }
    const std::string hooks = rig.backend_.Order();
    rig.fs_.FailAlways({FileOperation::kReadFile, "/u1."}, GetParam());
    rig.Boot();
    ASSERT_TRUE(rig.start_error_.ok()) << rig.start_error_;
    EXPECT_FALSE(rig.Unprepare("u1").ok());
    EXPECT_FALSE(rig.Prepare("u1", Call::WithTimeout(absl::Seconds(1))).ok());
    EXPECT_EQ(rig.backend_.Order(), hooks);
    EXPECT_THAT(rig.manager_->HeldDevices(), ElementsAre(std::make_pair("n1", "d0")));
    EXPECT_TRUE(rig.HasRecord("u1"));
    EXPECT_TRUE(rig.Prepare("u2").ok());
    rig.fs_.ClearFaults();
    EXPECT_TRUE(rig.Unprepare("u1").ok());
    EXPECT_EQ(rig.Phase("u1"), "none");
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, UnreadableRecord, ::testing::Values(EIO, EACCES, EMFILE, ENFILE),
                         [](const auto& tested) {
                           return std::string(::strerrorname_np(tested.param));
                         });

// The holds are lost as well: the CDI file still tells the devices' names.
class NamedByCdi : public ::testing::Test {
 protected:
  NamedByCdi() {
    rig_.Allocate("u1", {Result("d0")});
    rig_.Allocate("u2", {Result("d1")});
    rig_.Allocate("u3", {Result("d0")});
    EXPECT_TRUE(rig_.Prepare("u1").ok());
    rig_.manager_.reset();
    Put(rig_.posix_, rig_.RecordPath("u1"), "");
    EXPECT_TRUE(RemoveTree(rig_.posix_, rig_.directory_.Path("data/held")).ok());
    const absl::MutexLock lock(&rig_.cdi_.mutex_);
    rig_.cdi_.named_devices["u1"] = {{"d0", ""}};
  }
  ClaimsRig rig_;
};

TEST_F(NamedByCdi, DevicesStayHeldByNameInEveryInstanceUntilUnprepare) {
  rig_.Boot();
  ASSERT_EQ(rig_.manager_->Claims().size(), 1u);
  ASSERT_EQ(rig_.manager_->Claims()[0].devices.size(), 1u);
  EXPECT_EQ(rig_.manager_->Claims()[0].devices[0].device, "d0");
  EXPECT_TRUE(IsRefused(rig_, "u3", "uid u1, whose record is damaged"));
  EXPECT_TRUE(rig_.Prepare("u2").ok());
  rig_.Boot();
  EXPECT_TRUE(IsRefused(rig_, "u3", "u1")) << "after a restart";
  EXPECT_TRUE(rig_.Unprepare("u1").ok());
  ASSERT_THAT(rig_.backend_.LastUnprepare().devices, SizeIs(1));
  EXPECT_EQ(rig_.backend_.LastUnprepare().devices[0].result["device"], "d0");
  EXPECT_TRUE(rig_.Prepare("u3").ok());
  ASSERT_TRUE(rig_.Unprepare("u3").ok());
  ASSERT_TRUE(rig_.Unprepare("u2").ok());
  EXPECT_THAT(rig_.Leftovers(), IsEmpty());
}

TEST_F(NamedByCdi, AClaimWaitsUntilTheQuarantinedOneIsReleased) {
  rig_.Boot();
  PrepareAnswer waiting = rig_.StartPrepare(Identity("u3"));
  EXPECT_TRUE(rig_.Unprepare("u1").ok());
  EXPECT_TRUE(waiting.Get().ok()) << waiting.Get().status();
}

TEST_F(NamedByCdi, ACdiFileThatCannotBeReadIsAnErrorAndOneOfNoUseIsNot) {
  rig_.cdi_.devices_error = absl::PermissionDeniedError("the CDI directory");
  rig_.Boot();
  ASSERT_TRUE(rig_.start_error_.ok());
  EXPECT_THAT(Text(rig_.Unprepare("u1")), HasSubstr("the CDI directory"));
  rig_.cdi_.devices_error = absl::DataLossError("no JSON");
  EXPECT_TRUE(rig_.Unprepare("u1").ok());
  EXPECT_THAT(rig_.backend_.LastUnprepare().devices, IsEmpty());
  EXPECT_TRUE(rig_.Prepare("u3").ok());
}

}  // namespace
}  // namespace dra::claims
