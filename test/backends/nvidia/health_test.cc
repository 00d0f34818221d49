#include "health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "discovery.h"
#include "driver_epoch.h"
#include "test/backends/nvidia/fake_nvml.h"

namespace nvidia {
namespace {

using dra::HealthKind;
using dra::HealthReport;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kFirstUuid[] = "GPU-00000000-06c0-7d70-1a51-e59b25b2c16c";
constexpr char kSecondUuid[] = "GPU-11111111-06c0-7d70-1a51-e59b25b2c16c";
constexpr auto kLong = std::chrono::hours(1);

class HealthTest : public ::testing::Test {
 protected:
  HealthTest() {
    options_.poll = milliseconds(5);
    options_.event_shown = milliseconds(50);
    options_.epoch = "boot-1";
    options_.read_note = [this](const std::string& identity) -> std::optional<std::string> {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (notes_fail_) throw std::runtime_error("disk full");
      const auto at = notes_.find(identity);
      return at == notes_.end() ? std::nullopt : std::optional<std::string>(at->second);
    };
    options_.write_note = [this](const std::string& identity, const std::string& text) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (notes_fail_) throw std::runtime_error("disk full");
      notes_[identity] = text;
      ++writes_;
    };
    options_.changed = [this] { ++changes_; };
    options_.inventory_changed = [this] { ++layouts_; };
    options_.layout_pause = milliseconds(1);
    options_.log = [this](const std::string& text) {
      const std::lock_guard<std::mutex> lock(mutex_);
      log_.push_back(text);
    };
  }

  FakeNvml::Gpu& AddMigGpu() {
    FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
    gpu.mig = true;
    for (unsigned i = 0; i < 2; ++i) {
      gpu.instances.push_back(std::make_unique<FakeNvml::Mig>());
      gpu.instances[i]->uuid = "MIG-" + std::to_string(i);
      gpu.instances[i]->gpu_instance = 7 + i;
      gpu.instances[i]->start = i;
    }
    return gpu;
  }
  // A watch of what is there; a new one for each call, as after a restart.
  void Start() {
    watch_.reset();
    watch_ = std::make_unique<HealthWatch>(nvml_, options_);
    watch_->Watch(LookAtNode(*nvml_, [] {}));
  }
  HealthReport Report(const std::string& device) const {
    for (HealthReport& report : watch_->Health()) {
      if (report.device == device) return report;
    }
    return {.device = "(none)"};
  }
  HealthReport Report(const char* uuid) const { return Report(GpuDeviceName(uuid)); }
  HealthReport Instance(unsigned start) const {
    return Report(GpuDeviceName(kFirstUuid) + "-mig-1g5gb-" + std::to_string(start));
  }
  // Waits, a bounded time, until `true_now`.
  template <typename Condition>
  static bool Eventually(Condition true_now) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!true_now()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return true;
  }
  bool Becomes(const char* uuid, HealthKind state) const {
    return Eventually([&] { return Report(uuid).state == state; });
  }
  std::vector<std::string> LogLines() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return log_;
  }
  int SetsSoFar() {
    const std::lock_guard<std::mutex> lock(fake_.mutex);
    return fake_.sets_so_far;
  }
  // Waits until the layout was looked at twice more: once from its beginning to its end.
  bool LooksAtLayout(const FakeNvml::Gpu& gpu) {
    const auto looks = [&] {
      const std::lock_guard<std::mutex> lock(fake_.mutex);
      return gpu.layout_looks;
    };
    const int before = looks();
    return Eventually([&] { return looks() > before + 1; });
  }
  size_t Notes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return notes_.size();
  }

  std::shared_ptr<NvmlLibrary> nvml_ = FakeNvml::Library();
  FakeNvml& fake_ = FakeNvml::Get();
  HealthOptions options_;
  std::mutex mutex_;
  std::map<std::string, std::string> notes_;
  std::vector<std::string> log_;
  int writes_ = 0;
  bool notes_fail_ = false;
  std::atomic<int> changes_ = 0, layouts_ = 0;
  std::unique_ptr<HealthWatch> watch_;  // last: its threads use the rest
};

TEST_F(HealthTest, AGpuIsHealthyOnceItsEventsAreWatchedAndItsStateIsKnown) {
  fake_.Add(kFirstUuid);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "");
  EXPECT_TRUE(Eventually([&] { return changes_ > 0; }));
  watch_.reset();
  EXPECT_EQ(fake_.open_sets, 0);
}

TEST_F(HealthTest, Hlt03_WithoutEventsAGpuIsUnknownAndTriedAgain) {
  FakeNvml::Gpu& first = fake_.Add(kFirstUuid);
  fake_.Add(kSecondUuid);
  first.fails["nvmlDeviceRegisterEvents"] = nvml::kUnknown;
  Start();
  ASSERT_TRUE(Becomes(kSecondUuid, HealthKind::kHealthy));
  ASSERT_TRUE(Eventually([&] {
    return Report(kFirstUuid).message.find("nvmlDeviceRegisterEvents") != std::string::npos;
  }));
  EXPECT_EQ(Report(kFirstUuid).state, HealthKind::kUnknown);
  EXPECT_THAT(LogLines(), SizeIs(1));  // not with every try
  fake_.Set([&] { first.fails.clear(); });
  EXPECT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
}

TEST_F(HealthTest, Hlt03_AGpuWithoutXidEventsStaysUnknown) {
  fake_.Add(kFirstUuid).supported_events = nvml::kEventDoubleBitEcc;
  Start();
  EXPECT_TRUE(Eventually(
      [&] { return Report(kFirstUuid).message.find("no XID events") != std::string::npos; }));
  EXPECT_EQ(Report(kFirstUuid).state, HealthKind::kUnknown);
}

TEST_F(HealthTest, Hlt03_WithoutAnEventSetNothingIsHealthyUntilThereIsOne) {
  fake_.Add(kFirstUuid);
  fake_.fails["nvmlEventSetCreate"] = nvml::kMemory;
  Start();
  ASSERT_TRUE(Eventually(
      [&] { return Report(kFirstUuid).message.find("nvmlEventSetCreate") != std::string::npos; }));
  fake_.Set([&] { fake_.fails.clear(); });
  EXPECT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
}

TEST_F(HealthTest, Hlt03_AWaitThatFailsIsNotHealthyNowAndThen) {
  fake_.Add(kFirstUuid);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.Set([&] { fake_.fails["nvmlEventSetWait_v2"] = nvml::kUnknown; });
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnknown));
  EXPECT_THAT(Report(kFirstUuid).message, HasSubstr("nvmlEventSetWait"));
  ASSERT_TRUE(Eventually([&] { return LogLines().size() == 1; }));
  const int before = changes_;
  // It is tried again and again, and makes no noise.
  const int sets = SetsSoFar();
  ASSERT_TRUE(Eventually([&] {
    EXPECT_EQ(Report(kFirstUuid).state, HealthKind::kUnknown);
    return SetsSoFar() > sets + 1;
  }));
  EXPECT_LE(changes_ - before, 1);
  EXPECT_THAT(LogLines(), SizeIs(1));
  fake_.Set([&] { fake_.fails.clear(); });
  EXPECT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
}

TEST_F(HealthTest, AnXidIsAFaultOfItsGpuAloneWithClassAndRemedy) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  fake_.Add(kSecondUuid);
  options_.event_shown = kLong;
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  ASSERT_TRUE(Becomes(kSecondUuid, HealthKind::kHealthy));
  fake_.SendXid(&gpu, 48);
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  const HealthReport report = Report(kFirstUuid);
  EXPECT_EQ(report.fault_class, "ecc-uncorrectable");
  EXPECT_THAT(report.message, HasSubstr("XID 48"));
  EXPECT_THAT(report.remedy, HasSubstr("reset"));
  EXPECT_EQ(report.clears_with, "gpu-reset");
  EXPECT_EQ(report.severity, dra::FaultSeverity::kMajor);
  EXPECT_EQ(Report(kSecondUuid).state, HealthKind::kHealthy);
  EXPECT_EQ(Report(kSecondUuid).severity, dra::FaultSeverity::kUnset);
}

TEST_F(HealthTest, XidsOfApplicationsAndIgnoredOnesAreNoFault) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  options_.ignored_xids = {155};
  options_.event_shown = kLong;
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  for (const uint64_t xid : {13, 31, 43, 45, 68, 109, 155}) fake_.SendXid(&gpu, xid);
  fake_.SendXid(&gpu, 32);
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  EXPECT_EQ(Report(kFirstUuid).message, "XID 32");
  EXPECT_EQ(Report(kFirstUuid).fault_class, "xid-32");
}

TEST_F(HealthTest, Hlt01_AnEventIsToldAndThenTheHostsToRemember) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.SendXid(&gpu, 95);
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "");  // no evidence that it has gone
}

TEST_F(HealthTest, Hlt01_AnEventIsNotForgottenBeforeItWasTold) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  options_.event_shown = milliseconds(0);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.SendXid(&gpu, 95);
  ASSERT_TRUE(Eventually([&] { return Notes() == 1; }));
  const int seen = changes_;
  ASSERT_GT(seen, 0);
  EXPECT_EQ(Report(kFirstUuid).state, HealthKind::kUnhealthy);
  EXPECT_EQ(Report(kFirstUuid).state, HealthKind::kHealthy);
}

TEST_F(HealthTest, Hlt01_ARestartIsNoEvidenceANewBootOrDriverIs) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.SendXid(&gpu, 79);
  ASSERT_TRUE(Eventually([&] { return Notes() == 1; }));
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "");
  options_.epoch = "boot-2";
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "gpu-reset");
  // A new fault needs new evidence.
  fake_.SendXid(&gpu, 79);
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_TRUE(Eventually([&] { return Report(kFirstUuid).clears_with.empty(); }));
}

TEST_F(HealthTest, WithoutAnEpochANewBootIsNotSeen) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.SendXid(&gpu, 79);
  ASSERT_TRUE(Eventually([&] { return Notes() == 1; }));
  options_.epoch = "";
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "");
}

TEST_F(HealthTest, WhatNeedsAnOperatorIsEndedByNothingElse) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.SendXid(&gpu, 64);
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "operator");
  ASSERT_TRUE(Eventually([&] { return Notes() == 1; }));
  options_.epoch = "boot-2";
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "");
}

TEST_F(HealthTest, ErrorCountersThatGrowAreAFaultAndThatBeginAnewAreAReset) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  gpu.uncorrected = 3;  // of before: nothing new
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.Set([&] { gpu.uncorrected = 5; });
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  EXPECT_EQ(Report(kFirstUuid).fault_class, "ecc-uncorrectable");
  EXPECT_THAT(Report(kFirstUuid).message, HasSubstr("5"));
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "");
  fake_.Set([&] { gpu.uncorrected = 0; });
  EXPECT_TRUE(Eventually([&] { return Report(kFirstUuid).clears_with == "gpu-reset"; }));
  EXPECT_EQ(Report(kFirstUuid).state, HealthKind::kHealthy);
  // The same after a restart.
  Start();
  EXPECT_TRUE(Eventually([&] { return Report(kFirstUuid).clears_with == "gpu-reset"; }));
}

TEST_F(HealthTest, AResetThatNvmlAskedForIsEvidenceWhenItIsMade) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.SendXid(&gpu, 119);
  ASSERT_TRUE(Eventually([&] { return Notes() == 1; }));
  fake_.Set([&] { gpu.fails["nvmlDeviceGetMemoryInfo"] = nvml::kResetRequired; });
  ASSERT_TRUE(Eventually([&] { return Report(kFirstUuid).fault_class == "reset-required"; }));
  fake_.Set([&] { gpu.fails.clear(); });
  EXPECT_TRUE(Eventually([&] {
    return Report(kFirstUuid).state == HealthKind::kHealthy &&
           Report(kFirstUuid).clears_with == "gpu-reset";
  }));
  // It is none for a fault that comes later.
  fake_.SendXid(&gpu, 119);
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "");
}

TEST_F(HealthTest, AGpuThatIsLostAndComesBackIsNotWellByThatAlone) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  FakeNvml::Gpu& other = fake_.Add(kSecondUuid);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.Set([&] {
    gpu.fails["*"] = nvml::kGpuIsLost;
    gpu.fails["nvmlDeviceGetHandleByUUID"] = nvml::kGpuIsLost;
    gpu.fails["nvmlDeviceGetHandleByIndex_v2"] = nvml::kGpuIsLost;
  });
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  EXPECT_EQ(Report(kFirstUuid).fault_class, "fallen-off-the-bus");
  EXPECT_EQ(Report(kFirstUuid).clears_with, "gpu-reset");
  // A discovery that cannot look at it does not end the watch.
  watch_->Watch(LookAtNode(*nvml_, [] {}));
  EXPECT_EQ(Report(kFirstUuid).state, HealthKind::kUnhealthy);
  // Its events name it all the same, and those of the others go on.
  fake_.SendXid(&gpu, 79);
  ASSERT_TRUE(
      Eventually([&] { return Report(kFirstUuid).message.find("XID 79") != std::string::npos; }));
  ASSERT_TRUE(Becomes(kSecondUuid, HealthKind::kHealthy));
  fake_.SendXid(&other, 62);
  ASSERT_TRUE(Becomes(kSecondUuid, HealthKind::kUnhealthy));
  fake_.Set([&] { gpu.fails.clear(); });
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "");
  const std::lock_guard<std::mutex> lock(fake_.mutex);
  EXPECT_TRUE(gpu.registered);
}

TEST_F(HealthTest, AGpuThatWasTakenAwayIsWatchedNoMore) {
  fake_.Add(kFirstUuid);
  fake_.Add(kSecondUuid);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  NodeHardware node = LookAtNode(*nvml_, [] {});
  node.gpus.erase(node.gpus.begin());
  watch_->Watch(node);
  EXPECT_THAT(watch_->Health(), SizeIs(1));
}

TEST_F(HealthTest, PolledStatesAreFaultsAsLongAsTheyLast) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  Start();
  struct Case {
    const char* name;
    std::function<void(bool)> set;
    const char* fault_class;
    const char* clears_with;
  };
  const Case cases[] = {
      {"rows pending", [&](bool on) { gpu.rows_pending = on; }, "ecc-repair-pending", ""},
      {"rows failed", [&](bool on) { gpu.rows_failed = on; }, "ecc-repair-failed", "operator"},
      {"pages pending", [&](bool on) { gpu.pages_pending = on; }, "ecc-repair-pending", ""},
      {"fabric not started", [&](bool on) { gpu.fabric_state = on ? 1 : 0; }, "fabric-not-ready",
       ""},
      {"fabric in progress", [&](bool on) { gpu.fabric_state = on ? 2 : 0; }, "fabric-not-ready",
       ""},
      {"fabric failed",
       [&](bool on) {
         gpu.fabric_state = 3;
         gpu.fabric_status = on ? nvml::kUnknown : nvml::kSuccess;
       },
       "fabric-failed", ""},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
    fake_.Set([&] { one.set(true); });
    ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
    EXPECT_EQ(Report(kFirstUuid).fault_class, one.fault_class);
    EXPECT_EQ(Report(kFirstUuid).clears_with, one.clears_with);
    fake_.Set([&] { one.set(false); });
    ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  }
}

TEST_F(HealthTest, OfSeveralFaultsTheOneThatAsksForMoreCounts) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  gpu.rows_pending = gpu.rows_failed = 1;
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  EXPECT_EQ(Report(kFirstUuid).fault_class, "ecc-repair-failed");
  EXPECT_THAT(Report(kFirstUuid).message,
              AllOf(HasSubstr("could not be remapped"), HasSubstr("next reset")));
}

TEST_F(HealthTest, OfSeveralFaultsTheMostSevereIsTheClassAndAllOfThemHaveToEnd) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  gpu.rows_failed = 1;
  options_.event_shown = kLong;
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  EXPECT_EQ(Report(kFirstUuid).severity, dra::FaultSeverity::kMajor);
  fake_.SendXid(&gpu, 79);
  ASSERT_TRUE(Eventually([&] { return Report(kFirstUuid).fault_class == "fallen-off-the-bus"; }));
  const HealthReport report = Report(kFirstUuid);
  EXPECT_EQ(report.severity, dra::FaultSeverity::kCritical);
  EXPECT_EQ(report.clears_with, "operator");
  EXPECT_THAT(report.message, AllOf(HasSubstr("XID 79"), HasSubstr("could not be remapped")));
  EXPECT_THAT(report.remedy,
              AllOf(HasSubstr("reboot the node"),
                    HasSubstr("then, for ecc-repair-failed: have the card checked")));
}

TEST_F(HealthTest, WhatTheGpuDoesNotHaveIsNoFault) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  for (const char* function :
       {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetRemappedRows", "nvmlDeviceGetGpuFabricInfoV",
        "nvmlDeviceGetRetiredPagesPendingStatus", "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetFieldValues"}) {
    gpu.fails[function] = nvml::kNotSupported;
  }
  Start();
  EXPECT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
}

TEST_F(HealthTest, AnAnswerThatFailsMakesTheGpuUnknown) {
  fake_.Add(kFirstUuid).fails["nvmlDeviceGetRemappedRows"] = nvml::kUnknown;
  fake_.Add(kSecondUuid);
  Start();
  ASSERT_TRUE(Becomes(kSecondUuid, HealthKind::kHealthy));
  ASSERT_TRUE(Eventually([&] {
    return Report(kFirstUuid).message.find("nvmlDeviceGetRemappedRows") != std::string::npos;
  }));
  EXPECT_EQ(Report(kFirstUuid).state, HealthKind::kUnknown);
}

TEST_F(HealthTest, AnEventOfAMigInstanceIsThatInstancesAlone) {
  FakeNvml::Gpu& gpu = AddMigGpu();
  options_.event_shown = kLong;
  Start();
  ASSERT_TRUE(Eventually([&] {
    return Instance(0).state == HealthKind::kHealthy && Instance(1).state == HealthKind::kHealthy;
  }));
  EXPECT_THAT(watch_->Health(), SizeIs(2));  // the card itself is no device
  fake_.SendXid(&gpu, 94, 8, 0);
  ASSERT_TRUE(Eventually([&] { return Instance(1).state == HealthKind::kUnhealthy; }));
  EXPECT_EQ(Instance(0).state, HealthKind::kHealthy);
  // An instance that nobody is served.
  fake_.SendXid(&gpu, 94, 5, 0);
  ASSERT_TRUE(Eventually([&] { return LogLines().size() == 2; }));
  EXPECT_THAT(LogLines()[1], HasSubstr("no device that is served"));
  EXPECT_EQ(Instance(0).state, HealthKind::kHealthy);
  // One of the card is every instance's.
  fake_.SendXid(&gpu, 79);
  ASSERT_TRUE(Eventually([&] { return Instance(0).state == HealthKind::kUnhealthy; }));
  EXPECT_THAT(Instance(1).message, HasSubstr("XID 79"));
}

TEST_F(HealthTest, AnEventWithTheHandleOfAMigInstanceFindsItsGpu) {
  FakeNvml::Gpu& gpu = AddMigGpu();
  options_.event_shown = kLong;
  Start();
  ASSERT_TRUE(Eventually([&] { return Instance(1).state == HealthKind::kHealthy; }));
  fake_.Set([&] {
    fake_.events.push_back({FakeNvml::HandleOf(gpu.instances[1].get()), nvml::kEventXid, 94, 8, 0});
  });
  EXPECT_TRUE(Eventually([&] { return Instance(1).state == HealthKind::kUnhealthy; }));
  EXPECT_EQ(Instance(0).state, HealthKind::kHealthy);
}

TEST_F(HealthTest, AStateOfACardIsThatOfItsInstances) {
  AddMigGpu().rows_failed = 1;
  Start();
  EXPECT_TRUE(Eventually([&] {
    return Instance(0).state == HealthKind::kUnhealthy &&
           Instance(1).state == HealthKind::kUnhealthy;
  }));
}

TEST_F(HealthTest, AnEventOfNoGpuThatIsKnownMakesAllUnknownForAWhile) {
  fake_.Add(kFirstUuid);
  int nobody = 0;
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.Set([&] {
    fake_.events.push_back(
        {FakeNvml::HandleOf(&nobody), nvml::kEventXid, 48, nvml::kNoInstance, nvml::kNoInstance});
  });
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnknown));
  EXPECT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_THAT(LogLines(), ElementsAre(HasSubstr("XID 48")));
}

TEST_F(HealthTest, ALostDriverMakesAllUnknownAndIsSaidOnce) {
  fake_.Add(kFirstUuid);
  fake_.Add(kSecondUuid);
  Start();
  ASSERT_TRUE(Becomes(kSecondUuid, HealthKind::kHealthy));
  EXPECT_EQ(watch_->LibraryLost(), std::nullopt);
  fake_.Set([&] {
    fake_.fails["nvmlDeviceGetMemoryInfo"] = nvml::kLibRmVersionMismatch;  // of each GPU
  });
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnknown));
  EXPECT_EQ(Report(kSecondUuid).state, HealthKind::kUnknown);
  EXPECT_THAT(Report(kSecondUuid).message, HasSubstr("NVML error 18"));
  EXPECT_TRUE(watch_->LibraryLost().has_value());
  EXPECT_TRUE(Eventually([&] { return LogLines().size() == 1; }));
  watch_.reset();
  EXPECT_THAT(LogLines(), SizeIs(1));
}

TEST_F(HealthTest, ALibraryThatHangsIsUnknownAndHealthDoesNotWaitForIt) {
  fake_.Add(kFirstUuid);
  options_.stale = milliseconds(50);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  const int before = changes_;
  fake_.Set([&] { fake_.hangs = "nvmlDeviceGetMemoryInfo"; });
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnknown));
  EXPECT_THAT(Report(kFirstUuid).message, HasSubstr("not answered"));
  EXPECT_TRUE(Eventually([&] { return changes_ > before; }));
  fake_.Set([&] { fake_.hangs.clear(); });
  EXPECT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
}

TEST_F(HealthTest, OnlyAnotherAnswerIsAnnounced) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  options_.event_shown = kLong;
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.SendXid(&gpu, 48);
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  ASSERT_TRUE(Eventually([&] { return Notes() == 1; }));
  const int before = changes_;
  for (int i = 0; i < 100; ++i) fake_.SendXid(&gpu, 48);
  ASSERT_TRUE(Eventually([&] { return LogLines().size() == 101; }));
  fake_.SendXid(&gpu, 62);
  ASSERT_TRUE(
      Eventually([&] { return Report(kFirstUuid).message.find("62") != std::string::npos; }));
  ASSERT_TRUE(Eventually([&] { return changes_ > before; }));
  EXPECT_LE(changes_ - before, 2);  // the first fault, if it was not announced yet, and the second
  const std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_EQ(writes_, 1);
}

TEST_F(HealthTest, ANoteThatCannotBeReadOrWrittenIsTriedAgainAndCostsNothingElse) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  notes_fail_ = true;
  options_.event_shown = kLong;
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.SendXid(&gpu, 48);
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  EXPECT_THAT(LogLines(), ::testing::Contains(HasSubstr("disk full")));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    notes_fail_ = false;
  }
  EXPECT_TRUE(Eventually([&] { return Notes() == 1; }));
}

TEST_F(HealthTest, ADamagedNoteCountsAsNone) {
  fake_.Add(kFirstUuid);
  notes_[kFirstUuid] = R"({"clearsWith": 7, "epoch": [])";
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "");
}

TEST_F(HealthTest, AnotherMigLayoutIsToldOnceHoweverItIsSeen) {
  struct Case {
    const char* name;
    std::function<void(FakeNvml::Gpu&)> change;
  };
  const Case cases[] = {
      {"mode off", [](FakeNvml::Gpu& gpu) { gpu.mig = false; }},
      {"an instance goes", [](FakeNvml::Gpu& gpu) { gpu.instances[1].reset(); }},
      {"an instance comes",
       [](FakeNvml::Gpu& gpu) {
         gpu.instances.push_back(std::make_unique<FakeNvml::Mig>());
         gpu.instances.back()->uuid = "MIG-2";
         gpu.instances.back()->gpu_instance = 9;
         gpu.instances.back()->start = 2;
       }},
      {"another profile under the same ids",
       [](FakeNvml::Gpu& gpu) {
         gpu.instances[1]->profile_id = 14;
         gpu.instances[1]->size = 2;
       }},
      {"made again elsewhere", [](FakeNvml::Gpu& gpu) { gpu.instances[1]->start = 5; }},
      {"made again with other ids",
       [](FakeNvml::Gpu& gpu) { gpu.instances[1]->gpu_instance = 11; }},
      {"divided", [](FakeNvml::Gpu& gpu) { gpu.instances[1]->slices = 2; }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    watch_.reset();
    nvml_ = FakeNvml::Library();
    layouts_ = 0;
    FakeNvml::Gpu& gpu = AddMigGpu();
    Start();
    ASSERT_TRUE(LooksAtLayout(gpu));
    EXPECT_EQ(layouts_, 0);  // as discovered
    fake_.Set([&] { one.change(gpu); });
    ASSERT_TRUE(Eventually([&] { return layouts_ > 0; }));
    // The host's discovery may fail, or take its time: it was told.
    ASSERT_TRUE(LooksAtLayout(gpu));
    ASSERT_TRUE(LooksAtLayout(gpu));
    EXPECT_EQ(layouts_, 1);
    watch_->Watch(LookAtNode(*nvml_, [] {}));
    ASSERT_TRUE(LooksAtLayout(gpu));
    EXPECT_EQ(layouts_, 1);
  }
}

TEST_F(HealthTest, AMigLayoutThatDiscoveryMissedIsToldAgain) {
  FakeNvml::Gpu& gpu = AddMigGpu();
  Start();
  const NodeHardware before = LookAtNode(*nvml_, [] {});
  fake_.Set([&] { gpu.instances[1].reset(); });
  ASSERT_TRUE(Eventually([&] { return layouts_ == 1; }));
  watch_->Watch(before);  // looked before the change, came after it
  EXPECT_TRUE(Eventually([&] { return layouts_ == 2; }));
}

TEST_F(HealthTest, AMigLayoutThatCannotBeToldIsNoOtherOne) {
  FakeNvml::Gpu& gpu = AddMigGpu();
  Start();
  ASSERT_TRUE(Eventually([&] { return Instance(0).state == HealthKind::kHealthy; }));
  fake_.Set([&] { fake_.fails["nvmlDeviceGetMaxMigDeviceCount"] = nvml::kUnknown; });
  ASSERT_TRUE(LooksAtLayout(gpu));
  EXPECT_EQ(layouts_, 0);
  EXPECT_EQ(Instance(0).state, HealthKind::kHealthy);
}

TEST_F(HealthTest, AMigEventIsToldAtOnceAndManyAreToldTogether) {
  FakeNvml::Gpu& gpu = AddMigGpu();
  options_.poll = kLong;
  options_.stale = kLong;
  options_.layout_pause = kLong;
  Start();
  ASSERT_TRUE(Eventually([&] { return Instance(0).state == HealthKind::kHealthy; }));
  {
    const std::lock_guard<std::mutex> lock(fake_.mutex);
    EXPECT_NE(gpu.registered_events & nvml::kEventMigConfigChange, 0u);
  }
  for (int i = 0; i < 50; ++i) fake_.SendEvent(&gpu, nvml::kEventMigConfigChange);
  ASSERT_TRUE(Eventually([&] { return layouts_ == 1; }));
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard<std::mutex> lock(fake_.mutex);
    return fake_.events.empty();
  }));
  EXPECT_EQ(layouts_, 1);
  EXPECT_EQ(Instance(0).state, HealthKind::kHealthy);
  EXPECT_THAT(LogLines(), IsEmpty());
}

TEST_F(HealthTest, WhatComesWithinThePauseIsToldAfterIt) {
  FakeNvml::Gpu& gpu = AddMigGpu();
  options_.poll = kLong;
  options_.layout_pause = milliseconds(50);
  Start();
  ASSERT_TRUE(Eventually([&] { return Instance(0).state == HealthKind::kHealthy; }));
  fake_.SendEvent(&gpu, nvml::kEventMigConfigChange);
  ASSERT_TRUE(Eventually([&] { return layouts_ == 1; }));
  fake_.SendEvent(&gpu, nvml::kEventMigConfigChange);
  EXPECT_TRUE(Eventually([&] { return layouts_ == 2; }));
}

TEST_F(HealthTest, AGpuThatRefusesTheMigEventIsWatchedForFaultsAndPolled) {
  FakeNvml::Gpu& gpu = AddMigGpu();
  gpu.refused_events = nvml::kEventMigConfigChange;
  Start();
  ASSERT_TRUE(Eventually([&] { return Instance(0).state == HealthKind::kHealthy; }));
  {
    const std::lock_guard<std::mutex> lock(fake_.mutex);
    EXPECT_EQ(gpu.registered_events, nvml::kEventXid | nvml::kEventDoubleBitEcc);
  }
  fake_.Set([&] { gpu.instances[1].reset(); });
  EXPECT_TRUE(Eventually([&] { return layouts_ == 1; }));
}

TEST_F(HealthTest, ARecoveryActionIsAFaultUntilTheDriverAsksForNone) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  Start();
  const struct {
    unsigned action;
    const char *fault_class, *remedy;
  } cases[] = {
      {nvml::kRecoveryGpuReset, "recovery-gpu-reset", "nvidia-smi --gpu-reset"},
      {nvml::kRecoveryNodeReboot, "recovery-node-reboot", "reboot"},
      {nvml::kRecoveryDrainP2p, "recovery-drain-p2p", "next action"},
      {nvml::kRecoveryDrainAndReset, "recovery-drain-and-reset", "let the pods that use it end"},
      {nvml::kRecoveryImexDomain, "recovery-imex-domain", "IMEX"},
      {nvml::kRecoveryBusReset, "recovery-bus-reset", "reboot"},
      {nvml::kRecoverySystemReboot, "recovery-system-reboot", "reboot"},
      {42, "recovery-action", "nvidia-smi -q"},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.fault_class);
    ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
    fake_.Set([&] { gpu.recovery_action = one.action; });
    ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
    const HealthReport report = Report(kFirstUuid);
    EXPECT_EQ(report.fault_class, one.fault_class);
    EXPECT_THAT(report.remedy, HasSubstr(one.remedy));
    EXPECT_EQ(report.clears_with, "");  // the driver's "none" is the evidence
    fake_.Set([&] { gpu.recovery_action = nvml::kRecoveryNone; });
    ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  }
}

TEST_F(HealthTest, Xid154IsNoFaultOfItsOwnWhereTheActionCanBeRead) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  options_.poll = kLong;  // so that the XID is what makes it look
  options_.stale = kLong;
  options_.event_shown = kLong;
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.Set([&] { gpu.recovery_action = nvml::kRecoveryNodeReboot; });
  fake_.SendXid(&gpu, 154);
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  EXPECT_EQ(Report(kFirstUuid).fault_class, "recovery-node-reboot");
  EXPECT_THAT(Report(kFirstUuid).message, Not(HasSubstr("XID")));
  EXPECT_THAT(LogLines(), ElementsAre(HasSubstr("XID 154")));
  // The change back is an XID 154 too.
  fake_.Set([&] { gpu.recovery_action = nvml::kRecoveryNone; });
  fake_.SendXid(&gpu, 154);
  EXPECT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  // The event of its own, where the driver has it.
  fake_.Set([&] { gpu.recovery_action = nvml::kRecoveryGpuReset; });
  fake_.SendEvent(&gpu, nvml::kEventGpuRecoveryAction);
  EXPECT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
}

TEST_F(HealthTest, WithoutTheFieldXid154IsAFaultThatAResetEnds) {
  struct Case {
    const char* name;
    std::function<void(FakeNvml::Gpu&)> make_old;
  };
  const Case cases[] = {
      {"no such function",
       [](FakeNvml::Gpu& gpu) { gpu.fails["nvmlDeviceGetFieldValues"] = nvml::kFunctionNotFound; }},
      {"not supported", [](FakeNvml::Gpu& gpu) { gpu.recovery_return = nvml::kNotSupported; }},
      {"unknown field", [](FakeNvml::Gpu& gpu) { gpu.recovery_return = nvml::kInvalidArgument; }},
  };
  options_.event_shown = kLong;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    watch_.reset();
    nvml_ = FakeNvml::Library();
    FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
    one.make_old(gpu);
    gpu.recovery_action = 1;  // as undefined as the header says
    Start();
    ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
    fake_.SendXid(&gpu, 154);
    ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
    EXPECT_EQ(Report(kFirstUuid).fault_class, "recovery-action");
    EXPECT_EQ(Report(kFirstUuid).clears_with, "gpu-reset");
  }
}

TEST_F(HealthTest, WhoIgnoresXid154IsNotToldOfRecoveryActions) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  gpu.recovery_action = nvml::kRecoveryGpuReset;
  options_.ignored_xids = {154};
  options_.event_shown = kLong;
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.SendXid(&gpu, 154);
  fake_.SendXid(&gpu, 32);
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  EXPECT_EQ(Report(kFirstUuid).message, "XID 32");
}

TEST_F(HealthTest, ARecoveryActionThatCannotBeReadForNowMakesTheGpuUnknown) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  gpu.recovery_return = nvml::kUnknown;
  Start();
  EXPECT_TRUE(Eventually(
      [&] { return Report(kFirstUuid).message.find("recovery action") != std::string::npos; }));
  EXPECT_EQ(Report(kFirstUuid).state, HealthKind::kUnknown);
}

TEST_F(HealthTest, AResetThatTheDriverAskedForIsEvidenceAlsoWhenItIsMadeWhileNobodyWatches) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.Set([&] { gpu.recovery_action = nvml::kRecoveryGpuReset; });
  fake_.SendXid(&gpu, 95);
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return notes_[kFirstUuid].find("recoveryAction") != std::string::npos;
  }));
  // A restart is none.
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  watch_.reset();
  fake_.Set([&] { gpu.recovery_action = nvml::kRecoveryNone; });
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "gpu-reset");
  // It is none for a fault that comes later, for which the driver asks nothing.
  fake_.SendXid(&gpu, 95);
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kUnhealthy));
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_TRUE(Eventually([&] { return Report(kFirstUuid).clears_with.empty(); }));
}

TEST_F(HealthTest, AnEndOfPeerTrafficIsNoReset) {
  FakeNvml::Gpu& gpu = fake_.Add(kFirstUuid);
  Start();
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  fake_.Set([&] { gpu.recovery_action = nvml::kRecoveryDrainP2p; });
  fake_.SendXid(&gpu, 95);
  ASSERT_TRUE(Eventually([&] {
    const std::lock_guard<std::mutex> lock(mutex_);
    return notes_[kFirstUuid].find("recoveryAction") != std::string::npos;
  }));
  fake_.Set([&] { gpu.recovery_action = nvml::kRecoveryNone; });
  ASSERT_TRUE(Becomes(kFirstUuid, HealthKind::kHealthy));
  EXPECT_EQ(Report(kFirstUuid).clears_with, "");
}

TEST(FaultOfXid, EveryClassIsALabelWithMessageRemedyAndKnownEvidence) {
  std::set<uint64_t> seen;
  for (uint64_t xid = 0; xid < 1000; ++xid) {
    const auto fault = FaultOfXid(xid, {});
    if (!fault) {
      seen.insert(xid);
      continue;
    }
    SCOPED_TRACE(fault->name);
    EXPECT_LE(fault->name.size(), 63u);
    EXPECT_EQ(fault->name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"),
              std::string::npos);
    EXPECT_THAT(fault->message, HasSubstr("XID " + std::to_string(xid)));
    EXPECT_THAT(fault->remedy, Not(IsEmpty()));
    EXPECT_THAT(fault->clears_with, ::testing::AnyOf("", "gpu-reset", "operator"));
  }
  EXPECT_THAT(seen, ElementsAre(13, 31, 43, 45, 68, 109));
}

TEST(DriverEpoch, ChangesWithBootAndModule) {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("epoch-" + std::to_string(getpid()));
  const auto put = [&](const char* file, const char* text) {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  };
  EXPECT_EQ(DriverEpoch(root.string()), "");
  put("proc/sys/kernel/random/boot_id", "one\n");
  const std::string before = DriverEpoch(root.string());
  EXPECT_EQ(DriverEpoch(root.string()), before);
  put("sys/module/nvidia/version", "580.126.20\n");
  const std::string loaded = DriverEpoch(root.string());
  EXPECT_NE(loaded, before);
  fs::rename(root / "sys/module/nvidia", root / "sys/module/old");  // keeps its number taken
  put("sys/module/nvidia/version", "580.126.20\n");
  EXPECT_NE(DriverEpoch(root.string()), loaded);
  fs::rename(root / "sys/module/nvidia", root / "sys/module/older");
  fs::rename(root / "sys/module/old", root / "sys/module/nvidia");
  EXPECT_EQ(DriverEpoch(root.string()), loaded);
  put("proc/sys/kernel/random/boot_id", "two\n");
  EXPECT_NE(DriverEpoch(root.string()), loaded);
  fs::remove_all(root);
}

}  // namespace
}  // namespace nvidia
