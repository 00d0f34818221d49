#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <stdexcept>

#include "namespaces.h"

namespace rdma {
namespace {

namespace fs = std::filesystem;

class Namespaces : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "dra-netns-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  // In a mount namespace of its own; skips if there is none to be had.
  void Apart(const std::function<void()>& body) {
    if (!RunApart(CLONE_NEWNS, body)) GTEST_SKIP() << "making mount namespaces is not permitted";
  }
  std::string At(const std::string& name) const { return directory_ + "/" + name; }
  // The mounts at this path that the calling thread sees.
  static int MountsAt(const std::string& path) {
    std::ifstream mounts("/proc/thread-self/mountinfo");
    int count = 0;
    for (std::string line; std::getline(mounts, line);)
      count += line.find(" " + path + " ") != std::string::npos;
    return count;
  }

  std::string directory_;
};

std::pair<dev_t, ino_t> OwnIdentity() {
  return NetworkNamespace::Open("/proc/thread-self/ns/net").Identity();
}

TEST_F(Namespaces, RunsAFunctionInsideAndLeavesTheCallerWhereItWas) {
  const std::optional<NetworkNamespace> made = NewNamespace();
  if (!made) GTEST_SKIP() << "making network namespaces is not permitted";
  const auto before = OwnIdentity();
  EXPECT_NE(before, made->Identity());
  std::pair<dev_t, ino_t> inside;
  made->Run([&] { inside = OwnIdentity(); });
  EXPECT_EQ(inside, made->Identity());
  EXPECT_EQ(OwnIdentity(), before);
}

TEST_F(Namespaces, RethrowsWhatTheFunctionThrows) {
  const NetworkNamespace own = NetworkNamespace::Open("/proc/self/ns/net");
  if (!NewNamespace()) GTEST_SKIP() << "entering network namespaces is not permitted";
  EXPECT_THROW(own.Run([] { throw std::out_of_range("it"); }), std::out_of_range);
  const NetworkNamespace closed(-1);
  std::string text;
  EXPECT_EQ(ErrorOf([&] { closed.Run([] { FAIL() << "ran in no namespace"; }); }, &text), EBADF);
  EXPECT_EQ(text, "enter network namespace: Bad file descriptor");
}

TEST_F(Namespaces, OpensNothingElse) {
  std::string text;
  EXPECT_EQ(ErrorOf([&] { NetworkNamespace::Open(At("none")); }, &text), ENOENT);
  EXPECT_EQ(text, "open network namespace " + At("none") + ": No such file or directory");
  std::ofstream(At("file")).close();
  EXPECT_EQ(ErrorOf([&] { NetworkNamespace::Open(At("file")); }, &text), EINVAL);
  EXPECT_NE(text.find("its mount is not seen in this mount namespace"), std::string::npos) << text;
  EXPECT_EQ(ErrorOf([&] { NetworkNamespace::Open("/proc/self/ns/uts"); }, &text), EINVAL);
  EXPECT_NE(text.find("of another kind"), std::string::npos) << text;
  ASSERT_EQ(mkfifo(At("fifo").c_str(), 0600), 0);  // must not wait for a writer
  EXPECT_EQ(ErrorOf([&] { NetworkNamespace::Open(At("fifo")); }), EINVAL);
}

TEST_F(Namespaces, APinKeepsTheNamespaceAndWhatIsInIt) {
  Apart([&] {
    std::pair<dev_t, ino_t> identity;
    {
      std::optional<NetworkNamespace> made = NewNamespace();
      ASSERT_TRUE(made);
      NetlinkSocket route(NETLINK_ROUTE, *made);
      AddVeth(route, "left", "right");
      identity = made->Identity();
      PinNamespace(*made, At("netns"));
    }
    {
      const NetworkNamespace again = NetworkNamespace::Open(At("netns"));
      EXPECT_EQ(again.Identity(), identity);
      NetlinkSocket route(NETLINK_ROUTE, again);
      EXPECT_TRUE(FindLink(route, "left"));
      PinNamespace(again, At("netns"));  // changes nothing
      EXPECT_EQ(MountsAt(At("netns")), 1);
    }
    UnpinNamespace(At("netns"));
    EXPECT_FALSE(fs::exists(At("netns")));
    EXPECT_EQ(MountsAt(At("netns")), 0);
    UnpinNamespace(At("netns"));  // is well
  });
}

TEST_F(Namespaces, APinTakesTheOnePlaceOfAnother) {
  Apart([&] {
    const std::optional<NetworkNamespace> first = NewNamespace(), second = NewNamespace();
    ASSERT_TRUE(first && second);
    PinNamespace(*first, At("netns"));
    PinNamespace(*second, At("netns"));
    EXPECT_EQ(NetworkNamespace::Open(At("netns")).Identity(), second->Identity());
    EXPECT_EQ(MountsAt(At("netns")), 1);
    UnpinNamespace(At("netns"));
  });
}

TEST_F(Namespaces, APinGoesOnTheFileThatACrashLeftAndOnNothingElse) {
  Apart([&] {
    const std::optional<NetworkNamespace> made = NewNamespace();
    ASSERT_TRUE(made);
    std::ofstream(At("netns")).close();
    PinNamespace(*made, At("netns"));
    EXPECT_EQ(NetworkNamespace::Open(At("netns")).Identity(), made->Identity());
    UnpinNamespace(At("netns"));

    std::ofstream(At("netns")).close();
    UnpinNamespace(At("netns"));  // so does a file alone
    EXPECT_FALSE(fs::exists(At("netns")));

    std::string text;
    std::ofstream(At("notes")) << "somebody's";
    EXPECT_EQ(ErrorOf([&] { PinNamespace(*made, At("notes")); }, &text), EEXIST);
    EXPECT_EQ(text, "pin network namespace at " + At("notes") +
                        ": File exists (there is something else than a pin)");
    EXPECT_EQ(fs::file_size(At("notes")), 10u);
    fs::create_symlink(At("notes"), At("link"));
    EXPECT_NE(ErrorOf([&] { PinNamespace(*made, At("link")); }), 0);
    fs::create_directory(At("directory"));
    EXPECT_NE(ErrorOf([&] { PinNamespace(*made, At("directory")); }), 0);
    EXPECT_NE(ErrorOf([&] { PinNamespace(*made, At("none/netns")); }), 0);
    EXPECT_EQ(MountsAt(At("notes")) + MountsAt(At("link")) + MountsAt(At("directory")), 0);
  });
}

// As the backend in its container: its mount namespace receives mounts of the host's, and takes none away there.
TEST_F(Namespaces, UnpinningInAReceivingMountNamespaceTakesThePinAwayEverywhere) {
  Apart([&] {
    ASSERT_EQ(mount(directory_.c_str(), directory_.c_str(), nullptr, MS_BIND, nullptr), 0);
    ASSERT_EQ(mount(nullptr, directory_.c_str(), nullptr, MS_SHARED, nullptr), 0);
    const std::optional<NetworkNamespace> made = NewNamespace();
    ASSERT_TRUE(made);
    // The receiver lives while the sender pins.
    std::mutex mutex;
    std::condition_variable changed;
    int step = 0;
    const auto reach = [&](int value) {
      const std::lock_guard lock(mutex);
      step = value;
      changed.notify_all();
    };
    const auto wait_for = [&](int value) {
      std::unique_lock lock(mutex);
      return changed.wait_for(lock, std::chrono::seconds(30), [&] { return step >= value; });
    };
    std::thread receiver([&] {
      EXPECT_EQ(unshare(CLONE_NEWNS), 0);
      EXPECT_EQ(mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr), 0);
      reach(1);
      EXPECT_TRUE(wait_for(2));
      EXPECT_EQ(MountsAt(At("netns")), 1);
      EXPECT_EQ(NetworkNamespace::Open(At("netns")).Identity(), made->Identity());
      UnpinNamespace(At("netns"));
      EXPECT_EQ(MountsAt(At("netns")), 0);
      reach(3);
    });
    EXPECT_TRUE(wait_for(1));
    PinNamespace(*made, At("netns"));
    EXPECT_EQ(MountsAt(At("netns")), 1);
    reach(2);
    EXPECT_TRUE(wait_for(3));
    receiver.join();
    EXPECT_EQ(MountsAt(At("netns")), 0);
    EXPECT_FALSE(fs::exists(At("netns")));
    umount2(directory_.c_str(), MNT_DETACH);
  });
}

// A container that does not even see the mount: to it the pin is an empty file.
TEST_F(Namespaces, UnpinningWhereTheMountIsNotSeenTakesItAwayToo) {
  Apart([&] {
    const std::optional<NetworkNamespace> made = NewNamespace();
    ASSERT_TRUE(made);
    PinNamespace(*made, At("netns"));
    std::thread([&] {
      EXPECT_EQ(unshare(CLONE_NEWNS), 0);
      EXPECT_EQ(umount2(At("netns").c_str(), MNT_DETACH), 0);
      EXPECT_EQ(ErrorOf([&] { NetworkNamespace::Open(At("netns")); }), EINVAL);
      UnpinNamespace(At("netns"));
    }).join();
    EXPECT_EQ(MountsAt(At("netns")), 0);
    EXPECT_FALSE(fs::exists(At("netns")));
  });
}

TEST_F(Namespaces, ASocketStaysInItsNamespace) {
  const std::optional<NetworkNamespace> made = NewNamespace();
  if (!made) GTEST_SKIP() << "making network namespaces is not permitted";
  NetlinkSocket socket(NETLINK_ROUTE, *made);
  EXPECT_EQ(socket.Namespace().Identity(), made->Identity());
  NetlinkSocket moved = std::move(socket);
  EXPECT_EQ(moved.Namespace().Identity(), made->Identity());
  EXPECT_EQ(ListLinks(moved).size(), 1u);
}

}  // namespace
}  // namespace rdma
