#include "dra/records/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "dra/testing/faulty_file_system.h"
#include "dra/testing/temp_directory.h"

namespace dra::records {
namespace {

using testing::FaultyFileSystem;
using testing::FileOperation;
using ::testing::HasSubstr;

RecordDevice Device(const std::string& device, std::vector<KeyShape> keys = {}) {
  RecordDevice result;
  result.pool = "n1";
  result.device = device;
  result.result = {
      {"request", "r0"}, {"driver", "gpu.sdk.test"}, {"pool", "n1"}, {"device", device}};
  result.exclusion_keys = std::move(keys);
  return result;
}
RecordDevice Share(const std::string& device, const std::string& share, const std::string& amount) {
  RecordDevice result = Device(device);
  result.share_id = share;
  result.result["shareID"] = share;
  result.result["consumedCapacity"] = {{"bandwidth", amount}};
  return result;
}
RecordDevice Admin(RecordDevice device) {
  device.admin_access = true;
  device.result["adminAccess"] = true;
  return device;
}
RecordDevice Consumer(const std::string& device, const std::string& memory) {
  RecordDevice result = Device(device, {{"card-0", "mig"}});
  result.consumes_counters =
      Json::array({{{"counterSet", "card-0"}, {"counters", {{"memory", {{"value", memory}}}}}}});
  return result;
}
Record Claim(const std::string& uid, std::vector<RecordDevice> devices) {
  Record record;
  record.claim = {"ns1", absl::StrCat("claim-", uid), uid};
  record.devices = std::move(devices);
  return record;
}

class LedgerTest : public ::testing::Test {
 protected:
  LedgerTest() : fs_(&posix_), ledger_(&fs_, directory_.Path("held"), "boot-1", IsAlive()) {
    EXPECT_TRUE(ledger_.Open().ok());
    limits_.devices[{"n1", "nic0"}] = {true, {{"bandwidth", "10G"}}};
    limits_.counter_sets[CounterSetKey("n1", "card-0")] = {{"memory", "40Gi"}};
  }
  Ledger::IsAlive IsAlive() {
    return [this](absl::string_view uid) -> absl::StatusOr<bool> { return dead_ != uid; };
  }
  // "" if the claim may have its devices, else the refusal.
  std::string Check(const Record& record, Ledger* ledger = nullptr) {
    const auto conflict = (ledger == nullptr ? &ledger_ : ledger)
                              ->Check(HoldsOf(record), limits_, /*remove_stale=*/true);
    EXPECT_TRUE(conflict.ok()) << conflict.status();
    if (!conflict.ok() || !conflict->has_value()) return "";
    holder_ = (*conflict)->holder.uid;
    return (*conflict)->text;
  }
  void Take(const Record& record) {
    ASSERT_EQ(Check(record), "");
    ASSERT_TRUE(ledger_.Write(HoldsOf(record)).ok());
  }

  testing::TempDirectory directory_;
  PosixFileSystem posix_;
  FaultyFileSystem fs_;
  std::string dead_;
  HoldLimits limits_;
  std::string holder_;
  Ledger ledger_;
};

TEST_F(LedgerTest, ADeviceHeldByAnotherClaimIsRefusedNamingTheHolder) {
  Take(Claim("U1", {Device("d0")}));
  EXPECT_THAT(Check(Claim("U3", {Device("d0")})), HasSubstr("ns1/claim-U1 (uid U1)"));
  EXPECT_EQ(holder_, "U1");
  EXPECT_EQ(Check(Claim("U1", {Device("d0")})), "");
  EXPECT_EQ(Check(Claim("U3", {Device("d1")})), "");
  ASSERT_TRUE(ledger_.Remove("U1", KeysOf(HoldsOf(Claim("U1", {Device("d0")})))).ok());
  EXPECT_EQ(Check(Claim("U3", {Device("d0")})), "");
}

TEST_F(LedgerTest, AdminAccessNeitherRefusesNorIsRefused) {
  Take(Claim("U4", {Admin(Device("d0"))}));
  Take(Claim("U1", {Device("d0")}));
  EXPECT_EQ(Check(Claim("U5", {Admin(Device("d0"))})), "");
  EXPECT_NE(Check(Claim("U6", {Device("d0")})), "");
  EXPECT_EQ(holder_, "U1");
}

TEST_F(LedgerTest, SharesOfADeviceFitInItsCapacity) {
  Take(Claim("U1", {Share("nic0", "s1", "4G")}));
  Take(Claim("U2", {Share("nic0", "s2", "5G")}));
  EXPECT_EQ(Check(Claim("U3", {Share("nic0", "s3", "1G")})), "");
  EXPECT_THAT(Check(Claim("U3", {Share("nic0", "s3", "1001M")})), HasSubstr("bandwidth"));
  EXPECT_THAT(Check(Claim("U3", {Share("nic0", "s2", "0")})), HasSubstr("is held"));
  EXPECT_THAT(Check(Claim("U3", {Device("nic0")})), HasSubstr("is held"));
  EXPECT_THAT(Check(Claim("U3", {Share("nic0", "s3", "6G"), Share("nic0", "s4", "6G")})),
              HasSubstr("bandwidth"));
  limits_.devices[{"n1", "nic0"}].multiple_allocations = false;
  EXPECT_THAT(Check(Claim("U3", {Share("nic0", "s3", "1G")})),
              HasSubstr("does not allow multiple"));
}

TEST_F(LedgerTest, AKeyIsHeldInOneShapeAtATime) {
  Take(Claim("U1", {Device("mig-0", {{"card-0", "mig"}})}));
  EXPECT_EQ(Check(Claim("U2", {Device("mig-1", {{"card-0", "mig"}})})), "");
  EXPECT_THAT(Check(Claim("U2", {Device("gpu-0", {{"card-0", "whole"}})})),
              HasSubstr("held as \"mig\""));
  EXPECT_THAT(Check(Claim("U2", {Device("a", {{"k", "x"}}), Device("b", {{"k", "y"}})})),
              HasSubstr("same claim"));
  EXPECT_EQ(holder_, "");
}

// As the scheduler counts: the first share pays for the device.
TEST_F(LedgerTest, SharesOfOneDevicePayItsCountersOnce) {
  limits_.devices[{"n1", "mig-0"}] = {true, {}};
  const auto share = [](const char* share_id) {
    RecordDevice device = Consumer("mig-0", "30Gi");
    device.share_id = share_id;
    device.result["shareID"] = share_id;
    return device;
  };
  Take(Claim("U1", {share("s1"), share("s2")}));
  Take(Claim("U2", {share("s3")}));
  EXPECT_EQ(Check(Claim("U3", {share("s4"), Consumer("mig-1", "10Gi")})), "");
  EXPECT_THAT(Check(Claim("U3", {share("s4"), Consumer("mig-1", "11Gi")})),
              HasSubstr("41Gi of 40Gi"));
  EXPECT_THAT(Check(Claim("U3", {Consumer("mig-1", "11Gi")})), HasSubstr("41Gi of 40Gi"));
}

TEST_F(LedgerTest, CountersAreNotExceeded) {
  Take(Claim("U1", {Consumer("mig-0", "20Gi")}));
  EXPECT_EQ(Check(Claim("U2", {Consumer("mig-1", "20Gi")})), "");
  EXPECT_THAT(Check(Claim("U2", {Consumer("mig-1", "21Gi")})), HasSubstr("41Gi of 40Gi"));
  EXPECT_EQ(holder_, "U1");
  EXPECT_THAT(Check(Claim("U2", {Consumer("mig-1", "10Gi"), Consumer("mig-2", "11Gi")})),
              HasSubstr("memory"));
  EXPECT_EQ(Check(Claim("U2", {Admin(Consumer("mig-1", "40Gi"))})), "");
  limits_.counter_sets.clear();
  EXPECT_THAT(Check(Claim("U2", {Consumer("mig-1", "1Gi")})), HasSubstr("does not know"));
}

TEST_F(LedgerTest, AHoldThatNobodyStandsBehindIsStale) {
  Take(Claim("U1", {Device("d0")}));
  dead_ = "U1";
  const Record wanted = Claim("U3", {Device("d0")});
  const auto look = ledger_.Check(HoldsOf(wanted), limits_, /*remove_stale=*/false);
  EXPECT_TRUE(look.ok() && !look->has_value());
  EXPECT_EQ(ledger_.All()->size(), 1u);
  EXPECT_EQ(Check(wanted), "");
  EXPECT_TRUE(ledger_.All()->empty());
}

TEST_F(LedgerTest, AnotherInstanceSeesTheHoldsAndAnotherBootDoesNot) {
  Take(Claim("U1", {Device("d0")}));
  Ledger other(&posix_, directory_.Path("held"), "boot-1", IsAlive());
  ASSERT_TRUE(other.Open().ok());
  EXPECT_NE(Check(Claim("U3", {Device("d0")}), &other), "");
  EXPECT_THAT(other.KnownKeys("U1"), ::testing::ElementsAre("device/n1/d0"));
  Ledger rebooted(&posix_, directory_.Path("held"), "boot-2", IsAlive());
  ASSERT_TRUE(rebooted.Open().ok());
  EXPECT_EQ(Check(Claim("U3", {Device("d0")}), &rebooted), "");
  EXPECT_THAT(*posix_.List(directory_.Path("held")), ::testing::ElementsAre("boot-2"));
}

TEST_F(LedgerTest, ADirectoryThatCannotBeReadIsAnErrorAndNotFree) {
  Take(Claim("U1", {Device("d0")}));
  for (const FileOperation operation : {FileOperation::kList, FileOperation::kStat}) {
    fs_.FailNth(1, {operation, "held"}, EIO);
    EXPECT_FALSE(ledger_.Check(HoldsOf(Claim("U3", {Device("d0")})), limits_, true).ok());
  }
}

TEST_F(LedgerTest, ADamagedHoldHoldsEverythingOfItsKey) {
  const std::string path = ledger_.PathFor("device/n1/d0", "U1");
  ASSERT_TRUE(MakeDirectories(posix_, DirectoryName(path), 0700).ok());
  ASSERT_TRUE(posix_.CreateFile(path, "{", 0600, false).ok());
  EXPECT_NE(Check(Claim("U3", {Device("d0")})), "");
  EXPECT_EQ(holder_, "U1");
}

TEST_F(LedgerTest, AWriteThatFailsLeavesNothing) {
  const Record record = Claim("U1", {Device("d0"), Device("d1"), Device("d2")});
  for (int n = 1; n <= 9; ++n) {
    fs_.FailNth(n, {}, ENOSPC);
    if (ledger_.Write(HoldsOf(record)).ok()) {
      fs_.ClearFaults();
      ASSERT_TRUE(ledger_.Remove("U1", KeysOf(HoldsOf(record))).ok());
    }
    fs_.ClearFaults();
    EXPECT_TRUE(ledger_.All()->empty()) << n;
  }
}

TEST_F(LedgerTest, ACheckCostsTheHoldersOfItsKeyOnly) {
  for (int i = 0; i < 50; ++i) Take(Claim(absl::StrCat("U", i), {Device(absl::StrCat("d", i))}));
  fs_.ResetCount();
  EXPECT_NE(Check(Claim("X", {Device("d7")})), "");
  EXPECT_LE(fs_.count(), 3);  // list, stat, perhaps a read
  fs_.ResetCount();
  EXPECT_NE(Check(Claim("X", {Device("d7")})), "");
  EXPECT_LE(fs_.count(), 2);  // the content is cached
}

TEST_F(LedgerTest, AHoldIsPlacedByRenameWithoutFsync) {
  fs_.ResetCount();
  ASSERT_TRUE(ledger_.Write(HoldsOf(Claim("U1", {Device("d0")}))).ok());
  EXPECT_EQ(fs_.Count({FileOperation::kSyncDirectory, ""}), 0);
  EXPECT_EQ(fs_.Count({FileOperation::kRename, ""}), 1);
  for (const auto& operation : fs_.Log()) EXPECT_FALSE(operation.sync);
}

}  // namespace
}  // namespace dra::records
