#include "dra/resource/semver.h"

#include <string>

#include "gtest/gtest.h"

namespace dra::resource {
namespace {

TEST(SemVer, TakesWhatSemverOrgTakes) {
  for (const char* text :
       {"0.0.4", "1.2.3", "10.20.30", "1.1.2-prerelease+meta", "1.1.2+meta", "1.0.0-alpha.beta.1",
        "1.0.0-0A.is.legal", "1.0.0--", "2.0.0+build.1848", "1.2.3----R-S.12.9.1--.12+meta",
        "1.0.0+0.build.1-rc.10000aaa-kk-0.1", "99999999999999999999999.999.99"}) {
    EXPECT_TRUE(IsSemVer(text)) << text;
  }
}

TEST(SemVer, RefusesEverythingElse) {
  for (const char* text :
       {"",          "1",      "1.2",    "1.2.3.4",  "v1.2.3",     "01.1.1",     "1.01.1",
        "1.1.01",    "1.2.3-", "1.2.3+", "1.2.3-01", "1.2.3-a..b", "1.2.3+a..b", "1.2.3-a_b",
        "1.2.3+a+b", " 1.2.3", "1.2.x",  "-1.0.3",   "1.2.3 ",     "1..3"}) {
    EXPECT_FALSE(IsSemVer(text)) << text;
    EXPECT_EQ(SemVer::Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(SemVer, RefusesNumbersThatTheSchedulerCannotRead) {
  EXPECT_TRUE(SemVer::Parse("18446744073709551615.0.0").ok());
  EXPECT_FALSE(SemVer::Parse("18446744073709551616.0.0").ok());
  EXPECT_FALSE(SemVer::Parse("1.0.0-18446744073709551616").ok());
}

TEST(SemVer, OrdersByPrecedence) {
  const char* const kAscending[] = {"0.9.9",       "1.0.0-1",       "1.0.0-2",    "1.0.0-10",
                                    "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0-beta.2",
                                    "1.0.0-rc.1",  "1.0.0",         "1.0.1",      "1.2.0",
                                    "1.10.0",      "2.0.0"};
  for (size_t i = 0; i < std::size(kAscending); ++i) {
    for (size_t j = 0; j < std::size(kAscending); ++j) {
      SCOPED_TRACE(std::string(kAscending[i]) + " " + kAscending[j]);
      EXPECT_EQ(Compare(*SemVer::Parse(kAscending[i]), *SemVer::Parse(kAscending[j])), i <=> j);
    }
  }
  EXPECT_EQ(Compare(*SemVer::Parse("1.0.0+a"), *SemVer::Parse("1.0.0+b")),
            std::strong_ordering::equal);
}

TEST(SemVer, IsWrittenAsItWasRead) {
  for (const char* text : {"1.2.3", "1.2.3-a.1", "1.2.3+007", "1.2.3-a.1+b.2"}) {
    EXPECT_EQ(SemVer::Parse(text)->ToString(), text);
  }
}

TEST(RepairVersion, FollowsTheDocumentedRules) {
  const struct {
    const char* text;
    std::optional<std::string> repaired;
  } kCases[] = {
      {"1.2.3", "1.2.3"},
      {"v1.2.3", "1.2.3"},
      {"12.4", "12.4.0"},
      {"v12.4-rc1", "12.4.0-rc1"},
      {"6.19.14.31400000", "6.19.14+31400000"},
      {"1.2.3.04+x", "1.2.3+04.x"},
      {"550", std::nullopt},
      {"1.2.3.4.5", std::nullopt},
      {"535.54.03", std::nullopt},
      {"1.2.3.beta", std::nullopt},
      {"unknown", std::nullopt},
      {"", std::nullopt},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.text);
    EXPECT_EQ(RepairVersion(c.text), c.repaired);
  }
  EXPECT_EQ(RepairVersion("1.2.3+" + std::string(60, 'a')), std::nullopt);
}

}  // namespace
}  // namespace dra::resource
