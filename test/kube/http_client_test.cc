#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <future>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/kube/discovery.h"
#include "dra/kube/http_api_client.h"
#include "nlohmann/json.hpp"
#include "test/kube/http_double.h"

namespace dra::kube {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kNode[] = R"({"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","uid":"u"}})";

class HttpClientTest : public testing::Test {
 protected:
  std::unique_ptr<ApiClient> Client(const HttpDouble& server, HttpOptions options = {},
                                    RequestObserver observer = {}) {
    config_.server = server.url();
    auto client = MakeHttpApiClient(config_, options, &clock_, logger_, std::move(observer));
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  SystemClock clock_;
  ClusterConfig config_;
  TempDir dir_;
  std::mutex log_mutex_;
  std::string log_;
  Logger logger_ = Logger::ToFunction(
      LogLevel::kTrace, LogFormat::kText,
      [](void* self, absl::string_view line) {
        auto* test = static_cast<HttpClientTest*>(self);
        const std::lock_guard<std::mutex> lock(test->log_mutex_);
        test->log_ += absl::StrCat(line, "\n");
      },
      this);
};

TEST_F(HttpClientTest, GetsOverOneKeptConnection) {
  const auto server = HttpDouble::Answering([](const auto& request, HttpConnection& connection) {
    EXPECT_EQ(request.method, "GET");
    EXPECT_EQ(request.path, "/api/v1/nodes/n1");
    EXPECT_TRUE(absl::StartsWith(request.headers.at("user-agent"), "dra-sdk/"));
    connection.Answer(200, kNode);
  });
  const auto client = Client(*server);
  for (int i = 0; i < 5; ++i) {
    const auto node = client->Get(Nodes(), "", "n1", Bounded());
    ASSERT_TRUE(node.ok()) << node.status();
    EXPECT_EQ((*node)["metadata"]["uid"], "u");
  }
  EXPECT_EQ(server->connections(), 1);
}

TEST_F(HttpClientTest, SendsEachWriteAsTheServerWantsIt) {
  std::vector<HttpConnection::Request> seen;
  const auto server = HttpDouble::Answering([&](const auto& request, HttpConnection& connection) {
    seen.push_back(request);
    connection.Answer(200, request.method == "DELETE" ? R"({"kind":"Status","status":"Success"})"
                                                      : R"({"kind":"ResourceClaim"})");
  });
  const auto client = Client(*server);
  const Json object = {{"kind", "ResourceClaim"}};
  WriteOptions dry;
  dry.dry_run = true;
  dry.field_validation = "Strict";
  EXPECT_TRUE(client->Create(ResourceClaims(), "ns", object, dry, Bounded()).ok());
  EXPECT_TRUE(client->Update(ResourceClaims(), "ns", "c", object, WriteOptions(), Bounded()).ok());
  EXPECT_TRUE(
      client->Delete(ResourceClaims(), "ns", "c", DeleteOptions{"uid-1", "7"}, Bounded()).ok());
  EXPECT_TRUE(
      client->Apply(ResourceClaims(), "ns", "c", "status", "gpu.example.com", object, Bounded())
          .ok());
  ASSERT_EQ(seen.size(), 4u);
  const std::string base = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims";
  EXPECT_EQ(seen[0].method + " " + seen[0].path,
            "POST " + base + "?dryRun=All&fieldValidation=Strict");
  EXPECT_EQ(seen[0].headers["content-type"], "application/json");
  EXPECT_EQ(seen[0].body, object.dump());
  EXPECT_EQ(seen[1].method + " " + seen[1].path, "PUT " + base + "/c?fieldValidation=Warn");
  EXPECT_EQ(seen[2].method, "DELETE");
  EXPECT_EQ(Json::parse(seen[2].body)["preconditions"],
            (Json{{"uid", "uid-1"}, {"resourceVersion", "7"}}));
  EXPECT_EQ(seen[3].method + " " + seen[3].path,
            "PATCH " + base + "/c/status?fieldManager=gpu.example.com&force=true");
  EXPECT_EQ(seen[3].headers["content-type"], "application/apply-patch+yaml");
}

TEST_F(HttpClientTest, RefusesAnEmptyNameBeforeItBecomesACollection) {
  const auto server =
      HttpDouble::Answering([](const auto&, HttpConnection& c) { c.Answer(200, "{}"); });
  const auto client = Client(*server);
  EXPECT_TRUE(absl::IsInvalidArgument(client->Delete(ResourceSlices(), "", "", {}, Bounded())));
  EXPECT_TRUE(absl::IsInvalidArgument(client->Get(ResourceClaims(), "", "c", Bounded()).status()));
  EXPECT_EQ(server->connections(), 0);
}

TEST_F(HttpClientTest, FollowsContinueAndRestartsOnceAfter410) {
  int lists = 0;
  const auto server = HttpDouble::Answering([&](const auto& request, HttpConnection& connection) {
    ++lists;
    if (absl::StrContains(request.path, "continue=")) {
      connection.Answer(410, R"({"kind":"Status","code":410,"reason":"Expired"})");
    } else if (absl::StrContains(request.path, "limit=")) {
      connection.Answer(
          200,
          R"({"kind":"NodeList","metadata":{"resourceVersion":"5","continue":"t"},"items":[{}]})");
    } else {
      connection.Answer(
          200,
          R"({"kind":"NodeList","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"}},{}]})");
    }
  });
  const auto client = Client(*server);
  const auto list = client->List(Nodes(), "", {"metadata.name=a", ""}, Bounded());
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(lists, 3);
  EXPECT_EQ(list->resource_version, "9");
  ASSERT_EQ(list->items.size(), 2u);
  EXPECT_EQ(list->items[0]["kind"], "Node");
  EXPECT_EQ(list->items[0]["apiVersion"], "v1");
}

TEST_F(HttpClientTest, ListsAllPages) {
  const auto server = HttpDouble::Answering([&](const auto& request, HttpConnection& connection) {
    const bool second = absl::StrContains(request.path, "continue=t");
    connection.Answer(
        200,
        second
            ? R"({"kind":"NodeList","metadata":{"resourceVersion":"5"},"items":[{},{}]})"
            : R"({"kind":"NodeList","metadata":{"resourceVersion":"5","continue":"t"},"items":[{}]})");
  });
  const auto list = Client(*server)->List(Nodes(), "", {}, Bounded());
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->items.size(), 3u);
}

TEST_F(HttpClientTest, CapsTheSizeOfAnAnswer) {
  const auto server = HttpDouble::Answering([](const auto&, HttpConnection& connection) {
    connection.Answer(200, std::string(5000, ' '));
  });
  HttpOptions options;
  options.max_body_bytes = 1000;
  const auto node = Client(*server, options)->Get(Nodes(), "", "n1", Bounded());
  EXPECT_TRUE(absl::IsResourceExhausted(node.status())) << node.status();
}

TEST_F(HttpClientTest, GivesUpAtTheDeadlineAndClosesTheConnection) {
  Counter closed;
  const HttpDouble server([&](HttpConnection& connection) {
    connection.Read();
    connection.WaitForClose();
    closed.Add();
  });
  const auto client = Client(server);
  const auto node = client->Get(Nodes(), "", "n1", Call::WithTimeout(absl::Milliseconds(50)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(node.status())) << node.status();
  EXPECT_TRUE(closed.WaitFor(1));
}

TEST_F(HttpClientTest, AGetThatIsStoppedEndsAtOnceAndClosesTheConnection) {
  Counter asked;
  Counter closed;
  const HttpDouble server([&](HttpConnection& connection) {
    connection.Read();
    asked.Add();
    connection.WaitForClose();
    closed.Add();
  });
  const auto client = Client(server);
  std::stop_source stop;
  std::promise<absl::Status> ended;
  std::thread caller([&] {
    const Call call = Call::WithTimeout(absl::Seconds(60), stop.get_token());
    ended.set_value(client->Get(Nodes(), "", "n1", call).status());
  });
  EXPECT_TRUE(asked.WaitFor(1));
  stop.request_stop();
  auto future = ended.get_future();
  EXPECT_EQ(future.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_TRUE(absl::IsCancelled(future.get()));
  EXPECT_TRUE(closed.WaitFor(1));
  caller.join();
}

TEST_F(HttpClientTest, TellsThatNobodyListens) {
  config_.server = "http://127.0.0.1:1";
  const auto client = MakeHttpApiClient(config_, {}, &clock_, logger_);
  const auto node = (*client)->Get(Nodes(), "", "n1", Bounded());
  EXPECT_TRUE(absl::IsUnavailable(node.status())) << node.status();
  EXPECT_TRUE(IsTransient(node.status()));
  EXPECT_EQ(ApiErrorOf(node.status())->http_code, 0);
  EXPECT_THAT(std::string(node.status().message()),
              HasSubstr("get nodes n1: no answer from http://127.0.0.1:1"));
}

TEST_F(HttpClientTest, TellsTheObserverOfEachRequest) {
  const auto server =
      HttpDouble::Answering([](const auto&, HttpConnection& c) { c.Answer(503, "later"); });
  std::vector<RequestInfo> seen;
  const auto client = Client(*server, {}, [&](const RequestInfo& info) { seen.push_back(info); });
  EXPECT_TRUE(absl::IsUnavailable(client->Get(Nodes(), "", "n1", Bounded()).status()));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].verb, "get");
  EXPECT_EQ(seen[0].resource, "nodes");
  EXPECT_EQ(seen[0].http_code, 503);
}

TEST_F(HttpClientTest, ManyThreadsCallAtOnce) {
  const auto server =
      HttpDouble::Answering([](const auto&, HttpConnection& c) { c.Answer(200, kNode); });
  const auto client = Client(*server);
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 25; ++k) good += client->Get(Nodes(), "", "n1", Bounded()).ok() ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 200);
  EXPECT_LE(server->connections(), 8);
}

TEST(Pkg03, A403NamesTheMissingPermissionOncePerVerbAndResource) {
  std::string log;
  SystemClock clock;
  const auto server = HttpDouble::Answering([](const auto&, HttpConnection& c) {
    c.Answer(
        403,
        R"({"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"no"})");
  });
  ClusterConfig config;
  config.server = server->url();
  const Logger logger = Logger::ToFunction(
      LogLevel::kTrace, LogFormat::kText,
      [](void* text, absl::string_view line) {
        *static_cast<std::string*>(text) += absl::StrCat(line, "\n");
      },
      &log);
  const auto client = MakeHttpApiClient(config, {}, &clock, logger);
  for (int i = 0; i < 3; ++i) {
    const auto node = (*client)->Get(Nodes(), "", "n1", Bounded());
    EXPECT_TRUE(absl::IsPermissionDenied(node.status()));
    EXPECT_THAT(std::string(node.status().message()),
                HasSubstr("needs the permission to get nodes"));
    EXPECT_EQ(ApiErrorOf(node.status())->reason, "Forbidden");
  }
  EXPECT_THAT(log, HasSubstr("get nodes"));
  EXPECT_EQ(log.find("get nodes: RBAC"), log.rfind("get nodes: RBAC"));
}

TEST(Api06, AWriteThatWasCutDuringUploadIsSentAgainOnANewConnection) {
  SystemClock clock;
  std::string received;
  const HttpDouble server([&](HttpConnection& connection) {
    if (connection.number() == 0) {
      connection.Read();
      connection.Answer(200, kNode);
      connection
          .ReadSome();  // the head of the upload; then FIN and reset before the body is through
      return;
    }
    const auto request = connection.Read();
    if (!request.has_value()) return;
    received = request->body;
    connection.Answer(200, kNode);
  });
  ClusterConfig config;
  config.server = server.url();
  const auto client = MakeHttpApiClient(config, {}, &clock, Logger());
  ASSERT_TRUE((*client)->Get(Nodes(), "", "n1", Bounded()).ok());
  const Json object = {{"kind", "Node"}, {"pad", std::string(8 << 20, 'x')}};
  const auto updated = (*client)->Update(Nodes(), "", "n1", object, {}, Bounded());
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(received.size(), object.dump().size());
  EXPECT_EQ(server.connections(), 2);
}

TEST(Api06, AWriteThatWasSentInFullIsNotSentTwice) {
  SystemClock clock;
  std::atomic<int> writes{0};
  const HttpDouble server([&](HttpConnection& connection) {
    while (const auto request = connection.Read()) {
      if (request->method == "POST") {
        ++writes;
        return;  // no answer
      }
      connection.Answer(200, kNode);
    }
  });
  ClusterConfig config;
  config.server = server.url();
  const auto client = MakeHttpApiClient(config, {}, &clock, Logger());
  ASSERT_TRUE((*client)->Get(Nodes(), "", "n1", Bounded()).ok());
  const auto created = (*client)->Create(Nodes(), "", {{"kind", "Node"}}, {}, Bounded());
  EXPECT_TRUE(absl::IsUnavailable(created.status())) << created.status();
  EXPECT_EQ(writes, 1);
}

TEST(Api06, AReadOnAConnectionThatDiedIsSentAgain) {
  SystemClock clock;
  const HttpDouble server([&](HttpConnection& connection) {
    connection.Read();
    connection.Answer(200, kNode);
    if (connection.number() == 0)
      connection.ReadSome();  // then FIN instead of an answer
    else
      connection.WaitForClose();
  });
  ClusterConfig config;
  config.server = server.url();
  const auto client = MakeHttpApiClient(config, {}, &clock, Logger());
  ASSERT_TRUE((*client)->Get(Nodes(), "", "n1", Bounded()).ok());
  EXPECT_TRUE((*client)->Get(Nodes(), "", "n1", Bounded()).ok());
  EXPECT_EQ(server.connections(), 2);
}

TEST(Api10, AServerWithoutV1IsAClearRefusal) {
  SystemClock clock;
  std::string body = R"({"kind":"APIGroup","versions":[{"version":"v1beta1"}]})";
  int code = 200;
  const auto server = HttpDouble::Answering([&](const auto& request, HttpConnection& c) {
    EXPECT_EQ(request.path, "/apis/resource.k8s.io");
    c.Answer(code, body);
  });
  ClusterConfig config;
  config.server = server->url();
  const auto client = MakeHttpApiClient(config, {}, &clock, Logger());
  absl::Status status = CheckServesResourceApi(**client, Bounded());
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("needs resource.k8s.io/v1, the API server serves v1beta1"));
  code = 404;
  status = CheckServesResourceApi(**client, Bounded());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  code = 503;
  EXPECT_TRUE(absl::IsUnavailable(CheckServesResourceApi(**client, Bounded())));
  code = 200;
  body = R"({"kind":"APIGroup","versions":[{"version":"v1"},{"version":"v1beta1"}]})";
  EXPECT_TRUE(CheckServesResourceApi(**client, Bounded()).ok());
}

}  // namespace
}  // namespace dra::kube
