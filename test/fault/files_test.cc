// A disk that is full, broken or read-only, and no descriptors left: an error for the claim that met it, never a loss.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "test/fault/fault_fixture.h"

namespace dra::driver {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Error {
  const char* name;
  int number;
};

class FileErrors : public FaultFixture, public ::testing::WithParamInterface<Error> {};

TEST_P(FileErrors, CostTheirOwnClaimAnErrorAndEndWithTheFault) {
  StartFaultyNode();
  const auto before = MakeClaim("before", {"gpu-0"});
  ASSERT_EQ(ErrorOf(Prepare(before)), "");
  const auto during = MakeClaim("during", {"gpu-1"});
  const auto beside = MakeClaim("beside", {"gpu-2"});

  // Of one claim alone: the others do not notice.
  faulty_.FailAlways({std::nullopt, during.uid}, GetParam().number);
  EXPECT_THAT(ErrorOf(Prepare(during)), HasSubstr(std::strerror(GetParam().number)));
  EXPECT_EQ(ErrorOf(Prepare(beside)), "");
  EXPECT_EQ(ErrorOf(Unprepare(beside)), "");
  faulty_.ClearFaults();

  // Of everything that is written: the device that is held stays held, and known.
  faulty_.FailAlways({testing::FileOperation::kCreateFile, ""}, GetParam().number);
  EXPECT_THAT(ErrorOf(Prepare(during)), AllOf(HasSubstr(during.uid.substr(0, 8)),
                                              HasSubstr(std::strerror(GetParam().number))));
  EXPECT_THAT(DumpJson(daemon_->Status()), HasSubstr(before.uid));
  faulty_.ClearFaults();

  // Of everything at all.
  faulty_.FailAlways({}, GetParam().number);
  EXPECT_NE(ErrorOf(Prepare(during)), "");
  (void)Unprepare(before);
  faulty_.ClearFaults();

  EXPECT_EQ(ErrorOf(Unprepare(before)), "");
  const auto next = MakeClaim("next-of-the-device", {"gpu-0"});
  EXPECT_EQ(ErrorOf(Prepare(next)), "");
  EXPECT_EQ(ErrorOf(Unprepare(next)), "");
  ExpectHealed(during);
  EXPECT_TRUE(WaitForReady(true));
}

TEST_P(FileErrors, AtStartAreSaidAndTheStartFollowsByItself) {
  StartNode();
  const auto claim = MakeClaim("c1", {"gpu-0"});
  const testing::KubeletReply first = Prepare(claim);
  ASSERT_TRUE(first.verdict.ok()) << first.verdict;
  StopDaemon();
  faulty_.FailAlways({std::nullopt, absl::StrCat("plugins/", kDriver)}, GetParam().number);
  StartFaulty();
  EXPECT_TRUE(WaitUntil([&] {
    return absl::StrContains(ConditionMessage("loaded"), std::strerror(GetParam().number));
  })) << ConditionMessage("loaded");
  faulty_.ClearFaults();
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  const testing::KubeletReply again = Prepare(claim);
  EXPECT_EQ(ErrorOf(again), "");
  EXPECT_EQ(again.devices, first.devices);
  EXPECT_EQ(HookCalls("prepare"), 1) << "the record was not lost";
  ExpectHealed(claim);
}

INSTANTIATE_TEST_SUITE_P(All, FileErrors,
                         ::testing::Values(Error{"Enospc", ENOSPC}, Error{"Eio", EIO},
                                           Error{"Erofs", EROFS}, Error{"Emfile", EMFILE}),
                         [](const auto& tested) { return std::string(tested.param.name); });

class Files : public FaultFixture {};

// ENOSPC by the kernel: a small tmpfs that only this process sees.
TEST_F(Files, ARealFullDiskIsSurvivedFromTheStartOn) {
  const std::string data = directory_.Path(absl::StrCat("kubelet/plugins/", kDriver));
  ASSERT_TRUE(MakeDirectories(fs_, data, 0750).ok());
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", data.c_str(), "tmpfs", 0, "size=128k,mode=0750") != 0) {
    GTEST_SKIP() << "no mount namespace of our own: " << std::strerror(errno);
  }
  const std::string filler = JoinPath(data, "filler");
  const auto fill = [&] {
    // Whole pages: afterwards there is no room for one byte more.
    for (int n = 0;
         fs_.CreateFile(absl::StrCat(filler, n), std::string(4096, 'x'), 0600, false).ok(); ++n) {
    }
  };
  const auto empty = [&] {
    const auto names = fs_.List(data);
    ASSERT_TRUE(names.ok()) << names.status();
    for (const std::string& name : *names) {
      if (absl::StartsWith(name, "filler")) {
        ASSERT_TRUE(fs_.Remove(JoinPath(data, name)).ok());
      }
    }
  };
  fill();
  StartApi();
  StartKubelet();
  StartFaulty();
  EXPECT_TRUE(WaitUntil([&] {
    return absl::StrContains(ConditionMessage("loaded"), "No space left") ||
           kubelet_->Plugins().size() == 1;
  })) << ConditionMessage("loaded");
  empty();
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  const auto held = MakeClaim("held", {"gpu-0"});
  ASSERT_EQ(ErrorOf(Prepare(held)), "");

  fill();
  const auto late = MakeClaim("late", {"gpu-1"});
  EXPECT_THAT(ErrorOf(Prepare(late)), HasSubstr("No space left"));
  EXPECT_EQ(ErrorOf(Unprepare(held)), "") << "removing needs no space";
  empty();
  ExpectHealed(late);
  StopDaemon();
  ::umount2(data.c_str(), MNT_DETACH);
}

// The boot id decides whether a hold counts: without one nothing may start.
class BadBootId final : public FileSystem {
 public:
  BadBootId(FileSystem* base, absl::StatusOr<std::string> answer)
      : base_(base), answer_(std::move(answer)) {}
  absl::StatusOr<std::string> ReadFile(absl::string_view path, uint64_t max_bytes) override {
    if (absl::StrContains(path, "boot_id")) return answer_;
    return base_->ReadFile(path, max_bytes);
  }
  absl::Status CreateFile(absl::string_view path, absl::string_view contents, uint32_t mode,
                          bool sync) override {
    return base_->CreateFile(path, contents, mode, sync);
  }
  absl::Status Rename(absl::string_view from, absl::string_view to) override {
    return base_->Rename(from, to);
  }
  absl::Status Remove(absl::string_view path) override { return base_->Remove(path); }
  absl::Status RemoveDirectory(absl::string_view path) override {
    return base_->RemoveDirectory(path);
  }
  absl::Status MakeDirectory(absl::string_view path, uint32_t mode) override {
    return base_->MakeDirectory(path, mode);
  }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view path) override {
    return base_->List(path);
  }
  absl::Status SyncDirectory(absl::string_view path) override { return base_->SyncDirectory(path); }
  absl::StatusOr<FileInfo> Stat(absl::string_view path, bool follow) override {
    return base_->Stat(path, follow);
  }
  absl::StatusOr<std::string> ReadLink(absl::string_view path) override {
    return base_->ReadLink(path);
  }

 private:
  FileSystem* const base_;
  const absl::StatusOr<std::string> answer_;
};

TEST_F(Files, WithoutABootIdNothingStartsAndTheErrorNamesTheFile) {
  StartApi();
  StartKubelet();
  const absl::StatusOr<std::string> answers[] = {
      absl::InternalError("read /proc/sys/kernel/random/boot_id: Input/output error"),
      absl::NotFoundError("open /proc/sys/kernel/random/boot_id: No such file or directory"),
      std::string(),
      std::string("\n"),
      std::string("../../etc\n"),
      std::string(37, '\0')};
  for (const absl::StatusOr<std::string>& answer : answers) {
    BadBootId fs(&fs_, answer);
    const auto daemon = Daemon::Create(Config(), &fs, &clock_, Logger());
    ASSERT_FALSE(daemon.ok());
    EXPECT_THAT(std::string(daemon.status().message()), HasSubstr("random/boot_id"));
  }
}

}  // namespace
}  // namespace dra::driver
