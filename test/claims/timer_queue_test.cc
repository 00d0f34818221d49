#include "claims/timer_queue.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>

namespace dra::claims {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

MonotonicTime In(std::chrono::nanoseconds time) { return std::chrono::steady_clock::now() + time; }

bool Runs(TimerQueue& timers, MonotonicTime when) {
  const auto ran = std::make_shared<std::promise<void>>();
  timers.At(when, [ran] { ran->set_value(); });
  return ran->get_future().wait_for(seconds(20)) == std::future_status::ready;
}

TEST(TimerQueue, WhatIsDueEarlierWakesAThreadThatSleepsForALaterOne) {
  TimerQueue timers;
  timers.At(In(minutes(10)), [] {});
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Runs(timers, In(milliseconds(1))));
}

TEST(TimerQueue, SleepsOnForACancelledFunctionAndStillRunsTheNextInTime) {
  TimerQueue timers;
  for (int i = 0; i < 20; ++i) {
    timers.Cancel(timers.At(In(milliseconds(50)), [] { ADD_FAILURE() << "it was cancelled"; }));
    timers.Cancel(timers.At(In(minutes(10)), [] { ADD_FAILURE() << "it was cancelled"; }));
    EXPECT_TRUE(Runs(timers, In(milliseconds(1))));
  }
  // The thread sleeps until a cancelled time and has to go on from there to a later one.
  timers.Cancel(timers.At(In(milliseconds(20)), [] { ADD_FAILURE() << "it was cancelled"; }));
  EXPECT_TRUE(Runs(timers, In(milliseconds(40))));
}

TEST(TimerQueue, HurryMakesWhatComesLaterDueAsWell) {
  TimerQueue timers;
  timers.At(In(minutes(10)), [] {});
  timers.Hurry();
  EXPECT_TRUE(Runs(timers, In(minutes(10))));
  EXPECT_TRUE(Runs(timers, In(minutes(10))));
}

}  // namespace
}  // namespace dra::claims
