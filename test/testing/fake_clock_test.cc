#include "dra/testing/fake_clock.h"

#include <thread>

#include "gtest/gtest.h"

namespace dra::testing {
namespace {

TEST(FakeClock, StandsStillUntilItIsMoved) {
  FakeClock clock;
  const absl::Time wall = clock.Now();
  const MonotonicTime monotonic = clock.Monotonic();
  EXPECT_EQ(clock.Now(), wall);
  clock.Advance(absl::Seconds(90));
  EXPECT_EQ(clock.Now(), wall + absl::Seconds(90));
  EXPECT_EQ(clock.Monotonic() - monotonic, std::chrono::seconds(90));
}

TEST(FakeClock, AdvanceWakesTheSleepersWhoseTimeHasCome) {
  FakeClock clock;
  bool first = false;
  std::jthread sleeper([&] { first = clock.Sleep(absl::Seconds(10), {}); });
  std::jthread longer(
      [&](const std::stop_token& stop) { EXPECT_FALSE(clock.Sleep(absl::Hours(1), stop)); });
  ASSERT_TRUE(clock.WaitForSleepers(2));
  clock.Advance(absl::Seconds(10));
  sleeper.join();
  EXPECT_TRUE(first);
  EXPECT_EQ(clock.Sleepers(), 1);
  longer.request_stop();
}

TEST(FakeClock, AStopEndsASleepAtOnce) {
  FakeClock clock;
  std::stop_source source;
  source.request_stop();
  EXPECT_FALSE(clock.Sleep(absl::Hours(1), source.get_token()));
}

TEST(FakeClock, AJumpOfTheWallClockWakesNobody) {
  FakeClock clock;
  std::jthread sleeper(
      [&](const std::stop_token& stop) { EXPECT_FALSE(clock.Sleep(absl::Seconds(10), stop)); });
  ASSERT_TRUE(clock.WaitForSleepers(1));
  clock.SetNow(clock.Now() + absl::Hours(24));
  EXPECT_EQ(clock.Sleepers(), 1);
  sleeper.request_stop();
}

TEST(FakeClock, AdvanceToNextSleeperMovesExactlyToItsEnd) {
  FakeClock clock;
  const absl::Time start = clock.Now();
  std::jthread sleeper([&] { clock.Sleep(absl::Seconds(7), {}); });
  ASSERT_TRUE(clock.AdvanceToNextSleeper());
  sleeper.join();
  EXPECT_EQ(clock.Now(), start + absl::Seconds(7));
  EXPECT_FALSE(clock.AdvanceToNextSleeper(absl::Milliseconds(1)));
}

}  // namespace
}  // namespace dra::testing
