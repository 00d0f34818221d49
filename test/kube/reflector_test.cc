#include "dra/kube/reflector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/kube/http_api_client.h"
#include "test/kube/http_double.h"

namespace dra::kube {
namespace {

using testing::HasSubstr;

std::string NodeJson(const std::string& name, int version, const std::string& label = "") {
  return absl::StrCat(R"({"kind":"Node","metadata":{"name":")", name, R"(","resourceVersion":")",
                      version, R"(","labels":{"l":")", label, "\"}}}");
}
std::string EventJson(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}
std::string ListJson(int version, const std::vector<std::string>& items) {
  std::string text = absl::StrCat(R"({"kind":"NodeList","metadata":{"resourceVersion":")", version,
                                  R"("},"items":[)");
  for (size_t i = 0; i < items.size(); ++i) absl::StrAppend(&text, i > 0 ? "," : "", items[i]);
  return text + "]}";
}

// A server whose lists and watches a test scripts; what is not scripted is an empty list, and a watch that stays open.
class ScriptedServer {
 public:
  using Step = std::function<void(HttpConnection&)>;

  std::deque<Step> lists;
  std::deque<Step> watches;

  std::string url() const { return server_.url(); }
  // Paths asked so far; waits until there are `count`.
  std::vector<std::string> WaitForRequests(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return paths_.size() >= count; });
    return paths_;
  }

 private:
  void Serve(HttpConnection& connection) {
    while (const auto request = connection.Read()) {
      const bool is_watch = absl::StrContains(request->path, "watch=1");
      Step step;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        auto& steps = is_watch ? watches : lists;
        if (!steps.empty()) {
          step = steps.front();
          steps.pop_front();
        } else if (is_watch) {
          step = [](HttpConnection& open) {
            open.StartStream();
            open.WaitForClose();
          };
        } else {
          step = [](HttpConnection& plain) { plain.Answer(200, ListJson(1, {})); };
        }
        paths_.push_back(request->path);
      }
      changed_.notify_all();
      step(connection);
      if (is_watch) return;
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> paths_;
  HttpDouble server_{[this](HttpConnection& connection) { Serve(connection); }};
};

class ReflectorTest : public testing::Test {
 protected:
  void Start(absl::Duration backoff = absl::Milliseconds(1), const HttpOptions& http = {}) {
    ClusterConfig config;
    config.server = server_.url();
    client_ = *MakeHttpApiClient(config, http, &clock_, Logger());
    ReflectorOptions options;
    options.resource = Nodes();
    options.min_backoff = backoff;
    options.max_backoff = backoff;
    options.selector.field_selector = "metadata.name=x";
    const Logger logger = Logger::ToFunction(
        LogLevel::kInfo, LogFormat::kText,
        [](void* text, absl::string_view line) {
          *static_cast<std::string*>(text) += absl::StrCat(line, "\n");
        },
        &log_);
    reflector_ = std::make_unique<Reflector>(client_.get(), &clock_, logger, options,
                                             [this](const Change& change) { OnChange(change); });
    reflector_->Start();
  }

  void OnChange(const Change& change) {
    const std::lock_guard<std::mutex> lock(mutex_);
    static constexpr const char* kNames[] = {"added ", "modified ", "deleted ", "synced"};
    changes_.push_back(absl::StrCat(kNames[static_cast<int>(change.type)], change.name));
    changed_.notify_all();
  }

  // The first `count` changes.
  std::vector<std::string> Changes(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return changes_.size() >= count; });
    return changes_;
  }

  SystemClock clock_;
  ScriptedServer server_;
  std::string log_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> changes_;
  std::unique_ptr<ApiClient> client_;
  std::unique_ptr<Reflector> reflector_;
};

TEST_F(ReflectorTest, KeepsAStoreByListAndWatch) {
  server_.lists.push_back([](HttpConnection& c) {
    c.Answer(200, ListJson(5, {NodeJson("a", 1), NodeJson("b", 2)}));
  });
  server_.watches.push_back([](HttpConnection& c) {
    c.StartStream();
    c.Chunk(EventJson("MODIFIED", NodeJson("a", 6, "new")) +
            EventJson("DELETED", NodeJson("b", 7)) + EventJson("ADDED", NodeJson("c", 8)));
    c.WaitForClose();
  });
  Start();
  EXPECT_EQ(Changes(6), (std::vector<std::string>{"added a", "added b", "synced", "modified a",
                                                  "deleted b", "added c"}));
  EXPECT_TRUE(reflector_->Synced());
  EXPECT_TRUE(reflector_->LastError().ok());
  const auto store = reflector_->Snapshot();
  ASSERT_EQ(store.size(), 2u);
  EXPECT_EQ(store.at("a")["metadata"]["labels"]["l"], "new");
  EXPECT_FALSE(reflector_->Lookup("b").has_value());
  const auto paths = server_.WaitForRequests(2);
  EXPECT_TRUE(absl::StrContains(paths[0], "fieldSelector=metadata.name%3Dx"));
  EXPECT_TRUE(absl::StrContains(paths[1], "resourceVersion=5&fieldSelector=metadata.name%3Dx"));
}

TEST_F(ReflectorTest, ResumesACutStreamFromTheLastBookmark) {
  server_.lists.push_back([](HttpConnection& c) { c.Answer(200, ListJson(5, {})); });
  server_.watches.push_back([](HttpConnection& c) {
    c.StartStream();
    c.Chunk(EventJson("BOOKMARK", R"({"kind":"Node","metadata":{"resourceVersion":"500"}})"));
    c.Chunk("{\"type\":\"ADD");  // and FIN
  });
  Start(absl::Minutes(10));  // resumed without a wait
  const auto paths = server_.WaitForRequests(3);
  ASSERT_EQ(paths.size(), 3u);
  EXPECT_TRUE(absl::StrContains(paths[2], "watch=1"));
  EXPECT_TRUE(absl::StrContains(paths[2], "resourceVersion=500"));
  EXPECT_EQ(Changes(1), (std::vector<std::string>{"synced"}));
}

TEST_F(ReflectorTest, TakesASilentWatchUpAgainWhereItWas) {
  server_.lists.push_back(
      [](HttpConnection& c) { c.Answer(200, ListJson(5, {NodeJson("a", 1)})); });
  // Open and dead: what happens meanwhile does not come.
  server_.watches.push_back([](HttpConnection& c) {
    c.StartStream();
    c.WaitForClose();
  });
  server_.watches.push_back([](HttpConnection& c) {
    c.StartStream();
    c.Chunk(EventJson("DELETED", NodeJson("a", 6)) + EventJson("ADDED", NodeJson("b", 7)));
    c.WaitForClose();
  });
  HttpOptions http;
  http.watch_silence = absl::Milliseconds(100);
  Start(absl::Milliseconds(1), http);
  const auto paths = server_.WaitForRequests(3);
  ASSERT_EQ(paths.size(), 3u);
  EXPECT_TRUE(absl::StrContains(paths[1], "resourceVersion=5"));
  EXPECT_TRUE(absl::StrContains(paths[2], "watch=1")) << "no second list";
  EXPECT_TRUE(absl::StrContains(paths[2], "resourceVersion=5"));
  EXPECT_EQ(Changes(4), (std::vector<std::string>{"added a", "synced", "deleted a", "added b"}));
}

TEST(Api03, AnExpiredWatchListsAgainWithoutAVersionAndTheStoreEqualsTheList) {
  SystemClock clock;
  ScriptedServer server;
  server.lists.push_back(
      [](HttpConnection& c) { c.Answer(200, ListJson(5, {NodeJson("old", 1)})); });
  server.lists.push_back(
      [](HttpConnection& c) { c.Answer(200, ListJson(900, {NodeJson("new", 2)})); });
  server.watches.push_back([](HttpConnection& c) {
    c.StartStream();
    c.Chunk(EventJson("ADDED", NodeJson("seen", 10)) +
            EventJson("BOOKMARK", R"({"kind":"Node","metadata":{"resourceVersion":"500"}})") +
            EventJson("ERROR", R"({"kind":"Status","code":410,"reason":"Expired"})"));
    c.EndStream();
  });
  ClusterConfig config;
  config.server = server.url();
  const auto client = *MakeHttpApiClient(config, {}, &clock, Logger());
  ReflectorOptions options;
  options.resource = Nodes();
  Reflector reflector(client.get(), &clock, Logger(), options, {});
  reflector.Start();
  const auto paths = server.WaitForRequests(4);
  ASSERT_EQ(paths.size(), 4u);
  EXPECT_FALSE(absl::StrContains(paths[2], "watch=1"));
  EXPECT_FALSE(absl::StrContains(paths[2], "resourceVersion="));
  EXPECT_TRUE(absl::StrContains(paths[3], "resourceVersion=900"));
  const auto store = reflector.Snapshot();
  ASSERT_EQ(store.size(), 1u);
  EXPECT_EQ(store.begin()->first, "new");
}

TEST_F(ReflectorTest, WaitsOutFailuresAndLogsTheFirstAndTheRecoveryOnce) {
  for (int i = 0; i < 3; ++i)
    server_.lists.push_back([](HttpConnection& c) { c.Answer(503, "down"); });
  server_.lists.push_back(
      [](HttpConnection& c) { c.Answer(429, "Too many requests", "Retry-After: 0\r\n"); });
  server_.watches.push_back([](HttpConnection& c) {
    c.StartStream();
    c.Chunk(EventJson("ADDED", NodeJson("a", 6)));
    c.WaitForClose();
  });
  Start();
  EXPECT_EQ(Changes(2), (std::vector<std::string>{"synced", "added a"}));
  reflector_->Stop();
  EXPECT_EQ(log_.find("cannot follow nodes"), log_.rfind("cannot follow nodes"));
  EXPECT_THAT(log_, HasSubstr("cannot follow nodes"));
  EXPECT_THAT(log_, HasSubstr("following nodes again"));
}

TEST_F(ReflectorTest, KeepsTheStoreAndTellsTheErrorWhileTheServerIsAway) {
  server_.lists.push_back(
      [](HttpConnection& c) { c.Answer(200, ListJson(5, {NodeJson("a", 1)})); });
  server_.lists.push_back([](HttpConnection& c) { c.Answer(500, "broken"); });
  Start(absl::Minutes(10));
  Changes(2);
  server_.WaitForRequests(2);
  reflector_->Relist();
  server_.WaitForRequests(3);
  for (int i = 0; i < 10000 && reflector_->LastError().ok(); ++i) std::this_thread::yield();
  reflector_->Stop();
  EXPECT_TRUE(absl::IsUnavailable(reflector_->LastError()));
  EXPECT_EQ(reflector_->Snapshot().size(), 1u);
  EXPECT_TRUE(reflector_->Synced());
}

TEST_F(ReflectorTest, ListsAgainAtOnceWhenAsked) {
  server_.lists.push_back(
      [](HttpConnection& c) { c.Answer(200, ListJson(5, {NodeJson("a", 1)})); });
  server_.lists.push_back(
      [](HttpConnection& c) { c.Answer(200, ListJson(9, {NodeJson("b", 2)})); });
  Start(absl::Minutes(10));
  Changes(2);
  server_.WaitForRequests(2);
  reflector_->Relist();
  EXPECT_EQ(Changes(5),
            (std::vector<std::string>{"added a", "synced", "deleted a", "added b", "synced"}));
}

TEST_F(ReflectorTest, StopsAtOnceInASilentWatchAndInAWait) {
  Start();
  server_.WaitForRequests(2);
  const auto start = std::chrono::steady_clock::now();
  reflector_->Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Api10, AListThat404sNamesTheMissingApiVersion) {
  SystemClock clock;
  const auto server = HttpDouble::Answering([](const auto& request, HttpConnection& c) {
    if (request.path == "/apis/resource.k8s.io") {
      c.Answer(200, R"({"kind":"APIGroup","versions":[{"version":"v1beta1"}]})");
    } else {
      c.Answer(404, "404 page not found");
    }
  });
  ClusterConfig config;
  config.server = server->url();
  const auto client = *MakeHttpApiClient(config, {}, &clock, Logger());
  ReflectorOptions options;
  options.resource = ResourceSlices();
  Reflector reflector(client.get(), &clock, Logger(), options, {});
  reflector.Start();
  for (int i = 0; i < 1000 && reflector.LastError().ok(); ++i) {
    EXPECT_FALSE(reflector.WaitSynced(Call::WithTimeout(absl::Milliseconds(10))).ok());
  }
  EXPECT_THAT(reflector.LastError().ToString(), HasSubstr("needs resource.k8s.io/v1"));
}

}  // namespace
}  // namespace dra::kube
