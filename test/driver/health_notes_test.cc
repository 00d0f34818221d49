#include "driver/health_notes.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "dra/testing/fake_clock.h"
#include "dra/testing/faulty_file_system.h"
#include "dra/testing/temp_directory.h"

namespace dra::driver {
namespace {

using inventory::Fault;
using loader::HealthState;

// An instance of the driver, as far as its health goes; several share the directory.
struct Instance {
  Instance(FileSystem* fs, Clock* clock, const std::string& directory)
      : inventory({"gpu.sdk.test", "n1", false, ""}, clock, Logger()),
        notes({"gpu.sdk.test", "n1", directory}, fs, &inventory, clock, &metrics, Logger()) {}

  absl::Status Discover(const std::vector<std::pair<std::string, std::string>>& devices) {
    loader::DiscoverResult found;
    for (const auto& [name, identity] : devices) {
      loader::DiscoverItem item;
      item.device = loader::DiscoveredDevice{{{"name", name}}, identity, "", {{"card", "part"}}};
      found.items.push_back(item);
    }
    const absl::Status loaded = notes.Load(found);
    if (loaded.ok()) inventory.Update(found, loader::ServerFields(), {});
    return loaded;
  }
  absl::Status Report(const std::string& device, HealthState state,
                      const std::string& clears_with = "") {
    loader::DeviceHealth health;
    health.device = device;
    health.state = state;
    health.fault_class = state == HealthState::kUnhealthy ? "ecc" : "";
    health.clears_with = clears_with;
    notes.TakeForeignEvidence();
    inventory.UpdateHealth({health});
    return notes.Save();
  }
  bool Sick(const std::string& device) {
    const auto snapshot = inventory.Get();
    const inventory::Device* found = snapshot->FindDevice("n1", device);
    return found != nullptr && found->health.state == HealthState::kUnhealthy;
  }

  observe::Metrics metrics;
  inventory::Inventory inventory;
  HealthNotes notes;
};

class Hlt01Notes : public ::testing::Test {
 protected:
  std::unique_ptr<Instance> Start() {
    return std::make_unique<Instance>(&fs_, &clock_, directory_.Path("notes"));
  }

  testing::TempDirectory directory_;
  PosixFileSystem disk_;
  testing::FaultyFileSystem fs_{&disk_};
  testing::FakeClock clock_;
};

TEST_F(Hlt01Notes, ARestartAloneMakesNoDeviceHealthy) {
  auto first = Start();
  ASSERT_TRUE(first->Discover({{"d0", "A"}, {"d1", "B"}}).ok());
  ASSERT_TRUE(first->Report("d0", HealthState::kUnhealthy).ok());
  for (int restart = 0; restart < 3; ++restart) {
    auto next = Start();
    ASSERT_TRUE(next->Discover({{"d0", "A"}, {"d1", "B"}}).ok());
    EXPECT_TRUE(next->Sick("d0"));
    EXPECT_FALSE(next->Sick("d1"));
  }
  auto last = Start();
  ASSERT_TRUE(last->Discover({{"d0", "A"}}).ok());
  ASSERT_TRUE(last->Report("d0", HealthState::kHealthy).ok());
  auto after = Start();
  ASSERT_TRUE(after->Discover({{"d0", "A"}}).ok());
  EXPECT_FALSE(after->Sick("d0"));
}

TEST_F(Hlt01Notes, AFaultFollowsTheHardwareAndNotTheName) {
  auto first = Start();
  ASSERT_TRUE(first->Discover({{"d0", "A"}}).ok());
  ASSERT_TRUE(first->Report("d0", HealthState::kUnhealthy).ok());
  auto renamed = Start();
  ASSERT_TRUE(renamed->Discover({{"card-7", "A"}, {"d0", "C"}}).ok());
  EXPECT_TRUE(renamed->Sick("card-7"));
  EXPECT_FALSE(renamed->Sick("d0"));
}

TEST_F(Hlt01Notes, DevicesOfOneIdentityHaveTheirOwnFaults) {
  auto first = Start();
  ASSERT_TRUE(first->Discover({{"p0", "A"}, {"p1", "A"}}).ok());
  ASSERT_TRUE(first->Report("p1", HealthState::kUnhealthy).ok());
  auto next = Start();
  ASSERT_TRUE(next->Discover({{"p0", "A"}, {"p1", "A"}}).ok());
  EXPECT_FALSE(next->Sick("p0"));
  EXPECT_TRUE(next->Sick("p1"));
}

TEST_F(Hlt01Notes, ADeviceThatComesBackIsLookedUpAgain) {
  auto instance = Start();
  ASSERT_TRUE(instance->Discover({{"d0", "A"}}).ok());
  ASSERT_TRUE(instance->Report("d0", HealthState::kUnhealthy).ok());
  ASSERT_TRUE(instance->Discover({}).ok());
  ASSERT_TRUE(instance->Discover({{"d0", "A"}}).ok());
  EXPECT_TRUE(instance->Sick("d0"));
}

TEST_F(Hlt01Notes, AnUnchangedReportWritesNothing) {
  auto instance = Start();
  ASSERT_TRUE(instance->Discover({{"d0", "A"}}).ok());
  ASSERT_TRUE(instance->Report("d0", HealthState::kUnhealthy).ok());
  const int writes = fs_.Count({testing::FileOperation::kCreateFile, ""});
  EXPECT_EQ(writes, 1);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(instance->Report("d0", HealthState::kUnhealthy).ok());
  EXPECT_EQ(fs_.Count({testing::FileOperation::kCreateFile, ""}), writes);
  EXPECT_EQ(instance->metrics.Value("dra_health_notes_total",
                                    {{"driver", "gpu.sdk.test"}, {"code", "OK"}}),
            1);
}

TEST_F(Hlt01Notes, WhatCouldNotBeWrittenIsWrittenLater) {
  auto instance = Start();
  ASSERT_TRUE(instance->Discover({{"d0", "A"}}).ok());
  fs_.FailAlways({testing::FileOperation::kCreateFile, ""}, ENOSPC);
  EXPECT_FALSE(instance->Report("d0", HealthState::kUnhealthy).ok());
  EXPECT_TRUE(instance->Sick("d0"));
  fs_.ClearFaults();
  EXPECT_TRUE(instance->Report("d0", HealthState::kUnhealthy).ok());
  auto next = Start();
  ASSERT_TRUE(next->Discover({{"d0", "A"}}).ok());
  EXPECT_TRUE(next->Sick("d0"));
}

TEST_F(Hlt01Notes, ANoteThatCannotBeReadNeverMeansHealthy) {
  auto first = Start();
  ASSERT_TRUE(first->Discover({{"d0", "A"}}).ok());
  ASSERT_TRUE(first->Report("d0", HealthState::kUnhealthy).ok());
  auto blind = Start();
  fs_.FailAlways({testing::FileOperation::kReadFile, ""}, EIO);
  EXPECT_FALSE(blind->Discover({{"d0", "A"}}).ok());
  EXPECT_FALSE(blind->inventory.Get()->known);
  fs_.ClearFaults();

  std::string note;
  for (const testing::FileOperationRecord& record : fs_.Log()) {
    if (record.operation == testing::FileOperation::kRename) note = record.to;
  }
  ASSERT_TRUE(disk_.Remove(note).ok());
  ASSERT_TRUE(disk_.CreateFile(note, "{\"identity\":", 0600, false).ok());
  auto damaged = Start();
  ASSERT_TRUE(damaged->Discover({{"d0", "A"}}).ok());
  EXPECT_TRUE(damaged->Sick("d0"));
  ASSERT_TRUE(damaged->Report("d0", HealthState::kHealthy).ok());
  EXPECT_TRUE(damaged->Sick("d0"));
  ASSERT_TRUE(damaged->inventory.ClearFault("n1", "d0", {"looked at", "ops", clock_.Now()}).ok());
  ASSERT_TRUE(damaged->notes.Save().ok());
  auto next = Start();
  ASSERT_TRUE(next->Discover({{"d0", "A"}}).ok());
  EXPECT_FALSE(next->Sick("d0"));
}

TEST_F(Hlt01Notes, EvidenceThatOneInstanceNotedCountsForTheOther) {
  auto first = Start();
  auto second = Start();
  for (Instance* instance : {first.get(), second.get()}) {
    ASSERT_TRUE(instance->Discover({{"d0", "A"}}).ok());
    ASSERT_TRUE(instance->Report("d0", HealthState::kUnhealthy, "reset").ok());
    ASSERT_TRUE(instance->Report("d0", HealthState::kHealthy).ok());
    EXPECT_TRUE(instance->Sick("d0"));
  }
  clock_.Advance(absl::Seconds(5));
  ASSERT_TRUE(first->inventory.ClearFault("n1", "d0", {"reset", "ops", clock_.Now()}).ok());
  ASSERT_TRUE(first->notes.Save().ok());
  ASSERT_TRUE(second->Report("d0", HealthState::kHealthy).ok());
  EXPECT_FALSE(second->Sick("d0"));
  // It was for that fault: the next one asks anew.
  clock_.Advance(absl::Seconds(5));
  ASSERT_TRUE(second->Report("d0", HealthState::kUnhealthy, "reset").ok());
  clock_.Advance(absl::Hours(1));
  ASSERT_TRUE(second->Report("d0", HealthState::kHealthy).ok());
  EXPECT_TRUE(second->Sick("d0"));
}

TEST(HealthNote, KeepsWhatItWasGivenAndRefusesWhatItDoesNotKnow) {
  Fault fault;
  fault.identity = "A";
  fault.pool = "n1";
  fault.device = "d0";
  fault.sick = true;
  fault.fault_class = "ecc";
  fault.message = "bits flip";
  fault.remedy = "reset";
  fault.clears_with = "reset";
  fault.since = absl::FromUnixSeconds(1767225600);
  fault.flaps = 3;
  fault.evidence = {"reset", "ops", absl::FromUnixSeconds(1767225700)};
  fault.severity = loader::FaultSeverity::kCritical;
  fault.effect = inventory::TaintEffect::kNoExecute;
  fault.effect_since = absl::FromUnixSeconds(1767225650);
  const auto decoded = DecodeFaults(EncodeFaults({fault}), "A");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, std::vector<Fault>{fault});
  for (const char* text : {"", "[]", "{}", R"({"format":2,"devices":[]})",
                           R"({"format":1,"devices":[{"state":"fine"}]})"}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeFaults(text, "A").status())) << text;
  }
}

TEST(HealthNote, OfAnEarlierReleaseHasNoSeverityAndTheTaintOfThen) {
  const auto decoded = DecodeFaults(
      R"({"format":1,"devices":[{"pool":"n1","device":"d0","state":"unhealthy","faultClass":"ecc",
          "since":"2026-01-01T00:00:00Z"}]})",
      "A");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->at(0).severity, loader::FaultSeverity::kUnset);
  EXPECT_EQ(decoded->at(0).effect, inventory::TaintEffect::kNoSchedule);
  EXPECT_EQ(decoded->at(0).effect_since, decoded->at(0).since);
}

TEST(HealthNote, OfManyDevicesStaysSmall) {
  std::vector<Fault> faults(100);
  for (Fault& fault : faults) {
    fault.pool = fault.device = fault.fault_class = fault.clears_with = std::string(63, 'a');
    fault.severity = loader::FaultSeverity::kCritical;
    fault.effect = inventory::TaintEffect::kNoExecute;
    fault.since = fault.evidence.at = absl::FromUnixSeconds(1767225600);
    fault.effect_since = fault.since + absl::Nanoseconds(1);
    fault.message = fault.remedy = fault.evidence.text = fault.evidence.by = std::string(1000, 'b');
  }
  EXPECT_LT(EncodeFaults(faults).size(), size_t{64} << 10);
}

}  // namespace
}  // namespace dra::driver
