// Severities: which taint follows, and what changes it.

#include "absl/strings/match.h"
#include "test/inventory/inventory_fixture.h"

namespace dra::inventory {
namespace {

using loader::FaultSeverity;
using loader::HealthState;

class Severities : public testing::Test {
 protected:
  Severities() { Start({}); }

  // A process; the devices are discovered with what `notes` say.
  void Start(TaintEffects effects, const std::vector<Fault>& notes = {},
             Json device = Json::object()) {
    Options options = {"gpu.sdk.test", "n1", never_tainted_, ""};
    options.taint_effects = std::move(effects);
    inventory_ = std::make_unique<Inventory>(options, &clock_, Logger());
    inventory_->Restore(notes);
    inventory_->Update(Found({Item("d0", "A", std::move(device))}), AllKept(), {});
  }
  static loader::DeviceHealth Sick(const std::string& fault_class, FaultSeverity severity,
                                   const std::string& clears_with = "") {
    loader::DeviceHealth health = Health("d0", HealthState::kUnhealthy, fault_class);
    health.severity = severity;
    health.clears_with = clears_with;
    return health;
  }
  std::string Report(const loader::DeviceHealth& health) {
    inventory_->UpdateHealth({health});
    return Taints();
  }
  const Device& Published() const { return *inventory_->Get()->FindDevice("n1", "d0"); }
  // "<value>:<effect>" of each taint.
  std::string Taints() const {
    std::string all;
    for (const Json& taint : Published().device.value("taints", Json::array())) {
      absl::StrAppend(&all, all.empty() ? "" : " ", StringOr(taint, "value"), ":",
                      StringOr(taint, "effect"));
    }
    return all;
  }
  std::string TimeAdded() const {
    return StringOr(Published().device.at("taints").at(0), "timeAdded");
  }

  SteppedClock clock_;
  bool never_tainted_ = false;
  std::unique_ptr<Inventory> inventory_;
};

TEST_F(Severities, TheEffectIsThatOfTheSeverityByDefaultNeverNoExecute) {
  const std::pair<FaultSeverity, const char*> cases[] = {
      {FaultSeverity::kUnset, "ecc:NoSchedule"},
      {FaultSeverity::kMinor, "ecc:None"},
      {FaultSeverity::kMajor, "ecc:NoSchedule"},
      {FaultSeverity::kCritical, "ecc:NoSchedule"}};
  for (const auto& [severity, taint] : cases) {
    SCOPED_TRACE(SeverityName(severity));
    Start({});
    EXPECT_EQ(Report(Sick("ecc", severity)), taint);
    EXPECT_EQ(Published().health.state, HealthState::kUnhealthy);
    EXPECT_EQ(Published().health.severity, severity);
    EXPECT_EQ(inventory_->Faults().at(0).severity, severity);
  }
}

TEST_F(Severities, AClassOfItsOwnBeatsTheSeverity) {
  TaintEffects effects;
  effects.by_severity[FaultSeverity::kCritical] = TaintEffect::kNoExecute;
  effects.by_class = {{"ecc", TaintEffect::kNone}, {"off-bus", TaintEffect::kNoExecute}};
  const std::pair<loader::DeviceHealth, const char*> cases[] = {
      {Sick("ecc", FaultSeverity::kCritical), "ecc:None"},
      {Sick("off-bus", FaultSeverity::kMinor), "off-bus:NoExecute"},
      {Sick("hot", FaultSeverity::kCritical), "hot:NoExecute"},
      {Sick("hot", FaultSeverity::kMajor), "hot:NoSchedule"}};
  for (const auto& [health, taint] : cases) {
    SCOPED_TRACE(taint);
    Start(effects);
    EXPECT_EQ(Report(health), taint);
  }
}

TEST_F(Severities, ATaintThatOnlyInformsHoldsNoDeviceBack) {
  loader::ServerFields without = AllKept();
  without.taints = loader::FieldSupport::kDropped;
  Report(Sick("ecc", FaultSeverity::kMinor));
  inventory_->Update(Found({Item("d0", "A")}), without, {});
  EXPECT_FALSE(Published().withheld);
  Report(Sick("ecc", FaultSeverity::kMajor));
  EXPECT_TRUE(Published().withheld);
}

TEST_F(Severities, ABackendThatNeverHasTaintsLosesTheOneThatInformsAndKeepsTheDevice) {
  never_tainted_ = true;
  Start({});
  EXPECT_EQ(Report(Sick("ecc", FaultSeverity::kMinor)), "");
  EXPECT_FALSE(Published().withheld);
  EXPECT_EQ(Report(Sick("ecc", FaultSeverity::kMajor)), "");
  EXPECT_TRUE(Published().withheld);
}

TEST_F(Severities, OfTooManyTaintsTheOneThatInformsGoes) {
  Json device = {{"taints", Json::array()}};
  for (int i = 0; i < 16; ++i) {
    device["taints"].push_back({{"key", absl::StrCat("k", i)}, {"effect", "NoSchedule"}});
  }
  Start({}, {}, device);
  Report(Sick("ecc", FaultSeverity::kMinor));
  EXPECT_FALSE(absl::StrContains(Taints(), "ecc"));
  EXPECT_EQ(Published().device["taints"].size(), 16u);
  Report(Sick("ecc", FaultSeverity::kCritical));
  EXPECT_TRUE(absl::StrContains(Taints(), "ecc:NoSchedule"));
  EXPECT_EQ(Published().device["taints"].size(), 16u);
}

TEST_F(Severities, AGraverFaultCountsAtOnceALesserOneAfterAMinute) {
  EXPECT_EQ(Report(Sick("ecc", FaultSeverity::kMinor)), "ecc:None");
  clock_.now += absl::Seconds(1);
  EXPECT_EQ(Report(Sick("ecc", FaultSeverity::kMajor)), "ecc:NoSchedule");
  clock_.now += absl::Seconds(1);
  EXPECT_EQ(Report(Sick("ecc", FaultSeverity::kMinor)), "ecc:NoSchedule");
  clock_.now += kDetailHold;
  EXPECT_EQ(Report(Sick("ecc", FaultSeverity::kMinor)), "ecc:None");
}

TEST_F(Severities, TwoFaultsThatTakeTurnsCostTwoWritesAMinute) {
  int changes = 0;
  std::string before;
  for (int i = 0; i < 600; ++i) {
    clock_.now += absl::Seconds(1);
    const std::string now = i % 2 == 0 ? Report(Sick("hot", FaultSeverity::kMinor))
                                       : Report(Sick("ecc", FaultSeverity::kMajor));
    changes += now != before ? 1 : 0;
    before = now;
  }
  EXPECT_LE(changes, 22);
  EXPECT_GE(changes, 10);
}

TEST_F(Severities, ALesserFaultDoesNotHideAGraverOneThatAsksForEvidence) {
  EXPECT_EQ(Report(Sick("off-bus", FaultSeverity::kCritical, "reset")), "off-bus:NoSchedule");
  clock_.now += absl::Hours(1);
  EXPECT_EQ(Report(Sick("hot", FaultSeverity::kMinor)), "off-bus:NoSchedule");
  EXPECT_EQ(inventory_->Faults().at(0).clears_with, "reset");
  // The evidence is for the graver one, and the lesser one is what is left.
  ASSERT_TRUE(inventory_->ClearFault("n1", "d0", {"reset", "ops", clock_.now}).ok());
  EXPECT_EQ(Report(Sick("hot", FaultSeverity::kMinor)), "hot:None");
  EXPECT_EQ(inventory_->Faults().at(0).clears_with, "");
  EXPECT_EQ(inventory_->Faults().at(0).since, clock_.now);
  EXPECT_EQ(Report(Health("d0", HealthState::kHealthy)), "");
}

TEST_F(Severities, ALesserFaultTakesThePlaceOfAGraverOneThatAskedForNothing) {
  Report(Sick("off-bus", FaultSeverity::kCritical));
  clock_.now += kDetailHold;
  EXPECT_EQ(Report(Sick("hot", FaultSeverity::kMinor)), "hot:None");
}

TEST_F(Severities, AnotherEffectIsATaintOfItsOwnTime) {
  Report(Sick("ecc", FaultSeverity::kMinor));
  EXPECT_EQ(TimeAdded(), "2026-01-01T00:00:00Z");
  clock_.now += absl::Seconds(90);
  Report(Sick("ecc", FaultSeverity::kMajor));
  EXPECT_EQ(TimeAdded(), "2026-01-01T00:01:30Z");
  // The same effect for another reason is the same taint.
  clock_.now += absl::Seconds(90);
  EXPECT_EQ(Report(Sick("off-bus", FaultSeverity::kCritical)), "off-bus:NoSchedule");
  EXPECT_EQ(TimeAdded(), "2026-01-01T00:01:30Z");
  EXPECT_EQ(inventory_->Faults().at(0).since, absl::FromUnixSeconds(1767225600));
}

TEST_F(Severities, SeverityEffectAndTimeOutliveARestart) {
  Report(Sick("ecc", FaultSeverity::kMinor));
  clock_.now += absl::Seconds(90);
  Report(Sick("ecc", FaultSeverity::kCritical));
  const std::vector<Fault> notes = inventory_->TakeFaultChanges();
  clock_.now += absl::Hours(1);
  Start({}, notes);
  EXPECT_EQ(Taints(), "ecc:NoSchedule");
  EXPECT_EQ(TimeAdded(), "2026-01-01T00:01:30Z");
  EXPECT_EQ(Published().health.severity, FaultSeverity::kCritical);
  EXPECT_TRUE(inventory_->TakeFaultChanges().empty());
}

TEST_F(Severities, AnotherConfigurationChangesAStandingTaintOnceAndIsNoted) {
  Report(Sick("ecc", FaultSeverity::kCritical));
  std::vector<Fault> notes = inventory_->TakeFaultChanges();
  TaintEffects evict;
  evict.by_severity[FaultSeverity::kCritical] = TaintEffect::kNoExecute;
  clock_.now += absl::Hours(1);
  Start(evict, notes);
  EXPECT_EQ(Taints(), "ecc:NoExecute");
  // Tolerations count from here.
  EXPECT_EQ(TimeAdded(), "2026-01-01T01:00:00Z");
  notes = inventory_->TakeFaultChanges();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].identity, "A");
  clock_.now += absl::Hours(1);
  Start(evict, notes);
  EXPECT_EQ(TimeAdded(), "2026-01-01T01:00:00Z");
  EXPECT_TRUE(inventory_->TakeFaultChanges().empty());
}

TEST_F(Severities, ANoteWithoutOneTaintsAsItDidUntilTheReportSaysMore) {
  Fault old;
  old.identity = "A";
  old.pool = "n1";
  old.device = "d0";
  old.sick = true;
  old.fault_class = "ecc";
  old.clears_with = "reset";
  old.since = absl::FromUnixSeconds(1767220000);
  Start({}, {old});
  EXPECT_EQ(Taints(), "ecc:NoSchedule");
  EXPECT_EQ(TimeAdded(), "2025-12-31T22:26:40Z");
  EXPECT_EQ(Report(Sick("ecc", FaultSeverity::kMinor, "reset")), "ecc:None");
}

TEST_F(Severities, OneThatThisHostDoesNotKnowCountsAsUnsetAndIsSaid) {
  loader::DeviceHealth health = Sick("ecc", FaultSeverity::kUnset);
  health.unknown_severity = 7;
  EXPECT_EQ(Report(health), "ecc:NoSchedule");
  const auto snapshot = inventory_->Get();
  ASSERT_EQ(snapshot->findings.size(), 1u);
  EXPECT_EQ(snapshot->findings[0].value, "7");
  EXPECT_EQ(snapshot->findings[0].action, "counts as unset");
  Report(Sick("ecc", FaultSeverity::kMajor));
  EXPECT_TRUE(inventory_->Get()->findings.empty());
}

TEST(TaintEffects, NamesAreThoseOfTheApiAndOfTheConfiguration) {
  for (const char* name : {"None", "NoSchedule", "NoExecute"}) {
    ASSERT_TRUE(TaintEffectOf(name).has_value()) << name;
    EXPECT_STREQ(TaintEffectName(*TaintEffectOf(name)), name);
  }
  EXPECT_EQ(TaintEffectOf("none"), std::nullopt);
  for (const char* name : {"unset", "minor", "major", "critical"}) {
    EXPECT_STREQ(SeverityName(SeverityOf(name)), name);
  }
  EXPECT_EQ(SeverityOf("fatal"), FaultSeverity::kUnset);
}

}  // namespace
}  // namespace dra::inventory
