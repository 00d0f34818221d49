#include "dra/testing/object_store.h"

#include <thread>

#include "dra/testing/fake_clock.h"
#include "gtest/gtest.h"
#include "test/testing/test_objects.h"

namespace dra::testing {
namespace {

using kube::ResourceClaims;
using kube::ResourceSlices;

std::string VersionOf(const Json& object) {
  return object["metadata"]["resourceVersion"].get<std::string>();
}
std::string UidOf(const Json& object) { return object["metadata"]["uid"].get<std::string>(); }

Json MustCreate(ObjectStore& store, const kube::Resource& resource, const Json& object) {
  const absl::StatusOr<Json> created =
      store.Create(resource, resource.namespaced ? "default" : "", object);
  EXPECT_TRUE(created.ok()) << created.status();
  return created.ok() ? *created : Json();
}

TEST(ObjectStore, FillsInWhatTheServerFillsIn) {
  FakeClock clock;
  ObjectStore store({}, &clock);
  const Json created = MustCreate(store, ResourceSlices(), Slice("a"));
  EXPECT_EQ(created["metadata"]["generation"], 1);
  EXPECT_EQ(created["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(UidOf(created).size(), 36u);
  EXPECT_FALSE(VersionOf(created).empty());
}

TEST(ObjectStore, CutsAGenerateNameAt58BytesAndAddsFive) {
  ObjectStore store;
  Json slice = Slice("");
  slice["metadata"] = {{"generateName", std::string(70, 'x')}};
  const std::string name =
      MustCreate(store, ResourceSlices(), slice)["metadata"]["name"].get<std::string>();
  EXPECT_EQ(name.size(), 63u);
  EXPECT_EQ(name.substr(0, 58), std::string(58, 'x'));
}

TEST(ObjectStore, RefusesAnObjectWithoutName) {
  ObjectStore store;
  const absl::Status status = store.Create(ResourceSlices(), "", Slice("")).status();
  EXPECT_EQ(ErrorOf(status).http_code, 422) << status;
}

TEST(ObjectStore, RefusesASecondObjectOfTheName) {
  ObjectStore store;
  MustCreate(store, ResourceSlices(), Slice("a"));
  const kube::ApiError error = ErrorOf(store.Create(ResourceSlices(), "", Slice("a")).status());
  EXPECT_EQ(error.http_code, 409);
  EXPECT_EQ(error.reason, "AlreadyExists");
}

TEST(ObjectStore, RefusesACreateWithAResourceVersion) {
  ObjectStore store;
  Json slice = Slice("a");
  slice["metadata"]["resourceVersion"] = "7";
  EXPECT_EQ(ErrorOf(store.Create(ResourceSlices(), "", slice).status()).http_code, 400);
}

TEST(ObjectStore, RefusesAnObjectOfAnotherKind) {
  ObjectStore store;
  EXPECT_EQ(ErrorOf(store.Create(ResourceSlices(), "", Claim("a")).status()).http_code, 400);
}

TEST(ObjectStore, RefusesAnUpdateOfAnOldVersion) {
  ObjectStore store;
  Json slice = MustCreate(store, ResourceSlices(), Slice("a"));
  Json changed = slice;
  changed["spec"]["devices"].push_back({{"name", "gpu-9"}});
  ASSERT_TRUE(store.Update(ResourceSlices(), "", "a", "", changed).ok());
  changed["spec"]["devices"].push_back({{"name", "gpu-10"}});
  const kube::ApiError error =
      ErrorOf(store.Update(ResourceSlices(), "", "a", "", changed).status());
  EXPECT_EQ(error.http_code, 409);
  EXPECT_EQ(error.reason, "Conflict");
}

TEST(ObjectStore, CountsTheGenerationWhenTheSpecChangesAndNoVersionWhenNothingDoes) {
  ObjectStore store;
  const Json slice = MustCreate(store, ResourceSlices(), Slice("a"));
  const absl::StatusOr<Json> same = store.Update(ResourceSlices(), "", "a", "", slice);
  ASSERT_TRUE(same.ok());
  EXPECT_EQ(VersionOf(*same), VersionOf(slice));
  Json changed = slice;
  changed["spec"]["pool"]["generation"] = 2;
  const absl::StatusOr<Json> updated = store.Update(ResourceSlices(), "", "a", "", changed);
  ASSERT_TRUE(updated.ok());
  EXPECT_EQ((*updated)["metadata"]["generation"], 2);
  EXPECT_NE(VersionOf(*updated), VersionOf(slice));
}

TEST(ObjectStore, RefusesToUpdateWhatIsNotThere) {
  ObjectStore store;
  EXPECT_TRUE(absl::IsNotFound(store.Update(ResourceSlices(), "", "a", "", Slice("a")).status()));
}

TEST(ObjectStore, RefusesToChangeTheImmutableFieldsOfASlice) {
  ObjectStore store;
  const Json slice = MustCreate(store, ResourceSlices(), Slice("a"));
  const std::pair<const char*, Json> changes[] = {{"/spec/driver", "other.example.com"},
                                                  {"/spec/nodeName", "node-b"},
                                                  {"/spec/pool/name", "other"}};
  for (const auto& [pointer, value] : changes) {
    SCOPED_TRACE(pointer);
    Json changed = slice;
    changed[Json::json_pointer(pointer)] = value;
    EXPECT_EQ(ErrorOf(store.Update(ResourceSlices(), "", "a", "", changed).status()).http_code,
              422);
  }
}

TEST(ObjectStore, NamesTheFieldOfALimitThatIsExceeded) {
  ObjectStore store;
  Json slice = Slice("a");
  slice["spec"]["devices"][0]["attributes"]["model"] = {{"string", std::string(65, 'x')}};
  const kube::ApiError error = ErrorOf(store.Create(ResourceSlices(), "", slice).status());
  EXPECT_EQ(error.http_code, 422);
  ASSERT_EQ(error.causes.size(), 1u);
  EXPECT_EQ(error.causes[0].field, "spec.devices[0].attributes[model].string");
}

TEST(ObjectStore, Refuses65DevicesOnceOneHasATaint) {
  ObjectStore store;
  Json slice = Slice("a", 65);
  EXPECT_TRUE(store.Create(ResourceSlices(), "", slice, true).ok());
  slice["spec"]["devices"][7]["taints"] = {
      {{"key", "x.example.com/sick"}, {"effect", "NoSchedule"}}};
  EXPECT_EQ(ErrorOf(store.Create(ResourceSlices(), "", slice).status()).http_code, 422);
}

TEST(ObjectStore, Refuses129Devices) {
  ObjectStore store;
  EXPECT_TRUE(store.Create(ResourceSlices(), "", Slice("a", 128)).ok());
  EXPECT_EQ(ErrorOf(store.Create(ResourceSlices(), "", Slice("b", 129)).status()).http_code, 422);
}

TEST(ObjectStore, WritesQuantitiesInCanonicalForm) {
  ObjectStore store;
  Json slice = Slice("a");
  slice["spec"]["devices"][0]["capacity"]["memory"] = {{"value", "1024Mi"}};
  const Json created = MustCreate(store, ResourceSlices(), slice);
  EXPECT_EQ(created["spec"]["devices"][0]["capacity"]["memory"]["value"], "1Gi");
  slice["spec"]["devices"][0]["capacity"]["memory"] = {{"value", "many"}};
  EXPECT_EQ(ErrorOf(store.Create(ResourceSlices(), "", slice).status()).http_code, 400);
}

Json SliceWithGatedFields() {
  Json slice = Slice("probe");
  Json& device = slice["spec"]["devices"][0];
  device["allowMultipleAllocations"] = true;
  device["capacity"]["memory"] = {
      {"value", "16Gi"}, {"requestPolicy", {{"default", "1Gi"}, {"validRange", {{"min", "1Gi"}}}}}};
  device["taints"] = {{{"key", "x.example.com/sick"}, {"effect", "NoSchedule"}}};
  device["bindsToNode"] = true;
  device["bindingConditions"] = {"ready.example.com"};
  device["bindingFailureConditions"] = {"failed.example.com"};
  device["consumesCounters"] = {
      {{"counterSet", "gpu-0"}, {"counters", {{"memory", {{"value", "1Gi"}}}}}}};
  return slice;
}

TEST(ObjectStore, DropsGatedFieldsSilentlyAs134) {
  ObjectStore store({.minor = 34, .gates = {}});
  const absl::StatusOr<Json> probe =
      store.Create(ResourceSlices(), "", SliceWithGatedFields(), true);
  ASSERT_TRUE(probe.ok()) << probe.status();
  EXPECT_EQ((*probe)["spec"]["devices"][0],
            Json({{"name", "gpu-0"}, {"capacity", {{"memory", {{"value", "16Gi"}}}}}}));
  EXPECT_FALSE(store.Find(ResourceSlices(), "", "probe").has_value()) << "a dry run stores nothing";
}

TEST(ObjectStore, KeepsGatedFieldsAs137AndStampsTaints) {
  FakeClock clock;
  ObjectStore store({.minor = 37, .gates = {}}, &clock);
  const Json sent = SliceWithGatedFields();
  const absl::StatusOr<Json> probe = store.Create(ResourceSlices(), "", sent, true);
  ASSERT_TRUE(probe.ok()) << probe.status();
  Json expected = sent["spec"]["devices"][0];
  expected["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z";
  EXPECT_EQ((*probe)["spec"]["devices"][0], expected);
}

TEST(ObjectStore, RefusesAListAttributeWhileItsGateIsOff) {
  ObjectStore store;
  Json slice = Slice("a");
  slice["spec"]["devices"][0]["attributes"]["lanes"] = {{"ints", {1, 2}}};
  EXPECT_EQ(ErrorOf(store.Create(ResourceSlices(), "", slice).status()).http_code, 422);
  store.SetProfile({.minor = 37, .gates = {{"DRAListTypeAttributes", true}}});
  EXPECT_TRUE(store.Create(ResourceSlices(), "", slice).ok());
}

TEST(ObjectStore, RefusesTheTaintEffectNoneBefore135) {
  ObjectStore store({.minor = 34, .gates = {{"DRADeviceTaints", true}}});
  Json slice = Slice("a");
  slice["spec"]["devices"][0]["taints"] = {{{"key", "x.example.com/sick"}, {"effect", "None"}}};
  const kube::ApiError refused = ErrorOf(store.Create(ResourceSlices(), "", slice).status());
  EXPECT_EQ(refused.http_code, 422);
  ASSERT_EQ(refused.causes.size(), 1u);
  EXPECT_EQ(refused.causes[0].field, "spec.devices[0].taints[0].effect");
  // With the gate off the field has gone before it is looked at.
  store.SetProfile({.minor = 34, .gates = {}});
  EXPECT_TRUE(store.Create(ResourceSlices(), "", slice, true).ok());
  store.SetProfile({.minor = 35, .gates = {{"DRADeviceTaints", true}}});
  EXPECT_TRUE(store.Create(ResourceSlices(), "", slice).ok());
}

TEST(ObjectStore, DropsAlphaFieldsUntilTheirGateIsOn) {
  ObjectStore store;
  Json slice = Slice("a");
  slice["spec"]["skipNodeOperations"] = {"*"};
  EXPECT_FALSE(
      store.Create(ResourceSlices(), "", slice, true)->at("spec").contains("skipNodeOperations"));
  store.SetProfile({.minor = 37, .gates = {{"DRAOptionalNodeOperations", true}}});
  EXPECT_TRUE(
      store.Create(ResourceSlices(), "", slice, true)->at("spec").contains("skipNodeOperations"));
}

TEST(ObjectStore, LetsAFieldStayThatWasUsedBeforeItsGateWentOff) {
  ObjectStore store;
  const Json slice = MustCreate(store, ResourceSlices(), SliceWithGatedFields());
  store.SetProfile({.minor = 34, .gates = {}});
  Json changed = slice;
  changed["spec"]["pool"]["generation"] = 2;
  const absl::StatusOr<Json> updated = store.Update(ResourceSlices(), "", "probe", "", changed);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_TRUE((*updated)["spec"]["devices"][0].contains("taints"));
}

TEST(ObjectStore, SelectsByNodeAndDriver) {
  ObjectStore store;
  MustCreate(store, ResourceSlices(), Slice("a", 1, "node-a"));
  MustCreate(store, ResourceSlices(), Slice("b", 1, "node-b"));
  MustCreate(store, ResourceSlices(), Slice("c", 1, "node-a", "other.example.com"));
  StoreQuery query;
  query.field_selector = "spec.nodeName=node-a,spec.driver=gpu.example.com";
  const absl::StatusOr<StoreList> list = store.List(ResourceSlices(), "", query);
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->items.size(), 1u);
  EXPECT_EQ(list->items[0]["metadata"]["name"], "a");
}

TEST(ObjectStore, SelectsByPoolNameFrom137OnOnly) {
  StoreQuery query;
  query.field_selector = "spec.pool.name=node-a";
  EXPECT_TRUE(ObjectStore({.minor = 37, .gates = {}}).List(ResourceSlices(), "", query).ok());
  EXPECT_EQ(
      ErrorOf(ObjectStore({.minor = 36, .gates = {}}).List(ResourceSlices(), "", query).status())
          .http_code,
      400);
}

TEST(ObjectStore, RefusesAFieldThatIsNotSelectable) {
  StoreQuery query;
  query.field_selector = "spec.devices=x";
  EXPECT_EQ(ErrorOf(ObjectStore().List(ResourceSlices(), "", query).status()).http_code, 400);
}

TEST(ObjectStore, SelectsByLabel) {
  ObjectStore store;
  Json labelled = Slice("a");
  labelled["metadata"]["labels"] = {{"tier", "gold"}};
  MustCreate(store, ResourceSlices(), labelled);
  MustCreate(store, ResourceSlices(), Slice("b"));
  const std::pair<const char*, size_t> cases[] = {
      {"tier=gold", 1}, {"tier!=gold", 1},          {"tier", 1},
      {"!tier", 1},     {"tier in (gold, tin)", 1}, {"tier=tin", 0}};
  for (const auto& [text, count] : cases) {
    SCOPED_TRACE(text);
    StoreQuery query;
    query.label_selector = text;
    EXPECT_EQ(store.List(ResourceSlices(), "", query)->items.size(), count);
  }
}

TEST(ObjectStore, ContinuesAListAndExpiresItsToken) {
  ObjectStore store;
  for (const char* name : {"a", "b", "c"}) MustCreate(store, ResourceSlices(), Slice(name));
  StoreQuery query;
  query.limit = 2;
  const absl::StatusOr<StoreList> first = store.List(ResourceSlices(), "", query);
  ASSERT_EQ(first->items.size(), 2u);
  EXPECT_EQ(first->remaining, 1);
  query.continue_token = first->continue_token;
  const absl::StatusOr<StoreList> second = store.List(ResourceSlices(), "", query);
  ASSERT_EQ(second->items.size(), 1u);
  EXPECT_EQ(second->items[0]["metadata"]["name"], "c");
  EXPECT_TRUE(second->continue_token.empty());
  store.Compact();
  EXPECT_EQ(ErrorOf(store.List(ResourceSlices(), "", query).status()).http_code, 410);
}

TEST(ObjectStore, DeletesOnlyWhatThePreconditionsName) {
  ObjectStore store;
  const Json slice = MustCreate(store, ResourceSlices(), Slice("a"));
  EXPECT_EQ(
      ErrorOf(store.Delete(ResourceSlices(), "", "a", {.uid = "another", .resource_version = ""}))
          .http_code,
      409);
  EXPECT_EQ(ErrorOf(store.Delete(ResourceSlices(), "", "a", {.uid = "", .resource_version = "99"}))
                .http_code,
            409);
  EXPECT_TRUE(store
                  .Delete(ResourceSlices(), "", "a",
                          {.uid = UidOf(slice), .resource_version = VersionOf(slice)})
                  .ok());
  EXPECT_TRUE(absl::IsNotFound(store.Delete(ResourceSlices(), "", "a", {})));
}

TEST(ObjectStore, KeepsAnObjectWithFinalizersUntilTheyAreGone) {
  ObjectStore store;
  Json claim = Claim("c");
  claim["metadata"]["finalizers"] = {"resource.kubernetes.io/delete-protection"};
  MustCreate(store, ResourceClaims(), claim);
  ASSERT_TRUE(store.Delete(ResourceClaims(), "default", "c", {}).ok());
  Json marked = *store.Find(ResourceClaims(), "default", "c");
  EXPECT_TRUE(marked["metadata"].contains("deletionTimestamp"));
  marked["metadata"].erase("finalizers");
  ASSERT_TRUE(store.Update(ResourceClaims(), "default", "c", "", marked).ok());
  EXPECT_FALSE(store.Find(ResourceClaims(), "default", "c").has_value());
}

TEST(ObjectStore, DeletesACollectionBySelector) {
  ObjectStore store;
  MustCreate(store, ResourceSlices(), Slice("a", 1, "node-a"));
  MustCreate(store, ResourceSlices(), Slice("b", 1, "node-b"));
  StoreQuery query;
  query.field_selector = "spec.nodeName=node-a";
  EXPECT_EQ(*store.DeleteCollection(ResourceSlices(), "", query), 1);
  EXPECT_EQ(store.All(ResourceSlices()).size(), 1u);
}

TEST(ObjectStore, WatchShowsChangesInOrderFromAPosition) {
  ObjectStore store;
  const Json a = MustCreate(store, ResourceSlices(), Slice("a"));
  StoreQuery query;
  query.resource_version = VersionOf(a);
  auto watch = store.Watch(ResourceSlices(), "", query);
  ASSERT_TRUE(watch.ok());
  MustCreate(store, ResourceSlices(), Slice("b"));
  ASSERT_TRUE(store.Delete(ResourceSlices(), "", "a", {}).ok());
  EXPECT_EQ((*(*watch)->Next(absl::Seconds(5), {}))->type, "ADDED");
  EXPECT_EQ((*(*watch)->Next(absl::Seconds(5), {}))->type, "DELETED");
  EXPECT_FALSE((*watch)->Next(absl::ZeroDuration(), {})->has_value());
}

TEST(ObjectStore, AnObjectThatStopsMatchingIsDeletedForTheWatch) {
  ObjectStore store;
  Json slice = Slice("a");
  slice["metadata"]["labels"] = {{"tier", "gold"}};
  Json created = MustCreate(store, ResourceSlices(), slice);
  StoreQuery query;
  query.label_selector = "tier=gold";
  query.resource_version = VersionOf(created);
  auto watch = store.Watch(ResourceSlices(), "", query);
  created["metadata"]["labels"]["tier"] = "tin";
  ASSERT_TRUE(store.Update(ResourceSlices(), "", "a", "", created).ok());
  EXPECT_EQ((*(*watch)->Next(absl::Seconds(5), {}))->type, "DELETED");
}

TEST(ObjectStore, ACompactedPositionIs410) {
  ObjectStore store;
  const Json a = MustCreate(store, ResourceSlices(), Slice("a"));
  StoreQuery query;
  query.resource_version = VersionOf(a);
  auto open = store.Watch(ResourceSlices(), "", query);
  store.Compact();
  EXPECT_EQ(ErrorOf((*open)->Next(absl::Seconds(5), {}).status()).http_code, 410);
  EXPECT_EQ(ErrorOf(store.Watch(ResourceSlices(), "", query).status()).http_code, 410);
}

TEST(ObjectStore, CutWatchesEndAndBookmarksReachThoseWhoAsked) {
  ObjectStore store;
  StoreQuery query;
  query.bookmarks = true;
  auto watch = store.Watch(ResourceSlices(), "", query);
  auto quiet = store.Watch(ResourceSlices(), "", {});
  EXPECT_EQ(store.OpenWatches(), 2);
  store.SendBookmarks();
  EXPECT_EQ((*(*watch)->Next(absl::Seconds(5), {}))->type, "BOOKMARK");
  EXPECT_FALSE((*quiet)->Next(absl::ZeroDuration(), {})->has_value());
  store.CutWatches();
  EXPECT_TRUE(absl::IsCancelled((*watch)->Next(absl::Seconds(5), {}).status()));
}

TEST(ObjectStore, AWatchWithoutPositionBeginsWithTheState) {
  ObjectStore store;
  MustCreate(store, ResourceSlices(), Slice("a"));
  StoreQuery query;
  query.initial_events = true;
  auto watch = store.Watch(ResourceSlices(), "", query);
  EXPECT_EQ((*(*watch)->Next(absl::Seconds(5), {}))->type, "ADDED");
  const StoreEvent end = **(*watch)->Next(absl::Seconds(5), {});
  EXPECT_EQ(end.type, "BOOKMARK");
  EXPECT_EQ(end.object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

TEST(ObjectStore, WaitForSeesAChangeOfAnotherThread) {
  ObjectStore store;
  std::jthread writer([&] { store.Put(Slice("a")); });
  EXPECT_TRUE(
      store.WaitFor([](const ObjectStore& s) { return s.All(ResourceSlices()).size() == 1; }));
  EXPECT_FALSE(store.WaitFor([](const ObjectStore&) { return false; }, absl::Milliseconds(1)));
}

}  // namespace
}  // namespace dra::testing
