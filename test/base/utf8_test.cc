#include "dra/base/utf8.h"

#include <gtest/gtest.h>

namespace dra {
namespace {

TEST(Utf8CharacterLength, KnowsCharactersAndWhatIsNone) {
  EXPECT_EQ(Utf8CharacterLength("a"), 1u);
  EXPECT_EQ(Utf8CharacterLength("\xC3\x84"), 2u);
  EXPECT_EQ(Utf8CharacterLength("\xE2\x82\xAC"), 3u);
  EXPECT_EQ(Utf8CharacterLength("\xF0\x9F\x98\x80"), 4u);
  for (const char* none : {"\xff", "\x80", "\xC3",
                           "\xC3"
                           "a",
                           "\xE2\x82", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
                           "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"}) {
    EXPECT_EQ(Utf8CharacterLength(none), 0u) << none;
  }
}

TEST(ValidUtf8Prefix, CutsBetweenCharactersAndReplacesEachBadByte) {
  EXPECT_EQ(ValidUtf8Prefix("a\xE2\x82\xAC", 3), "a");
  EXPECT_EQ(ValidUtf8Prefix("a\xE2\x82\xAC", 4), "a\xE2\x82\xAC");
  EXPECT_EQ(ValidUtf8Prefix("\xC0\x80", 9), "??");
  EXPECT_EQ(ValidUtf8Prefix("abc", 0), "");
}

}  // namespace
}  // namespace dra
