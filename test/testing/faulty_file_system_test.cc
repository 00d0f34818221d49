#include "dra/testing/faulty_file_system.h"

#include <errno.h>

#include "dra/base/status.h"
#include "dra/testing/temp_directory.h"
#include "gtest/gtest.h"

namespace dra::testing {
namespace {

class FaultyFileSystemTest : public ::testing::Test {
 protected:
  TempDirectory directory_;
  PosixFileSystem posix_;
  FaultyFileSystem fs_{&posix_};
};
using FaultyFileSystemRule = FaultyFileSystemTest;

TEST_F(FaultyFileSystemRule, PassesOperationsOnAndRecordsThem) {
  ASSERT_TRUE(fs_.CreateFile(directory_.Path("a"), "text", 0644, true).ok());
  EXPECT_EQ(*fs_.ReadFile(directory_.Path("a"), 100), "text");
  ASSERT_EQ(fs_.Log().size(), 2u);
  EXPECT_EQ(fs_.Log()[0].operation, FileOperation::kCreateFile);
  EXPECT_TRUE(fs_.Log()[0].sync);
  EXPECT_EQ(fs_.Count({FileOperation::kReadFile, "/a"}), 1);
}

TEST_F(FaultyFileSystemRule, FailsTheNthMatchingOperationOnceWithItsErrno) {
  fs_.FailNth(2, {FileOperation::kCreateFile, ".json"}, ENOSPC);
  EXPECT_TRUE(fs_.CreateFile(directory_.Path("a.json"), "", 0644, false).ok());
  EXPECT_TRUE(fs_.CreateFile(directory_.Path("b.txt"), "", 0644, false).ok());
  const absl::Status failed = fs_.CreateFile(directory_.Path("c.json"), "", 0644, false);
  EXPECT_EQ(ErrnoOf(failed), ENOSPC) << failed;
  EXPECT_TRUE(absl::IsNotFound(posix_.Stat(directory_.Path("c.json"), false).status()));
  EXPECT_TRUE(fs_.CreateFile(directory_.Path("c.json"), "", 0644, false).ok());
}

TEST_F(FaultyFileSystemRule, FailsAlwaysUntilTheFaultsAreCleared) {
  fs_.FailAlways({FileOperation::kList, ""}, EIO);
  EXPECT_EQ(ErrnoOf(fs_.List(directory_.path()).status()), EIO);
  EXPECT_EQ(ErrnoOf(fs_.List(directory_.path()).status()), EIO);
  fs_.ClearFaults();
  EXPECT_TRUE(fs_.List(directory_.path()).ok());
}

TEST_F(FaultyFileSystemRule, MatchesTheTargetOfARename) {
  ASSERT_TRUE(posix_.CreateFile(directory_.Path("from"), "", 0644, false).ok());
  fs_.FailNth(1, {FileOperation::kRename, "/to"}, EACCES);
  EXPECT_EQ(ErrnoOf(fs_.Rename(directory_.Path("from"), directory_.Path("to"))), EACCES);
}

TEST_F(FaultyFileSystemRule, NothingHappensFromTheStopOn) {
  fs_.StopAt(2);
  EXPECT_TRUE(fs_.CreateFile(directory_.Path("a"), "1", 0644, false).ok());
  EXPECT_FALSE(fs_.stopped());
  EXPECT_TRUE(absl::IsAborted(fs_.CreateFile(directory_.Path("b"), "2", 0644, false)));
  EXPECT_TRUE(fs_.stopped());
  EXPECT_TRUE(absl::IsAborted(fs_.Remove(directory_.Path("a"))));
  EXPECT_EQ(*posix_.List(directory_.path()), std::vector<std::string>{"a"});
}

TEST_F(FaultyFileSystemRule, ATornStopLeavesHalfAFile) {
  fs_.StopAt(1, FaultyFileSystem::Stop::kTorn);
  EXPECT_TRUE(absl::IsAborted(fs_.CreateFile(directory_.Path("a"), "12345678", 0644, true)));
  EXPECT_EQ(*posix_.ReadFile(directory_.Path("a"), 100), "1234");
}

TEST_F(FaultyFileSystemRule, AStopAfterAnOperationLeavesItsEffect) {
  fs_.StopAt(1, FaultyFileSystem::Stop::kAfter);
  EXPECT_TRUE(absl::IsAborted(fs_.MakeDirectory(directory_.Path("d"), 0755)));
  EXPECT_TRUE(posix_.Stat(directory_.Path("d"), false).ok());
}

TEST(TempDirectory, IsShortAndGoneAfterwards) {
  std::string path;
  {
    TempDirectory directory;
    path = directory.path();
    EXPECT_LT(path.size(), 20u);
    PosixFileSystem fs;
    ASSERT_TRUE(fs.CreateFile(directory.Path("f"), "", 0644, false).ok());
  }
  PosixFileSystem fs;
  EXPECT_TRUE(absl::IsNotFound(fs.Stat(path, false).status()));
}

}  // namespace
}  // namespace dra::testing
