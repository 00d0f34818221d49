#include "dra/base/ids.h"

#include <gtest/gtest.h>

#include <set>

#include "dra/testing/temp_directory.h"

namespace dra {
namespace {

TEST(Sha256, IsTheStandardOne) {
  // FIPS 180-2, appendix B.1
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Base64Url("abc", 8).size(), 11u);
  EXPECT_EQ(Sha256Base64Url("abc", 16).size(), 22u);
}

TEST(NewUuid, GivesDistinctUuidsOfVersion4) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string uuid = NewUuid();
    EXPECT_TRUE(IsUuid(uuid)) << uuid;
    EXPECT_EQ(uuid[14], '4');
    EXPECT_TRUE(seen.insert(uuid).second);
  }
}

TEST(IsSafeFileId, RefusesWhatCouldLeaveTheDirectory) {
  for (const char* uid : {"7b1f", "0d4a6f0e-2f3c-4a55-8b1e-6a3b1d2c3e4f", "a.b_c"})
    EXPECT_TRUE(IsSafeFileId(uid)) << uid;
  for (const char* uid : {"", ".", "..", "../x", "a/b", "a b", "\n", ".hidden"})
    EXPECT_FALSE(IsSafeFileId(uid)) << uid;
  EXPECT_TRUE(IsSafeFileId(std::string(128, 'a')));
  EXPECT_FALSE(IsSafeFileId(std::string(129, 'a')));
  EXPECT_FALSE(IsSafeFileId(absl::string_view("a\0b", 3)));
}

TEST(ReadBootId, ReadsTheKernelsOne) {
  PosixFileSystem fs;
  const auto boot_id = ReadBootId(fs);
  ASSERT_TRUE(boot_id.ok()) << boot_id.status();
  EXPECT_TRUE(IsUuid(*boot_id));
}

TEST(ReadBootId, IsAnErrorWhenItCannotBeRead) {
  PosixFileSystem fs;
  const testing::TempDirectory root;
  EXPECT_FALSE(ReadBootId(fs, root.path()).ok());
}

}  // namespace
}  // namespace dra
