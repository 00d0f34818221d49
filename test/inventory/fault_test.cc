// Faults: restarts, evidence, flapping.

#include "absl/strings/match.h"
#include "test/inventory/inventory_fixture.h"

namespace dra::inventory {
namespace {

using loader::HealthState;

class Hlt01Restart : public InventoryTest {};
class Faults : public InventoryTest {
 protected:
  Faults() { inventory_.Update(Found({Item("d0", "A")}), AllKept(), {}); }

  bool Report(HealthState state, const std::string& clears_with = "") {
    loader::DeviceHealth health =
        Health("d0", state, state == HealthState::kUnhealthy ? "ecc" : "");
    health.clears_with = clears_with;
    return Tainted(*inventory_.UpdateHealth({health}));
  }
  static bool Tainted(const Snapshot& snapshot) {
    return snapshot.FindDevice("n1", "d0")->device.contains("taints");
  }
};

Fault Stored(const std::string& identity = "A", const std::string& clears_with = "") {
  Fault fault;
  fault.identity = identity;
  fault.pool = "n1";
  fault.device = "d0";
  fault.sick = true;
  fault.fault_class = "ecc";
  fault.message = "bits flip";
  fault.clears_with = clears_with;
  fault.since = absl::FromUnixSeconds(1767220000);  // 2025-12-31T22:26:40Z
  return fault;
}

Json Taint(const Snapshot& snapshot) {
  return snapshot.FindDevice("n1", "d0")->device.value("taints", Json());
}

TEST_F(Hlt01Restart, AStoredFaultTaintsTheFirstPublicationUntilACurrentHealthyReport) {
  inventory_.Restore({Stored()});
  const auto first = inventory_.Update(Found({Item("d0", "A"), Item("d1", "B")}), AllKept(), {});
  EXPECT_EQ(Taint(*first), Json::parse(R"([{"key": "gpu.sdk.test/unhealthy", "value": "ecc",
      "effect": "NoSchedule", "timeAdded": "2025-12-31T22:26:40Z"}])"));
  const Device* device = first->FindDevice("n1", "d0");
  EXPECT_EQ(device->health.state, HealthState::kUnhealthy);
  EXPECT_EQ(device->health.message, "bits flip");
  EXPECT_EQ(device->health_since, Stored().since);
  EXPECT_EQ(first->FindDevice("n1", "d1")->health.state, HealthState::kUnknown);

  EXPECT_FALSE(Taint(*inventory_.UpdateHealthFailed(absl::InternalError("e"))).is_null());
  EXPECT_TRUE(inventory_.TakeFaultChanges().empty());
  EXPECT_TRUE(Taint(*inventory_.UpdateHealth({Health("d0", HealthState::kHealthy)})).is_null());
  const auto notes = inventory_.TakeFaultChanges();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_FALSE(notes[0].sick);
  EXPECT_EQ(notes[0].identity, "A");
}

TEST_F(Hlt01Restart, OtherHardwareInTheSlotInheritsNoFault) {
  inventory_.Restore({Stored("A")});
  EXPECT_TRUE(Taint(*inventory_.Update(Found({Item("d0", "B")}), AllKept(), {})).is_null());
  // And what was restored does not lie in wait for the old hardware: the driver reads its note again.
  EXPECT_TRUE(Taint(*inventory_.Update(Found({Item("d0", "A")}), AllKept(), {})).is_null());
}

TEST_F(Hlt01Restart, AStoredFaultThatAsksForEvidenceOutlivesAHealthyReport) {
  inventory_.Restore({Stored("A", "reset")});
  inventory_.Update(Found({Item("d0", "A")}), AllKept(), {});
  const auto seems_well = inventory_.UpdateHealth({Health("d0", HealthState::kHealthy)});
  EXPECT_FALSE(Taint(*seems_well).is_null());
  ASSERT_EQ(seems_well->findings.size(), 1u);
  EXPECT_TRUE(absl::StrContains(seems_well->findings[0].problem, "reset"));

  const auto cleared = inventory_.ClearFault("n1", "d0", {"reset", "ops", clock_.now});
  ASSERT_TRUE(cleared.ok()) << cleared.status();
  EXPECT_FALSE(cleared->sick);
  EXPECT_TRUE(Taint(*inventory_.Get()).is_null());
  EXPECT_EQ(inventory_.TakeFaultChanges().at(0).evidence.by, "ops");
  EXPECT_TRUE(inventory_.Faults().empty());
}

TEST_F(Hlt01Restart, EvidenceThatEndedTheFaultAlreadyIsTakenAgain) {
  // The process died after the note was written and before the request was removed.
  Fault over = Stored("A", "reset");
  over.sick = false;
  over.evidence = {"reset", "ops", clock_.now};
  inventory_.Restore({over});
  inventory_.Update(Found({Item("d0", "A")}), AllKept(), {});
  const auto again = inventory_.ClearFault("n1", "d0", {"reset", "ops", clock_.now});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->sick);
  EXPECT_TRUE(inventory_.TakeFaultChanges().empty());
  for (const Evidence& other :
       {Evidence{"replug", "ops", clock_.now}, Evidence{"reset", "somebody", clock_.now}})
    EXPECT_TRUE(absl::IsFailedPrecondition(inventory_.ClearFault("n1", "d0", other).status()));
}

TEST_F(Hlt01Restart, EvidenceOfAnEarlierFaultDoesNotEndALaterOne) {
  inventory_.Restore({Stored("A", "reset")});
  inventory_.Update(Found({Item("d0", "A")}), AllKept(), {});
  const absl::Time since = inventory_.Faults().at(0).since;
  const auto late = inventory_.ClearFault("n1", "d0", {"reset", "ops", since - absl::Seconds(1)});
  EXPECT_TRUE(absl::IsFailedPrecondition(late.status())) << late.status();
  EXPECT_TRUE(absl::StrContains(late.status().message(), "look at the device again"));
  EXPECT_FALSE(Taint(*inventory_.Get()).is_null());
  // The clock was set back since: it cannot tell which was first.
  clock_.now = since - absl::Hours(1);
  EXPECT_TRUE(inventory_.ClearFault("n1", "d0", {"reset", "ops", clock_.now}).ok());
}

TEST_F(Faults, LossToAClaimIsShownAndIsNoTaint) {
  const auto lost = inventory_.SetLost({{{"n1", "d0"}, "lost to claim ns/c"}});
  const Device* device = lost->FindDevice("n1", "d0");
  EXPECT_EQ(device->health.state, HealthState::kUnhealthy);
  EXPECT_EQ(device->health.fault_class, "lost");
  EXPECT_EQ(device->health.message, "lost to claim ns/c");
  EXPECT_TRUE(Taint(*lost).is_null());
  // A healthy report does not bring back what the claim had; a fault outranks it.
  EXPECT_FALSE(Report(HealthState::kHealthy));
  EXPECT_EQ(inventory_.Get()->FindDevice("n1", "d0")->health.fault_class, "lost");
  EXPECT_TRUE(Report(HealthState::kUnhealthy));
  EXPECT_NE(inventory_.Get()->FindDevice("n1", "d0")->health.fault_class, "lost");
  EXPECT_EQ(inventory_.SetLost({})->FindDevice("n1", "d0")->health.state, HealthState::kUnhealthy);
}

TEST_F(Faults, TheBackendsOwnEvidenceEndsAFault) {
  EXPECT_TRUE(Report(HealthState::kUnhealthy, "reset"));
  EXPECT_TRUE(Report(HealthState::kHealthy));
  EXPECT_TRUE(Report(HealthState::kHealthy, "replug"));
  EXPECT_FALSE(Report(HealthState::kHealthy, "reset"));
}

TEST_F(Faults, EvidenceForADeviceThatIsStillReportedSickCountsWithTheFirstHealthyReport) {
  Report(HealthState::kUnhealthy, "reset");
  const auto cleared = inventory_.ClearFault("n1", "d0", {"reset", "ops", clock_.now});
  ASSERT_TRUE(cleared.ok());
  EXPECT_TRUE(cleared->sick);
  EXPECT_TRUE(Report(HealthState::kUnhealthy, "reset"));
  EXPECT_FALSE(Report(HealthState::kHealthy));
  // It was for that fault, not for the next.
  EXPECT_TRUE(Report(HealthState::kUnhealthy, "reset"));
  clock_.now += absl::Hours(1);
  EXPECT_TRUE(Report(HealthState::kHealthy));
}

TEST_F(Faults, ClearingRefusesWhatIsNoFaultOfThisNode) {
  EXPECT_TRUE(absl::IsFailedPrecondition(inventory_.ClearFault("n1", "d0", {"x", "y"}).status()));
  EXPECT_TRUE(absl::IsNotFound(inventory_.ClearFault("n1", "d9", {"x", "y"}).status()));
  Inventory fresh({"gpu.sdk.test", "n1", false, ""}, &clock_, Logger());
  EXPECT_TRUE(absl::IsUnavailable(fresh.ClearFault("n1", "d0", {"x", "y"}).status()));
}

TEST_F(Faults, EachFlapMustStayWellTwiceAsLongUpToFiveMinutes) {
  const std::vector<int> holds = {0, 10, 20, 40, 80, 160, 300, 300};
  for (size_t flap = 0; flap < holds.size(); ++flap) {
    SCOPED_TRACE(flap);
    EXPECT_EQ(Hold(static_cast<int>(flap)), absl::Seconds(holds[flap]));
    EXPECT_TRUE(Report(HealthState::kUnhealthy));
    int seconds = 0;
    while (Report(HealthState::kHealthy)) {
      ASSERT_LT(seconds, 400);
      clock_.now += absl::Seconds(1);
      ++seconds;
    }
    EXPECT_EQ(seconds, holds[flap]);
    clock_.now += absl::Seconds(1);
  }
  // Well for longer than the window: it starts afresh.
  clock_.now += kFlapWindow;
  Report(HealthState::kUnhealthy);
  EXPECT_FALSE(Report(HealthState::kHealthy));
}

TEST_F(Faults, ABreakInBeingWellStartsTheWaitAgain) {
  Report(HealthState::kUnhealthy);
  Report(HealthState::kHealthy);
  Report(HealthState::kUnhealthy);  // one flap: 10 s
  EXPECT_TRUE(Report(HealthState::kHealthy));
  clock_.now += absl::Seconds(9);
  inventory_.UpdateHealthFailed(absl::UnavailableError("e"));
  EXPECT_TRUE(Report(HealthState::kHealthy));
  clock_.now += absl::Seconds(9);
  EXPECT_TRUE(Report(HealthState::kHealthy));
  clock_.now += absl::Seconds(1);
  EXPECT_FALSE(Report(HealthState::kHealthy));
}

TEST_F(Faults, FlapsAreCountedOverARestart) {
  Fault over = Stored();
  over.sick = false;
  over.flaps = 2;
  over.since = clock_.now - absl::Minutes(1);
  Inventory second({"gpu.sdk.test", "n1", false, ""}, &clock_, Logger());
  second.Restore({over});
  EXPECT_FALSE(Tainted(*second.Update(Found({Item("d0", "A")}), AllKept(), {})));
  second.UpdateHealth({Health("d0", HealthState::kUnhealthy, "ecc")});
  EXPECT_EQ(second.Faults().at(0).flaps, 3);
  EXPECT_TRUE(Tainted(*second.UpdateHealth({Health("d0", HealthState::kHealthy)})));
}

TEST_F(Faults, ADiscoveryAloneNeitherEndsAFaultNorCountsAsAReport) {
  Report(HealthState::kUnhealthy);
  Report(HealthState::kHealthy);
  Report(HealthState::kUnhealthy);
  Report(HealthState::kHealthy);
  clock_.now += absl::Minutes(10);
  EXPECT_TRUE(Tainted(*inventory_.Update(Found({Item("d0", "A")}), AllKept(), {})));
  EXPECT_FALSE(Report(HealthState::kHealthy));
}

TEST_F(Faults, TwoFaultsThatTakeTurnsChangeTheTaintOncePerMinute) {
  int64_t changes = 0;
  Json before;
  for (int i = 0; i < 600; ++i) {
    clock_.now += absl::Seconds(1);
    Json taint = Taint(
        *inventory_.UpdateHealth({Health("d0", HealthState::kUnhealthy, i % 2 == 0 ? "a" : "b")}));
    changes += taint != before ? 1 : 0;
    before = std::move(taint);
  }
  EXPECT_LE(changes, 11);
  EXPECT_GE(changes, 5);
}

TEST_F(Faults, ATaintOfTheBackendsOwnMakesTheDeviceUnhealthyWithoutANote) {
  const Json lost = Json::parse(
      R"({"taints": [{"key": "gpu.sdk.test/lost", "value": "off-bus", "effect": "NoSchedule"}]})");
  const auto snapshot = inventory_.Update(
      Found({Item("d0", "A", lost),
             Item("d1", "B", Json::parse(R"({"taints": [{"key": "k", "effect": "None"}]})"))}),
      AllKept(), {});
  EXPECT_EQ(snapshot->FindDevice("n1", "d0")->health.state, HealthState::kUnhealthy);
  EXPECT_EQ(snapshot->FindDevice("n1", "d0")->health.fault_class, "off-bus");
  EXPECT_EQ(snapshot->FindDevice("n1", "d1")->health.state, HealthState::kUnknown);
  Report(HealthState::kHealthy);
  EXPECT_EQ(inventory_.Get()->FindDevice("n1", "d0")->health.state, HealthState::kUnhealthy);
  inventory_.Update(Found({Item("d0", "A")}), AllKept(), {});
  EXPECT_EQ(inventory_.Get()->FindDevice("n1", "d0")->health.state, HealthState::kHealthy);
  EXPECT_TRUE(inventory_.TakeFaultChanges().empty());
}

TEST_F(Faults, DrainTaintsEveryDeviceAndSaysNothingOfItsHealth) {
  Report(HealthState::kHealthy);
  const absl::Time since = clock_.now - absl::Hours(1);
  EXPECT_EQ(Taint(*inventory_.SetDrain(true, since)),
            Json::parse(R"([{"key": "gpu.sdk.test/drain", "effect": "NoSchedule",
                             "timeAdded": "2025-12-31T23:00:00Z"}])"));
  EXPECT_EQ(inventory_.Get()->FindDevice("n1", "d0")->health.state, HealthState::kHealthy);
  Report(HealthState::kUnhealthy);
  EXPECT_EQ(Taint(*inventory_.Get()).size(), 2u);
  const auto later = inventory_.Update(Found({Item("d0", "A"), Item("d1", "B")}), AllKept(), {});
  EXPECT_TRUE(later->FindDevice("n1", "d1")->device.contains("taints"));
  EXPECT_EQ(Taint(*inventory_.SetDrain(false, since)).size(), 1u);
}

}  // namespace
}  // namespace dra::inventory
