// LinkWatch hears the kernel's events: here umockdev plays the kernel. Run by umockdev-wrapper, which preloads its
// library; without that the tests skip.

#include <umockdev.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "link_watch.h"

namespace rdma {
namespace {

using std::chrono::milliseconds;

struct Unref {
  void operator()(UMockdevTestbed* testbed) const { g_object_unref(testbed); }
};

class UeventTest : public testing::Test {
 protected:
  void SetUp() override {
    // Also loaded by the library's link, it would not be before libc.
    const char* preloaded = std::getenv("LD_PRELOAD");
    if (preloaded == nullptr || std::string(preloaded).find("umockdev") == std::string::npos)
      GTEST_SKIP() << "umockdev's library is not preloaded";
    testbed_.reset(umockdev_testbed_new());
    watch_.emplace(
        [this] {
          const std::lock_guard lock(mutex_);
          ++calls_;
          called_.notify_all();
        },
        milliseconds(1));
  }
  void TearDown() override { watch_.reset(); }

  // A device and its event.
  void Event(const std::string& subsystem, const std::string& name, const char* action) {
    const char* none[] = {nullptr};
    std::unique_ptr<gchar, decltype(&g_free)> path(
        umockdev_testbed_add_devicev(testbed_.get(), subsystem.c_str(), name.c_str(), nullptr,
                                     const_cast<gchar**>(none), const_cast<gchar**>(none)),
        &g_free);
    ASSERT_NE(path, nullptr) << subsystem << " " << name;
    // Adding it is an event itself.
    Settle();
    const int before = calls();
    umockdev_testbed_uevent(testbed_.get(), path.get(), action);
    reached_ = WaitForMoreThan(before);
  }
  bool reached() const { return reached_; }

 private:
  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  bool WaitForMoreThan(int count, milliseconds limit = milliseconds(2000)) {
    std::unique_lock lock(mutex_);
    return called_.wait_for(lock, limit, [&] { return calls_ > count; });
  }
  void Settle() {
    while (WaitForMoreThan(calls(), milliseconds(200))) {
    }
  }

  std::unique_ptr<UMockdevTestbed, Unref> testbed_;
  std::optional<LinkWatch> watch_;
  std::mutex mutex_;
  std::condition_variable called_;
  int calls_ = 0;
  bool reached_ = false;
};

TEST_F(UeventTest, ReachesTheWatchWhereItMatters) {
  for (const char* subsystem : {"net", "infiniband", "infiniband_verbs", "infiniband_mad", "pci"}) {
    SCOPED_TRACE(subsystem);
    for (const char* action : {"add", "change", "remove"}) {
      Event(subsystem, std::string(subsystem) + "_" + action, action);
      EXPECT_TRUE(reached()) << action;
    }
  }
}

TEST_F(UeventTest, OfOtherSubsystemsChangesNothing) {
  Event("block", "sda", "change");
  EXPECT_FALSE(reached());
  // It goes on after that.
  Event("infiniband", "mlx5_0", "add");
  EXPECT_TRUE(reached());
}

}  // namespace
}  // namespace rdma
