#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "absl/strings/match.h"
#include "dra/kube/http_api_client.h"
#include "nlohmann/json.hpp"
#include "test/kube/http_double.h"

namespace dra::kube {
namespace {

std::unique_ptr<ApiClient> Client(const HttpDouble& server, Clock* clock,
                                  HttpOptions options = {}) {
  ClusterConfig config;
  config.server = server.url();
  return *MakeHttpApiClient(config, options, clock, Logger());
}

std::string Event(const std::string& type, const std::string& version) {
  return R"({"type":")" + type +
         R"(","object":{"kind":"Node","metadata":{"name":"n","resourceVersion":")" + version +
         "\"}}}\n";
}

TEST(Watch, DeliversEventsAndEndsInOrder) {
  SystemClock clock;
  const HttpDouble server([](HttpConnection& connection) {
    const auto request = connection.Read();
    if (!request.has_value()) return;
    EXPECT_TRUE(
        absl::StrContains(request->path, "watch=1&allowWatchBookmarks=true&resourceVersion=7"));
    EXPECT_TRUE(absl::StrContains(request->path, "timeoutSeconds="));
    connection.StartStream();
    connection.Chunk(Event("ADDED", "8").substr(0, 20));
    connection.Chunk(Event("ADDED", "8").substr(20) + Event("BOOKMARK", "9"));
    connection.Chunk(R"({"type":"ADD)");
    connection.EndStream();
    connection.WaitForClose();
  });
  const auto client = Client(server, &clock);
  std::vector<WatchEvent::Type> types;
  int opened = 0;
  WatchOptions options;
  options.resource_version = "7";
  options.on_open = [&] { ++opened; };
  const absl::Status status = client->Watch(
      Nodes(), "", options, [&](const WatchEvent& event) { types.push_back(event.type); }, Call());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(types,
            (std::vector<WatchEvent::Type>{WatchEvent::Type::kAdded, WatchEvent::Type::kBookmark}));
  EXPECT_EQ(opened, 1);
}

TEST(Watch, TellsRefusalsAndCutsApart) {
  SystemClock clock;
  std::atomic<int> mode{0};
  const HttpDouble server([&](HttpConnection& connection) {
    if (!connection.Read().has_value()) return;
    if (mode == 0) connection.Answer(410, R"({"kind":"Status","code":410,"reason":"Gone"})");
    if (mode == 1) connection.Answer(429, "too many", "Retry-After: 3\r\n");
    if (mode == 2) {
      connection.StartStream();
      connection.Chunk(Event("ADDED", "8"));  // then FIN in the middle of the stream
    }
    if (mode == 3) connection.Answer(200, "<html>login</html>\n");
  });
  const auto client = Client(server, &clock);
  const auto watch = [&] {
    return client->Watch(
        Nodes(), "", {}, [](const WatchEvent&) {}, Call());
  };
  EXPECT_TRUE(absl::IsOutOfRange(watch()));
  mode = 1;
  const absl::Status busy = watch();
  EXPECT_TRUE(absl::IsUnavailable(busy));
  EXPECT_EQ(ApiErrorOf(busy)->retry_after, absl::Seconds(3));
  mode = 2;
  const absl::Status cut = watch();
  EXPECT_TRUE(absl::IsUnavailable(cut)) << cut;
  EXPECT_EQ(ApiErrorOf(cut)->http_code, 0);
  mode = 3;
  EXPECT_TRUE(absl::IsDataLoss(watch()));
}

TEST(Api06, ABlackHoleIsFoundByItsSilence) {
  SystemClock clock;
  Counter closed;
  const HttpDouble server([&](HttpConnection& connection) {
    connection.Read();
    connection.StartStream();
    connection.WaitForClose();
    closed.Add();
  });
  HttpOptions options;
  EXPECT_LT(options.watch_silence, absl::Seconds(90));
  options.watch_silence = absl::Milliseconds(100);
  const auto client = Client(server, &clock, options);
  const absl::Status status = client->Watch(
      Nodes(), "", {}, [](const WatchEvent&) {}, Call());
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_TRUE(closed.WaitFor(1));  // the connection is not kept
}

TEST(Api06, AWatchHasAConnectionOfItsOwn) {
  SystemClock clock;
  Counter open;
  const HttpDouble server([&](HttpConnection& connection) {
    while (const auto request = connection.Read()) {
      if (absl::StrContains(request->path, "watch=1")) {
        connection.StartStream();
        open.Add();
      } else {
        connection.Answer(200, R"({"kind":"Node"})");
      }
    }
  });
  const auto client = Client(server, &clock);
  std::stop_source stop;
  Call call;
  call.stop = stop.get_token();
  ASSERT_TRUE(client->Get(Nodes(), "", "n", Call()).ok());
  std::thread watcher([&] {
    client
        ->Watch(
            Nodes(), "", {}, [](const WatchEvent&) {}, call)
        .IgnoreError();
  });
  EXPECT_TRUE(open.WaitFor(1));
  EXPECT_TRUE(client->Get(Nodes(), "", "n", Call::WithTimeout(absl::Seconds(10))).ok());
  EXPECT_EQ(server.connections(), 2);
  stop.request_stop();
  watcher.join();
}

TEST(Api09, ASilentWatchEndsAtOnceWhenItIsStopped) {
  SystemClock clock;
  Counter open;
  const HttpDouble server([&](HttpConnection& connection) {
    connection.Read();
    connection.StartStream();
    open.Add();
    connection.WaitForClose();
  });
  const auto client = Client(server, &clock);
  std::stop_source stop;
  Call call;
  call.stop = stop.get_token();
  std::promise<absl::Status> ended;
  std::thread watcher([&] {
    ended.set_value(client->Watch(
        Nodes(), "", {}, [](const WatchEvent&) {}, call));
  });
  EXPECT_TRUE(open.WaitFor(1));
  stop.request_stop();
  auto future = ended.get_future();
  EXPECT_EQ(future.wait_for(std::chrono::seconds(1)), std::future_status::ready);
  EXPECT_TRUE(absl::IsCancelled(future.get()));
  watcher.join();
}

TEST(Watch, PausesAStreamThatIsReadTooSlowlyAndLosesNothing) {
  SystemClock clock;
  constexpr int kEvents = 14;
  const std::string pad(1 << 20, 'p');
  const HttpDouble server([&](HttpConnection& connection) {
    connection.Read();
    connection.StartStream();
    for (int i = 0; i < kEvents; ++i) {
      connection.Chunk(R"({"type":"ADDED","object":{"kind":"Node","pad":")" + pad + "\"}}\n");
    }
    connection.EndStream();
    connection.WaitForClose();
  });
  const auto client = Client(server, &clock);
  int events = 0;
  const absl::Status status = client->Watch(
      Nodes(), "", {},
      [&](const WatchEvent& event) {
        EXPECT_EQ(event.object["pad"].get_ref<const std::string&>().size(), pad.size());
        ++events;
      },
      Call());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(events, kEvents);
}

}  // namespace
}  // namespace dra::kube
