#include "driver/retired_drivers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "dra/driver/operator_commands.h"
#include "dra/observe/events.h"
#include "dra/records/holds.h"
#include "dra/records/record_store.h"
#include "dra/testing/fake_api_client.h"
#include "dra/testing/fake_clock.h"
#include "dra/testing/faulty_file_system.h"
#include "dra/testing/temp_directory.h"
#include "driver/held_claims.h"
#include "driver/lock_file.h"

namespace dra::driver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kOld[] = "old.sdk.test";
constexpr char kInstallation[] = "default/dra-driver";
constexpr char kUid[] = "5b2d9f0e-8c44-4a53-9a07-3f1d2c6e7a10";

// A node on which the driver old.sdk.test ran before.
class FormerDriver : public ::testing::Test {
 protected:
  FormerDriver()
      : recorder_(nullptr, &clock_, &metrics_, Logger(), "dra-driver", "n1"),
        data_(directory_.Path(absl::StrCat("plugins/", kOld))) {
    EXPECT_TRUE(MakeDirectories(disk_, data_, 0750).ok());
    EXPECT_TRUE(WriteDriverMarker(disk_, {kOld, "/lib/old.so", data_, kInstallation}).ok());
    config_.node_name = "n1";
    config_.installation = kInstallation;
    config_.kubelet_root = directory_.path();
    DriverConfig other;
    other.name = "new.sdk.test";
    config_.drivers.push_back(other);
    PutSlice("old-1", kOld, "n1");
    PutSlice("old-2", kOld, "n1");
    PutSlice("old-elsewhere", kOld, "n2");
    PutSlice("new-1", "new.sdk.test", "n1");
  }

  void PutSlice(const std::string& name, const std::string& driver, const std::string& node) {
    api_.store().Put(
        {{"apiVersion", "resource.k8s.io/v1"},
         {"kind", "ResourceSlice"},
         {"metadata", {{"name", name}}},
         {"spec",
          {{"driver", driver},
           {"nodeName", node},
           {"pool", {{"name", node}, {"generation", 1}, {"resourceSliceCount", 1}}}}}});
  }
  std::vector<std::string> Slices() {
    std::vector<std::string> names;
    for (const Json& slice : api_.store().All(kube::ResourceSlices()))
      names.push_back(StringOr(slice["metadata"], "name"));
    return names;
  }
  void RecordClaim() {
    records::RecordStore store(&disk_, JoinPath(data_, "claims"));
    ASSERT_TRUE(store.Open().ok());
    records::Record record;
    record.phase = records::Phase::kPrepared;
    record.boot_id = "boot-1";
    record.claim = {"ns1", "c1", kUid};
    record.reserved_for = Json::parse(R"([{"resource":"pods","name":"p1","uid":"9c1f"}])");
    records::RecordDevice device;
    device.result = {{"request", "r"}, {"driver", kOld}, {"pool", "n1"}, {"device", "d0"}};
    device.pool = "n1";
    device.device = "d0";
    device.request = "r";
    device.identity = "A";
    record.devices = {device};
    ASSERT_TRUE(store.Save(record).ok());
  }
  std::vector<observe::Condition> Look() {
    Environment environment;
    environment.fs = &fs_;
    environment.clock = &clock_;
    environment.api = &api_;
    environment.metrics = &metrics_;
    environment.events = &recorder_;
    environment.boot_id = "boot-1";
    RetiredDrivers retired(config_, environment);
    retired.Look(std::stop_token());
    return retired.Conditions();
  }
  bool Marked() { return disk_.Stat(DriverMarkerPath(data_)).ok(); }

  int Check(std::optional<std::string> driver = std::nullopt, bool json = false) {
    out_.str("");
    error_.str("");
    return RunUninstallCheck({&fs_, &clock_, &out_, &error_, directory_.path(), "ops"},
                             {std::move(driver), {}, json});
  }

  testing::TempDirectory directory_;
  PosixFileSystem disk_;
  testing::FaultyFileSystem fs_{&disk_};
  testing::FakeClock clock_;
  testing::FakeApiClient api_;
  observe::Metrics metrics_;
  observe::EventRecorder recorder_;
  DaemonConfig config_;
  const std::string data_;
  std::ostringstream out_, error_;
};

TEST_F(FormerDriver, WithoutClaimsItsSlicesOfThisNodeGoAndNothingElse) {
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Slices(), ElementsAre("new-1", "old-elsewhere"));
  EXPECT_FALSE(Marked());
  EXPECT_TRUE(disk_.Stat(data_).ok());
}

TEST_F(FormerDriver, IsLeftAloneWhileItIsConfigured) {
  config_.drivers[0].name = kOld;
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Slices(), SizeIs(4));
  EXPECT_TRUE(Marked());
}

// Two vendors' DaemonSets on one node, both built on this SDK: to either the other is a stranger, running or not.
TEST_F(FormerDriver, AnotherInstallationsIsNoneOfOurs) {
  for (const char* installation : {"vendor-b/driver", ""}) {
    config_.installation = installation;
    EXPECT_THAT(Look(), IsEmpty());
    EXPECT_THAT(Slices(), SizeIs(4));
    EXPECT_TRUE(Marked());
  }
  // Nor is a driver whose installation nobody knows, even to a process that has no name either.
  ASSERT_TRUE(WriteDriverMarker(disk_, {kOld, "/lib/old.so", data_, ""}).ok());
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Slices(), SizeIs(4));
}

TEST_F(FormerDriver, WithAClaimNothingIsRemovedAndTheConditionNamesItAndTheCure) {
  RecordClaim();
  const auto conditions = Look();
  ASSERT_THAT(conditions, SizeIs(1));
  EXPECT_EQ(conditions[0].driver, kOld);
  EXPECT_FALSE(conditions[0].ok);
  EXPECT_THAT(conditions[0].message, HasSubstr("ns1/c1"));
  EXPECT_THAT(conditions[0].message, HasSubstr("n1/d0"));
  EXPECT_THAT(conditions[0].message, HasSubstr("drain"));
  EXPECT_THAT(Slices(), SizeIs(4));
  EXPECT_TRUE(Marked());
  // It heals by itself.
  ASSERT_TRUE(records::RecordStore(&disk_, JoinPath(data_, "claims")).Remove(kUid).ok());
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Slices(), SizeIs(2));
}

TEST_F(FormerDriver, RecordsThatCannotBeReadAreNeverNone) {
  RecordClaim();
  fs_.FailAlways({testing::FileOperation::kList, "claims"}, EIO);
  EXPECT_THAT(Look(), SizeIs(1));
  EXPECT_THAT(Slices(), SizeIs(4));
  fs_.ClearFaults();
  fs_.FailAlways({testing::FileOperation::kReadFile, kUid}, EACCES);
  EXPECT_THAT(Look(), SizeIs(1));
  EXPECT_THAT(Slices(), SizeIs(4));
}

TEST_F(FormerDriver, AnotherInstanceThatServesItIsLeftInPeace) {
  auto lock = LockFile::Open(JoinPath(data_, "publish.lock"));
  ASSERT_TRUE(lock.ok());
  ASSERT_TRUE(*lock->Try(17));
  const auto conditions = Look();
  ASSERT_THAT(conditions, SizeIs(1));
  EXPECT_THAT(conditions[0].message, HasSubstr("another instance"));
  EXPECT_THAT(Slices(), SizeIs(4));
  ASSERT_TRUE(lock->Release(17).ok());
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(FormerDriver, AnApiServerThatFailsIsAskedAgain) {
  testing::ApiFault fault;
  fault.match.verb = "delete";
  fault.code = 500;
  api_.traffic().Inject(fault);
  ASSERT_THAT(Look(), SizeIs(1));
  EXPECT_TRUE(Marked());
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Slices(), SizeIs(2));
}

TEST_F(FormerDriver, DirectoriesOfOthersAreNotOurs) {
  ASSERT_TRUE(disk_.Remove(DriverMarkerPath(data_)).ok());
  for (const char* text : {"", "{}", R"({"format":1,"driver":"else.sdk.test"})"}) {
    ASSERT_TRUE(
        WriteFileAtomically(disk_, DriverMarkerPath(data_), text, 0644, Durability::kVolatile)
            .ok());
    EXPECT_THAT(Look(), IsEmpty());
    EXPECT_THAT(Slices(), SizeIs(4));
  }
}

TEST_F(FormerDriver, ItsMarkerIsWrittenOnlyWhenItSaysSomethingElse) {
  ASSERT_TRUE(WriteDriverMarker(fs_, {kOld, "/lib/old.so", data_, kInstallation}).ok());
  EXPECT_EQ(fs_.Count({testing::FileOperation::kCreateFile, ""}), 0);
  ASSERT_TRUE(WriteDriverMarker(fs_, {kOld, "/lib/other.so", data_, kInstallation}).ok());
  EXPECT_EQ(fs_.Count({testing::FileOperation::kCreateFile, ""}), 1);
}

class Doc01 : public FormerDriver {};

TEST_F(Doc01, UninstallCheckNamesClaimUidDeviceAndPod) {
  EXPECT_EQ(Check(), kExitNothing);
  RecordClaim();
  EXPECT_EQ(Check(), kExitSomething);
  for (const char* part : {"ns1/c1", kUid, "n1/d0", "p1", "prepared"})
    EXPECT_THAT(out_.str(), HasSubstr(part));
  EXPECT_EQ(Check(kOld), kExitSomething);
  EXPECT_EQ(Check("never.sdk.test"), kExitNothing);
}

TEST_F(Doc01, UninstallCheckCountsDamagedRecordsAndBareHolds) {
  ASSERT_TRUE(MakeDirectories(disk_, JoinPath(data_, "claims"), 0700).ok());
  const std::string record = JoinPath(data_, absl::StrCat("claims/", kUid, ".json"));
  ASSERT_TRUE(disk_.CreateFile(record, "{", 0600, false).ok());
  EXPECT_EQ(Check(), kExitSomething);
  EXPECT_THAT(out_.str(), HasSubstr("unreadable"));
  EXPECT_TRUE(disk_.Stat(record).ok());  // it only looks
  ASSERT_TRUE(disk_.Remove(record).ok());

  records::Hold hold;
  hold.key = "card-0";
  hold.claim = {"ns1", "c2", "7b1f0a52-6c3d-4e8f-9a0b-1c2d3e4f5a6b"};
  hold.devices = {{"n1", "d1", std::nullopt, false, "whole", {}, {}}};
  const std::string held = JoinPath(data_, "held/boot-1/abcd");
  ASSERT_TRUE(MakeDirectories(disk_, held, 0700).ok());
  ASSERT_TRUE(
      disk_.CreateFile(JoinPath(held, hold.claim.uid), records::EncodeHold(hold), 0600, false)
          .ok());
  const auto claims = ReadHeldClaims(disk_, data_, "boot-1");
  ASSERT_TRUE(claims.ok());
  ASSERT_THAT(*claims, SizeIs(1));
  EXPECT_THAT(Describe((*claims)[0]), HasSubstr("ns1/c2"));
  EXPECT_THAT(Describe((*claims)[0]), HasSubstr("held, devices n1/d1"));
  // A hold of another boot holds nothing.
  EXPECT_THAT(*ReadHeldClaims(disk_, data_, "boot-2"), IsEmpty());
}

TEST_F(Doc01, UninstallCheckNeverSaysNothingWhenItCouldNotLook) {
  RecordClaim();
  for (const char* path : {"plugins", "claims", "held"}) {
    SCOPED_TRACE(path);
    ASSERT_TRUE(MakeDirectories(disk_, JoinPath(data_, "held"), 0700).ok());
    fs_.ClearFaults();
    fs_.FailAlways({testing::FileOperation::kList, path}, EACCES);
    EXPECT_EQ(Check(), kExitUnknown);
    EXPECT_THAT(error_.str(), HasSubstr("could not look"));
  }
}

TEST_F(Doc01, UninstallCheckSpeaksJson) {
  RecordClaim();
  EXPECT_EQ(Check(std::nullopt, true), kExitSomething);
  const auto json = ParseJsonObject(out_.str(), "out");
  ASSERT_TRUE(json.ok()) << json.status();
  const Json claim = (*json)["drivers"][0]["claims"][0];
  EXPECT_EQ(StringOr(claim, "uid"), kUid);
  EXPECT_EQ(claim["devices"][0]["device"], "d0");
  EXPECT_EQ(claim["pods"][0], "p1");
}

}  // namespace
}  // namespace dra::driver
