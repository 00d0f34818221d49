#include "dra/testing/fake_api_client.h"

#include <thread>

#include "gtest/gtest.h"
#include "test/testing/test_objects.h"

namespace dra::testing {
namespace {

using kube::ResourceClaims;
using kube::ResourceSlices;

TEST(FakeApiClient, SharesAStoreWithOthers) {
  ObjectStore store;
  FakeApiClient one(&store);
  FakeApiClient two(&store);
  ASSERT_TRUE(one.Create(ResourceSlices(), "", Slice("a"), {}, {}).ok());
  EXPECT_EQ((*two.Get(ResourceSlices(), "", "a", {}))["metadata"]["name"], "a");
  EXPECT_EQ(two.List(ResourceSlices(), "", {}, {})->items.size(), 1u);
}

TEST(FakeApiClient, LogsRequestsWithTheirCode) {
  FakeApiClient client;
  EXPECT_TRUE(absl::IsNotFound(client.Get(ResourceClaims(), "default", "c", {}).status()));
  ASSERT_TRUE(
      client.Create(ResourceSlices(), "", Slice("a"), {.dry_run = true, .field_validation = ""}, {})
          .ok());
  ASSERT_EQ(client.traffic().Count(), 2);
  EXPECT_EQ(client.traffic().Requests()[0].code, 404);
  EXPECT_EQ(client.traffic().Requests()[0].namespace_name, "default");
  EXPECT_TRUE(client.traffic().Requests()[1].dry_run);
  RequestMatcher writes;
  writes.verb = "create";
  writes.include_dry_run = false;
  EXPECT_EQ(client.traffic().Count(writes), 0);
}

TEST(FakeApiClient, PlaysAFaultForTheRequestsItMatches) {
  FakeApiClient client;
  ApiFault fault;
  fault.match.verb = "get";
  fault.skip = 1;
  fault.code = 503;
  fault.reason = "ServiceUnavailable";
  fault.retry_after = absl::Seconds(3);
  client.traffic().Inject(fault);
  EXPECT_EQ(ErrorOf(client.Get(ResourceSlices(), "", "a", {}).status()).http_code, 404);
  const kube::ApiError error = ErrorOf(client.Get(ResourceSlices(), "", "a", {}).status());
  EXPECT_EQ(error.http_code, 503);
  EXPECT_EQ(error.retry_after, absl::Seconds(3));
  EXPECT_EQ(ErrorOf(client.Get(ResourceSlices(), "", "a", {}).status()).http_code, 404);
}

TEST(FakeApiClient, LosesTheAnswerOfARequestThatWasCarriedOut) {
  FakeApiClient client;
  ApiFault fault;
  fault.kind = ApiFault::Kind::kCut;
  fault.carry_out = true;
  client.traffic().Inject(fault);
  EXPECT_TRUE(
      absl::IsUnavailable(client.Create(ResourceSlices(), "", Slice("a"), {}, {}).status()));
  EXPECT_TRUE(client.store().Find(ResourceSlices(), "", "a").has_value());
}

TEST(FakeApiClient, ABlackHoleEndsWithTheCall) {
  FakeApiClient client;
  ApiFault fault;
  fault.kind = ApiFault::Kind::kBlackHole;
  fault.times = 0;
  client.traffic().Inject(fault);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      client.Get(ResourceSlices(), "", "a", Call::WithTimeout(absl::Milliseconds(5))).status()));
  std::stop_source source;
  std::jthread stopper([&] { source.request_stop(); });
  EXPECT_TRUE(absl::IsCancelled(
      client
          .Get(ResourceSlices(), "", "a", Call::WithTimeout(absl::Seconds(60), source.get_token()))
          .status()));
}

TEST(FakeApiClient, DeliversWatchEventsUntilTheWatchIsCut) {
  FakeApiClient client;
  std::vector<kube::WatchEvent::Type> types;
  kube::WatchOptions options;
  options.resource_version = client.List(ResourceSlices(), "", {}, {})->resource_version;
  absl::Status end;
  std::jthread watcher([&] {
    end = client.Watch(ResourceSlices(), "", options,
                       [&](const kube::WatchEvent& e) { types.push_back(e.type); }, {});
  });
  ASSERT_TRUE(client.store().WaitForWatches(1));
  client.store().Put(Slice("a"));
  client.store().SendBookmarks();
  client.store().Erase(ResourceSlices(), "", "a");
  client.store().Put(Slice("b"));
  ASSERT_TRUE(client.store().WaitForWatches(1));
  client.store().Compact();
  watcher.join();
  EXPECT_TRUE(absl::IsOutOfRange(end)) << end;
}

TEST(FakeApiClient, AnExpiredWatchIsOutOfRange) {
  FakeApiClient client;
  ApiFault fault;
  fault.kind = ApiFault::Kind::kExpired;
  fault.match.verb = "watch";
  client.traffic().Inject(fault);
  EXPECT_TRUE(absl::IsOutOfRange(
      client.Watch(ResourceSlices(), "", {}, [](const kube::WatchEvent&) {}, {})));
}

}  // namespace
}  // namespace dra::testing
