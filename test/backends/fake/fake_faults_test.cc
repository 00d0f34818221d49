#include <atomic>
#include <csignal>
#include <thread>

#include "test/backends/fake/fixture.h"

namespace dra {
namespace {

using ::testing::HasSubstr;
using Fixture = FakeBackendFixture;

loader::PrepareArgs OneGpu(const std::string& uid) {
  return Fixture::Claim(uid, {Fixture::Device("gpu-0")});
}

TEST(FakeFaults, AFailureHitsAsOftenAsAskedAndThenNoMore) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  fake.Control({{"hooks",
                 {{"prepare",
                   {{"skip", 1},
                    {"times", 2},
                    {"fail", {{"code", "UNAVAILABLE"}, {"message", "card resets"}}}}}}}});
  EXPECT_TRUE(fake.Prepare(OneGpu("uid-1")).ok());
  for (int i = 0; i < 2; ++i) {
    const auto failed = fake.Prepare(OneGpu("uid-1"));
    EXPECT_EQ(failed.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(failed.status().ToString(), HasSubstr("card resets"));
  }
  EXPECT_TRUE(fake.Prepare(OneGpu("uid-1")).ok());
  // The count outlives the instance; another "id" makes it another fault.
  ASSERT_TRUE(fake.Restart().ok());
  EXPECT_TRUE(fake.Prepare(OneGpu("uid-1")).ok());
}

TEST(FakeFaults, AFaultOfOneClaimLeavesTheOthersAlone) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  fake.Control(
      {{"hooks", {{"unprepare", {{"claim", "uid-1"}, {"fail", {{"code", "INTERNAL"}}}}}}}});
  EXPECT_EQ(fake.Unprepare(OneGpu("uid-1")).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(fake.Unprepare(OneGpu("uid-2")).ok());
}

TEST(Plg06, NothingThrownCrossesTheBoundary) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  for (const char* what : {"exception", "int", "own"}) {
    SCOPED_TRACE(what);
    const Json thrown = {{"throw", what}};
    fake.Control(
        {{"hooks",
          {{"discover", thrown}, {"prepare", thrown}, {"health", thrown}, {"busy", thrown}}}});
    EXPECT_EQ(fake.Discover().status().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(fake.Prepare(OneGpu("uid-1")).status().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(fake.backend().Health(Fixture::Limit()).status().code(), absl::StatusCode::kInternal);
    EXPECT_FALSE(fake.backend().IsBusy("", "gpu-0", "", Fixture::Limit()).ok());
  }
  fake.Control({{"hooks", {{"prepare", {{"throw", "exception"}}}}}});
  EXPECT_THAT(fake.Prepare(OneGpu("uid-1")).status().ToString(),
              HasSubstr("prepare threw on demand"));
  fake.Control(Json::object());
  EXPECT_TRUE(fake.Prepare(OneGpu("uid-1")).ok());
}

TEST(FakeFaults, EveryKindOfJunkCostsTheCallAnErrorAndNoMore) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  for (const char* junk :
       {"notJson", "notUtf8", "wrongType", "nothing", "twice", "badIndex", "badCode", "nullText"}) {
    SCOPED_TRACE(junk);
    fake.Control({{"hooks", {{"prepare", {{"junk", junk}}}}}});
    EXPECT_FALSE(fake.Prepare(OneGpu("uid-1")).ok());
  }
  for (const char* junk : {"notJson", "notUtf8", "wrongType", "nullText"}) {
    SCOPED_TRACE(junk);
    fake.Control({{"hooks", {{"discover", {{"junk", junk}}}}}});
    const auto found = fake.Discover();
    if (!found.ok()) continue;
    for (const loader::DiscoverItem& item : found->items) EXPECT_FALSE(item.device.has_value());
  }
  fake.Control(
      {{"hooks", {{"busy", {{"junk", "badNumber"}}}, {"health", {{"junk", "badNumber"}}}}}});
  EXPECT_FALSE(fake.backend().IsBusy("", "gpu-0", "", Fixture::Limit()).ok());
  const auto health = fake.backend().Health(Fixture::Limit());
  if (health.ok()) {
    for (const loader::DeviceHealth& device : *health)
      EXPECT_NE(device.state, loader::HealthState::kHealthy);
  }
  fake.Control(Json::object());
  EXPECT_TRUE(fake.Prepare(OneGpu("uid-1")).ok());
}

TEST(FakeFaults, AHangEndsWithTheCancellation) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  fake.Control({{"hooks", {{"prepare", {{"hang", "untilCancelled"}}}}}});
  std::stop_source stop;
  absl::Status result;
  std::jthread caller([&] {
    result = fake.backend()
                 .Prepare(OneGpu("uid-1"), Call::WithTimeout(absl::Seconds(60), stop.get_token()))
                 .status();
  });
  ASSERT_TRUE(Fixture::Eventually(
      [&] { return !(fake.Events("begin").size() < 2); }));  // create, then prepare
  stop.request_stop();
  caller.join();
  EXPECT_EQ(result.code(), absl::StatusCode::kCancelled);
}

TEST(FakeFaults, AHangForGoodIsAnsweredAtItsLimitAndEndsWithTheEntry) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"manifest", {{"hookLimits", {{"prepare", 0.05}}}}}}).ok());
  fake.Control({{"hooks", {{"prepare", {{"hang", "untilRemoved"}}}}}});
  EXPECT_EQ(fake.Prepare(OneGpu("uid-1")).status().code(), absl::StatusCode::kDeadlineExceeded);
  fake.Control(Json::object());
  ASSERT_TRUE(Fixture::Eventually([&] {
    return !(fake.Events("end").size() < 2);
  }));  // the hook has returned: nothing is left running
}

TEST(FakeFaults, ACrashEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        Fixture fake;
        if (!fake.Start().ok()) std::_Exit(1);
        fake.Control({{"hooks", {{"prepare", {{"crash", "kill"}}}}}});
        (void)fake.Prepare(OneGpu("uid-1"));
        std::_Exit(2);
      },
      ::testing::KilledBySignal(SIGKILL), "");
}

TEST(FakeFaults, ALateCallOfTheHostIsMadeFromAThreadOfTheBackend) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  fake.Control(
      {{"hooks", {{"prepare", {{"times", 1}, {"callback", {{"function", "healthChanged"}}}}}}}});
  const int before = fake.host().health_changes();
  ASSERT_TRUE(fake.Prepare(OneGpu("uid-1")).ok());
  EXPECT_TRUE(fake.host().WaitForHealthChanges(before + 1, absl::Seconds(30)));
}

TEST(FakeFaults, ASaveUndoAfterTheHookIsRefusedByTheHost) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  fake.Control({{"hooks",
                 {{"prepare",
                   {{"times", 1}, {"callback", {{"function", "saveUndo"}, {"delayMs", 200}}}}}}}});
  ASSERT_TRUE(fake.Prepare(OneGpu("uid-1")).ok());
  ASSERT_TRUE(Fixture::Eventually([&] { return !(fake.Events("callback").empty()); }));
  EXPECT_NE(fake.Events("callback")[0]["code"], 0);
  EXPECT_EQ(fake.host().Undo("uid-1"), "");
}

TEST(FakeFaults, ABrokenControlFileIsNamedByTheNextHook) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  fake.Control({{"hooks", {{"prepare", {{"latency", 5}}}}}});
  const auto failed = fake.Prepare(OneGpu("uid-1"));
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(failed.status().ToString(), HasSubstr("hooks.prepare.latency"));
}

TEST(FakeHookLog, ShowsEachHookWithItsClaimInOrder) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  ASSERT_TRUE(fake.Prepare(OneGpu("uid-1")).ok());
  ASSERT_TRUE(fake.Unprepare(OneGpu("uid-1")).ok());
  const std::vector<Json> events = fake.Events("begin");
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["hook"], "create");
  EXPECT_EQ(events[1]["hook"], "prepare");
  EXPECT_EQ(events[1]["claim"], "uid-1");
  EXPECT_EQ(events[1]["devices"], Json::array({"gpu-0"}));
  EXPECT_EQ(events[2]["hook"], "unprepare");
}

}  // namespace
}  // namespace dra
