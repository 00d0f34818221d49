#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "test/publisher/fixture.h"

// Faults of other people's drivers, as far as the publisher can have them; named after their case.
namespace dra::publisher {
namespace {

using testing::ApiFault;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Slc01 : public PublisherTest {};
class Slc06 : public PublisherTest {};
class Slc07 : public PublisherTest {};
class Slc09 : public PublisherTest {};
class Slc10 : public PublisherTest {};
class Slc11 : public PublisherTest {};
class Inv05 : public PublisherTest {};
class Inv07 : public PublisherTest {};
class Inv08 : public PublisherTest {};
class Inv09 : public PublisherTest {};
class Hlt05 : public PublisherTest {};
class Api03 : public PublisherTest {};

TEST_F(Slc01, ASliceDeletedRightAfterItsCreationComesBack) {
  Start();
  for (int i = 0; i < 3; ++i) {
    Publish(SnapshotOf({PlainDevice("d0", i)}));
    for (const Json& slice : Slices()) {
      ASSERT_TRUE(api_.store().Erase(kube::ResourceSlices(), "",
                                     slice["metadata"]["name"].get<std::string>()));
    }
    ASSERT_TRUE(WaitUntil([this] { return Slices().size() == 1; }));
    ASSERT_TRUE(Published());
  }
  EXPECT_EQ(OnlySpec()["devices"][0]["attributes"]["value"]["int"], 2);
  ExpectNoFurtherWrites();
}

TEST_F(Slc01, AWipeThatTheWatchMissedIsRepairedOnResync) {
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  ApiFault fault;
  fault.kind = ApiFault::Kind::kExpired;
  fault.match = On("watch");
  api_.traffic().Inject(fault);
  api_.store().CutWatches();
  ASSERT_TRUE(api_.store().DeleteCollection(kube::ResourceSlices(), "", {}).ok());
  publisher_->Resync();
  ASSERT_TRUE(WaitUntil([this] { return Slices().size() == 1; }));
}

TEST_F(Slc06, EverySliceOfAPoolHasTheTrueCountAndOneGeneration) {
  Start();
  for (int count : {300, 10, 200, 0, 65}) {
    std::vector<Json> devices;
    for (int i = 0; i < count; ++i) devices.push_back(PlainDevice(absl::StrCat("d", i), count));
    Publish(SnapshotOf(devices));
    const std::vector<Json> slices = Slices();
    ASSERT_FALSE(slices.empty());
    for (const Json& slice : slices) {
      EXPECT_EQ(slice["spec"]["pool"]["resourceSliceCount"], slices.size());
      EXPECT_EQ(slice["spec"]["pool"]["generation"], slices[0]["spec"]["pool"]["generation"]);
    }
    EXPECT_EQ(PublishedDevices().size(), static_cast<size_t>(count));
  }
}

TEST_F(Slc07, DroppedCountersAreReportedAndTheirDevicesWithdrawn) {
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  api_.store().SetProfile({37, {{"DRAPartitionableDevices", false}}});
  auto snapshot = SnapshotOf({PlainDevice("d0"), Partition("p0"), Partition("p1")});
  snapshot->pools[0].counter_sets.push_back(CardCounters());
  Publish(snapshot);
  EXPECT_THAT(PublishedDevices(), ElementsAre("d0"));
  EXPECT_EQ(LastFields().counters, loader::FieldSupport::kDropped);
  EXPECT_TRUE(HasFinding("p0", "consumesCounters"));
  ExpectNoFurtherWrites();
}

TEST_F(Slc07, AFieldNobodyKnowsIsReportedOnceAndNotSentAgain) {
  Start();
  auto snapshot = SnapshotOf({PlainDevice("d0")});
  snapshot->pools[0].slice_fields = {{"partitionTypeAttribute", "gpu.sdk.test/profile"}};
  snapshot->pools[0].counter_sets.push_back(CardCounters());
  Json partition = Partition("p0");
  partition["attributes"]["gpu.sdk.test/profile"] = {{"string", "half"}};
  auto device = std::make_shared<inventory::Device>();
  device->pool = "n1";
  device->name = "p0";
  device->device = partition;
  snapshot->pools[0].devices = {device};
  Publish(snapshot);
  EXPECT_TRUE(HasFinding("", "partitionTypeAttribute"));
  ExpectNoFurtherWrites();
}

TEST(Slc08, AMissingNameIsAnErrorThatNamesTheSetting) {
  Options options;
  options.driver_name = "gpu.sdk.test";
  EXPECT_THAT(std::string(ValidateOptions(options).message()), HasSubstr("node name"));
  options.node_name = "n1";
  EXPECT_TRUE(ValidateOptions(options).ok());
  options.driver_name = "";
  EXPECT_THAT(std::string(ValidateOptions(options).message()), HasSubstr("driver name"));
  SystemClock clock;
  testing::FakeApiClient api;
  auto publisher = Publisher::Create(options, &api, &clock, nullptr, nullptr, Logger(), nullptr);
  publisher->Start();
  EXPECT_THAT(publisher->GetState().error, HasSubstr("driver name"));
}

TEST_F(Slc09, AHeldDeviceStaysPublishedThoughItIsWithheld) {
  Start();
  publisher_->SetHeld({{"n1", "d0"}});
  auto snapshot = SnapshotOf({PlainDevice("d1")});
  for (const char* name : {"d0", "d2"}) {
    auto device = std::make_shared<inventory::Device>();
    device->pool = "n1";
    device->name = name;
    device->device = PlainDevice(name);
    device->withheld = true;
    snapshot->pools[0].devices.push_back(device);
  }
  Publish(snapshot);
  EXPECT_THAT(PublishedDevices(), ElementsAre("d0", "d1"));
  publisher_->SetHeld({});
  ASSERT_TRUE(WaitUntil([this] { return PublishedDevices().size() == 1; }));
}

TEST_F(Slc10, AServerThatDoesNotAnswerNeverHoldsUpTheInventory) {
  ApiFault fault;
  fault.kind = ApiFault::Kind::kBlackHole;
  fault.times = 0;
  api_.traffic().Inject(fault);
  Start();
  for (int i = 0; i < 1000; ++i) publisher_->SetInventory(SnapshotOf({PlainDevice("d0", i)}));
  EXPECT_FALSE(publisher_->GetState().published);
  api_.traffic().ClearFaults();
  ASSERT_TRUE(Published());
  EXPECT_EQ(OnlySpec()["devices"][0]["attributes"]["value"]["int"], 999);
}

TEST_F(Slc11, ADrainDeletesThePoolsAndItsEndBringsThemBack) {
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  publisher_->SetWithdrawn(true);
  ASSERT_TRUE(WaitUntil([this] { return Slices().empty(); }));
  ASSERT_TRUE(Published());
  publisher_->SetInventory(SnapshotOf({PlainDevice("d0", 1)}));
  ASSERT_TRUE(Published());
  EXPECT_TRUE(Slices().empty());
  publisher_->SetWithdrawn(false);
  ASSERT_TRUE(WaitUntil([this] { return Slices().size() == 1; }));
}

TEST_F(Inv05, OneBadVersionCostsOnlyThatAttribute) {
  // The inventory repairs it before; what it lets through is held back here.
  Json device = PlainDevice("d0");
  device["attributes"]["driverVersion"] = {{"version", "6.19.14.31400000"}};
  device["attributes"]["model"] = {{"string", "M"}};
  events_ =
      std::make_unique<observe::EventRecorder>(&api_, &clock_, &metrics_, Logger(), "dra", "n1");
  Start();
  Publish(SnapshotOf({device}));
  const Json attributes = OnlySpec()["devices"][0]["attributes"];
  EXPECT_EQ(attributes["model"]["string"], "M");
  EXPECT_FALSE(attributes.contains("driverVersion"));
  EXPECT_TRUE(HasFinding("d0", "attributes[driverVersion]"));
  publisher_.reset();
  events_.reset();
  const std::vector<Json> events = api_.store().All(kube::Events());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["reason"], "AttributeDropped");
  EXPECT_THAT(events[0]["note"].get<std::string>(), HasSubstr("6.19.14.31400000"));
}

TEST_F(Inv05, AnUnforeseenRefusalCostsWhatItNamesUntilTheDeviceChanges) {
  ApiFault refusal;
  refusal.match = Stored("create");
  refusal.code = 422;
  refusal.reason = "Invalid";
  refusal.causes = {
      {"FieldValueInvalid", "spec.devices[1].attributes[a.b/odd].string", "not this one"}};
  api_.traffic().Inject(refusal);
  Json odd = PlainDevice("d1");
  odd["attributes"]["a.b/odd"] = {{"string", "x"}};
  Start();
  Publish(SnapshotOf({PlainDevice("d0"), odd}));
  EXPECT_THAT(PublishedDevices(), ElementsAre("d0", "d1"));
  EXPECT_FALSE(OnlySpec()["devices"][1]["attributes"].contains("a.b/odd"));
  EXPECT_TRUE(HasFinding("d1", "attributes[a.b/odd]"));
  odd["attributes"]["value"]["int"] = 1;
  Publish(SnapshotOf({PlainDevice("d0"), odd}));
  EXPECT_TRUE(OnlySpec()["devices"][1]["attributes"].contains("a.b/odd")) << "tried again";
  EXPECT_TRUE(publisher_->GetState().findings.empty());
}

TEST_F(Inv05, ARefusedDeviceCostsOnlyItself) {
  ApiFault refusal;
  refusal.match = Stored("create");
  refusal.code = 422;
  refusal.reason = "Invalid";
  refusal.causes = {{"FieldValueInvalid", "spec.devices[0].taints[0].key", "no"}};
  api_.traffic().Inject(refusal);
  Start();
  Publish(SnapshotOf({Tainted("d0"), PlainDevice("d1")}));
  EXPECT_THAT(PublishedDevices(), ElementsAre("d1"));
  EXPECT_EQ(metrics_.Value("dra_devices_dropped", {{"driver", "gpu.sdk.test"}}), 1);
}

TEST_F(Inv05, ARefusalThatNamesNothingIsShownAndTriedAgain) {
  ApiFault refusal;
  refusal.match = Stored("create");
  refusal.code = 422;
  refusal.times = 0;
  refusal.reason = "Invalid";
  refusal.message = "denied by a policy";
  api_.traffic().Inject(refusal);
  Start();
  publisher_->SetInventory(SnapshotOf({PlainDevice("d0")}));
  ASSERT_TRUE(WaitUntil([this] { return !publisher_->GetState().error.empty(); }));
  EXPECT_THAT(publisher_->GetState().error, HasSubstr("denied by a policy"));
  api_.traffic().ClearFaults();
  ASSERT_TRUE(Published());
}

TEST_F(Inv07, AnOverlongListCostsOnlyThatAttribute) {
  Json device = PlainDevice("net-ipvs0");
  device["attributes"]["ipv4"] = {{"string", std::string(65, '1')}};
  Start();
  Publish(SnapshotOf({PlainDevice("d0"), device}));
  EXPECT_THAT(PublishedDevices(), ElementsAre("d0", "net-ipvs0"));
  EXPECT_FALSE(OnlySpec()["devices"][1]["attributes"].contains("ipv4"));
  EXPECT_TRUE(OnlySpec()["devices"][1]["attributes"].contains("value"));
}

TEST_F(Inv08, ALongNameOf64BytesIsPublishedWithoutASecondWrite) {
  std::string vendor;
  for (int i = 0; i < 32; ++i) vendor += "\xC3\x84";  // 64 bytes
  Json device = PlainDevice("d0");
  device["attributes"]["pciVendor"] = {{"string", vendor}};
  Start();
  Publish(SnapshotOf({device}));
  EXPECT_EQ(OnlySpec()["devices"][0]["attributes"]["pciVendor"]["string"], vendor);
  ExpectNoFurtherWrites();
}

TEST_F(Inv09, ANameThatIsNoIdentifierCostsOnlyThatAttribute) {
  Json device = PlainDevice("d0");
  device["attributes"]["numa-1"] = {{"int", 3}};
  Start();
  Publish(SnapshotOf({device}));
  EXPECT_FALSE(OnlySpec()["devices"][0]["attributes"].contains("numa-1"));
  EXPECT_TRUE(HasFinding("d0", "attributes[numa-1]"));
}

TEST_F(Hlt05, WithoutTaintsAFreeSickDeviceGoesAndAHeldOneStays) {
  api_.store().SetProfile({34, {}});
  Start();
  publisher_->SetHeld({{"n1", "d1"}});
  Publish(SnapshotOf({Tainted("d0"), Tainted("d1"), PlainDevice("d2")}));
  EXPECT_THAT(PublishedDevices(), ElementsAre("d1", "d2"));
  ExpectNoFurtherWrites();
}

TEST_F(Hlt05, WithTaintsASickDeviceStaysTainted) {
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  const int before = Writes();
  Publish(SnapshotOf({Tainted("d0")}));
  EXPECT_EQ(OnlySpec()["devices"][0]["taints"][0]["effect"], "NoSchedule");
  EXPECT_EQ(OnlySpec()["pool"]["generation"], 1);
  EXPECT_EQ(Writes() - before, 1);
  ExpectNoFurtherWrites();
}

TEST_F(Hlt05, ATaintThatOnlyInformsIsPublishedWhereTheServerTakesIt) {
  Json device = PlainDevice("d0");
  device["taints"] = {{{"key", "gpu.sdk.test/unhealthy"}, {"effect", "None"}}};
  Start();
  Publish(SnapshotOf({device}));
  EXPECT_EQ(OnlySpec()["devices"][0]["taints"][0]["effect"], "None");
  ExpectNoFurtherWrites();
}

// 1.34 with its gate on keeps taints, and refuses the whole slice for this effect.
TEST_F(Hlt05, AnOldServersRefusalOfTheEffectNoneCostsTheTaintAlone) {
  api_.store().SetProfile({34, {{"DRADeviceTaints", true}}});
  Json informed = PlainDevice("d0");
  informed["taints"] = {{{"key", "gpu.sdk.test/unhealthy"}, {"effect", "None"}}};
  Start();
  Publish(SnapshotOf({informed, Tainted("d1")}));
  EXPECT_THAT(PublishedDevices(), ElementsAre("d0", "d1"));
  EXPECT_FALSE(OnlySpec()["devices"][0].contains("taints"));
  EXPECT_EQ(OnlySpec()["devices"][1]["taints"][0]["effect"], "NoSchedule");
  EXPECT_TRUE(HasFinding("d0", "taints"));
  for (const auto& request : api_.traffic().Requests(Stored("create"))) {
    EXPECT_EQ(request.code, 200);
  }
  ExpectNoFurtherWrites();
}

TEST_F(Api03, AnExpiredWatchListsAgainAndMissesNothing) {
  Start();
  Publish(SnapshotOf({PlainDevice("d0")}));
  const int lists = api_.traffic().Count(On("list"));
  api_.store().Compact();
  ASSERT_TRUE(api_.traffic().WaitForCount(On("list"), lists + 1));
  Json slice = Slices()[0];
  slice["spec"]["devices"] = Json::array();
  api_.store().Put(slice);
  ASSERT_TRUE(WaitUntil([this] { return PublishedDevices().size() == 1; }));
}

}  // namespace
}  // namespace dra::publisher
