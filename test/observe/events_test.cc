#include "dra/observe/events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <regex>

#include "dra/base/utf8.h"
#include "nlohmann/json.hpp"
#include "observe/event_body.h"

namespace dra::observe {
namespace {

// Keeps what is written; answers with the errors a test queues.
class EventApi final : public kube::ApiClient {
 public:
  struct Write {
    std::string verb;
    std::string namespace_name;
    Json object;
  };

  absl::StatusOr<Json> Create(const kube::Resource& resource, absl::string_view namespace_name,
                              const Json& object, const kube::WriteOptions&, const Call&) override {
    EXPECT_EQ(resource.group, "events.k8s.io");
    return Take("create", namespace_name, object);
  }
  absl::StatusOr<Json> Update(const kube::Resource&, absl::string_view namespace_name,
                              absl::string_view, const Json& object, const kube::WriteOptions&,
                              const Call&) override {
    return Take("update", namespace_name, object);
  }
  absl::StatusOr<Json> Get(const kube::Resource&, absl::string_view, absl::string_view,
                           const Call&) override {
    return absl::UnimplementedError("get");
  }
  absl::StatusOr<kube::ListResult> List(const kube::Resource&, absl::string_view,
                                        const kube::ListOptions&, const Call&) override {
    return absl::UnimplementedError("list");
  }
  absl::Status Watch(const kube::Resource&, absl::string_view, const kube::WatchOptions&,
                     const std::function<void(const kube::WatchEvent&)>&, const Call&) override {
    return absl::UnimplementedError("watch");
  }
  absl::Status Delete(const kube::Resource&, absl::string_view, absl::string_view,
                      const kube::DeleteOptions&, const Call&) override {
    return absl::UnimplementedError("delete");
  }
  absl::StatusOr<Json> Apply(const kube::Resource&, absl::string_view, absl::string_view,
                             absl::string_view, absl::string_view, const Json&,
                             const Call&) override {
    return absl::UnimplementedError("apply");
  }

  std::vector<Write> Wait(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(10), [&] { return writes_.size() >= count; });
    return writes_;
  }
  void FailNext(absl::Status status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    failures_.push_back(std::move(status));
  }

 private:
  absl::StatusOr<Json> Take(const std::string& verb, absl::string_view namespace_name,
                            Json object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    writes_.push_back({verb, std::string(namespace_name), object});
    changed_.notify_all();
    if (!failures_.empty()) {
      absl::Status status = failures_.front();
      failures_.erase(failures_.begin());
      return status;
    }
    object["metadata"]["resourceVersion"] = std::to_string(++version_);
    return object;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Write> writes_;
  std::vector<absl::Status> failures_;
  int version_ = 0;
};

const ObjectReference kNode{"v1", "Node", "", "n1", "uid-n1"};
const ObjectReference kClaim{"resource.k8s.io/v1", "ResourceClaim", "ns", "c", "uid-c"};

class EventsTest : public testing::Test {
 protected:
  std::unique_ptr<EventRecorder> Recorder(kube::ApiClient* api) {
    return std::make_unique<EventRecorder>(api, &clock_, &metrics_, Logger(), "gpu.example.com",
                                           "n1");
  }
  SystemClock clock_;
  Metrics metrics_;
  EventApi api_;
};

TEST_F(EventsTest, WritesAnEventWithEveryField) {
  auto recorder = Recorder(&api_);
  recorder->Record(EventType::kWarning, kNode, "DeviceDropped", "Publish", "device gpu-1: bad");
  recorder->Record(EventType::kNormal, kClaim, "Prepared", "Prepare", "ok");
  const auto writes = api_.Wait(2);
  ASSERT_EQ(writes.size(), 2u);
  EXPECT_EQ(writes[0].namespace_name, "default");
  Json body = writes[0].object;
  EXPECT_TRUE(std::regex_match(body["eventTime"].get<std::string>(),
                               std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)")));
  EXPECT_TRUE(std::regex_match(body["metadata"]["name"].get<std::string>(),
                               std::regex("n1\\.[0-9a-f]{16}")));
  body.erase("eventTime");
  body["metadata"].erase("name");
  EXPECT_EQ(
      body,
      Json::parse(
          R"({"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"namespace":"default"},
      "reportingController":"gpu.example.com","reportingInstance":"n1","action":"Publish","reason":"DeviceDropped",
      "regarding":{"apiVersion":"v1","kind":"Node","name":"n1","uid":"uid-n1"},"note":"device gpu-1: bad",
      "type":"Warning"})"));
  EXPECT_EQ(writes[1].namespace_name, "ns");
  EXPECT_EQ(writes[1].object["regarding"]["namespace"], "ns");
  EXPECT_EQ(writes[1].object["type"], "Normal");
}

TEST_F(EventsTest, CountsEqualEventsInOneSeries) {
  auto recorder = Recorder(&api_);
  for (int i = 0; i < 3; ++i) recorder->Record(EventType::kWarning, kNode, "R", "A", "same");
  recorder->Record(EventType::kWarning, kNode, "R", "A", "other");
  const auto writes = api_.Wait(4);
  ASSERT_EQ(writes.size(), 4u);
  EXPECT_EQ(writes[1].verb, "update");
  EXPECT_EQ(writes[1].object["metadata"]["name"], writes[0].object["metadata"]["name"]);
  EXPECT_EQ(writes[1].object["metadata"]["resourceVersion"], "1");
  EXPECT_EQ(writes[1].object["eventTime"], writes[0].object["eventTime"]);
  EXPECT_EQ(writes[1].object["series"]["count"], 2);
  EXPECT_EQ(writes[2].object["series"]["count"], 3);
  EXPECT_EQ(writes[2].object["metadata"]["resourceVersion"], "2");
  EXPECT_EQ(writes[3].verb, "create");
}

TEST_F(EventsTest, CreatesAnewWhenTheSeriesWasChangedOrIsGone) {
  for (const absl::Status& failure :
       {absl::AbortedError("conflict"), absl::NotFoundError("expired")}) {
    EventApi api;
    auto recorder = Recorder(&api);
    recorder->Record(EventType::kNormal, kNode, "R", "A", "same");
    ASSERT_EQ(api.Wait(1).size(), 1u);
    api.FailNext(failure);
    recorder->Record(EventType::kNormal, kNode, "R", "A", "same");
    const auto writes = api.Wait(3);
    ASSERT_EQ(writes.size(), 3u);
    EXPECT_EQ(writes[1].verb, "update");
    EXPECT_EQ(writes[2].verb, "create");
    EXPECT_NE(writes[2].object["metadata"]["name"], writes[0].object["metadata"]["name"]);
  }
}

TEST_F(EventsTest, DropsWhatIsRefusedAndCountsIt) {
  api_.FailNext(absl::PermissionDeniedError("no"));
  auto recorder = Recorder(&api_);
  recorder->Record(EventType::kNormal, kNode, "R", "A", "first");
  recorder->Record(EventType::kNormal, kNode, "R", "A", "second");
  ASSERT_EQ(api_.Wait(2).size(), 2u);
  recorder.reset();
  EXPECT_EQ(metrics_.Value("dra_events_dropped_total"), 1);
  EXPECT_EQ(api_.Wait(2).size(), 2u);
}

TEST_F(EventsTest, NeverBlocksAndDropsTheOldestWhenTheServerIsAway) {
  for (int i = 0; i < 10; ++i) api_.FailNext(absl::UnavailableError("away"));
  auto recorder = Recorder(&api_);
  for (int i = 0; i < 1500; ++i)
    recorder->Record(EventType::kNormal, kNode, "R", "A", std::to_string(i));
  recorder.reset();
  EXPECT_GE(metrics_.Value("dra_events_dropped_total"), 499);
}

TEST_F(EventsTest, OnlyLogsWithoutAnApiServer) {
  std::string log;
  const Logger logger = Logger::ToFunction(
      LogLevel::kInfo, LogFormat::kText,
      [](void* text, absl::string_view line) {
        *static_cast<std::string*>(text) += std::string(line);
      },
      &log);
  EventRecorder recorder(nullptr, &clock_, &metrics_, logger, "d", "n");
  recorder.Record(EventType::kWarning, kNode, "DeviceDropped", "Publish", "gpu-1");
  EXPECT_THAT(log, testing::HasSubstr("event DeviceDropped: gpu-1"));
}

TEST(EventBody, CutsANoteBetweenCharacters) {
  const std::string text = std::string(1023, 'x') + "\xc3\xa9";
  EXPECT_EQ(ValidUtf8Prefix(text, 1024), std::string(1023, 'x'));
  EXPECT_EQ(ValidUtf8Prefix(text, 1025), text);
  EXPECT_EQ(ValidUtf8Prefix("a\xff\xc3", 10), "a??");
  EXPECT_EQ(ValidUtf8Prefix("", 10), "");
}

}  // namespace
}  // namespace dra::observe
