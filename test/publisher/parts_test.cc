#include "gmock/gmock.h"
#include "publisher/lost_fields.h"
#include "publisher/refusals.h"
#include "publisher/repair_limiter.h"
#include "publisher/selection.h"
#include "publisher/slice_store.h"
#include "test/publisher/fixture.h"

namespace dra::publisher {
namespace {

loader::ServerFields AllKept() {
  loader::ServerFields fields;
  fields.counters = fields.multiple_allocations = fields.taints = fields.binding_conditions =
      fields.list_attributes = fields.node_allocatable = fields.skip_node_operations =
          fields.taint_effect_none = loader::FieldSupport::kKept;
  return fields;
}

std::vector<std::string> Names(const Selection& selection) {
  std::vector<std::string> names;
  for (const WantedPool& pool : selection.pools) {
    for (const Json& device : pool.devices) names.push_back(device["name"].get<std::string>());
  }
  return names;
}

TEST(FieldPath, TellsTheItemTheMemberAndTheKey) {
  const auto path =
      ParseFieldPath("spec.devices[3].attributes[resource.kubernetes.io/pcieRoot].string");
  ASSERT_TRUE(path.has_value());
  EXPECT_EQ(path->list, "devices");
  EXPECT_EQ(path->index, 3u);
  EXPECT_EQ(path->member, "attributes");
  EXPECT_EQ(path->key, "resource.kubernetes.io/pcieRoot");
  EXPECT_EQ(ParseFieldPath("spec.devices[0]")->member, "");
  EXPECT_EQ(ParseFieldPath("spec.devices")->index, std::nullopt);
  EXPECT_EQ(ParseFieldPath("spec.skipNodeOperations[0]")->list, "skipNodeOperations");
  EXPECT_FALSE(ParseFieldPath("metadata.name").has_value());
  EXPECT_FALSE(ParseFieldPath("").has_value());
}

TEST(Refusals, LearnEachThingOnceAndForgetWhatChanged) {
  Refusals refusals;
  auto snapshot = SnapshotOf({PlainDevice("d0")});
  const Json spec = {{"devices", {PlainDevice("d0")}}};
  const std::vector<Refusals::Cause> causes = {{"spec.devices[0].attributes[value].int", "no"}};
  EXPECT_TRUE(refusals.Learn("n1", spec, causes, *snapshot, {}));
  EXPECT_FALSE(refusals.Learn("n1", spec, causes, *snapshot, {}));
  EXPECT_FALSE(
      refusals.Learn("n1", spec, {{"spec.devices[7]", "x"}, {"metadata", "y"}}, *snapshot, {}));
  EXPECT_EQ(refusals.For(Refusal::Subject::kDevice, "n1", "d0", PlainDevice("d0")).size(), 1u);
  EXPECT_TRUE(refusals.For(Refusal::Subject::kDevice, "n1", "d0", PlainDevice("d0", 1)).empty());
  refusals.Prune(*SnapshotOf({PlainDevice("d0", 1)}));
  EXPECT_TRUE(refusals.For(Refusal::Subject::kDevice, "n1", "d0", PlainDevice("d0")).empty());
}

TEST(Refusals, AHeldDeviceLosesTheFieldAndAFreeOneGoes) {
  auto snapshot = SnapshotOf({Tainted("d0"), Tainted("d1")});
  const Json spec = {{"devices", {Tainted("d0"), Tainted("d1")}}};
  Refusals refusals;
  EXPECT_TRUE(refusals.Learn(
      "n1", spec, {{"spec.devices[0].taints[0]", "no"}, {"spec.devices[1].taints[0]", "no"}},
      *snapshot, {{"n1", "d1"}}));
  const Selection selection = Select(*snapshot, {{"n1", "d1"}}, AllKept(), refusals);
  EXPECT_THAT(Names(selection), ::testing::ElementsAre("d1"));
  EXPECT_FALSE(selection.pools[0].devices[0].contains("taints"));
}

TEST(Selection, HoldsBackDevicesThatLeanOnAFieldTheServerDoesNotKeep) {
  Json shared = PlainDevice("shared");
  shared["allowMultipleAllocations"] = true;
  Json binding = PlainDevice("binding");
  binding["bindingConditions"] = {"a"};
  auto snapshot =
      SnapshotOf({PlainDevice("plain"), Partition("part"), shared, binding, Tainted("sick")});
  snapshot->pools[0].counter_sets.push_back(CardCounters());
  EXPECT_EQ(Names(Select(*snapshot, {}, AllKept(), {})).size(), 5u);
  EXPECT_THAT(Names(Select(*snapshot, {}, loader::ServerFields(), {})),
              ::testing::ElementsAre("plain"));
  loader::ServerFields none = AllKept();
  none.counters = none.multiple_allocations = none.taints = none.binding_conditions =
      loader::FieldSupport::kDropped;
  const Selection selection = Select(*snapshot, {{"n1", "part"}, {"n1", "sick"}}, none, {});
  EXPECT_THAT(Names(selection), ::testing::ElementsAre("plain", "part", "sick"));
  for (const Json& device : selection.pools[0].devices) {
    EXPECT_FALSE(device.contains("taints"));
    EXPECT_FALSE(device.contains("consumesCounters"));
  }
  EXPECT_TRUE(selection.pools[0].counter_sets.empty());
  EXPECT_EQ(selection.devices_dropped, 2u);
}

TEST(Selection, LeavesOutTaintsThatOnlyInformUnlessTheServerTakesThem) {
  Json device = PlainDevice("d0");
  device["taints"] = {{{"key", "a"}, {"effect", "None"}}, {{"key", "b"}, {"effect", "NoSchedule"}}};
  Json informing = PlainDevice("d1");
  informing["taints"] = {{{"key", "a"}, {"effect", "None"}}};
  const auto snapshot = SnapshotOf({device, informing});
  const Selection all = Select(*snapshot, {}, AllKept(), {});
  EXPECT_EQ(all.pools[0].devices[0], device);
  EXPECT_EQ(all.pools[0].devices[1], informing);
  EXPECT_TRUE(all.reports.empty());
  loader::ServerFields old = AllKept();
  old.taint_effect_none = loader::FieldSupport::kDropped;
  const Selection selection = Select(*snapshot, {}, old, {});
  ASSERT_EQ(selection.pools[0].devices.size(), 2u);
  EXPECT_EQ(selection.pools[0].devices[0]["taints"], Json::array({device["taints"][1]}));
  EXPECT_FALSE(selection.pools[0].devices[1].contains("taints"));
  ASSERT_EQ(selection.reports.size(), 2u);
  EXPECT_NE(selection.reports[0].finding.problem.find("1.35"), std::string::npos);
  // A device that only informs is published where taints are dropped, and the gate is named.
  old.taints = loader::FieldSupport::kDropped;
  const Selection without = Select(*snapshot, {}, old, {});
  EXPECT_THAT(Names(without), ::testing::ElementsAre("d1"));
  EXPECT_FALSE(without.pools[0].devices[0].contains("taints"));
  EXPECT_NE(without.reports.back().finding.problem.find("DRADeviceTaints"), std::string::npos);
}

TEST(Selection, DropsListAttributesUnlessTheServerKeepsThem) {
  Json device = PlainDevice("d0");
  device["attributes"]["nodes"] = {{"ints", {0, 1}}};
  auto snapshot = SnapshotOf({device});
  EXPECT_TRUE(
      Select(*snapshot, {}, AllKept(), {}).pools[0].devices[0]["attributes"].contains("nodes"));
  const Selection selection = Select(*snapshot, {}, loader::ServerFields(), {});
  EXPECT_FALSE(selection.pools[0].devices[0]["attributes"].contains("nodes"));
  EXPECT_EQ(selection.reports.size(), 1u);
}

TEST(Selection, DropsDoubleNamesAndConsumersOfMissingCounters) {
  const Selection selection = Select(
      *SnapshotOf({PlainDevice("d0"), PlainDevice("d0", 1), Partition("p0")}), {}, AllKept(), {});
  EXPECT_THAT(Names(selection), ::testing::ElementsAre("d0"));
  EXPECT_EQ(selection.devices_dropped, 2u);
}

TEST(LostFields, NameTheFieldAndTheLikelyGate) {
  Json sent = {{"devices", {Tainted("d0")}}, {"skipNodeOperations", {"*"}}};
  sent["devices"][0]["capacity"] = {
      {"memory", {{"value", "2Gi"}, {"requestPolicy", {{"default", "1Gi"}}}}}};
  Json stored = sent;
  EXPECT_TRUE(LostFields(sent, stored).empty());
  stored["devices"][0]["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z";
  stored["devices"][0]["capacity"]["memory"]["value"] = "2048Mi";
  EXPECT_TRUE(LostFields(sent, stored).empty()) << "added and respelled is not lost";
  stored["devices"][0].erase("taints");
  stored["devices"][0]["capacity"]["memory"].erase("requestPolicy");
  stored.erase("skipNodeOperations");
  const auto lost = LostFields(sent, stored);
  ASSERT_EQ(lost.size(), 3u);
  EXPECT_EQ(lost[0].field, "capacity[memory].requestPolicy");
  EXPECT_EQ(lost[0].gate, "DRAConsumableCapacity");
  EXPECT_EQ(lost[1].gate, "DRADeviceTaints");
  EXPECT_EQ(lost[1].device, "d0");
  EXPECT_EQ(lost[2].gate, "DRAOptionalNodeOperations");
  loader::ServerFields fields;
  EXPECT_TRUE(MarkDropped(lost[1], fields));
  EXPECT_FALSE(MarkDropped(lost[1], fields));
  EXPECT_EQ(fields.taints, loader::FieldSupport::kDropped);
}

TEST(RepairLimiter, LetsTwoRepairsPassAndThenDoublesTheWait) {
  RepairLimiter limiter(absl::Seconds(3));
  MonotonicTime now = std::chrono::steady_clock::now();
  EXPECT_EQ(limiter.Wait("a", now), absl::ZeroDuration());
  limiter.Note("a", now);
  EXPECT_EQ(limiter.Wait("a", now), absl::ZeroDuration());
  limiter.Note("a", now);
  EXPECT_EQ(limiter.Wait("a", now), absl::Seconds(1));
  EXPECT_EQ(limiter.Wait("b", now), absl::ZeroDuration());
  now += std::chrono::seconds(1);
  EXPECT_EQ(limiter.Wait("a", now), absl::ZeroDuration());
  limiter.Note("a", now);
  EXPECT_EQ(limiter.Wait("a", now), absl::Seconds(2));
  limiter.Note("a", now);
  EXPECT_EQ(limiter.Wait("a", now), absl::Seconds(3));
  EXPECT_EQ(limiter.Wait("a", now + std::chrono::minutes(5)), absl::ZeroDuration());
}

Json SliceAt(const char* name, const char* uid, const char* version) {
  return {{"metadata", {{"name", name}, {"uid", uid}, {"resourceVersion", version}}}};
}

kube::Change ChangeOf(kube::Change::Type type, const Json& object) {
  kube::Change change;
  change.type = type;
  change.object = &object;
  return change;
}

TEST(SliceStore, TakesTheEchoOfAnOwnWriteForNoNews) {
  SliceStore store;
  store.Put(SliceAt("a", "u", "10"));
  EXPECT_FALSE(store.Apply(ChangeOf(kube::Change::Type::kAdded, SliceAt("a", "u", "9"))));
  EXPECT_FALSE(store.Apply(ChangeOf(kube::Change::Type::kModified, SliceAt("a", "u", "10"))));
  EXPECT_TRUE(store.Apply(ChangeOf(kube::Change::Type::kModified, SliceAt("a", "u", "11"))));
}

TEST(Slc01Store, ADeletionThatIsFasterThanTheAnswerToTheCreateCounts) {
  SliceStore store;
  const Json slice = SliceAt("a", "u", "10");
  store.Apply(ChangeOf(kube::Change::Type::kAdded, slice));
  EXPECT_TRUE(store.Apply(ChangeOf(kube::Change::Type::kDeleted, slice)));
  store.Put(slice);
  EXPECT_TRUE(store.All().empty());
}

TEST(SliceStore, IgnoresWhatStillArrivesAboutADeletedSlice) {
  SliceStore store;
  store.Put(SliceAt("a", "u", "10"));
  store.Remove("a");
  EXPECT_FALSE(store.Apply(ChangeOf(kube::Change::Type::kModified, SliceAt("a", "u", "12"))));
  EXPECT_FALSE(store.Apply(ChangeOf(kube::Change::Type::kDeleted, SliceAt("a", "u", "13"))));
  EXPECT_TRUE(store.All().empty());
}

}  // namespace
}  // namespace dra::publisher
