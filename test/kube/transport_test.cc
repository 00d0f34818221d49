// Ways to a server other than a plain TCP connection: what libcurl does for us, seen from outside.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/kube/http_api_client.h"
#include "dra/testing/api_server.h"
#include "dra/testing/temp_directory.h"
#include "nlohmann/json.hpp"
#include "test/kube/http_double.h"

namespace dra::kube {
namespace {

constexpr char kAnyNode[] =
    R"({"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","uid":"u"}})";

class Ways : public ::testing::Test {
 protected:
  std::unique_ptr<ApiClient> Client(HttpOptions options = {}) {
    auto client = MakeHttpApiClient(config_, options, &clock_, Logger());
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  SystemClock clock_;
  ClusterConfig config_;
};

TEST_F(Ways, AUnixSocketServesGetAndWatch) {
  testing::TempDirectory directory;
  testing::ApiServerOptions options;
  options.unix_socket = directory.Path("api.sock");
  const auto server = testing::FakeApiServer::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  (*server)->store().Put(Json::parse(kAnyNode));
  config_.server = absl::StrCat("unix://", directory.Path("api.sock"));
  const auto client = Client();
  const auto node = client->Get(Nodes(), "", "n1", Bounded());
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ((*node)["metadata"]["uid"], "u");
  const auto list = client->List(Nodes(), "", {}, Bounded());
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->items.size(), 1u);
}

TEST_F(Ways, AProxyOfTheKubeconfigIsAskedInsteadOfTheServer) {
  std::atomic<int> asked = 0;
  const auto proxy = HttpDouble::Answering([&](const auto& request, HttpConnection& connection) {
    // A request to a proxy has the whole URL.
    EXPECT_EQ(request.path, "http://api.nowhere.invalid:8080/api/v1/nodes/n1");
    ++asked;
    connection.Answer(200, kAnyNode);
  });
  config_.server = "http://api.nowhere.invalid:8080";
  config_.proxy_url = proxy->url();
  const auto client = Client();
  const auto node = client->Get(Nodes(), "", "n1", Bounded());
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ(asked, 1);
}

TEST_F(Ways, AProxyThatRefusesIsNotTakenForTheServer) {
  const auto proxy = HttpDouble::Answering([&](const auto&, HttpConnection& connection) {
    connection.Answer(407, "<html>who are you</html>", "Content-Type: text/html\r\n");
  });
  config_.server = "http://api.nowhere.invalid:8080";
  config_.proxy_url = proxy->url();
  const absl::Status refused = Client()->Get(Nodes(), "", "n1", Bounded()).status();
  EXPECT_FALSE(refused.ok());
  EXPECT_FALSE(absl::IsNotFound(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("407"));
}

TEST_F(Ways, APackedAnswerIsUnpacked) {
  // kAnyNode, packed with gzip.
  std::string packed;
  ASSERT_TRUE(
      absl::Base64Unescape("H4sIAAAAAAACA6tWys7MS1GyUvLLT0lV0lFKLMgMSy0qzszPA4qVGQJFclNLElMSSxKVrKq"
                           "V8hJzU4HieSDx0kyQtlKl2l"
                           "oAVYSTZUQAAAA=",
                           &packed));
  const auto server = HttpDouble::Answering([&](const auto& request, HttpConnection& connection) {
    EXPECT_TRUE(absl::StrContains(request.headers.at("accept-encoding"), "gzip"));
    connection.Answer(200, packed, "Content-Encoding: gzip\r\n");
  });
  config_.server = server->url();
  const auto node = Client()->Get(Nodes(), "", "n1", Bounded());
  ASSERT_TRUE(node.ok()) << node.status();
  EXPECT_EQ((*node)["metadata"]["name"], "n1");
}

TEST_F(Ways, APackedAnswerIsLimitedByItsUnpackedSize) {
  std::string packed;
  ASSERT_TRUE(
      absl::Base64Unescape("H4sIAAAAAAACA6tWys7MS1GyUvLLT0lV0lFKLMgMSy0qzszPA4qVGQJFclNLElMSSxKVrKq"
                           "V8hJzU4HieSDx0kyQtlKl2l"
                           "oAVYSTZUQAAAA=",
                           &packed));
  const auto server = HttpDouble::Answering([&](const auto&, HttpConnection& connection) {
    connection.Answer(200, packed, "Content-Encoding: gzip\r\n");
  });
  config_.server = server->url();
  HttpOptions options;
  options.max_body_bytes = 30;
  const absl::Status refused = Client(options)->Get(Nodes(), "", "n1", Bounded()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
}

// A proxy's page may repeat what was sent to it.
TEST_F(Ways, TheTokenIsWithheldFromAnErrorThatRepeatsIt) {
  const auto server = HttpDouble::Answering([&](const auto& request, HttpConnection& connection) {
    connection.Answer(403, absl::StrCat("refused: ", request.headers.at("authorization")),
                      "Content-Type: text/plain\r\n");
  });
  config_.server = server->url();
  config_.token = "tok3n-of-the-client";
  const std::string error(Client()->Get(Nodes(), "", "n1", Bounded()).status().message());
  EXPECT_THAT(error, ::testing::HasSubstr("[token withheld]"));
  EXPECT_THAT(error, ::testing::Not(::testing::HasSubstr("tok3n")));
}

}  // namespace
}  // namespace dra::kube
