#include "test/inventory/inventory_fixture.h"

namespace dra::inventory {
namespace {

using loader::HealthState;

class Hlt01 : public InventoryTest {};
class Hlt03 : public InventoryTest {};

Json TaintsOf(const Snapshot& snapshot, const std::string& name) {
  const Device* device = snapshot.FindDevice("n1", name);
  if (device == nullptr) return "no device";
  return device->device.value("taints", Json());
}

const Json kTaint =
    Json::parse(R"([{"key": "gpu.sdk.test/unhealthy", "value": "ecc", "effect": "NoSchedule",
                                     "timeAdded": "2026-01-01T00:00:00Z"}])");

TEST_F(Hlt01, TheTaintComesGoesAndKeepsItsTime) {
  inventory_.Update(Found({Item("d0", "A"), Item("d1", "B")}), AllKept(), {});
  EXPECT_EQ(TaintsOf(*inventory_.UpdateHealth({Health("d0", HealthState::kHealthy)}), "d0"),
            Json());
  clock_.now += absl::Milliseconds(700);
  const auto bad = inventory_.UpdateHealth({Health("d0", HealthState::kUnhealthy, "ecc")});
  EXPECT_EQ(TaintsOf(*bad, "d0"), kTaint);
  EXPECT_EQ(bad->FindDevice("n1", "d0")->health_since, clock_.now);
  clock_.now += absl::Hours(1);
  const auto still = inventory_.UpdateHealth({Health("d0", HealthState::kUnhealthy, "ecc")});
  EXPECT_EQ(still->version, bad->version);
  inventory_.Update(Found({Item("d0", "A"), Item("d1", "B")}), AllKept(), {});
  EXPECT_EQ(TaintsOf(*inventory_.Get(), "d0"), kTaint);
  const auto good = inventory_.UpdateHealth({Health("d0", HealthState::kHealthy)});
  EXPECT_EQ(TaintsOf(*good, "d0"), Json());
  EXPECT_EQ(good->FindDevice("n1", "d0")->health.state, HealthState::kHealthy);
}

TEST_F(Hlt01, AHealthReportBeforeTheDeviceTaintsTheFirstPublication) {
  inventory_.UpdateHealth({Health("d0", HealthState::kUnhealthy, "ecc")});
  EXPECT_EQ(TaintsOf(*inventory_.Update(Found({Item("d0", "A")}), AllKept(), {}), "d0"), kTaint);
}

// A fault is a source of its own, and worse than not knowing.
TEST_F(Hlt03, UnknownIsShownGivesNoTaintAndTakesNoneAway) {
  inventory_.Update(Found({Item("d0", "A"), Item("d1", "B")}), AllKept(), {});
  inventory_.UpdateHealth(
      {Health("d0", HealthState::kUnhealthy, "ecc"), Health("d1", HealthState::kHealthy)});
  const auto failed = inventory_.UpdateHealthFailed(absl::UnavailableError("no library"));
  EXPECT_EQ(failed->FindDevice("n1", "d0")->health.state, HealthState::kUnhealthy);
  EXPECT_EQ(failed->FindDevice("n1", "d1")->health.state, HealthState::kUnknown);
  EXPECT_EQ(TaintsOf(*failed, "d0"), kTaint);
  EXPECT_EQ(TaintsOf(*failed, "d1"), Json());
  ASSERT_EQ(failed->findings.size(), 1u);
  EXPECT_NE(failed->findings[0].problem.find("no library"), std::string::npos);
  const auto left_out = inventory_.UpdateHealth({Health("d0", HealthState::kHealthy)});
  EXPECT_EQ(left_out->FindDevice("n1", "d1")->health.state, HealthState::kUnknown);
  EXPECT_TRUE(left_out->findings.empty());
  EXPECT_EQ(TaintsOf(*left_out, "d0"), Json());
}

TEST_F(InventoryTest, OneChangedDeviceIsTheOnlyOneCopied) {
  std::vector<loader::DiscoverItem> items;
  for (int i = 0; i < 1000; ++i) items.push_back(Item(absl::StrCat("d", i), absl::StrCat("id", i)));
  const auto before = inventory_.Update(Found(std::move(items)), AllKept(), {});
  const auto after = inventory_.UpdateHealth({Health("d500", HealthState::kUnhealthy, "ecc")});
  size_t changed = 0;
  for (size_t i = 0; i < 1000; ++i)
    changed += before->pools[0].devices[i] != after->pools[0].devices[i] ? 1 : 0;
  EXPECT_EQ(changed, 1u);
  EXPECT_EQ(after->version, before->version + 1);
}

TEST_F(InventoryTest, OwnTaintsAreKeptBesideTheHealthTaintWithAStableTime) {
  const Json own = Json::parse(R"({"taints": [{"key": "k", "effect": "None"},
      {"key": "j", "effect": "NoSchedule", "timeAdded": "2025-12-31T23:00:00.5Z"}]})");
  inventory_.Update(Found({Item("d0", "A", own)}), AllKept(), {});
  clock_.now += absl::Hours(1);
  inventory_.UpdateHealth({Health("d0", HealthState::kUnhealthy, "no label value!")});
  const Json taints =
      TaintsOf(*inventory_.Update(Found({Item("d0", "A", own)}), AllKept(), {}), "d0");
  EXPECT_EQ(taints,
            Json::parse(R"([{"key": "k", "effect": "None", "timeAdded": "2026-01-01T00:00:00Z"},
      {"key": "j", "effect": "NoSchedule", "timeAdded": "2025-12-31T23:00:00Z"},
      {"key": "gpu.sdk.test/unhealthy", "effect": "NoSchedule", "timeAdded": "2026-01-01T01:00:00Z"}])"));
}

TEST_F(InventoryTest, TheHealthTaintFitsBesideSixteenOwnOnes) {
  Json own = {{"taints", Json::array()}};
  for (int i = 0; i < 16; ++i)
    own["taints"].push_back({{"key", absl::StrCat("k", i)}, {"effect", "None"}});
  inventory_.Update(Found({Item("d0", "A", own)}), AllKept(), {});
  const Json taints =
      TaintsOf(*inventory_.UpdateHealth({Health("d0", HealthState::kUnhealthy, "ecc")}), "d0");
  EXPECT_EQ(taints.size(), 16u);
  EXPECT_EQ(taints.back().at("key"), "gpu.sdk.test/unhealthy");
}

TEST_F(InventoryTest, ASickDeviceIsWithheldWhereItsTaintWouldBeLost) {
  loader::ServerFields fields = AllKept();
  fields.taints = loader::FieldSupport::kDropped;
  inventory_.Update(Found({Item("d0", "A"), Item("d1", "B")}), fields, {{"n1", "d1"}});
  const auto snapshot = inventory_.UpdateHealth(
      {Health("d0", HealthState::kUnhealthy, "ecc"), Health("d1", HealthState::kUnhealthy, "ecc")});
  EXPECT_EQ(Listed(*snapshot), (Names{"n1/d0=A?", "n1/d1=B"}));
  EXPECT_EQ(snapshot->findings.size(), 2u);
}

bool HidesFault(const Snapshot& snapshot, const std::string& name) {
  const Device* const device = snapshot.FindDevice("n1", name);
  return device != nullptr && device->hidden_fault;
}

TEST_F(InventoryTest, AFaultIsHiddenWhereTheServerDropsItsTaintHeldOrNot) {
  loader::ServerFields fields = AllKept();
  fields.taints = loader::FieldSupport::kDropped;
  const Json tainted = {
      {"taints", Json::array({{{"key", "acme.com/away"}, {"effect", "NoSchedule"}}})}};
  inventory_.Update(
      Found({Item("d0", "A"), Item("d1", "B"), Item("d2", "C"), Item("d3", "D", tainted)}), fields,
      {{"n1", "d1"}});
  auto snapshot = inventory_.UpdateHealth(
      {Health("d0", HealthState::kUnhealthy, "ecc"), Health("d1", HealthState::kUnhealthy, "ecc"),
       Health("d2", HealthState::kHealthy), Health("d3", HealthState::kHealthy)});
  EXPECT_TRUE(HidesFault(*snapshot, "d0"));
  EXPECT_TRUE(HidesFault(*snapshot, "d1"));
  EXPECT_FALSE(HidesFault(*snapshot, "d2"));
  EXPECT_TRUE(HidesFault(*snapshot, "d3"));  // by the backend's own word
  snapshot = inventory_.UpdateHealth(
      {Health("d0", HealthState::kHealthy), Health("d1", HealthState::kUnhealthy, "ecc")});
  EXPECT_FALSE(HidesFault(*snapshot, "d0"));
  EXPECT_TRUE(HidesFault(*snapshot, "d1"));
}

TEST_F(InventoryTest, AFaultIsNotHiddenWhereTheSchedulerSeesItsTaintOrMay) {
  for (const auto support : {loader::FieldSupport::kKept, loader::FieldSupport::kUnknown}) {
    loader::ServerFields fields = AllKept();
    fields.taints = support;
    inventory_.Update(Found({Item("d0", "A")}), fields, {});
    EXPECT_FALSE(
        HidesFault(*inventory_.UpdateHealth({Health("d0", HealthState::kUnhealthy, "ecc")}), "d0"));
  }
}

TEST_F(InventoryTest, NeitherADrainNorALossIsAHiddenFault) {
  loader::ServerFields fields = AllKept();
  fields.taints = loader::FieldSupport::kDropped;
  inventory_.Update(Found({Item("d0", "A")}), fields, {{"n1", "d0"}});
  inventory_.UpdateHealth({Health("d0", HealthState::kHealthy)});
  inventory_.SetDrain(true, clock_.now);
  const auto snapshot = inventory_.SetLost({{{"n1", "d0"}, "its instance was destroyed"}});
  EXPECT_EQ(snapshot->FindDevice("n1", "d0")->health.state, HealthState::kUnhealthy);
  EXPECT_FALSE(HidesFault(*snapshot, "d0"));
}

TEST_F(InventoryTest, AFaultOfADeviceThatIsNeverTaintedIsHidden) {
  Inventory inventory({"gpu.sdk.test", "n1", true, ""}, &clock_, Logger());
  inventory.Update(Found({Item("d0", "A")}), AllKept(), {});
  EXPECT_TRUE(
      HidesFault(*inventory.UpdateHealth({Health("d0", HealthState::kUnhealthy, "ecc")}), "d0"));
}

TEST_F(InventoryTest, ADeviceThatIsNeverTaintedIsWithheldWhenItIsSick) {
  Inventory inventory({"gpu.sdk.test", "n1", true, ""}, &clock_, Logger());
  inventory.Update(Found({Item("d0", "A")}), AllKept(), {});
  const auto snapshot = inventory.UpdateHealth({Health("d0", HealthState::kUnhealthy, "ecc")});
  EXPECT_EQ(Listed(*snapshot), Names{"n1/d0=A?"});
  EXPECT_EQ(TaintsOf(*snapshot, "d0"), Json());
  EXPECT_EQ(Listed(*inventory.UpdateHealth({Health("d0", HealthState::kHealthy)})),
            Names{"n1/d0=A"});
}

TEST_F(InventoryTest, TheTaintKeyIsTheOperators) {
  Inventory inventory({"gpu.sdk.test", "n1", false, "example.com/sick"}, &clock_, Logger());
  inventory.Update(Found({Item("d0", "A")}), AllKept(), {});
  const auto snapshot = inventory.UpdateHealth({Health("d0", HealthState::kUnhealthy, "ecc")});
  EXPECT_EQ(TaintsOf(*snapshot, "d0")[0].at("key"), "example.com/sick");
}

}  // namespace
}  // namespace dra::inventory
