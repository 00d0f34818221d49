#include "dra/publisher/publisher.h"

#include "gmock/gmock.h"
#include "publisher/slice_names.h"
#include "test/publisher/fixture.h"

namespace dra::publisher {
namespace {

using testing::ApiFault;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ApiFault Fault(const char* verb, int code, int times = 1) {
  ApiFault fault;
  fault.match = Stored(verb);
  fault.code = code;
  fault.times = times;
  return fault;
}

class PublisherLoop : public PublisherTest {};

TEST_F(PublisherLoop, PublishesOnceTheInventoryIsKnown) {
  Start();
  publisher_->SetInventory(std::make_shared<inventory::Snapshot>());
  EXPECT_FALSE(publisher_->GetState().published);
  Publish(SnapshotOf({PlainDevice("d0"), PlainDevice("d1")}));
  EXPECT_THAT(PublishedDevices(), ElementsAre("d0", "d1"));
  EXPECT_EQ(Slices()[0]["metadata"]["ownerReferences"][0]["uid"], "N1");
  const State state = publisher_->GetState();
  EXPECT_EQ(state.node_uid, "N1");
  EXPECT_EQ(state.creates, 1u);
  EXPECT_EQ(state.error, "");
  EXPECT_EQ(metrics_.Value("dra_slice_writes_total",
                           {{"driver", "gpu.sdk.test"}, {"verb", "create"}, {"code", "201"}}),
            1);
  EXPECT_EQ(metrics_.Value("dra_devices_published", {{"driver", "gpu.sdk.test"}}), 2);
  EXPECT_EQ(metrics_.Value("dra_slices", {{"driver", "gpu.sdk.test"}}), 1);
  ExpectNoFurtherWrites();
}

TEST_F(PublisherLoop, WritesOneCallForOneChangedDevice) {
  std::vector<Json> devices;
  for (int i = 0; i < 150; ++i) devices.push_back(PlainDevice("d" + std::to_string(i)));
  Start();
  Publish(SnapshotOf(devices));
  const int before = Writes();
  devices[77] = PlainDevice("d77", 5);
  Publish(SnapshotOf(devices));
  EXPECT_EQ(Writes() - before, 1);
}

TEST_F(PublisherLoop, MakesAFewWritesOfABurst) {
  Options options = MakeOptions();
  options.coalesce = absl::Milliseconds(200);
  Start(options);
  Publish(SnapshotOf({PlainDevice("d0")}));
  const int before = Writes();
  for (int i = 1; i <= 100; ++i) publisher_->SetInventory(SnapshotOf({PlainDevice("d0", i)}));
  ASSERT_TRUE(Published());
  EXPECT_LE(Writes() - before, 3);
  EXPECT_EQ(OnlySpec()["devices"][0]["attributes"]["value"]["int"], 100);
}

TEST_F(PublisherLoop, WritesNothingAfterARestart) {
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  publisher_.reset();
  const int before = Writes();
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  EXPECT_EQ(Writes(), before);
}

TEST_F(PublisherLoop, KeepsSlicesWhenItStops) {
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  publisher_->Stop();
  publisher_.reset();
  EXPECT_EQ(Slices().size(), 1u);
}

TEST_F(PublisherLoop, StopsWhileTheServerIsSilent) {
  ApiFault fault = Fault("create", 0, 0);
  fault.kind = ApiFault::Kind::kBlackHole;
  api_.traffic().Inject(fault);
  Start();
  publisher_->SetInventory(SnapshotOf({PlainDevice("d0")}));
  ASSERT_TRUE(WaitUntil([this] { return Writes() > 0; }));
  publisher_->Stop();
  EXPECT_FALSE(publisher_->GetState().published);
}

TEST_F(PublisherLoop, KeepsTheNewestWishWhileTheServerFails) {
  api_.traffic().Inject(Fault("", 503, 0));
  Start();
  publisher_->SetInventory(SnapshotOf({PlainDevice("d0", 1)}));
  ASSERT_TRUE(api_.traffic().WaitForCount(On("list"), 1));
  publisher_->SetInventory(SnapshotOf({PlainDevice("d0", 2)}));
  EXPECT_FALSE(publisher_->GetState().published);
  api_.traffic().ClearFaults();
  ASSERT_TRUE(Published());
  EXPECT_EQ(OnlySpec()["devices"][0]["attributes"]["value"]["int"], 2);
}

TEST_F(PublisherLoop, RetriesWritesThatMayPass) {
  for (int code : {500, 503, 429, 409}) api_.traffic().Inject(Fault("create", code));
  ApiFault lost = Fault("create", 0);
  lost.kind = ApiFault::Kind::kCut;
  lost.carry_out = true;  // stored, but nobody was told
  api_.traffic().Inject(lost);
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  ASSERT_TRUE(
      WaitUntil([this] { return Slices().size() == 1 && publisher_->GetState().published; }));
  EXPECT_THAT(PublishedDevices(), ElementsAre("d0"));
  EXPECT_EQ(OnlySpec()["pool"]["resourceSliceCount"], 1);
}

TEST_F(PublisherLoop, ReadsASliceAgainAfterAConflict) {
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  ApiFault conflict = Fault("update", 409);
  conflict.reason = "Conflict";
  api_.traffic().Inject(conflict);
  Publish(SnapshotOf({PlainDevice("d0", 1)}));
  EXPECT_EQ(OnlySpec()["devices"][0]["attributes"]["value"]["int"], 1);
  EXPECT_EQ(api_.traffic().Count(On("get")), 1);
}

TEST_F(PublisherLoop, NamesWhatFailsInItsState) {
  api_.store().Erase(kube::Nodes(), "", "n1");
  Start();
  publisher_->SetInventory(SnapshotOf({PlainDevice("d0")}));
  ASSERT_TRUE(WaitUntil([this] { return !publisher_->GetState().error.empty(); }));
  EXPECT_THAT(publisher_->GetState().error, HasSubstr("node \"n1\""));
  EXPECT_EQ(Writes(), 0);
  PutNode("N1");
  ASSERT_TRUE(Published());
}

TEST_F(PublisherLoop, GivesSlicesTheNewOwnerWhenTheNodeIsRecreated) {
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  PutNode("N2");
  publisher_->Resync();
  ASSERT_TRUE(
      WaitUntil([this] { return Slices()[0]["metadata"]["ownerReferences"][0]["uid"] == "N2"; }));
  EXPECT_EQ(OnlySpec()["pool"]["generation"], 1);
}

TEST_F(PublisherLoop, RepairsAStrangersEditAtOnceAndSlowsDownWhenItGoesOn) {
  Options options = MakeOptions();
  options.retry_max = absl::Seconds(30);
  Start(options);
  Publish(SnapshotOf({PlainDevice("d0")}));
  const auto edit = [this](int value) {
    Json slice = Slices()[0];
    slice["spec"]["devices"][0]["attributes"]["value"]["int"] = value;
    api_.store().Put(slice);
  };
  const auto repaired = [this] {
    return OnlySpec()["devices"][0]["attributes"]["value"]["int"] == 0;
  };
  edit(1);
  ASSERT_TRUE(WaitUntil(repaired));
  ASSERT_TRUE(Published());
  edit(2);
  ASSERT_TRUE(WaitUntil(repaired));
  ASSERT_TRUE(Published());
  edit(3);
  ASSERT_TRUE(WaitUntil(repaired)) << "later, but it is repaired";
  ASSERT_TRUE(Published());
}

TEST_F(PublisherLoop, DeletesPoolsOfAnEarlierLifeAndLeavesOtherDrivers) {
  const auto slice = [](const char* name, const char* driver, const char* pool) -> Json {
    return {{"apiVersion", "resource.k8s.io/v1"},
            {"kind", "ResourceSlice"},
            {"metadata", {{"name", name}}},
            {"spec",
             {{"driver", driver},
              {"nodeName", "n1"},
              {"pool", {{"name", pool}, {"generation", 3}, {"resourceSliceCount", 1}}}}}};
  };
  api_.store().Put(slice("old", "gpu.sdk.test", "n1/old"));
  api_.store().Put(slice("other", "net.other.test", "n1"));
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  EXPECT_FALSE(api_.store().Find(kube::ResourceSlices(), "", "old").has_value());
  EXPECT_TRUE(api_.store().Find(kube::ResourceSlices(), "", "other").has_value());
}

TEST_F(PublisherLoop, TellsWhatTheServerKeeps) {
  Start();
  Publish(SnapshotOf({}));
  const loader::ServerFields fields = LastFields();
  EXPECT_EQ(fields.counters, loader::FieldSupport::kKept);
  EXPECT_EQ(fields.multiple_allocations, loader::FieldSupport::kKept);
  EXPECT_EQ(fields.taints, loader::FieldSupport::kKept);
  EXPECT_EQ(fields.taint_effect_none, loader::FieldSupport::kKept);
  EXPECT_EQ(fields.binding_conditions, loader::FieldSupport::kKept);
  EXPECT_EQ(fields.list_attributes, loader::FieldSupport::kDropped);
  EXPECT_EQ(fields.skip_node_operations, loader::FieldSupport::kDropped);
}

TEST_F(PublisherLoop, SaysThatAllIsDroppedByAnOldServer) {
  api_.store().SetProfile({34, {}});
  Start();
  Publish(SnapshotOf({}));
  loader::ServerFields none;
  none.counters = none.multiple_allocations = none.taints = none.binding_conditions =
      none.list_attributes = none.node_allocatable = none.skip_node_operations =
          none.taint_effect_none = loader::FieldSupport::kDropped;
  EXPECT_EQ(LastFields(), none);
}

TEST_F(PublisherLoop, HoldsBackWhatLeansOnAFieldUntilTheServerHasAnswered) {
  ApiFault fault;
  fault.match = On("create");
  fault.code = 503;
  fault.times = 2;  // two of the questions get no answer at first
  api_.traffic().Inject(fault);
  Start();
  publisher_->SetInventory(SnapshotOf({PlainDevice("d0"), Tainted("d1")}));
  ASSERT_TRUE(WaitUntil([this] { return PublishedDevices().size() == 2; }));
  const auto creates = api_.traffic().Requests(Stored("create"));
  ASSERT_FALSE(creates.empty());
  EXPECT_EQ(creates[0].body["spec"]["devices"].size(), 1u);
}

}  // namespace
}  // namespace dra::publisher
