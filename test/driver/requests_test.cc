#include "driver/requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/time/clock.h"
#include "dra/testing/fake_clock.h"
#include "dra/testing/temp_directory.h"

namespace dra::driver {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Mode = DrainRequest::Mode;

class RequestFiles : public ::testing::Test {
 protected:
  RequestFiles() { EXPECT_TRUE(fs_.MakeDirectory(Path(""), 0700).ok()); }

  std::string Path(const std::string& name) const {
    return name.empty() ? directory_.Path("requests") : JoinPath(directory_.Path("requests"), name);
  }
  void Put(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(fs_, Path(name), text, 0600, Durability::kVolatile).ok());
  }
  std::unique_ptr<Requests> Watch() {
    return std::make_unique<Requests>(
        &fs_, Path(""), &clock_, Logger(),
        [this](const ClearFaultRequest& request) -> absl::StatusOr<std::string> {
          asked_.push_back(request.device);
          if (!answer_.ok()) return answer_;
          return "done";
        },
        [](const Requests::Result&) {});
  }

  testing::TempDirectory directory_;
  PosixFileSystem fs_;
  testing::FakeClock clock_{absl::Now()};  // beside files' real times
  absl::Status answer_;
  std::vector<std::string> asked_;
};

TEST_F(RequestFiles, ADrainLastsAsLongAsItsFileAlsoOverARestart) {
  auto requests = Watch();
  requests->Poll();
  EXPECT_EQ(requests->Drain(), std::nullopt);
  Put("drain.json", EncodeDrain({Mode::kWithdraw, absl::FromUnixSeconds(1767225600), "ops"}));
  for (auto* watcher : {requests.get(), Watch().release()}) {
    const std::unique_ptr<Requests> owned(watcher == requests.get() ? nullptr : watcher);
    watcher->Poll();
    ASSERT_TRUE(watcher->Drain().has_value());
    EXPECT_EQ(*watcher->Drain(),
              (DrainRequest{Mode::kWithdraw, absl::FromUnixSeconds(1767225600), "ops"}));
  }
  ASSERT_TRUE(fs_.Remove(Path("drain.json")).ok());
  requests->Poll();
  EXPECT_EQ(requests->Drain(), std::nullopt);
}

TEST_F(RequestFiles, ADrainThatIsOnStaysOnWhileItsFileCannotBeRead) {
  auto requests = Watch();
  Put("drain.json", R"({"mode": "taint"})");
  requests->Poll();
  ASSERT_TRUE(requests->Drain().has_value());
  EXPECT_GT(requests->Drain()->since, absl::FromUnixSeconds(1700000000));  // the file's time
  for (const char* junk : {"", "{", R"({"mode": "reboot"})", "[]"}) {
    Put("drain.json", junk);
    requests->Poll();
    EXPECT_TRUE(requests->Drain().has_value()) << junk;
  }
  ASSERT_EQ(::chmod(Path("").c_str(), 0777), 0);
  requests->Poll();
  EXPECT_TRUE(requests->Drain().has_value());
  // Alone, such a file or directory says nothing.
  auto fresh = Watch();
  fresh->Poll();
  EXPECT_EQ(fresh->Drain(), std::nullopt);
}

TEST_F(RequestFiles, LinksAreNotFollowed) {
  const std::string target = directory_.Path("elsewhere.json");
  ASSERT_TRUE(
      fs_.CreateFile(target, R"({"mode":"taint","device":"d0","evidence":"x"})", 0600, false).ok());
  ASSERT_EQ(::symlink(target.c_str(), Path("drain.json").c_str()), 0);
  ASSERT_EQ(::symlink(target.c_str(), Path("clear-fault-1.json").c_str()), 0);
  auto requests = Watch();
  requests->Poll();
  EXPECT_EQ(requests->Drain(), std::nullopt);
  EXPECT_THAT(asked_, IsEmpty());
  EXPECT_TRUE(fs_.Stat(target).ok());
}

TEST_F(RequestFiles, AClearFaultIsDoneOnceAndGoes) {
  Put("clear-fault-1.json", EncodeClearFault({"", "d0", "reset", "ops", clock_.Now()}));
  auto first = Watch();
  auto second = Watch();
  first->Poll();
  second->Poll();
  first->Poll();
  EXPECT_THAT(asked_, ElementsAre("d0"));
  EXPECT_THAT(*fs_.List(Path("")), IsEmpty());
  ASSERT_THAT(first->Results(), SizeIs(1));
  EXPECT_TRUE(first->Results()[0].ok);
}

TEST_F(RequestFiles, OneThatCannotBeAnsweredYetIsAskedAgain) {
  Put("clear-fault-1.json", EncodeClearFault({"", "d0", "reset", "ops", clock_.Now()}));
  answer_ = absl::UnavailableError("not discovered yet");
  auto requests = Watch();
  requests->Poll();
  requests->Poll();
  EXPECT_THAT(asked_, SizeIs(2));
  // Another instance leaves it alone, until the taker must have died.
  auto other = Watch();
  other->Poll();
  EXPECT_THAT(asked_, SizeIs(2));
  answer_ = absl::OkStatus();
  clock_.Advance(absl::Minutes(2));
  other->Poll();
  EXPECT_THAT(asked_, SizeIs(3));
  EXPECT_THAT(*fs_.List(Path("")), IsEmpty());
  requests->Poll();
  EXPECT_THAT(asked_, SizeIs(3));
}

TEST_F(RequestFiles, ARefusedOneIsKeptWithTheReason) {
  Put("clear-fault-1.json", EncodeClearFault({"", "d9", "reset", "ops", clock_.Now()}));
  Put("clear-fault-2.json", R"({"device": "d0"})");
  Put("clear-fault-3.json", "junk");
  answer_ = absl::NotFoundError("device n1/d9 is not on this node");
  auto requests = Watch();
  requests->Poll();
  EXPECT_THAT(asked_, ElementsAre("d9"));
  EXPECT_THAT(*fs_.List(Path("")), ElementsAre("refused"));
  EXPECT_THAT(*fs_.List(Path("refused")),
              ElementsAre("clear-fault-1.json", "clear-fault-2.json", "clear-fault-3.json"));
  const auto refusal = ParseJsonObject(*fs_.ReadFile(Path("refused/clear-fault-1.json")), "r");
  ASSERT_TRUE(refusal.ok());
  EXPECT_EQ(StringOr(*refusal, "reason"), "device n1/d9 is not on this node");
  EXPECT_THAT(requests->Results(), SizeIs(3));
}

TEST_F(RequestFiles, RefusalsAndResultsAreBounded) {
  auto requests = Watch();
  for (int i = 0; i < 100; ++i) {
    Put("clear-fault-" + std::to_string(1000 + i) + ".json", "junk");
    requests->Poll();
  }
  EXPECT_THAT(*fs_.List(Path("refused")), SizeIs(64));
  EXPECT_EQ(fs_.List(Path("refused"))->back(), "clear-fault-1099.json");
  EXPECT_THAT(requests->Results(), SizeIs(16));
}

TEST_F(RequestFiles, ForeignFilesAndNoDirectoryAtAllDoNoHarm) {
  Put("notes.txt", "hello");
  ASSERT_TRUE(fs_.MakeDirectory(Path("clear-fault-d.json"), 0700).ok());
  auto requests = Watch();
  requests->Poll();
  requests->Poll();
  EXPECT_THAT(*fs_.List(Path("")), ElementsAre("clear-fault-d.json", "notes.txt"));
  EXPECT_THAT(asked_, IsEmpty());
  ASSERT_TRUE(RemoveTree(fs_, Path("")).ok());
  requests->Poll();
  EXPECT_EQ(requests->Drain(), std::nullopt);
}

}  // namespace
}  // namespace dra::driver
