#include "dra/testing/api_server.h"

#include <httplib.h>

#include <thread>

#include "absl/strings/match.h"
#include "dra/testing/temp_directory.h"
#include "gtest/gtest.h"
#include "test/testing/test_objects.h"

namespace dra::testing {
namespace {

constexpr const char* kSlices = "/apis/resource.k8s.io/v1/resourceslices";
constexpr const char* kJson = "application/json";

Json BodyOf(const httplib::Result& result) {
  if (!result) return Json();
  const absl::StatusOr<Json> body = ParseJson(result->body, "body");
  return body.ok() ? *body : Json();
}
int CodeOf(const httplib::Result& result) { return result ? result->status : 0; }

class ApiServer : public ::testing::Test {
 protected:
  ApiServer() {
    absl::StatusOr<std::unique_ptr<FakeApiServer>> started = FakeApiServer::Start();
    EXPECT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    client_ = NewClient();
  }
  std::unique_ptr<httplib::Client> NewClient() {
    auto client = std::make_unique<httplib::Client>(server_->url());
    client->set_keep_alive(true);
    client->set_read_timeout(10);
    return client;
  }
  void Inject(ApiFault::Kind kind, int code = 500) {
    ApiFault fault;
    fault.kind = kind;
    fault.code = code;
    server_->traffic().Inject(fault);
  }

  std::unique_ptr<FakeApiServer> server_;
  std::unique_ptr<httplib::Client> client_;
};

TEST_F(ApiServer, AnswersDiscovery) {
  EXPECT_EQ(BodyOf(client_->Get("/version"))["minor"], "37");
  EXPECT_EQ(BodyOf(client_->Get("/apis/resource.k8s.io"))["preferredVersion"]["version"], "v1");
  const Json resources = BodyOf(client_->Get("/apis/resource.k8s.io/v1"));
  EXPECT_EQ(resources["resources"][0]["name"], "resourceslices");
  EXPECT_EQ(CodeOf(client_->Get("/apis/resource.k8s.io/v1beta1")), 404);
  EXPECT_EQ(CodeOf(client_->Get("/nothing")), 404);
}

TEST_F(ApiServer, StoresAndGivesBackOverOneKeptConnection) {
  EXPECT_EQ(CodeOf(client_->Post(kSlices, Slice("a").dump(), kJson)), 201);
  EXPECT_EQ(BodyOf(client_->Get(std::string(kSlices) + "/a"))["metadata"]["name"], "a");
  const Json list =
      BodyOf(client_->Get(std::string(kSlices) + "?fieldSelector=spec.nodeName%3Dnode-a"));
  EXPECT_EQ(list["kind"], "ResourceSliceList");
  EXPECT_EQ(list["items"].size(), 1u);
  EXPECT_EQ(CodeOf(client_->Delete(std::string(kSlices) + "/a")), 200);
  EXPECT_EQ(server_->OpenConnections(), 1);
}

TEST_F(ApiServer, AnswersFailuresWithAStatusBody) {
  Json slice = Slice("a");
  slice["spec"].erase("driver");
  const Json body = BodyOf(client_->Post(kSlices, slice.dump(), kJson));
  EXPECT_EQ(body["kind"], "Status");
  EXPECT_EQ(body["code"], 422);
  EXPECT_EQ(body["details"]["causes"][0]["field"], "spec.driver");
}

TEST_F(ApiServer, RefusesOtherContentTypes) {
  EXPECT_EQ(CodeOf(client_->Post(kSlices, Slice("a").dump(), "text/plain")), 415);
  EXPECT_EQ(CodeOf(client_->Patch(std::string(kSlices) + "/a", "{}",
                                  "application/strategic-merge-patch+json")),
            415);
}

TEST_F(ApiServer, RefusesABodyThatIsNotJson) {
  EXPECT_EQ(CodeOf(client_->Post(kSlices, "{", kJson)), 400);
}

TEST_F(ApiServer, StoresNothingInADryRun) {
  EXPECT_EQ(CodeOf(client_->Post(std::string(kSlices) + "?dryRun=All", Slice("a").dump(), kJson)),
            201);
  EXPECT_TRUE(server_->store().All(kube::ResourceSlices()).empty());
  EXPECT_EQ(CodeOf(client_->Post(std::string(kSlices) + "?dryRun=Some", Slice("a").dump(), kJson)),
            400);
}

TEST_F(ApiServer, AppliesTheStatusOfAClaim) {
  server_->store().Put(AllocatedClaim("c", Json::array({Result("gpu-0")})));
  const std::string path =
      "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c/status?force=true";
  const std::string body = StatusApply("c", Json::array({DeviceStatus("gpu-0")})).dump();
  EXPECT_EQ(CodeOf(client_->Patch(path, body, "application/apply-patch+yaml")), 400)
      << "without a field manager";
  const Json applied =
      BodyOf(client_->Patch(path + "&fieldManager=me", body, "application/apply-patch+yaml"));
  EXPECT_EQ(applied["status"]["devices"][0]["device"], "gpu-0");
}

TEST_F(ApiServer, RefusesAWrongTokenAndTakesANewOneAtRunTime) {
  server_->SetBearerToken("one");
  client_->set_bearer_token_auth("one");
  EXPECT_EQ(CodeOf(client_->Get(kSlices)), 200);
  server_->SetBearerToken("two");
  EXPECT_EQ(CodeOf(client_->Get(kSlices)), 401);
  client_->set_bearer_token_auth("two");
  EXPECT_EQ(CodeOf(client_->Get(kSlices)), 200);
}

TEST_F(ApiServer, StreamsAWatchUntilItsTimeIsOver) {
  std::string text;
  std::jthread watcher([&] {
    auto client = NewClient();
    client->Get(std::string(kSlices) +
                    "?watch=1&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=1",
                [&](const char* data, size_t size) {
                  text.append(data, size);
                  return true;
                });
  });
  ASSERT_TRUE(server_->store().WaitForWatches(1));
  server_->store().Put(Slice("a"));
  watcher.join();
  EXPECT_TRUE(absl::StrContains(text, "\"type\":\"ADDED\"")) << text;
  EXPECT_TRUE(absl::StrContains(text, "\"type\":\"BOOKMARK\"")) << text;
}

TEST_F(ApiServer, TellsAnExpiredWatchInsideTheStream) {
  server_->store().Put(Slice("a"));
  server_->store().Compact();
  const httplib::Result result = client_->Get(std::string(kSlices) + "?watch=1&resourceVersion=1");
  EXPECT_EQ(CodeOf(result), 200);
  EXPECT_EQ(BodyOf(result)["object"]["code"], 410);
  Inject(ApiFault::Kind::kExpired);
  EXPECT_EQ(BodyOf(client_->Get(std::string(kSlices) + "?watch=1"))["type"], "ERROR");
}

TEST_F(ApiServer, CutsWatchesHard) {
  std::jthread watcher([&] { EXPECT_FALSE(NewClient()->Get(std::string(kSlices) + "?watch=1")); });
  ASSERT_TRUE(server_->store().WaitForWatches(1));
  server_->store().CutWatches();
}

TEST_F(ApiServer, ServesManyWatchesAtOnce) {
  constexpr int kWatches = 40;
  std::vector<std::jthread> watchers;
  for (int i = 0; i < kWatches; ++i) {
    watchers.emplace_back([&] { NewClient()->Get(std::string(kSlices) + "?watch=1"); });
  }
  ASSERT_TRUE(server_->store().WaitForWatches(kWatches));
  EXPECT_EQ(CodeOf(client_->Get(kSlices)), 200);
  server_->CutConnections();
}

TEST_F(ApiServer, PlaysAnswersOfOtherServers) {
  ApiFault throttled;
  throttled.kind = ApiFault::Kind::kPlainText;
  throttled.code = 429;
  throttled.retry_after = absl::Seconds(2);
  server_->traffic().Inject(throttled);
  const httplib::Result result = client_->Get(kSlices);
  EXPECT_EQ(CodeOf(result), 429);
  EXPECT_EQ(result->get_header_value("Retry-After"), "2");
  EXPECT_TRUE(BodyOf(result).is_null());
  Inject(ApiFault::Kind::kHtml, 502);
  EXPECT_EQ(CodeOf(client_->Get(kSlices)), 502);
  Inject(ApiFault::Kind::kEmpty, 200);
  EXPECT_TRUE(client_->Get(kSlices)->body.empty());
  Inject(ApiFault::Kind::kOtherKind);
  EXPECT_EQ(BodyOf(client_->Get(kSlices))["kind"], "ConfigMapList");
  Inject(ApiFault::Kind::kGarbage);
  EXPECT_TRUE(BodyOf(client_->Get(kSlices)).is_null());
  EXPECT_EQ(CodeOf(client_->Get(kSlices)), 200);
}

TEST_F(ApiServer, CutsAConnectionBeforeAndInTheMiddleOfAnAnswer) {
  client_->set_keep_alive(false);
  Inject(ApiFault::Kind::kCut);
  EXPECT_FALSE(client_->Get(kSlices));
  Inject(ApiFault::Kind::kHalfAnswer);
  EXPECT_FALSE(client_->Get(kSlices));
  EXPECT_EQ(CodeOf(client_->Get(kSlices)), 200);
}

TEST_F(ApiServer, ABlackHoleSwallowsUntilTheFaultsAreCleared) {
  ApiFault hole;
  hole.kind = ApiFault::Kind::kBlackHole;
  hole.carry_out = true;
  server_->traffic().Inject(hole);
  std::jthread caller([&] { EXPECT_FALSE(NewClient()->Post(kSlices, Slice("a").dump(), kJson)); });
  ASSERT_TRUE(server_->store().WaitFor(
      [](const ObjectStore& s) { return s.All(kube::ResourceSlices()).size() == 1; }));
  server_->traffic().ClearFaults();
}

TEST_F(ApiServer, GoesAwayAndComesBackAtTheSameAddress) {
  server_->store().Put(Slice("a"));
  server_->GoAway();
  EXPECT_FALSE(NewClient()->Get(kSlices));
  ASSERT_TRUE(server_->ComeBack().ok());
  EXPECT_EQ(BodyOf(NewClient()->Get(kSlices))["items"].size(), 1u);
}

TEST_F(ApiServer, CountsRequestsByKind) {
  client_->Post(kSlices, Slice("a").dump(), kJson);
  client_->Put(std::string(kSlices) + "/a", Slice("a", 2).dump(), kJson);
  RequestMatcher puts;
  puts.verb = "update";
  puts.resource = "resourceslices";
  EXPECT_TRUE(server_->traffic().WaitForCount(puts, 1));
  EXPECT_EQ(server_->traffic().Requests(puts)[0].code, 200);
  EXPECT_EQ(server_->traffic().Requests(puts)[0].body["spec"]["devices"].size(), 2u);
}

TEST(ApiServerSocket, ListensAtAUnixSocket) {
  TempDirectory directory;
  ApiServerOptions options;
  options.unix_socket = directory.Path("api.sock");
  auto server = FakeApiServer::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  httplib::Client client(options.unix_socket);
  client.set_address_family(AF_UNIX);
  client.set_default_headers({{"Host", "localhost"}});
  EXPECT_EQ(BodyOf(client.Get("/version"))["major"], "1");
}

}  // namespace
}  // namespace dra::testing
