#include <gtest/gtest.h>

#include "dra/base/status.h"
#include "dra/kube/api_client.h"
#include "kube/request_path.h"
#include "kube/response.h"
#include "kube/watch_stream.h"
#include "nlohmann/json.hpp"

namespace dra::kube {
namespace {

TEST(ApiStatus, MapsEachHttpCodeToTheCodeOfTheSeam) {
  const struct {
    int http;
    const char* reason;
    absl::StatusCode code;
    bool transient;
  } cases[] = {
      {400, "BadRequest", absl::StatusCode::kInvalidArgument, false},
      {422, "Invalid", absl::StatusCode::kInvalidArgument, false},
      {413, "RequestEntityTooLarge", absl::StatusCode::kInvalidArgument, false},
      {401, "Unauthorized", absl::StatusCode::kUnauthenticated, false},
      {403, "Forbidden", absl::StatusCode::kPermissionDenied, false},
      {404, "NotFound", absl::StatusCode::kNotFound, false},
      {409, "AlreadyExists", absl::StatusCode::kAlreadyExists, false},
      {409, "Conflict", absl::StatusCode::kAborted, true},
      {410, "Expired", absl::StatusCode::kOutOfRange, false},
      {429, "TooManyRequests", absl::StatusCode::kUnavailable, true},
      {500, "InternalError", absl::StatusCode::kUnavailable, true},
      {503, "ServiceUnavailable", absl::StatusCode::kUnavailable, true},
      {504, "Timeout", absl::StatusCode::kDeadlineExceeded, true},
      {0, "", absl::StatusCode::kUnavailable, true},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.http);
    ApiError error;
    error.http_code = c.http;
    error.reason = c.reason;
    const absl::Status status = MakeApiStatus(error, "get nodes n1");
    EXPECT_EQ(status.code(), c.code);
    EXPECT_EQ(IsTransient(status), c.transient);
  }
}

TEST(ApiStatus, KeepsTheErrorThroughAnnotate) {
  ApiError error;
  error.http_code = 422;
  error.reason = "Invalid";
  error.message = "bad";
  error.causes = {{"FieldValueInvalid", "spec.devices[3]", "too long"}};
  error.retry_after = absl::Seconds(7);
  const absl::Status status = Annotate(MakeApiStatus(error, "create resourceslices"), "publish");
  EXPECT_EQ(status.message(), "publish: create resourceslices: 422 Invalid: bad");
  const auto back = ApiErrorOf(status);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->http_code, 422);
  ASSERT_EQ(back->causes.size(), 1u);
  EXPECT_EQ(back->causes[0].field, "spec.devices[3]");
  EXPECT_EQ(back->retry_after, absl::Seconds(7));
  EXPECT_FALSE(ApiErrorOf(absl::NotFoundError("x")).has_value());
}

TEST(ResourcePath, NamesGroupsNamespacesAndEscapes) {
  EXPECT_EQ(ResourcePath(Nodes(), "", "n1"), "/api/v1/nodes/n1");
  EXPECT_EQ(ResourcePath(ResourceClaims(), "ns", "c/..", "status"),
            "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c%2F../status");
  EXPECT_EQ(ResourcePath(ResourceClaims(), "", ""), "/apis/resource.k8s.io/v1/resourceclaims");
  EXPECT_EQ(QueryString({{"a", "x=y,z"}, {"b", ""}, {"c", "1"}}), "?a=x%3Dy%2Cz&c=1");
}

TEST(Api01, ARefusalIsNeverReadAsTheWantedType) {
  const struct {
    int code;
    const char* body;
    absl::StatusCode want;
  } cases[] = {
      {403, R"({"kind":"Status","reason":"Forbidden","code":403})",
       absl::StatusCode::kPermissionDenied},
      {200, "", absl::StatusCode::kDataLoss},
      {200, "null", absl::StatusCode::kDataLoss},
      {200, "[]", absl::StatusCode::kDataLoss},
      {502, "<html><body>bad gateway</body></html>", absl::StatusCode::kUnavailable},
      {200, "<html>", absl::StatusCode::kDataLoss},
      {200, R"({"kind":"Status","status":"Failure","code":500})", absl::StatusCode::kUnavailable},
      {200, R"({"kind":"Status","status":"Failure"})", absl::StatusCode::kUnavailable},
      {200, R"({"kind":"Pod"})", absl::StatusCode::kDataLoss},
      {403, R"({"kind":"Node","code":200})", absl::StatusCode::kPermissionDenied},
      {302, "", absl::StatusCode::kDataLoss},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.body);
    HttpResponse response;
    response.code = c.code;
    response.body = c.body;
    const auto object = ObjectOfResponse(response, "Node", "get nodes n1");
    ASSERT_FALSE(object.ok());
    EXPECT_EQ(object.status().code(), c.want) << object.status();
    EXPECT_TRUE(ApiErrorOf(object.status()).has_value());
  }
}

TEST(ApiStatus, KeepsRetryAfterOfAPlainText429) {
  HttpResponse response;
  response.code = 429;
  response.body = "Too many requests, please try again later.\n";
  response.retry_after = ParseRetryAfter("1");
  const auto object = ObjectOfResponse(response, "Node", "get");
  EXPECT_EQ(ApiErrorOf(object.status())->retry_after, absl::Seconds(1));
  EXPECT_FALSE(ParseRetryAfter("Wed, 21 Oct 2015 07:28:00 GMT").has_value());
  EXPECT_EQ(ParseRetryAfter("999999"), absl::Seconds(3600));
}

struct Fed {
  std::vector<WatchEvent> events;
  absl::Status status;
};

Fed Feed(const std::vector<std::string>& chunks, uint64_t limit = 4096) {
  Fed fed;
  WatchStream stream("Node", limit, [&](const WatchEvent& event) { fed.events.push_back(event); });
  for (const std::string& chunk : chunks) {
    fed.status = stream.Feed(chunk);
    if (!fed.status.ok()) break;
  }
  return fed;
}

TEST(Api05, LinesCutAnywhereGiveWholeEvents) {
  const Fed fed = Feed(
      {"{\"type\":\"AD", "DED\",\"object\":{\"kind\":\"Node\",\"a\":\"\\u00", "e9\"}}\n{\"ty"});
  EXPECT_TRUE(fed.status.ok());
  ASSERT_EQ(fed.events.size(), 1u);
  EXPECT_EQ(fed.events[0].object["a"], "\xc3\xa9");
}

TEST(Api05, EveryCutOfAStreamGivesTheSameEvents) {
  const std::string text =
      "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Node\",\"a\":\"\xc3\xa9\"}}\n\n"
      "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Node\"}}\r\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    SCOPED_TRACE(cut);
    const Fed fed = Feed({text.substr(0, cut), text.substr(cut)});
    EXPECT_TRUE(fed.status.ok()) << fed.status;
    ASSERT_EQ(fed.events.size(), 2u);
    EXPECT_EQ(fed.events[1].type, WatchEvent::Type::kBookmark);
  }
}

TEST(Api03, AnErrorEventIsAFailureAndNotAnObject) {
  for (const char* object :
       {R"({"kind":"Status","code":410})", R"({"kind":"Status","reason":"Expired"})",
        R"({"kind":"Status","reason":"Gone"})"}) {
    const Fed fed = Feed({std::string("{\"type\":\"ERROR\",\"object\":") + object + "}\n"});
    EXPECT_TRUE(absl::IsOutOfRange(fed.status)) << fed.status;
    EXPECT_TRUE(fed.events.empty());
  }
  EXPECT_TRUE(absl::IsUnavailable(
      Feed({"{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":500}}\n"}).status));
}

TEST(WatchStream, RefusesWhatIsNoEventOfItsKind) {
  for (const char* line :
       {"junk\n", "{}\n", "{\"type\":\"ADDED\"}\n", "{\"type\":\"ADDED\",\"object\":[]}\n",
        "{\"type\":\"X\",\"object\":{\"kind\":\"Node\"}}\n",
        "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\"}}\n", "<html>\n"}) {
    SCOPED_TRACE(line);
    EXPECT_TRUE(absl::IsDataLoss(Feed({line}).status));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(Feed({std::string(5000, 'x')}).status));
}

}  // namespace
}  // namespace dra::kube
