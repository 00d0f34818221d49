#include "driver/publish_turn.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "dra/base/file_system.h"
#include "dra/testing/temp_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dra::driver {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What instances did, in order: "a begins", "a ends".
class History {
 public:
  void Add(std::string event) {
    const absl::MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
  }
  std::vector<std::string> All() const {
    const absl::MutexLock lock(&mutex_);
    return events_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::string> events_ ABSL_GUARDED_BY(mutex_);
};

// One instance. Two in one process are as two processes to each other: their locks are of different openings.
struct Instance {
  Instance(std::string name, const std::string& path, Clock* clock, History* history)
      : turn({path, absl::Milliseconds(2)}, clock, Logger(),
             {[history, name] { history->Add(name + " begins"); },
              [this, history, name] {
                if (hangs != nullptr) hangs->WaitForNotification();
                history->Add(name + " ends");
              },
              [this] {
                const absl::MutexLock lock(&mutex);
                ++reports;
              },
              [this] {
                const absl::MutexLock lock(&mutex);
                ++clean_ups;
              }}) {
    turn.Start();
  }
  int Reports() {
    const absl::MutexLock lock(&mutex);
    return reports;
  }

  absl::Mutex mutex;
  int reports ABSL_GUARDED_BY(mutex) = 0;
  int clean_ups ABSL_GUARDED_BY(mutex) = 0;
  absl::Notification* hangs = nullptr;  // set before this instance can be the owner
  PublishTurn turn;
};

class PublishTurnTest : public ::testing::Test {
 protected:
  std::unique_ptr<Instance> Make(const std::string& name, bool ready = true) {
    auto instance = std::make_unique<Instance>(name, path_, &clock_, &history_);
    // Numbers go by the order of starts.
    EXPECT_TRUE(Wait([&] { return Size() > size_; }));
    size_ = Size();
    if (ready) instance->turn.SetReady();
    return instance;
  }
  uint64_t Size() {
    const auto info = fs_.Stat(path_, true);
    return info.ok() ? info->size : 0;
  }
  template <typename Condition>
  static bool Wait(Condition condition) {
    const absl::Time end = absl::Now() + absl::Seconds(60);
    while (!condition()) {
      if (absl::Now() > end) return false;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return true;
  }
  static bool Owns(const std::unique_ptr<Instance>& instance) {
    return Wait([&] { return instance->turn.GetState().owner; });
  }
  static bool Sees(const std::unique_ptr<Instance>& instance, size_t others) {
    return Wait([&] { return instance->turn.GetState().others == others; });
  }
  // A look that began after this call has ended: the state is that of the locks of now.
  static void Look(Instance& instance) {
    const int before = instance.Reports();
    ASSERT_TRUE(Wait([&] { return instance.Reports() > before + 1; }));
  }

  testing::TempDirectory directory_;
  const std::string path_ = directory_.Path("publish.lock");
  PosixFileSystem fs_;
  SystemClock clock_;
  History history_;
  uint64_t size_ = 0;
};

TEST_F(PublishTurnTest, ALoneInstanceOwnsOnceItIsReady) {
  const auto a = Make("a", /*ready=*/false);
  EXPECT_THAT(a->turn.GetState().waiting, HasSubstr("another instance publishes, or none can"));
  EXPECT_THAT(history_.All(), ElementsAre());
  a->turn.SetReady();
  ASSERT_TRUE(Owns(a));
  EXPECT_EQ(a->turn.GetState().waiting, "");
  EXPECT_THAT(history_.All(), ElementsAre("a begins"));
}

TEST_F(PublishTurnTest, ANewerInstanceTakesOverAfterTheOlderHasEnded) {
  const auto a = Make("a");
  ASSERT_TRUE(Owns(a));
  const auto b = Make("b", /*ready=*/false);
  ASSERT_TRUE(Sees(a, 1));
  EXPECT_TRUE(a->turn.GetState().owner) << "a newcomer that is not ready takes nothing";
  b->turn.SetReady();
  ASSERT_TRUE(Owns(b));
  EXPECT_THAT(history_.All(), ElementsAre("a begins", "a ends", "b begins"));
}

TEST_F(PublishTurnTest, AnOlderInstanceTakesNothingFromALivingOwner) {
  const auto a = Make("a", /*ready=*/false);
  auto b = Make("b");
  ASSERT_TRUE(Owns(b));
  a->turn.SetReady();
  ASSERT_NO_FATAL_FAILURE(Look(*b));
  EXPECT_TRUE(b->turn.GetState().owner);
  b->turn.Stop();
  ASSERT_TRUE(Owns(a));
  EXPECT_THAT(history_.All(), ElementsAre("b begins", "b ends", "a begins"));
}

TEST_F(PublishTurnTest, TheOneThatGaveUpOwnsAgainWhenTheNewerIsGone) {
  const auto a = Make("a");
  ASSERT_TRUE(Owns(a));
  auto b = Make("b");
  ASSERT_TRUE(Owns(b));
  ASSERT_NO_FATAL_FAILURE(Look(*b));
  EXPECT_TRUE(b->turn.GetState().owner) << "it does not ask for it back";
  b->turn.Stop();
  ASSERT_TRUE(Owns(a));
  EXPECT_TRUE(Sees(a, 0));
  // A third one is newer than it again.
  const auto c = Make("c");
  ASSERT_TRUE(Owns(c));
  EXPECT_THAT(history_.All(), ElementsAre("a begins", "a ends", "b begins", "b ends", "a begins",
                                          "a ends", "c begins"));
}

TEST_F(PublishTurnTest, OfThreeTheNewestEndsUpAsTheOwnerAndStays) {
  const auto a = Make("a");
  ASSERT_TRUE(Owns(a));
  const auto b = Make("b", /*ready=*/false);
  const auto c = Make("c", /*ready=*/false);
  b->turn.SetReady();
  c->turn.SetReady();
  ASSERT_TRUE(Owns(c));
  ASSERT_NO_FATAL_FAILURE(Look(*c));
  EXPECT_EQ(c->turn.GetState().others, 2u);
  EXPECT_TRUE(c->turn.GetState().owner);
  // b came in between or not at all, and each ended before the next began.
  const std::vector<std::string> events = history_.All();
  for (size_t i = 0; i + 2 < events.size(); i += 2) {
    EXPECT_EQ(events[i].substr(0, 1), events[i + 1].substr(0, 1))
        << ::testing::PrintToString(events);
    EXPECT_THAT(events[i + 1], HasSubstr("ends"));
  }
  EXPECT_LE(events.size(), 5u);
}

TEST_F(PublishTurnTest, NobodyWritesBesideAnOwnerThatHangs) {
  absl::Notification unblock;
  const auto a = Make("a", /*ready=*/false);
  a->hangs = &unblock;
  a->turn.SetReady();
  ASSERT_TRUE(Owns(a));
  const auto b = Make("b");
  ASSERT_TRUE(
      Wait([&] { return absl::StrContains(b->turn.GetState().waiting, "has been asked"); }));
  EXPECT_THAT(history_.All(), ElementsAre("a begins"));
  a->turn.Resign(absl::Milliseconds(1));  // is bounded even now
  EXPECT_THAT(history_.All(), ElementsAre("a begins"));
  unblock.Notify();
  ASSERT_TRUE(Owns(b));
  EXPECT_THAT(history_.All(), ElementsAre("a begins", "a ends", "b begins"));
}

TEST_F(PublishTurnTest, AnInstanceThatResignsStillLives) {
  const auto a = Make("a");
  ASSERT_TRUE(Owns(a));
  const auto b = Make("b");
  ASSERT_TRUE(Owns(b));
  b->turn.Resign(absl::Seconds(60));
  EXPECT_FALSE(b->turn.GetState().owner);
  ASSERT_TRUE(Owns(a));
  EXPECT_EQ(a->turn.GetState().others, 1u);
  b->turn.Stop();
  EXPECT_TRUE(Sees(a, 0));
}

TEST_F(PublishTurnTest, TheOwnerReportsAgainWhileAnotherLivesAndAfterItsEnd) {
  const auto a = Make("a");
  ASSERT_TRUE(Owns(a));
  EXPECT_EQ(a->Reports(), 0) << "alone there is nobody whose end could cost anything";
  auto b = Make("b", /*ready=*/false);
  ASSERT_TRUE(Sees(a, 1));
  ASSERT_NO_FATAL_FAILURE(Look(*a));
  EXPECT_EQ(b->Reports(), 0);
  b->turn.Stop();
  ASSERT_TRUE(Sees(a, 0));
  ASSERT_NO_FATAL_FAILURE(Look(*a));
}

TEST_F(PublishTurnTest, WhoeverLivesCleansUpAfterAnotherHasEnded) {
  const auto a = Make("a", /*ready=*/false);
  auto b = Make("b");
  ASSERT_TRUE(Owns(b));
  const auto clean_ups = [&] {
    const absl::MutexLock lock(&a->mutex);
    return a->clean_ups;
  };
  ASSERT_TRUE(Sees(a, 1));
  EXPECT_EQ(clean_ups(), 0);
  b->turn.Stop();
  EXPECT_TRUE(Wait([&] { return clean_ups() > 1; }));
}

TEST_F(PublishTurnTest, AFileThatCannotBeUsedMeansNoOwnerAndAnError) {
  const std::string path = directory_.Path("later/publish.lock");
  Instance a("a", path, &clock_, &history_);
  a.turn.SetReady();
  ASSERT_TRUE(Wait([&] { return !a.turn.GetState().error.empty(); }));
  EXPECT_THAT(a.turn.GetState().error, HasSubstr(path));
  EXPECT_FALSE(a.turn.GetState().owner);
  ASSERT_TRUE(MakeDirectories(fs_, directory_.Path("later"), 0755).ok());
  ASSERT_TRUE(Wait([&] { return a.turn.GetState().owner; }));
  EXPECT_EQ(a.turn.GetState().error, "");
}

TEST_F(PublishTurnTest, AFileThatIsReplacedEndsTheTurnOfTheOldOne) {
  const auto a = Make("a");
  ASSERT_TRUE(Owns(a));
  ASSERT_TRUE(fs_.Remove(path_).ok());
  ASSERT_TRUE(Wait([&] { return history_.All().size() == 3; }));
  EXPECT_THAT(history_.All(), ElementsAre("a begins", "a ends", "a begins"));
  EXPECT_TRUE(fs_.Stat(path_).ok());
}

TEST_F(PublishTurnTest, ASymbolicLinkIsNotFollowed) {
  const auto target = directory_.Path("target");
  ASSERT_EQ(::symlink(target.c_str(), path_.c_str()), 0);
  Instance a("a", path_, &clock_, &history_);
  a.turn.SetReady();
  ASSERT_TRUE(Wait([&] { return !a.turn.GetState().error.empty(); }));
  EXPECT_TRUE(absl::IsNotFound(fs_.Stat(target).status()));
}

TEST_F(PublishTurnTest, AWholeFileLockOfAStrangerKeepsUsOut) {
  UniqueFd other(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  ASSERT_EQ(::fcntl(other.get(), F_OFD_SETLK, &whole), 0);
  Instance a("a", path_, &clock_, &history_);
  a.turn.SetReady();
  ASSERT_TRUE(Wait([&] { return !a.turn.GetState().waiting.empty(); }));
  EXPECT_FALSE(a.turn.GetState().owner);
  other.Reset();
  ASSERT_TRUE(Wait([&] { return a.turn.GetState().owner; }));
}

// Numbers are never used again, so that a later instance is known as later and a quick replacement as another one.
TEST_F(PublishTurnTest, EachInstanceHasANumberOfItsOwn) {
  for (uint64_t i = 0; i < 3; ++i) {
    const auto a = Make("a");
    ASSERT_TRUE(Owns(a));
    EXPECT_EQ(Size(), PublishTurn::kFirstInstance + i + 1);
  }
}

}  // namespace
}  // namespace dra::driver
