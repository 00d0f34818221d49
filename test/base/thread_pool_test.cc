#include "dra/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace dra {
namespace {

TEST(ThreadPool, RunsWhatIsQueuedBeforeItEnds) {
  std::atomic<int> ran = 0;
  {
    ThreadPool pool(3);
    for (int i = 0; i < 100; ++i) pool.Submit([&ran] { ++ran; });
  }
  EXPECT_EQ(ran, 100);
}

TEST(ThreadPool, AWaitingFunctionHoldsOnlyItsOwnThread) {
  ThreadPool pool(2);
  absl::Notification release;
  absl::Notification other_ran;
  pool.Submit([&] { release.WaitForNotification(); });
  pool.Submit([&] { other_ran.Notify(); });
  EXPECT_TRUE(other_ran.WaitForNotificationWithTimeout(absl::Seconds(30)));
  release.Notify();
}

TEST(ThreadPool, QueuedCountsWhatWaitsForAThread) {
  ThreadPool pool(1);
  absl::Notification release;
  absl::Notification running;
  pool.Submit([&] {
    running.Notify();
    release.WaitForNotification();
  });
  ASSERT_TRUE(running.WaitForNotificationWithTimeout(absl::Seconds(30)));
  pool.Submit([] {});
  pool.Submit([] {});
  EXPECT_EQ(pool.Queued(), 2u);
  release.Notify();
}

TEST(ThreadPool, StartsAThreadOnlyWhenAllOthersAreBusy) {
  ThreadPool pool(4);
  for (int i = 0; i < 20; ++i) {
    absl::Notification ran;
    pool.Submit([&] { ran.Notify(); });
    ASSERT_TRUE(ran.WaitForNotificationWithTimeout(absl::Seconds(30)));
    // One that has said that it ran may not wait yet when the next comes.
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (pool.Idle() < pool.Threads() && absl::Now() < end) std::this_thread::yield();
  }
  EXPECT_EQ(pool.Threads(), 1u);
}

TEST(ThreadPool, HasNoMoreThreadsThanItsLimit) {
  absl::Notification release;
  std::atomic<int> running = 0;
  ThreadPool pool(3);
  for (int i = 0; i < 10; ++i) {
    pool.Submit([&] {
      ++running;
      release.WaitForNotification();
    });
  }
  EXPECT_EQ(pool.Threads(), 3u);
  release.Notify();
}

}  // namespace
}  // namespace dra
