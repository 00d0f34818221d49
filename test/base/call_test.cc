#include "dra/base/call.h"

#include <gtest/gtest.h>

#include <thread>

namespace dra {
namespace {

TEST(Call, WithoutADeadlineNeverExpires) {
  const Call call;
  EXPECT_EQ(call.Remaining(), absl::InfiniteDuration());
  EXPECT_TRUE(call.Check("x").ok());
}

TEST(Call, SaysWhatRanOutOfTime) {
  const Call call = Call::WithTimeout(absl::ZeroDuration());
  EXPECT_EQ(call.Remaining(), absl::ZeroDuration());
  EXPECT_EQ(call.Check("get claim ns/c").code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(call.Check("get claim ns/c").message(), "get claim ns/c: deadline exceeded");
}

TEST(Call, AtMostNeverMovesTheDeadlineOut) {
  const Call call = Call::WithTimeout(absl::Minutes(1));
  EXPECT_EQ(call.AtMost(absl::Hours(1)).deadline, call.deadline);
  EXPECT_EQ(call.AtMost(absl::InfiniteDuration()).deadline, call.deadline);
  EXPECT_LT(*call.AtMost(absl::Seconds(1)).deadline, *call.deadline);
}

TEST(Call, IsCancelledByItsStopToken) {
  std::stop_source source;
  const Call call = Call::WithTimeout(absl::Hours(1), source.get_token());
  EXPECT_TRUE(call.Check("x").ok());
  source.request_stop();
  EXPECT_EQ(call.Check("x").code(), absl::StatusCode::kCancelled);
}

TEST(SystemClock, SleepEndsWhenStopIsRequested) {
  SystemClock clock;
  std::stop_source source;
  std::thread stopper([&] { source.request_stop(); });
  EXPECT_FALSE(clock.Sleep(absl::Hours(1), source.get_token()));
  stopper.join();
}

TEST(SystemClock, SleepSaysWhenTheWholeTimeHasPassed) {
  SystemClock clock;
  EXPECT_TRUE(clock.Sleep(absl::Milliseconds(1), std::stop_token()));
}

}  // namespace
}  // namespace dra
