#include "dra/base/file_system.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "dra/base/status.h"
#include "dra/testing/faulty_file_system.h"
#include "dra/testing/temp_directory.h"

namespace dra {
namespace {

using testing::FaultyFileSystem;
using testing::FileMatcher;
using testing::FileOperation;

class WriteFileAtomicallyTest : public ::testing::Test {
 protected:
  size_t Entries() { return posix_.List(directory_.path())->size(); }

  testing::TempDirectory directory_;
  PosixFileSystem posix_;
  const std::string path_ = directory_.Path("claim.json");
};

TEST_F(WriteFileAtomicallyTest, ReplacesTheFileAndSetsTheModeWhateverTheUmask) {
  const mode_t old_umask = ::umask(077);
  ASSERT_TRUE(WriteFileAtomically(posix_, path_, "one", 0644, Durability::kVolatile).ok());
  ASSERT_TRUE(WriteFileAtomically(posix_, path_, "two", 0644, Durability::kDurable).ok());
  ::umask(old_umask);
  EXPECT_EQ(*posix_.ReadFile(path_), "two");
  EXPECT_EQ(posix_.Stat(path_)->mode, 0644u);
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(WriteFileAtomicallyTest, SyncsFileAndDirectoryOnlyWhenDurable) {
  FaultyFileSystem fs(&posix_);
  ASSERT_TRUE(WriteFileAtomically(fs, path_, "x", 0600, Durability::kVolatile).ok());
  EXPECT_EQ(fs.Count({FileOperation::kSyncDirectory, ""}), 0);
  EXPECT_FALSE(fs.Log()[0].sync);
  fs.ResetCount();
  ASSERT_TRUE(WriteFileAtomically(fs, path_, "x", 0600, Durability::kDurable).ok());
  EXPECT_EQ(fs.Count({FileOperation::kSyncDirectory, ""}), 1);
  EXPECT_TRUE(fs.Log()[0].sync);
}

TEST_F(WriteFileAtomicallyTest, KeepsTheOldFileAndLeavesNoTemporaryWhenAStepFails) {
  ASSERT_TRUE(WriteFileAtomically(posix_, path_, "old", 0600, Durability::kDurable).ok());
  for (const FileOperation operation : {FileOperation::kCreateFile, FileOperation::kRename}) {
    FaultyFileSystem fs(&posix_);
    fs.FailNth(1, FileMatcher{operation, ""}, ENOSPC);
    const absl::Status status = WriteFileAtomically(fs, path_, "new", 0600, Durability::kDurable);
    EXPECT_EQ(ErrnoOf(status), ENOSPC) << ToString(operation);
    EXPECT_EQ(*posix_.ReadFile(path_), "old");
    EXPECT_EQ(Entries(), 1u);
  }
}

TEST_F(WriteFileAtomicallyTest, ReportsADirectoryThatCannotBeSynced) {
  FaultyFileSystem fs(&posix_);
  fs.FailNth(1, FileMatcher{FileOperation::kSyncDirectory, ""}, EIO);
  EXPECT_EQ(ErrnoOf(WriteFileAtomically(fs, path_, "new", 0600, Durability::kDurable)), EIO);
}

TEST_F(WriteFileAtomicallyTest, AReaderNeverSeesAPartWhereverItStops) {
  ASSERT_TRUE(WriteFileAtomically(posix_, path_, "old", 0600, Durability::kDurable).ok());
  FaultyFileSystem counting(&posix_);
  ASSERT_TRUE(WriteFileAtomically(counting, path_, "old", 0600, Durability::kDurable).ok());
  for (int n = 1; n <= counting.count(); ++n) {
    for (const auto stop : {FaultyFileSystem::Stop::kBefore, FaultyFileSystem::Stop::kTorn,
                            FaultyFileSystem::Stop::kAfter}) {
      FaultyFileSystem fs(&posix_);
      fs.StopAt(n, stop);
      (void)WriteFileAtomically(fs, path_, "new", 0600, Durability::kDurable);
      const std::string seen = *posix_.ReadFile(path_);
      EXPECT_TRUE(seen == "old" || seen == "new") << seen;
      ASSERT_TRUE(WriteFileAtomically(posix_, path_, "old", 0600, Durability::kDurable).ok());
    }
  }
}

TEST(IsTemporaryName, KnowsItsOwnNamesOnly) {
  EXPECT_TRUE(IsTemporaryName(".claim.json.0011223344556677.tmp"));
  EXPECT_FALSE(IsTemporaryName("claim.json"));
  EXPECT_FALSE(IsTemporaryName("claim.tmp"));
}

TEST(PosixFileSystem, CreateFileRefusesAnExistingNameAndASymlink) {
  PosixFileSystem fs;
  const testing::TempDirectory directory;
  const std::string target = directory.Path("target");
  const std::string link = directory.Path("link");
  ASSERT_EQ(::symlink(target.c_str(), link.c_str()), 0);
  EXPECT_TRUE(absl::IsAlreadyExists(fs.CreateFile(link, "x", 0600, false)));
  EXPECT_TRUE(absl::IsNotFound(fs.Stat(target).status()));
  ASSERT_TRUE(fs.CreateFile(target, "x", 0600, false).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(fs.CreateFile(target, "y", 0600, false)));
  EXPECT_EQ(*fs.ReadFile(target), "x");
}

TEST(PosixFileSystem, ReadFileRefusesWhatIsNoFileAndWhatIsTooLarge) {
  PosixFileSystem fs;
  const testing::TempDirectory directory;
  EXPECT_TRUE(absl::IsFailedPrecondition(fs.ReadFile(directory.path()).status()));
  ASSERT_EQ(::mkfifo(directory.Path("fifo").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(fs.ReadFile(directory.Path("fifo")).status()));
  ASSERT_TRUE(fs.CreateFile(directory.Path("big"), std::string(1000, 'x'), 0600, false).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(fs.ReadFile(directory.Path("big"), 999).status()));
  EXPECT_EQ(fs.ReadFile(directory.Path("big"), 1000)->size(), 1000u);
  EXPECT_TRUE(absl::IsNotFound(fs.ReadFile(directory.Path("absent")).status()));
}

// The kernel takes only a part and then nothing more: an error, and no part of a file.
TEST(PosixFileSystem, AShortWriteIsAnErrorAndLeavesNoFile) {
  testing::TempDirectory directory;
  PosixFileSystem fs;
  ASSERT_TRUE(fs.CreateFile(directory.Path("old"), "old", 0600, false).ok());
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = 1000;
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string contents(3000, 'x');
  const absl::Status created = fs.CreateFile(directory.Path("new"), contents, 0600, false);
  const absl::Status replaced =
      WriteFileAtomically(fs, directory.Path("old"), contents, 0600, Durability::kDurable);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(ErrnoOf(created), EFBIG) << created;
  EXPECT_EQ(ErrnoOf(replaced), EFBIG) << replaced;
  EXPECT_EQ(*fs.List(directory.path()), std::vector<std::string>{"old"});
  EXPECT_EQ(*fs.ReadFile(directory.Path("old")), "old");
}

// The process's own files are where it made them; a link in their place is somebody else's doing.
TEST(PosixFileSystem, DoesNotFollowALinkInTheLastPlaceOfAFileThatIsOurs) {
  testing::TempDirectory directory;
  PosixFileSystem fs;
  ASSERT_TRUE(fs.CreateFile(directory.Path("secret"), "x", 0600, false).ok());
  ASSERT_EQ(::symlink(directory.Path("secret").c_str(), directory.Path("link").c_str()), 0);
  ASSERT_EQ(::symlink(directory.path().c_str(), directory.Path("above").c_str()), 0);
  EXPECT_EQ(*fs.ReadFile(directory.Path("link")), "x");
  FaultyFileSystem faulty(&fs);
  for (FileSystem* each : {static_cast<FileSystem*>(&fs), static_cast<FileSystem*>(&faulty)}) {
    EXPECT_EQ(*each->ReadOwnFile(directory.Path("secret")), "x");
    EXPECT_EQ(*each->ReadOwnFile(directory.Path("above/secret")), "x");
    EXPECT_TRUE(absl::IsNotFound(each->ReadOwnFile(directory.Path("absent")).status()));
    const absl::Status refused = each->ReadOwnFile(directory.Path("link")).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_EQ(ErrnoOf(refused), std::nullopt) << "damage, not an I/O error";
    // What another FileSystem inherits says the same.
    EXPECT_TRUE(
        absl::IsFailedPrecondition(each->FileSystem::ReadOwnFile(directory.Path("link")).status()));
    EXPECT_EQ(*each->FileSystem::ReadOwnFile(directory.Path("secret")), "x");
  }
}

TEST(PosixFileSystem, TellsWhetherAFileOfOursIsWhatItShouldBe) {
  testing::TempDirectory directory;
  PosixFileSystem fs;
  const std::string large(200000, 'x');  // more than one piece
  ASSERT_TRUE(fs.CreateFile(directory.Path("file"), large, 0755, false).ok());
  ASSERT_TRUE(fs.CreateFile(directory.Path("empty"), "", 0600, false).ok());
  ASSERT_TRUE(fs.MakeDirectory(directory.Path("directory"), 0755).ok());
  ASSERT_EQ(::symlink(directory.Path("file").c_str(), directory.Path("link").c_str()), 0);
  FaultyFileSystem faulty(&fs);
  for (FileSystem* each : {static_cast<FileSystem*>(&fs), static_cast<FileSystem*>(&faulty)}) {
    const auto is = [&](const char* name, const std::string& contents, uint32_t mode) {
      const absl::StatusOr<bool> answer = each->OwnFileIs(directory.Path(name), contents, mode);
      EXPECT_TRUE(answer.ok()) << answer.status();
      return answer.value_or(false);
    };
    EXPECT_TRUE(is("file", large, 0755));
    EXPECT_TRUE(is("empty", "", 0600));
    EXPECT_FALSE(is("file", large, 0711));
    EXPECT_FALSE(is("file", large.substr(1), 0755));
    EXPECT_FALSE(is("file", large + "x", 0755));
    EXPECT_FALSE(is("file", large.substr(1) + "y", 0755));
    EXPECT_FALSE(is("absent", large, 0755));
    EXPECT_FALSE(is("link", large, 0755));
    EXPECT_FALSE(is("directory", "", 0755));
    if (::geteuid() == 0) {
      ASSERT_EQ(::chown(directory.Path("empty").c_str(), 1, 1), 0);
      EXPECT_FALSE(is("empty", "", 0600));
      ASSERT_EQ(::chown(directory.Path("empty").c_str(), 0, 0), 0);
    }
  }
  EXPECT_FALSE(fs.OwnFileIs(directory.Path("file/below"), "", 0755).ok());
}

TEST(PosixFileSystem, APathBelowAFileIsAnErrorNotAnAbsence) {
  PosixFileSystem fs;
  const testing::TempDirectory directory;
  ASSERT_TRUE(fs.CreateFile(directory.Path("file"), "", 0600, false).ok());
  EXPECT_FALSE(absl::IsNotFound(fs.ReadFile(directory.Path("file/below")).status()));
  EXPECT_FALSE(absl::IsNotFound(fs.List(directory.Path("file")).status()));
}

TEST(MakeDirectories, MakesParentsAndMayBeRepeated) {
  PosixFileSystem fs;
  const testing::TempDirectory directory;
  const std::string path = directory.Path("a/b/c");
  ASSERT_TRUE(MakeDirectories(fs, path, 0750).ok());
  ASSERT_TRUE(MakeDirectories(fs, path, 0750).ok());
  EXPECT_EQ(fs.Stat(path)->type, FileType::kDirectory);
  ASSERT_TRUE(fs.CreateFile(directory.Path("file"), "", 0600, false).ok());
  EXPECT_FALSE(MakeDirectories(fs, directory.Path("file"), 0750).ok());
}

TEST(RemoveTree, RemovesLinksWithoutFollowingThem) {
  PosixFileSystem fs;
  const testing::TempDirectory directory;
  ASSERT_TRUE(MakeDirectories(fs, directory.Path("tree/sub"), 0755).ok());
  ASSERT_TRUE(fs.CreateFile(directory.Path("outside"), "kept", 0600, false).ok());
  ASSERT_EQ(::symlink(directory.Path("outside").c_str(), directory.Path("tree/sub/link").c_str()),
            0);
  ASSERT_TRUE(RemoveTree(fs, directory.Path("tree")).ok());
  EXPECT_EQ(*fs.ReadFile(directory.Path("outside")), "kept");
  EXPECT_TRUE(absl::IsNotFound(fs.Stat(directory.Path("tree")).status()));
  EXPECT_TRUE(RemoveTree(fs, directory.Path("tree")).ok());
}

TEST(Paths, JoinAndSplit) {
  EXPECT_EQ(JoinPath("/a/", "/b"), "/a/b");
  EXPECT_EQ(JoinPath("/", "b"), "/b");
  EXPECT_EQ(BaseName("/a/b"), "b");
  EXPECT_EQ(DirectoryName("/a/b"), "/a");
  EXPECT_EQ(DirectoryName("/a"), "/");
}

}  // namespace
}  // namespace dra
