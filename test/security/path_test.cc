// Whose directories the driver trusts, and the modes of what it makes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/driver/preflight.h"
#include "test/driver/node_fixture.h"

namespace dra::driver {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class Paths : public NodeFixture {
 protected:
  std::string Data(const std::string& name = "") const {
    const std::string data = directory_.Path(absl::StrCat("kubelet/plugins/", kDriver));
    return name.empty() ? data : JoinPath(data, name);
  }
  void MakeData(const std::string& name, mode_t mode) {
    const std::string path = Data(name);
    ASSERT_TRUE(MakeDirectories(fs_, path, 0700).ok());
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
  }
  void MoveBehindALink(const std::string& path) {
    ASSERT_TRUE(MakeDirectories(fs_, path, 0755).ok());
    const std::string moved = directory_.Path("moved");
    ASSERT_EQ(::rename(path.c_str(), moved.c_str()), 0);
    ASSERT_EQ(::symlink(moved.c_str(), path.c_str()), 0);
  }
  // Why the driver has not started.
  std::string WhyNotLoaded() {
    std::string why;
    EXPECT_TRUE(WaitUntil([&] {
      for (const observe::Condition& condition : daemon_->Conditions()) {
        if (condition.name == "loaded" && !condition.ok && condition.message != "starting") {
          why = condition.message;
          return true;
        }
      }
      return false;
    }));
    return why;
  }
  void StartUnready() {
    StartApi();
    StartKubelet();
    StartDaemon();
  }
  std::string CheckSays(const std::string& subject) {
    for (const CheckResult& result : RunChecks(Config(), fs_, clock_)) {
      if (absl::StartsWith(result.subject, subject) && !result.ok) return result.message;
    }
    return "";
  }
  uint32_t ModeOf(const std::string& path) { return fs_.Stat(path)->mode; }
};

TEST_F(Paths, ADataDirectoryThatOthersCanWriteIsRefusedUntilItIsCured) {
  MakeData("", 0777);
  StartUnready();
  EXPECT_THAT(WhyNotLoaded(), AllOf(HasSubstr(Data()), HasSubstr("mode 0777"),
                                    HasSubstr("by everybody"), HasSubstr("chmod go-w")));
  EXPECT_TRUE(kubelet_->Plugins().empty());
  EXPECT_THAT(CheckSays(absl::StrCat("directories of ", kDriver)), HasSubstr("mode 0777"));
  ASSERT_EQ(::chmod(Data().c_str(), 0750), 0);
  EXPECT_TRUE(WaitForReady(true)) << "without a restart";
}

TEST_F(Paths, AStateDirectoryThatTheGroupCanWriteIsRefused) {
  for (const char* name : {"claims", "held"}) {
    MakeData(name, 0770);
    StartUnready();
    EXPECT_THAT(WhyNotLoaded(), AllOf(HasSubstr(Data(name)), HasSubstr("by its group")));
    StopDaemon();
    kubelet_.reset();
    ASSERT_EQ(::rmdir(Data(name).c_str()), 0);
  }
}

TEST_F(Paths, ASymbolicLinkInPlaceOfTheDataDirectoryIsRefused) {
  MoveBehindALink(Data());
  StartUnready();
  EXPECT_THAT(WhyNotLoaded(), AllOf(HasSubstr(Data()), HasSubstr("symbolic link")));
  EXPECT_THAT(*fs_.List(directory_.Path("moved")), IsEmpty()) << "nothing is made behind it";
}

TEST_F(Paths, ASymbolicLinkInPlaceOfTheRecordsIsRefused) {
  MoveBehindALink(Data("claims"));
  StartUnready();
  EXPECT_THAT(WhyNotLoaded(), AllOf(HasSubstr(Data("claims")), HasSubstr("symbolic link")));
}

TEST_F(Paths, ACdiDirectoryThatIsALinkOrThatOthersCanWriteIsRefused) {
  MoveBehindALink(directory_.Path("cdi"));
  StartUnready();
  EXPECT_THAT(WhyNotLoaded(), AllOf(HasSubstr(directory_.Path("cdi")), HasSubstr("link")));
  EXPECT_THAT(CheckSays("CDI directory"), HasSubstr("link"));
  StopDaemon();
  kubelet_.reset();
  ASSERT_EQ(::unlink(directory_.Path("cdi").c_str()), 0);
  ASSERT_EQ(::mkdir(directory_.Path("cdi").c_str(), 0700), 0);
  ASSERT_EQ(::chmod(directory_.Path("cdi").c_str(), 0777), 0);
  StartUnready();
  EXPECT_THAT(WhyNotLoaded(), AllOf(HasSubstr(directory_.Path("cdi")), HasSubstr("everybody")));
}

TEST_F(Paths, AKubeletRootThatIsRelocatedByALinkWorks) {
  ASSERT_EQ(::symlink(directory_.Path("kubelet").c_str(), directory_.Path("root").c_str()), 0);
  StartApi();
  StartKubelet();
  DaemonConfig config = Config();
  config.kubelet_root = directory_.Path("root");
  StartDaemonWith(config);
  EXPECT_TRUE(WaitForReady(true)) << DumpJson(daemon_->Status());
}

TEST_F(Paths, SocketsAndStateAreClosedToOthersWhateverTheUmask) {
  const mode_t old_umask = ::umask(0);
  StartNode();
  const auto claim = MakeClaim("c1", {"gpu-0"});
  ASSERT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  ::umask(old_umask);
  EXPECT_EQ(ModeOf(Data("dra.sock")), 0600u);
  EXPECT_EQ(
      ModeOf(directory_.Path(absl::StrCat("kubelet/plugins_registry/", kDriver, "-reg.sock"))),
      0600u);
  EXPECT_EQ(ModeOf(daemon_->status_socket()), 0600u);
  EXPECT_EQ(ModeOf(Data()), 0750u);
  EXPECT_EQ(ModeOf(Data("claims")), 0700u);
  EXPECT_EQ(ModeOf(Data("held")) & 0077u, 0u);
  EXPECT_EQ(ModeOf(Data(absl::StrCat("claims/", claim.uid, ".json"))), 0600u);
  EXPECT_EQ(ModeOf(Data("serialize.lock")), 0600u);
  EXPECT_EQ(ModeOf(directory_.Path(absl::StrCat("cdi/", CdiFiles().at(0)))), 0644u);
}

// Who could make the link could as well have read or replaced the record: it counts as damaged, and is not followed.
TEST_F(Paths, ARecordThatIsALinkIsDamagedAndItsTargetIsLeftAlone) {
  StartNode();
  const auto claim = MakeClaim("c1", {"gpu-0"});
  ASSERT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  StopDaemon();
  const std::string record = Data(absl::StrCat("claims/", claim.uid, ".json"));
  const std::string target = directory_.Path("target");
  ASSERT_EQ(::rename(record.c_str(), target.c_str()), 0);
  const std::string content = *fs_.ReadFile(target);
  ASSERT_EQ(::symlink(target.c_str(), record.c_str()), 0);
  StartDaemon();
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  ASSERT_TRUE(WaitForReady(true));
  EXPECT_TRUE(absl::IsNotFound(fs_.Stat(record).status())) << "moved aside";
  const testing::KubeletReply unprepared = kubelet_->UnprepareResources(kDriver, {claim});
  EXPECT_TRUE(unprepared.verdict.ok()) << unprepared.verdict;
  EXPECT_EQ(*fs_.ReadFile(target), content);
  const auto other = MakeClaim("c2", {"gpu-0"});
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {other}).verdict.ok());
}

TEST_F(Paths, ACdiFileThatIsALinkIsWrittenAnewAndItsTargetIsLeftAlone) {
  StartNode();
  const auto claim = MakeClaim("c1", {"gpu-0"});
  ASSERT_TRUE(kubelet_->PrepareResources(kDriver, {claim}).verdict.ok());
  StopDaemon();
  ASSERT_THAT(CdiFiles(), SizeIs(1));
  const std::string path = directory_.Path(absl::StrCat("cdi/", CdiFiles()[0]));
  const std::string target = directory_.Path("target");
  ASSERT_EQ(::rename(path.c_str(), target.c_str()), 0);
  const std::string content = *fs_.ReadFile(target);
  ASSERT_EQ(::symlink(target.c_str(), path.c_str()), 0);
  StartDaemon();
  EXPECT_TRUE(WaitUntil([&] { return fs_.Stat(path)->type == FileType::kRegular; }));
  EXPECT_EQ(*fs_.ReadFile(path), content);
  EXPECT_EQ(*fs_.ReadFile(target), content);
  EXPECT_EQ(ModeOf(path), 0644u);
}

}  // namespace
}  // namespace dra::driver
