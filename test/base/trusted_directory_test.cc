#include "dra/base/trusted_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "dra/testing/faulty_file_system.h"
#include "dra/testing/temp_directory.h"

namespace dra {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class TrustedDirectory : public ::testing::Test {
 protected:
  std::string Make(const std::string& name, mode_t mode) {
    const std::string path = directory_.Path(name);
    EXPECT_EQ(::mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  std::string Refusal(const std::string& path, DirectoryUse use) {
    const absl::Status status = CheckTrustedDirectory(fs_, path, use);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << path << " " << status;
    return std::string(status.message());
  }

  testing::TempDirectory directory_;
  PosixFileSystem fs_;
};

TEST_F(TrustedDirectory, IsOneThatOnlyItsOwnerCanWrite) {
  for (const mode_t mode : {0700u, 0750u, 0755u}) {
    const std::string path = Make(absl::StrCat("d", mode), mode);
    EXPECT_TRUE(CheckTrustedDirectory(fs_, path, DirectoryUse::kOurs).ok()) << mode;
    EXPECT_TRUE(CheckTrustedDirectory(fs_, path, DirectoryUse::kShared).ok()) << mode;
  }
}

TEST_F(TrustedDirectory, IsNotWritableByGroupOrOthersAndTheErrorSaysHowToCureIt) {
  const std::string group = Make("group", 0770);
  const std::string others = Make("others", 0757);
  for (const DirectoryUse use : {DirectoryUse::kOurs, DirectoryUse::kShared}) {
    EXPECT_THAT(Refusal(group, use),
                AllOf(HasSubstr(group), HasSubstr(absl::StrCat("owner ", ::geteuid())),
                      HasSubstr("mode 0770"), HasSubstr("by its group"), HasSubstr("chmod go-w")));
    EXPECT_THAT(Refusal(others, use), HasSubstr("by everybody"));
  }
}

TEST_F(TrustedDirectory, MayBeStickyWhereOthersHaveFilesToo) {
  const std::string sticky = Make("sticky", 01777);
  EXPECT_TRUE(CheckTrustedDirectory(fs_, sticky, DirectoryUse::kShared).ok());
  EXPECT_TRUE(CheckTrustedDirectory(fs_, sticky, DirectoryUse::kAbove).ok());
  EXPECT_THAT(Refusal(sticky, DirectoryUse::kOurs), HasSubstr("mode 1777"));
}

TEST_F(TrustedDirectory, OfOursIsNoSymbolicLinkButMayLieBelowOne) {
  const std::string real = Make("real", 0755);
  ASSERT_EQ(::mkdir((real + "/below").c_str(), 0755), 0);
  const std::string link = directory_.Path("link");
  ASSERT_EQ(::symlink(real.c_str(), link.c_str()), 0);
  EXPECT_THAT(Refusal(link, DirectoryUse::kOurs), HasSubstr("is a symbolic link"));
  EXPECT_THAT(Refusal(link, DirectoryUse::kShared), HasSubstr("configure the path"));
  EXPECT_TRUE(CheckTrustedDirectory(fs_, link, DirectoryUse::kAbove).ok());
  EXPECT_TRUE(CheckTrustedDirectory(fs_, link + "/below", DirectoryUse::kOurs).ok());
  ASSERT_EQ(::chmod(real.c_str(), 0777), 0);
  EXPECT_THAT(Refusal(link, DirectoryUse::kAbove), HasSubstr("by everybody"))
      << "what a link leads to counts";
}

TEST_F(TrustedDirectory, BelongsToRootOrToThisProcess) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  const std::string strange = Make("strange", 0755);
  ASSERT_EQ(::chown(strange.c_str(), 12345, 0), 0);
  EXPECT_THAT(Refusal(strange, DirectoryUse::kOurs),
              AllOf(HasSubstr("owner 12345"), HasSubstr("belongs to another user"),
                    HasSubstr("chown it to 0")));
}

TEST_F(TrustedDirectory, IsNotAFile) {
  ASSERT_TRUE(fs_.CreateFile(directory_.Path("file"), "", 0600, false).ok());
  EXPECT_THAT(Refusal(directory_.Path("file"), DirectoryUse::kOurs), HasSubstr("not a directory"));
}

TEST_F(TrustedDirectory, ThatCannotBeLookedAtIsAnErrorOfItsOwn) {
  EXPECT_TRUE(
      absl::IsNotFound(CheckTrustedDirectory(fs_, directory_.Path("absent"), DirectoryUse::kOurs)));
  testing::FaultyFileSystem faulty(&fs_);
  faulty.FailAlways({testing::FileOperation::kStat, ""}, EIO);
  EXPECT_EQ(ErrnoOf(CheckTrustedDirectory(faulty, directory_.path(), DirectoryUse::kOurs)), EIO);
}

}  // namespace
}  // namespace dra
