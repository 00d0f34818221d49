#include "base/shared_syncs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "dra/base/file_system.h"
#include "dra/testing/temp_directory.h"

namespace dra {
namespace {

// A sync that waits where a test wants it to.
class SharedSyncsTest : public ::testing::Test {
 protected:
  absl::Status Sync(const std::string& path) {
    const int number = ++syncs_;
    if (path == "/slow" && number == 1) {
      first_runs_.Notify();
      first_may_end_.WaitForNotification();
      return absl::OkStatus();
    }
    return second_;
  }

  std::atomic<int> syncs_ = 0;
  absl::Status second_;
  absl::Notification first_runs_;
  absl::Notification first_may_end_;
  SharedSyncs shared_{[this](const std::string& path) { return Sync(path); }};
};

TEST_F(SharedSyncsTest, WhoComesWhileOneRunsSharesTheNextAndItsFailure) {
  constexpr int kCallers = 5;
  second_ = absl::InternalError("EIO");
  std::thread first([&] { EXPECT_TRUE(shared_.Run("/slow").ok()); });
  first_runs_.WaitForNotification();
  std::atomic<int> came = 0;
  std::atomic<int> failed = 0;
  std::vector<std::thread> others;
  for (int i = 0; i < kCallers; ++i) {
    others.emplace_back([&] {
      ++came;
      if (!shared_.Run("/slow").ok()) ++failed;
    });
  }
  while (came < kCallers) std::this_thread::yield();
  EXPECT_EQ(failed, 0) << "what ran before they came is no answer to them";
  // Another path does not wait.
  EXPECT_FALSE(shared_.Run("/other").ok());
  first_may_end_.Notify();
  first.join();
  for (std::thread& other : others) other.join();
  EXPECT_EQ(failed, kCallers);
  // One for /other; how many of the five were in time for the first shared one is up to the scheduler.
  EXPECT_GE(syncs_, 3);
  EXPECT_LE(syncs_, 2 + kCallers);
}

TEST_F(SharedSyncsTest, OneAfterAnotherEachHasItsOwn) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(shared_.Run("/a").ok());
  EXPECT_EQ(syncs_, 3);
}

int OpenDescriptors(const std::string& path) {
  PosixFileSystem fs;
  int count = 0;
  const auto open = fs.List("/proc/self/fd");
  for (const std::string& fd : open.value()) {
    const auto target = fs.ReadLink("/proc/self/fd/" + fd);
    if (target.ok() && absl::StartsWith(*target, path)) ++count;
  }
  return count;
}

TEST(PosixFileSystem, RemovesANameAndFreesTheFileLater) {
  const testing::TempDirectory directory;
  const std::string path = directory.Path("record");
  {
    PosixFileSystem fs;
    EXPECT_TRUE(absl::IsNotFound(fs.RemoveName(path)));
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(fs.CreateFile(path, "x", 0600, false).ok());
      ASSERT_TRUE(fs.RemoveName(path).ok());
      EXPECT_TRUE(absl::IsNotFound(fs.Stat(path).status()));
    }
    EXPECT_GT(OpenDescriptors(path), 0);
    EXPECT_LE(OpenDescriptors(path), 32);
    fs.FreeRemoved();
    EXPECT_EQ(OpenDescriptors(path), 0);
    ASSERT_TRUE(fs.CreateFile(path, "x", 0600, false).ok());
    ASSERT_TRUE(fs.RemoveName(path).ok());
  }
  EXPECT_EQ(OpenDescriptors(path), 0);
}

}  // namespace
}  // namespace dra
