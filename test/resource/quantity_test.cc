#include "dra/resource/quantity.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dra::resource {
namespace {

Quantity ParsedQuantity(const std::string& text) {
  const absl::StatusOr<Quantity> quantity = Quantity::Parse(text);
  EXPECT_TRUE(quantity.ok()) << text << ": " << quantity.status();
  return quantity.value_or(Quantity());
}

TEST(Quantity, IsWrittenInTheCanonicalFormOfTheServer) {
  const struct {
    const char *text, *canonical;
  } kCases[] = {
      {"1024Mi", "1Gi"},
      {"1Gi", "1Gi"},
      {"1536Mi", "1536Mi"},
      {"0", "0"},
      {"0Gi", "0"},
      {"0.5", "500m"},
      {"1500m", "1500m"},
      {"2000m", "2"},
      {"1000", "1k"},
      {"1024", "1024"},
      {"1Ki", "1Ki"},
      {"512Ki", "512Ki"},
      {"0.5Ki", "512"},
      {"1000Ki", "1000Ki"},
      {"1e3", "1e3"},
      {"12e-3", "12e-3"},
      {"100e0", "100"},
      {"1E3", "1e3"},
      {"1E", "1E"},
      {"+5", "5"},
      {"-1.5", "-1500m"},
      {"-2048", "-2048"},
      {"-2Ki", "-2Ki"},
      {"0.1Ki", "102400m"},
      {"1n", "1n"},
      {"0.1n", "1n"},
      {"-0.1n", "-1n"},
      {"5u", "5u"},
      {"3M", "3M"},
      {"80Gi", "80Gi"},
      {"1.", "1"},
      {".5", "500m"},
      {"00012", "12"},
      {"1e1000000000", "9223372036854775807"},
      {"1e-1000", "1e-9"},
      {"0e1000000000", "0"},
      {"8Ei", "9223372036854775807"},
      {"0.0001Ki", "102400u"},
      {"1e30", "9223372036854775807"},
      {"7Ei", "7Ei"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.text);
    EXPECT_EQ(ParsedQuantity(c.text).ToString(), c.canonical);
  }
}

TEST(Quantity, ReadsItsOwnCanonicalFormBackUnchanged) {
  for (const char* text :
       {"1Gi", "500m", "1k", "12e-3", "-1500m", "102400u", "1023Mi", "9223372036854775807", "3E"}) {
    SCOPED_TRACE(text);
    EXPECT_EQ(ParsedQuantity(text).ToString(), text);
    EXPECT_EQ(ParsedQuantity(ParsedQuantity(text).ToString()), ParsedQuantity(text));
  }
}

TEST(Quantity, RefusesWhatIsNoQuantity) {
  for (const char* text : {"", " ", "1 Gi", "Gi", "1gi", "1K", "1KiB", "e3", "1e", "1e+", "1e1.5",
                           "--1", "1.2.3", ".", "+", "0x10", "1,5", "1e3k", "\xff"}) {
    SCOPED_TRACE(text);
    const absl::StatusOr<Quantity> quantity = Quantity::Parse(text);
    EXPECT_EQ(quantity.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(quantity.status().message()).find(text), std::string::npos);
  }
  EXPECT_FALSE(Quantity::Parse(std::string(1000, '9')).ok());
}

TEST(Quantity, ComparesByNumberWhateverTheNotation) {
  EXPECT_EQ(ParsedQuantity("1024Mi"), ParsedQuantity("1Gi"));
  EXPECT_EQ(ParsedQuantity("1"), ParsedQuantity("1000m"));
  EXPECT_EQ(ParsedQuantity("1e3"), ParsedQuantity("1k"));
  EXPECT_LT(ParsedQuantity("1G"), ParsedQuantity("1Gi"));
  EXPECT_LT(ParsedQuantity("-1"), ParsedQuantity("1n"));
  EXPECT_GT(ParsedQuantity("1001m"), ParsedQuantity("1"));
}

TEST(Quantity, ValueRoundsAwayFromZero) {
  EXPECT_EQ(ParsedQuantity("1500m").Value(), 2);
  EXPECT_EQ(ParsedQuantity("-1500m").Value(), -2);
  EXPECT_EQ(ParsedQuantity("1n").Value(), 1);
  EXPECT_EQ(ParsedQuantity("2").Value(), 2);
  EXPECT_EQ(ParsedQuantity("1e30").Value(), std::numeric_limits<int64_t>::max());
}

TEST(Quantity, AddsAndSubtractsExactly) {
  EXPECT_EQ((ParsedQuantity("1Gi") + ParsedQuantity("1Gi")).ToString(), "2Gi");
  EXPECT_EQ((ParsedQuantity("1") - ParsedQuantity("1n")).ToString(), "999999999n");
  EXPECT_EQ((ParsedQuantity("1Gi") - ParsedQuantity("1Gi")).Sign(), 0);
  // Beyond int64: the sum stays a number larger than its parts.
  const Quantity big = ParsedQuantity("9223372036854775807");
  EXPECT_GT(big + big, big);
  EXPECT_EQ((big + big) - big, big);
}

TEST(Quantity, SumsStopAtTheEndsInsteadOfWrapping) {
  Quantity sum = ParsedQuantity("9E");
  for (int i = 0; i < 200; ++i) sum = sum + sum;
  EXPECT_GT(sum.Sign(), 0);
  EXPECT_EQ(sum + sum, sum);
  EXPECT_EQ(sum.Value(), std::numeric_limits<int64_t>::max());
}

TEST(Quantity, KnowsMultiples) {
  EXPECT_TRUE(ParsedQuantity("1Gi").IsMultipleOf(ParsedQuantity("512Mi")));
  EXPECT_FALSE(ParsedQuantity("1Gi").IsMultipleOf(ParsedQuantity("1G")));
  EXPECT_FALSE(ParsedQuantity("1").IsMultipleOf(ParsedQuantity("0")));
  EXPECT_TRUE(ParsedQuantity("10m").IsWholeMilli());
  EXPECT_FALSE(ParsedQuantity("10u").IsWholeMilli());
}

TEST(Quantity, IsReadFromStringsAndNumbersOnly) {
  EXPECT_EQ(*Quantity::FromJson(Json("4Gi")), ParsedQuantity("4Gi"));
  EXPECT_EQ(*Quantity::FromJson(Json(4)), ParsedQuantity("4"));
  EXPECT_EQ(*Quantity::FromJson(Json(" 4Gi ")), ParsedQuantity("4Gi"));
  EXPECT_FALSE(Quantity::FromJson(Json("4Gi\n")).ok());
  EXPECT_EQ(*Quantity::FromJson(Json(0.5)), ParsedQuantity("500m"));
  EXPECT_FALSE(Quantity::FromJson(Json(true)).ok());
  EXPECT_FALSE(Quantity::FromJson(Json::object()).ok());
}

}  // namespace
}  // namespace dra::resource
