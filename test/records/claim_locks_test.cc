#include "dra/records/claim_locks.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "dra/testing/temp_directory.h"

namespace dra::records {
namespace {

Call Soon() { return Call::WithTimeout(absl::Milliseconds(20)); }
Call Patient() { return Call::WithTimeout(absl::Seconds(20)); }

class ClaimLocksTest : public ::testing::Test {
 protected:
  testing::TempDirectory directory_;
  const std::string path_ = directory_.Path("serialize.lock");
  const ClaimLocks locks_{path_};
};

TEST_F(ClaimLocksTest, OffsetsAreTheDocumentedHashPrefixes) {
  // sha256("claim\0U1") and sha256("key\0gpu-0"), first 8 bytes, shifted right by 3.
  EXPECT_EQ(ClaimOffset("U1"), 231153812679686609ull);
  EXPECT_EQ(KeyOffset("gpu-0"), 2722462242025061976ull);
  EXPECT_LT(ClaimOffset("U1"), uint64_t{1} << 61 | 1);
  EXPECT_GT(KeyOffset("gpu-0"), uint64_t{1} << 61);
  EXPECT_NE(KeyOffset("gpu-0"), KeyOffset("gpu-1"));
}

TEST_F(ClaimLocksTest, OneClaimIsLockedByOneOperationAtATime) {
  auto first = locks_.LockClaim("U1", Soon());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsUnavailable(locks_.LockClaim("U1", Soon()).status()));
  EXPECT_TRUE(absl::IsUnavailable(locks_.TryLockClaim("U1").status()));
  EXPECT_TRUE(locks_.LockClaim("U2", Soon()).ok());
  EXPECT_FALSE(*locks_.IsFree("U1"));
  first = OperationLock();
  EXPECT_TRUE(*locks_.IsFree("U1"));
  EXPECT_TRUE(locks_.LockClaim("U1", Soon()).ok());
}

TEST_F(ClaimLocksTest, ThreadsOfOneProcessExcludeEachOther) {
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) {
        const auto lock = locks_.LockClaim("U1", Patient());
        ASSERT_TRUE(lock.ok());
        const int now = ++inside;
        if (now > most) most = now;
        std::this_thread::yield();
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

TEST_F(ClaimLocksTest, KeysAreTakenTogetherOrNotAtAll) {
  auto first = locks_.LockClaim("U1", Soon());
  auto second = locks_.LockClaim("U2", Soon());
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(first->LockKeys({"b"}, Soon()).ok());
  const absl::Status refused = second->LockKeys({"c", "b", "a", "a"}, Soon());
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_NE(refused.message().find("\"b\""), std::string::npos);
  auto third = locks_.LockClaim("U3", Soon());
  ASSERT_TRUE(third.ok());
  EXPECT_TRUE(third->LockKeys({"a", "c"}, Soon()).ok());
  first = OperationLock();
  third = OperationLock();
  EXPECT_TRUE(second->LockKeys({"c", "b", "a", "a"}, Soon()).ok());
}

TEST_F(ClaimLocksTest, AWaitEndsWhenItIsCancelled) {
  const auto held = locks_.LockClaim("U1", Soon());
  ASSERT_TRUE(held.ok());
  std::stop_source stop;
  absl::Notification begun;
  std::thread canceller([&] {
    begun.WaitForNotification();
    stop.request_stop();
  });
  begun.Notify();
  const auto waited =
      locks_.LockClaim("U1", Call::WithTimeout(absl::Seconds(60), stop.get_token()));
  canceller.join();
  EXPECT_TRUE(absl::IsCancelled(waited.status())) << waited.status();
}

TEST_F(ClaimLocksTest, ReconcileExcludesAllOperations) {
  {
    const auto operation = locks_.LockClaim("U1", Soon());
    ASSERT_TRUE(operation.ok());
    EXPECT_TRUE(absl::IsUnavailable(locks_.LockReconcile(Soon()).status()));
  }
  const auto reconcile = locks_.LockReconcile(Soon());
  ASSERT_TRUE(reconcile.ok());
  EXPECT_TRUE(absl::IsUnavailable(locks_.LockClaim("U1", Soon()).status()));
}

// What the Go helper does: an exclusive open-file-description lock on the whole file.
TEST_F(ClaimLocksTest, NewOperationsWaitBehindAReconcileThatWaits) {
  const ClaimLocks other{path_};  // as another process: every operation opens the file anew
  auto running = locks_.LockClaim("U1", Soon());
  ASSERT_TRUE(running.ok()) << running.status();
  absl::Notification end;
  std::thread reconciler([&] {
    const auto lock = other.LockReconcile(Patient());
    EXPECT_TRUE(lock.ok()) << lock.status();
    end.WaitForNotificationWithTimeout(absl::Seconds(20));
  });
  // From the moment it waits, although only another reader has the byte.
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (locks_.TryLockClaim("U2").ok() && absl::Now() < limit) std::this_thread::yield();
  EXPECT_TRUE(absl::IsUnavailable(locks_.LockClaim("U2", Soon()).status()));
  running = OperationLock();
  end.Notify();
  EXPECT_TRUE(locks_.LockClaim("U2", Patient()).ok());
  reconciler.join();
  EXPECT_TRUE(locks_.LockClaim("U2", Soon()).ok());
}

TEST_F(ClaimLocksTest, AStreamOfOperationsDoesNotKeepAReconcileWaiting) {
  std::atomic<bool> stop{false};
  std::atomic<int> served{0};
  std::vector<std::thread> stream;
  for (int i = 0; i < 4; ++i) {
    stream.emplace_back([&, uid = std::string(1, static_cast<char>('A' + i))] {
      // The next lock is taken before the last is let go: the byte is never free of readers.
      OperationLock held;
      for (int n = 0; !stop; ++n) {
        auto next = locks_.LockClaim(uid + std::to_string(n), Soon());
        if (next.ok()) ++served;
        held = next.ok() ? *std::move(next) : OperationLock();
      }
    });
  }
  const ClaimLocks other{path_};
  for (int round = 0; round < 3; ++round) {
    const int before = served;
    const absl::Time limit = absl::Now() + absl::Seconds(20);
    while (served < before + 8 && absl::Now() < limit) std::this_thread::yield();
    EXPECT_GE(served.load(), before + 8) << "and the operations go on after it";
    const auto lock = other.LockReconcile(Patient());
    EXPECT_TRUE(lock.ok()) << lock.status();
  }
  stop = true;
  for (std::thread& thread : stream) thread.join();
}

TEST_F(ClaimLocksTest, AWholeFileLockExcludesUsAndIsExcluded) {
  const UniqueFd other(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  ASSERT_TRUE(static_cast<bool>(other));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  ASSERT_EQ(::fcntl(other.get(), F_OFD_SETLK, &whole), 0);
  EXPECT_TRUE(absl::IsUnavailable(locks_.LockClaim("U1", Soon()).status()));
  whole.l_type = F_UNLCK;
  ASSERT_EQ(::fcntl(other.get(), F_OFD_SETLK, &whole), 0);
  const auto ours = locks_.LockClaim("U1", Soon());
  ASSERT_TRUE(ours.ok());
  whole.l_type = F_WRLCK;
  EXPECT_EQ(::fcntl(other.get(), F_OFD_SETLK, &whole), -1);
}

TEST_F(ClaimLocksTest, AFileThatCannotBeOpenedIsAnError) {
  const ClaimLocks nowhere(directory_.Path("absent/serialize.lock"));
  EXPECT_FALSE(nowhere.LockClaim("U1", Soon()).ok());
  EXPECT_FALSE(nowhere.IsFree("U1").ok());
}

}  // namespace
}  // namespace dra::records
