#include "dra/base/json.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace dra {
namespace {

TEST(ParseJson, NamesTheDocumentAndThePlaceOfAnError) {
  const auto parsed = ParseJson(R"({"a": 1,})", "record u1");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(parsed.status().message().find("record u1: not valid JSON at byte 9"),
            absl::string_view::npos)
      << parsed.status();
}

TEST(ParseJson, RefusesAnEmptyDocumentAndTrailingText) {
  for (const char* text : {"", " ", "{} {}", "nul", "{", "\xff"})
    EXPECT_FALSE(ParseJson(text, "x").ok()) << text;
}

TEST(ParseJson, CountsOnlyBracketsThatNest) {
  const auto nested = [](int levels) {
    return std::string(static_cast<size_t>(levels), '[') + "1" +
           std::string(static_cast<size_t>(levels), ']');
  };
  EXPECT_TRUE(ParseJson(nested(128), "x").ok());
  const absl::Status refused = ParseJson(nested(129), "x").status();
  EXPECT_NE(refused.message().find("nested deeper than 128"), std::string::npos) << refused;
  // In a string, behind an escaped quote, and side by side.
  EXPECT_TRUE(ParseJson(absl::StrCat("[\"\\\"", std::string(300, '['), "\"]"), "x").ok());
  std::string row = "[[]";
  for (int i = 0; i < 300; ++i) row += ",[]";
  EXPECT_TRUE(ParseJson(row + "]", "x").ok());
}

TEST(ParseJson, RefusesADocumentThatIsNestedTooDeep) {
  const std::string deep = std::string(5000, '[') + std::string(5000, ']');
  EXPECT_FALSE(ParseJson(deep, "x").ok());
  EXPECT_TRUE(ParseJson(std::string(100, '[') + std::string(100, ']'), "x").ok());
}

TEST(ParseJsonObject, RefusesEverythingElse) {
  EXPECT_TRUE(ParseJsonObject("{}", "x").ok());
  for (const char* text : {"[]", "null", "1", "\"a\""})
    EXPECT_FALSE(ParseJsonObject(text, "x").ok()) << text;
}

TEST(DumpJson, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(DumpJson(Json("a\xff")), "\"a\xEF\xBF\xBD\"");
}

TEST(JsonAccess, GivesTheFallbackForAnotherType) {
  const Json object = {{"s", "text"}, {"n", 3}, {"b", true}};
  EXPECT_EQ(StringOr(object, "s"), "text");
  EXPECT_EQ(StringOr(object, "n", "x"), "x");
  EXPECT_EQ(IntOr(object, "n"), 3);
  EXPECT_EQ(IntOr(object, "s", 7), 7);
  EXPECT_TRUE(BoolOr(object, "b"));
  EXPECT_FALSE(BoolOr(object, "n"));
  EXPECT_EQ(Find(object, "absent"), nullptr);
  EXPECT_EQ(Find(Json::array(), "s"), nullptr);
}

}  // namespace
}  // namespace dra
