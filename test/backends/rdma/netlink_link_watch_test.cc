#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <vector>

#include "addresses.h"
#include "link_watch.h"
#include "namespaces.h"
#include "routes.h"

namespace rdma {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A watch on the host's namespace that keeps the times of its calls.
class WatchTest : public NamespacesTest {
 protected:
  void Start(milliseconds quiet = milliseconds(200), std::function<void()> also = nullptr) {
    const auto called = [this, also = std::move(also)] {
      {
        const std::lock_guard lock(mutex_);
        calls_.push_back(Clock::now());
        called_.notify_all();
      }
      if (also) also();
    };
    host().Run([&] { watch_.emplace(called, quiet); });
  }
  void TearDown() override { watch_.reset(); }

  bool WaitForCalls(size_t count) {
    std::unique_lock lock(mutex_);
    return called_.wait_for(lock, std::chrono::seconds(20), [&] { return calls_.size() >= count; });
  }
  bool WaitForCallSince(Clock::time_point time) {
    std::unique_lock lock(mutex_);
    return called_.wait_for(lock, std::chrono::seconds(20),
                            [&] { return !calls_.empty() && calls_.back() >= time; });
  }
  // No further call within a time in which one that is due would come.
  bool StaysAt(size_t count) {
    std::unique_lock lock(mutex_);
    return !called_.wait_for(lock, milliseconds(600), [&] { return calls_.size() > count; }) &&
           calls_.size() == count;
  }
  // Waits until no call is due any more.
  size_t Settle() {
    std::unique_lock lock(mutex_);
    for (size_t count = calls_.size();; count = calls_.size()) {
      if (!called_.wait_for(lock, milliseconds(600), [&] { return calls_.size() > count; }))
        return count;
    }
  }
  std::vector<Clock::time_point> calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

  std::optional<LinkWatch> watch_;

 private:
  std::mutex mutex_;
  std::condition_variable called_;
  std::vector<Clock::time_point> calls_;
};

TEST_F(WatchTest, SeesAVethComeAndGo) {
  Start();
  EXPECT_TRUE(StaysAt(0));
  const int index = AddVethOnHost("left", "right");
  ASSERT_TRUE(WaitForCalls(1));
  const size_t settled = Settle();
  DeleteLink(host_route(), index, "left");
  EXPECT_TRUE(WaitForCalls(settled + 1));
}

TEST_F(WatchTest, CallsAtOnceThenNotForAWhile) {
  Start(std::chrono::minutes(10));
  const int index = AddVethOnHost("left", "right");
  EXPECT_TRUE(WaitForCalls(1));
  ChangeLink(host_route(), index, "left", {.mtu = 1400});
  EXPECT_TRUE(StaysAt(1));
  watch_.reset();  // does not wait for the call that is due
}

TEST_F(WatchTest, SeesAddressesAndRoutes) {
  const int index = FindLink(host_route(), "lo")->index;
  ChangeLink(host_route(), index, "lo", {.up = true});
  Start();
  size_t count = Settle();
  const auto seen = [&] {
    const bool called = WaitForCalls(count + 1);
    count = Settle();
    return called;
  };
  AddAddress(host_route(), {.index = index, .cidr = "192.0.2.7/32"});
  EXPECT_TRUE(seen());
  AddAddress(host_route(), {.index = index, .cidr = "2001:db8::7/128"});
  EXPECT_TRUE(seen());
  AddRoute(host_route(), {.index = index, .destination = "10.0.0.0/8"});
  EXPECT_TRUE(seen());
  AddRoute(host_route(), {.index = index, .destination = "2001:db8:1::/48"});
  EXPECT_TRUE(seen());
}

TEST_F(WatchTest, SeesNothingOfOtherNamespaces) {
  Start();
  AddVeth(pod_route(), "other", "far");
  EXPECT_TRUE(StaysAt(0));
}

TEST_F(WatchTest, MakesFewCallsOfABurstAndOneAfterIt) {
  const int index = AddVethOnHost("left", "right");
  Start();
  const Clock::time_point end = Clock::now() + milliseconds(1000);
  Clock::time_point last;
  for (uint32_t i = 0; Clock::now() < end; ++i) {
    last = Clock::now();
    ChangeLink(host_route(), index, "left", {.mtu = 1000 + i % 500});
  }
  EXPECT_TRUE(WaitForCallSince(last)) << "the last change was lost";
  const std::vector<Clock::time_point> times = calls();
  EXPECT_GE(times.size(), 2u);
  for (size_t i = 1; i < times.size(); ++i) EXPECT_GE(times[i] - times[i - 1], milliseconds(200));
}

// What changes while the call runs is not seen by it.
TEST_F(WatchTest, CallsAgainForAChangeDuringACall) {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  Start(milliseconds(200), [&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open; });
  });
  const int index = AddVethOnHost("left", "right");
  ASSERT_TRUE(WaitForCalls(1));
  ChangeLink(host_route(), index, "left", {.mtu = 1400});
  {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  EXPECT_TRUE(WaitForCalls(2));
}

TEST_F(WatchTest, GoesOnAfterEventsWereLost) {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  Start(milliseconds(200), [&] {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open; });
  });
  const int index = AddVethOnHost("left", "right");
  ASSERT_TRUE(WaitForCalls(1));
  // Each message takes over 1 KiB of the socket's room of some 200 KiB.
  for (uint32_t i = 0; i < 2000; ++i)
    ChangeLink(host_route(), index, "left", {.mtu = 1000 + i % 500});
  {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  ASSERT_TRUE(WaitForCalls(2));
  const size_t count = Settle();
  ChangeLink(host_route(), index, "left", {.mtu = 1500});
  EXPECT_TRUE(WaitForCalls(count + 1));
}

// A uevent that comes with no message of rtnetlink: one that is asked for in sysfs, of the namespace's own.
TEST_F(WatchTest, SeesUevents) {
  AddVethOnHost("left", "right");
  Start();
  const size_t count = Settle();
  std::string pattern = testing::TempDir() + "dra-sysfs-XXXXXX";
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  int error = 0;
  host().Run([&] {
    RunApart(CLONE_NEWNS, [&] {
      if (mount("sysfs", pattern.c_str(), "sysfs", 0, nullptr) != 0) {
        error = errno;
        return;
      }
      const int fd = open((pattern + "/class/net/left/uevent").c_str(), O_WRONLY | O_CLOEXEC);
      if (fd < 0 || write(fd, "change", 6) != 6) error = errno;
      if (fd >= 0) close(fd);
    });
  });
  std::filesystem::remove(pattern);
  if (error == EPERM) GTEST_SKIP() << "mounting sysfs is not permitted";
  ASSERT_EQ(error, 0);
  EXPECT_TRUE(WaitForCalls(count + 1));
}

// Programs may send to the groups of the kernel's messages.
TEST_F(WatchTest, BelievesTheKernelAlone) {
  Start();
  ssize_t sent = -1;
  const std::string message("add@/devices/x\0ACTION=add\0SUBSYSTEM=net\0", 41);
  host().Run([&] {
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_KOBJECT_UEVENT);
    sockaddr_nl group{};
    group.nl_family = AF_NETLINK;
    group.nl_groups = 1;
    sent = sendto(fd, message.data(), message.size(), 0, reinterpret_cast<const sockaddr*>(&group),
                  sizeof(group));
    close(fd);
  });
  ASSERT_EQ(sent, static_cast<ssize_t>(message.size()));
  EXPECT_TRUE(StaysAt(0));
}

}  // namespace
}  // namespace rdma
