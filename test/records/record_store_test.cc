#include "dra/records/record_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <string>
#include <vector>

#include "dra/records/claim_files.h"
#include "dra/records/notes.h"
#include "dra/testing/faulty_file_system.h"
#include "dra/testing/temp_directory.h"
#include "test/records/sample_record.h"

namespace dra::records {
namespace {

using testing::FaultyFileSystem;
using testing::FileOperation;

class RecordStoreTest : public ::testing::Test {
 protected:
  RecordStoreTest() : fs_(&posix_), store_(&fs_, directory_.Path("claims")) {
    EXPECT_TRUE(store_.Open().ok());
  }
  void Put(const std::string& path, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(posix_, path, text, 0600, Durability::kVolatile).ok());
  }

  testing::TempDirectory directory_;
  PosixFileSystem posix_;
  FaultyFileSystem fs_;
  RecordStore store_;
  const std::string uid_ = SampleRecord().claim.uid;
};

TEST_F(RecordStoreTest, KeepsOneDurableFileForEachClaim) {
  fs_.ResetCount();
  ASSERT_TRUE(store_.Save(SampleRecord()).ok());
  EXPECT_EQ(fs_.Count({FileOperation::kSyncDirectory, ""}), 1);
  const auto info = posix_.Stat(directory_.Path("claims/" + uid_ + ".json"), false);
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->mode, 0600u);
  const auto record = store_.Load(uid_);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->claim.name, "trainer-gpu");
  ASSERT_TRUE(store_.Remove(uid_).ok());
  EXPECT_TRUE(absl::IsNotFound(store_.Load(uid_).status()));
  EXPECT_TRUE(store_.Remove(uid_).ok());
}

TEST_F(RecordStoreTest, OnlyAnAbsentFileIsAnUnknownClaim) {
  ASSERT_TRUE(store_.Save(SampleRecord()).ok());
  for (const int error : {EIO, EACCES, EMFILE, ENOTDIR}) {
    fs_.FailNth(1, {FileOperation::kReadFile, uid_}, error);
    const auto record = store_.Load(uid_);
    EXPECT_FALSE(record.ok());
    EXPECT_FALSE(absl::IsNotFound(record.status())) << record.status();
    EXPECT_FALSE(absl::IsDataLoss(record.status())) << record.status();
  }
  fs_.FailNth(1, {FileOperation::kList, ""}, EACCES);
  EXPECT_FALSE(store_.List().ok());
}

TEST_F(RecordStoreTest, OneUnreadableRecordDoesNotHideTheOthers) {
  Record other = SampleRecord();
  other.claim.uid = "another";
  ASSERT_TRUE(store_.Save(SampleRecord()).ok());
  ASSERT_TRUE(store_.Save(other).ok());
  fs_.FailNth(1, {FileOperation::kReadFile, "another"}, EIO);
  const auto items = store_.List();
  ASSERT_TRUE(items.ok());
  ASSERT_EQ(items->size(), 2u);
  EXPECT_TRUE((*items)[0].record.ok());
  EXPECT_FALSE((*items)[1].record.ok());
}

TEST_F(RecordStoreTest, AUidThatIsNoFileNameIsRefused) {
  for (const char* uid : {"", "../x", "a/b", ".hidden", "u1.unpreparing"}) {
    EXPECT_EQ(store_.Load(uid).status().code(), absl::StatusCode::kInvalidArgument) << uid;
  }
}

// The name says the phase: nothing is written for it, and only undo data is worth an fsync.
TEST_F(RecordStoreTest, MarksARecordAsUnpreparingByItsName) {
  ASSERT_TRUE(store_.Save(SampleRecord()).ok());
  fs_.ResetCount();
  ASSERT_TRUE(store_.MarkUnpreparing(uid_, Durability::kVolatile).ok());
  EXPECT_EQ(fs_.count(), 1);
  EXPECT_FALSE(posix_.Stat(store_.PathFor(uid_), false).ok());
  const auto record = store_.Load(uid_);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->phase, Phase::kUnpreparing);
  EXPECT_EQ(record->undo, SampleRecord().undo);
  EXPECT_TRUE(*store_.Exists(uid_));
  const auto items = store_.List();
  ASSERT_TRUE(items.ok());
  ASSERT_EQ(items->size(), 1u);
  EXPECT_EQ((*items)[0].claim_uid, uid_);
  ASSERT_TRUE(store_.Remove(uid_).ok());
  EXPECT_FALSE(*store_.Exists(uid_));
  ASSERT_TRUE(store_.Save(SampleRecord()).ok());
  fs_.ResetCount();
  ASSERT_TRUE(store_.MarkUnpreparing(uid_, Durability::kDurable).ok());
  EXPECT_EQ(fs_.Count({FileOperation::kSyncDirectory, ""}), 1);
}

TEST_F(RecordStoreTest, OfTwoNamesThePlainOneCountsAndBothGo) {
  ASSERT_TRUE(store_.Save(SampleRecord()).ok());
  ASSERT_TRUE(store_.MarkUnpreparing(uid_, Durability::kVolatile).ok());
  Record dirty = SampleRecord();
  dirty.phase = Phase::kDirty;
  Put(store_.PathFor(uid_), EncodeRecord(dirty));  // as a power cut may leave it
  EXPECT_EQ(store_.Load(uid_)->phase, Phase::kDirty);
  EXPECT_EQ(store_.List()->size(), 1u);
  ASSERT_TRUE(store_.Remove(uid_).ok());
  EXPECT_TRUE(absl::IsNotFound(store_.Load(uid_).status()));
  ASSERT_TRUE(store_.Save(SampleRecord()).ok());
  ASSERT_TRUE(store_.MarkUnpreparing(uid_, Durability::kVolatile).ok());
  ASSERT_TRUE(store_.Save(dirty).ok());
  EXPECT_FALSE(posix_.Stat(store_.UnpreparingPathFor(uid_), false).ok());
}

struct Damage {
  const char* name;
  std::string text;
};

TEST_F(RecordStoreTest, ADamagedRecordIsMovedAsideAndStaysQuarantinedAfterARestart) {
  const std::string good = EncodeRecord(SampleRecord());
  const std::vector<Damage> cases = {{"empty", ""},
                                     {"cut", good.substr(0, good.size() / 2)},
                                     {"foreign", "{\"Data\":\"\",\"Checksum\":1}"},
                                     {"binary", std::string(100, '\xff')}};
  for (const Damage& damage : cases) {
    SCOPED_TRACE(damage.name);
    Put(store_.PathFor(uid_), damage.text);
    EXPECT_TRUE(absl::IsDataLoss(store_.Load(uid_).status()));
    const auto kept = store_.Quarantine(uid_);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(*posix_.ReadFile(kept->path, 1u << 20), damage.text);
    RecordStore restarted(&posix_, directory_.Path("claims"));
    const auto record = restarted.Load(uid_);
    ASSERT_TRUE(record.ok()) << record.status();
    EXPECT_EQ(record->phase, Phase::kQuarantined);
    const auto items = restarted.List();
    ASSERT_TRUE(items.ok());
    ASSERT_EQ(items->size(), 1u);
    EXPECT_EQ((*items)[0].record->phase, Phase::kQuarantined);
    ASSERT_TRUE(store_.Remove(uid_).ok());
    EXPECT_TRUE(absl::IsNotFound(restarted.Load(uid_).status()));
    EXPECT_EQ(
        *posix_.ReadFile(directory_.Path("claims/released/" + uid_ + ".json.corrupt-1"), 1u << 20),
        damage.text);
  }
}

TEST_F(RecordStoreTest, ADirectoryInARecordsPlaceIsDamageToo) {
  ASSERT_TRUE(posix_.MakeDirectory(store_.PathFor(uid_), 0700).ok());
  EXPECT_TRUE(absl::IsDataLoss(store_.Load(uid_).status()));
  EXPECT_TRUE(store_.Quarantine(uid_).ok());
}

TEST_F(RecordStoreTest, FindsTheTemporaryFilesOfDeadWritersByClaim) {
  Put(directory_.Path("claims/." + uid_ + ".json.00ff.tmp"), "half");
  const auto temporaries = store_.ListTemporaries();
  ASSERT_TRUE(temporaries.ok());
  ASSERT_EQ(temporaries->size(), 1u);
  EXPECT_EQ((*temporaries)[0].claim_uid, uid_);
  EXPECT_TRUE(store_.List()->empty());
  ASSERT_TRUE(store_.RemoveTemporary((*temporaries)[0]).ok());
  EXPECT_TRUE(store_.ListTemporaries()->empty());
}

TEST(Notes, KeepsHostAndBackendApartAndSurvivesARestart) {
  testing::TempDirectory directory;
  PosixFileSystem posix;
  FaultyFileSystem fs(&posix);
  const Notes notes(&fs, directory.Path("notes"));
  EXPECT_TRUE(absl::IsNotFound(notes.Get(NoteOwner::kHost, "pci-1", "health").status()));
  ASSERT_TRUE(notes.Put(NoteOwner::kHost, "pci-1", "health", "bad").ok());
  ASSERT_TRUE(notes.Put(NoteOwner::kBackend, "pci-1", "health", std::string("\0\xff", 2)).ok());
  // Each file's own directory, and the three above it that a first note may have made.
  EXPECT_EQ(fs.Count({FileOperation::kSyncDirectory, ""}), 8);
  ASSERT_TRUE(notes.Put(NoteOwner::kHost, "pci-1", "health", "bad").ok());
  EXPECT_EQ(fs.Count({FileOperation::kSyncDirectory, ""}), 9);
  const Notes restarted(&posix, directory.Path("notes"));
  EXPECT_EQ(*restarted.Get(NoteOwner::kHost, "pci-1", "health"), "bad");
  EXPECT_EQ(*restarted.Get(NoteOwner::kBackend, "pci-1", "health"), std::string("\0\xff", 2));
  fs.FailNth(1, {FileOperation::kReadFile, ""}, EIO);
  EXPECT_FALSE(absl::IsNotFound(notes.Get(NoteOwner::kHost, "pci-1", "health").status()));
  EXPECT_EQ(notes.Put(NoteOwner::kHost, "", "k", "v").code(), absl::StatusCode::kInvalidArgument);
}

TEST(ClaimFiles, ASharedFileLivesAsLongAsAClaimNamesIt) {
  testing::TempDirectory directory;
  PosixFileSystem fs;
  const ClaimLocks locks(directory.Path("serialize.lock"));
  ClaimFiles files(&fs, &locks, directory.path());
  const Call call = Call::WithTimeout(absl::Seconds(5));
  std::vector<std::string> named;
  const auto name = [&](const std::string& given) { named.push_back(given); };
  const auto first = files.AddShared("U1", "#!/bin/sh\n", name, call);
  const auto second = files.AddShared("U2", "#!/bin/sh\n", name, call);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(fs.Stat(*first, false)->mode, 0755u);
  const auto own = files.ClaimDirectory("U1");
  ASSERT_TRUE(own.ok());
  ASSERT_TRUE(fs.CreateFile(JoinPath(*own, "state"), "x", 0600, false).ok());
  EXPECT_THAT(*files.ListClaims(), ::testing::ElementsAre("U1", "U2"));
  const std::vector<std::string> names = *files.SharedOf("U1");
  ASSERT_THAT(names, ::testing::ElementsAre(ClaimFiles::SharedName("#!/bin/sh\n")));
  EXPECT_THAT(named, ::testing::ElementsAre(names[0], names[0]));
  ASSERT_TRUE(files.Remove("U1", names, call).ok());
  EXPECT_TRUE(fs.Stat(*first, false).ok());
  EXPECT_TRUE(absl::IsNotFound(fs.Stat(*own, false).status()));
  ASSERT_TRUE(files.Remove("U2", names, call).ok());
  EXPECT_TRUE(absl::IsNotFound(fs.Stat(*first, false).status()));
  EXPECT_TRUE(files.ListClaims()->empty());
}

TEST(ClaimFiles, ASharedFileThatIsNotWhatItWasIsWrittenAgain) {
  testing::TempDirectory directory;
  PosixFileSystem fs;
  const ClaimLocks locks(directory.Path("serialize.lock"));
  ClaimFiles files(&fs, &locks, directory.path());
  const Call call = Call::WithTimeout(absl::Seconds(5));
  const auto ignore = [](const std::string&) {};
  const auto path = files.AddShared("U1", "content", ignore, call);
  ASSERT_TRUE(path.ok());
  const auto intact = fs.Stat(*path);
  ASSERT_TRUE(files.AddShared("U1", "content", ignore, call).ok());
  EXPECT_EQ(fs.Stat(*path)->inode, intact->inode);
  struct Change {
    const char* name;
    std::function<void()> done;
  };
  const std::string elsewhere = directory.Path("elsewhere");
  ASSERT_TRUE(fs.CreateFile(elsewhere, "content", 0755, false).ok());
  const auto put = [&](const char* text, uint32_t mode) {
    ASSERT_TRUE(WriteFileAtomically(fs, *path, text, mode, Durability::kVolatile).ok());
  };
  for (const Change& change :
       std::vector<Change>{{"empty", [&] { put("", 0755); }},
                           {"of the same size", [&] { put("CONTENT", 0755); }},
                           {"not executable", [&] { put("content", 0644); }},
                           {"writable by others", [&] { put("content", 0777); }},
                           {"gone", [&] { ASSERT_TRUE(fs.Remove(*path).ok()); }},
                           {"a link", [&] {
                              ASSERT_TRUE(fs.Remove(*path).ok());
                              ASSERT_EQ(symlink(elsewhere.c_str(), path->c_str()), 0);
                            }}}) {
    SCOPED_TRACE(change.name);
    change.done();
    ASSERT_EQ(files.AddShared("U2", "content", ignore, call).value_or(""), *path);
    EXPECT_EQ(*fs.ReadFile(*path, 100), "content");
    EXPECT_EQ(fs.Stat(*path)->type, FileType::kRegular);
    EXPECT_EQ(fs.Stat(*path)->mode, 0755u);
  }
}

// The file of the same size that was added last is compared before any digest is made.
TEST(ClaimFiles, SharedFilesOfOneSizeStayApart) {
  testing::TempDirectory directory;
  PosixFileSystem fs;
  const ClaimLocks locks(directory.Path("serialize.lock"));
  ClaimFiles files(&fs, &locks, directory.path());
  const Call call = Call::WithTimeout(absl::Seconds(5));
  for (const char* claim : {"U1", "U2"}) {
    for (const char* text : {"aaaa", "bbbb"}) {
      std::string name;
      const auto path = files.AddShared(
          claim, text, [&](const std::string& given) { name = given; }, call);
      ASSERT_TRUE(path.ok()) << path.status();
      EXPECT_EQ(name, ClaimFiles::SharedName(text));
      EXPECT_EQ(BaseName(DirectoryName(*path)), name);
      EXPECT_EQ(*fs.ReadFile(*path, 100), text);
    }
  }
  // With its last claim a file goes, also the one that is compared first.
  const std::vector<std::string> both = *files.SharedOf("U1");
  ASSERT_THAT(both, ::testing::SizeIs(2));
  for (const char* claim : {"U1", "U2"}) ASSERT_TRUE(files.Remove(claim, both, call).ok());
  EXPECT_TRUE(fs.List(directory.Path("shared-files"))->empty());
  const auto again = files.AddShared(
      "U3", "aaaa", [](const std::string&) {}, call);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*fs.ReadFile(*again, 100), "aaaa");
  EXPECT_THAT(*fs.List(directory.Path("shared-files")), ::testing::SizeIs(1));
}

}  // namespace
}  // namespace dra::records
