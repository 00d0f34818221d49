// A sick API server: every call has an end, the number of requests is bounded, and all comes back by itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "test/fault/fault_fixture.h"

namespace dra::driver {
namespace {

using testing::ApiFault;
using ::testing::HasSubstr;

testing::RequestMatcher Match(const std::string& verb, const std::string& resource) {
  testing::RequestMatcher matcher;
  matcher.verb = verb;
  matcher.resource = resource;
  return matcher;
}

struct Trouble {
  const char* name;
  ApiFault fault;
};

ApiFault Fault(ApiFault::Kind kind, int code = 500, int times = 2) {
  ApiFault fault;
  fault.kind = kind;
  fault.match = Match("get", "resourceclaims");
  fault.code = code;
  fault.times = times;
  return fault;
}

ApiFault RetryAfter() {
  ApiFault fault = Fault(ApiFault::Kind::kPlainText, 429, 1);
  fault.message = "too many requests";
  fault.retry_after = absl::Seconds(1);
  return fault;
}

ApiFault Slow() {
  ApiFault fault = Fault(ApiFault::Kind::kDelay, 200, 1);
  fault.delay = absl::Milliseconds(500);
  return fault;
}

class ApiTrouble : public FaultFixture, public ::testing::WithParamInterface<Trouble> {};

// A failed Prepare costs the pod a minute or more, so what passes by itself is waited for inside the call.
TEST_P(ApiTrouble, ThatPassesWithinACallIsWaitedForInIt) {
  StartFaultyNode();
  const auto claim = MakeClaim("c1", {"gpu-0"});
  const int gets = api_->traffic().Count(Match("get", "resourceclaims"));
  api_->traffic().Inject(GetParam().fault);
  EXPECT_EQ(ErrorOf(Prepare(claim)), "");
  const int after = api_->traffic().Count(Match("get", "resourceclaims"));
  EXPECT_GE(after - gets, GetParam().fault.kind == ApiFault::Kind::kDelay ? 1 : 2);
  EXPECT_LE(after - gets, 8) << "retries wait longer each time";
  ExpectHealed(claim);
}

INSTANTIATE_TEST_SUITE_P(
    All, ApiTrouble,
    ::testing::Values(Trouble{"Status500", Fault(ApiFault::Kind::kStatus, 500)},
                      Trouble{"Html503", Fault(ApiFault::Kind::kHtml, 503)},
                      Trouble{"RetryAfter429", RetryAfter()}, Trouble{"Slow", Slow()},
                      Trouble{"Cut", Fault(ApiFault::Kind::kCut)},
                      Trouble{"HalfAnswer", Fault(ApiFault::Kind::kHalfAnswer)},
                      Trouble{"Empty502", Fault(ApiFault::Kind::kEmpty, 502)}),
    [](const auto& tested) { return std::string(tested.param.name); });

class Api : public FaultFixture {
 protected:
  // All requests of so many seconds in which everything goes wrong, without those of earlier.
  int RequestsWithin(absl::Duration window) {
    api_->traffic().ResetLog();
    // The window is the measure, not a synchronisation: more time only allows more.
    absl::SleepFor(window);
    return api_->traffic().Count({});
  }
};

TEST_F(Api, ARefusalIsAnAnswerAtOnceWithItsCode) {
  StartFaultyNode();
  const auto claim = MakeClaim("c1", {"gpu-0"});
  ApiFault forbidden = Fault(ApiFault::Kind::kStatus, 403, 0);
  forbidden.reason = "Forbidden";
  forbidden.message = "no";
  api_->traffic().Inject(forbidden);
  EXPECT_THAT(ErrorOf(Prepare(claim)), HasSubstr("403"));
  api_->traffic().ClearFaults();
  ExpectHealed(claim);
}

TEST_F(Api, AwayDuringAPrepareAndBackWithinTheCallMakesItSucceed) {
  StartFaultyNode();
  const auto held = MakeClaim("held", {"gpu-1"});
  ASSERT_EQ(ErrorOf(Prepare(held)), "");
  const auto claim = MakeClaim("c1", {"gpu-0"});
  api_->GoAway();
  std::future<testing::KubeletReply> reply =
      std::async(std::launch::async, [&] { return Prepare(claim); });
  // Unprepare needs no API server, however many prepares wait for one.
  EXPECT_EQ(ErrorOf(Unprepare(held)), "");
  EXPECT_EQ(reply.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  ASSERT_TRUE(api_->ComeBack().ok());
  EXPECT_EQ(ErrorOf(reply.get()), "");
  ExpectHealed(claim);
}

// A server that is stopped (SIGSTOP) takes requests and answers none.
TEST_F(Api, AServerThatStopsInTheMiddleCostsNothingOnceItGoesOn) {
  StartFaultyNode();
  const auto claim = MakeClaim("c1", {"gpu-0"});
  ApiFault stopped = Fault(ApiFault::Kind::kBlackHole, 0, 0);
  stopped.match = {};
  api_->traffic().Inject(stopped);
  std::future<testing::KubeletReply> reply =
      std::async(std::launch::async, [&] { return Prepare(claim); });
  EXPECT_TRUE(WaitUntil([&] { return api_->traffic().Count(Match("get", "resourceclaims")) > 0; }));
  EXPECT_EQ(ErrorOf(Unprepare({"ns1", "gone", "7b1f"})), "");
  api_->traffic().ClearFaults();
  EXPECT_EQ(ErrorOf(reply.get()), "");
  ExpectHealed(claim);
}

TEST_F(Api, AServerThatFailsEverythingIsNotStormed) {
  StartApi();
  StartKubelet();
  ApiFault all = Fault(ApiFault::Kind::kStatus, 500, 0);
  all.match = {};
  api_->traffic().Inject(all);
  StartFaulty();
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience)) << "registration needs no API server";
  EXPECT_EQ(ErrorOf(Unprepare({"ns1", "gone", "7b1f"})), "");
  const absl::Time start = absl::Now();
  const int requests = RequestsWithin(absl::Seconds(3));
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  EXPECT_LE(requests, 20 + 8 * seconds) << "in " << seconds << " s";
  api_->traffic().ClearFaults();
  EXPECT_TRUE(WaitForReady(true));
}

TEST_F(Api, AWatchThatExpiresOrIsCutEachTimeIsNotStormed) {
  StartFaultyNode();
  for (const ApiFault::Kind kind :
       {ApiFault::Kind::kExpired, ApiFault::Kind::kCutWatch, ApiFault::Kind::kCut}) {
    SCOPED_TRACE(static_cast<int>(kind));
    ApiFault fault = Fault(kind, 410, 0);
    fault.match = Match("watch", "");
    api_->traffic().Inject(fault);
    api_->store().CutWatches();
    const absl::Time start = absl::Now();
    const int requests = RequestsWithin(absl::Seconds(2));
    const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
    EXPECT_LE(requests, 20 + 8 * seconds) << "in " << seconds << " s";
    api_->traffic().ClearFaults();
    // What was removed meanwhile comes back.
    for (const Json& slice : Slices()) {
      api_->store().Erase(kube::ResourceSlices(), "", StringOr(slice["metadata"], "name"));
    }
    EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.size() == 4; }));
  }
  EXPECT_TRUE(WaitForReady(true));
}

TEST_F(Api, WatchesCutInTheMiddleOfAnObjectAreTakenUpAgain) {
  StartFaultyNode();
  ApiFault half = Fault(ApiFault::Kind::kHalfAnswer, 200, 3);
  half.match = Match("watch", "resourceslices");
  api_->traffic().Inject(half);
  api_->CutConnections();
  kubelet_->Restart();  // wipes the slices
  EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.size() == 4; }));
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  EXPECT_TRUE(WaitForReady(true));
}

}  // namespace
}  // namespace dra::driver
