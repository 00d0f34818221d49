#include "dra/base/logger.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra {
namespace {

void Keep(void* context, absl::string_view line) {
  static_cast<std::vector<std::string>*>(context)->push_back(std::string(line));
}

TEST(Logger, WritesOneLineWithFieldsInOrder) {
  std::vector<std::string> lines;
  const Logger logger = Logger::ToFunction(LogLevel::kInfo, LogFormat::kText, Keep, &lines)
                            .With({{"driver", "gpu.example.com"}});
  logger.Info("claim\nprepared", {{"claim_uid", "u1"}, {"error", "a b=\"c\""}});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(
      lines[0].find(R"(info claim prepared driver=gpu.example.com claim_uid=u1 error="a b=\"c\"")"),
      std::string::npos)
      << lines[0];
}

TEST(Logger, ShowsAFieldOnceHoweverManyLayersAddIt) {
  std::vector<std::string> lines;
  const Logger logger = Logger::ToFunction(LogLevel::kInfo, LogFormat::kText, Keep, &lines);
  logger.With({{"driver", "a"}}).With({{"driver", "b"}, {"pool", "p"}}).Info("text");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("info text driver=b pool=p"), std::string::npos) << lines[0];
}

TEST(Logger, WritesJsonThatParses) {
  std::vector<std::string> lines;
  const Logger logger = Logger::ToFunction(LogLevel::kDebug, LogFormat::kJson, Keep, &lines);
  logger.Warn("text", {{"device", "d0\xff"}});
  ASSERT_EQ(lines.size(), 1u);
  const auto parsed = ParseJsonObject(lines[0], "line");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(StringOr(*parsed, "level"), "warn");
  EXPECT_EQ(StringOr(*parsed, "msg"), "text");
}

TEST(Logger, LeavesOutWhatIsBelowItsLevel) {
  std::vector<std::string> lines;
  const Logger logger = Logger::ToFunction(LogLevel::kWarn, LogFormat::kText, Keep, &lines);
  logger.Info("quiet");
  EXPECT_FALSE(logger.Enabled(LogLevel::kInfo));
  EXPECT_TRUE(lines.empty());
  Logger().Error("a default logger drops everything");
}

TEST(ParseLogLevel, ListsTheLevelsInItsError) {
  EXPECT_EQ(*ParseLogLevel("warn"), LogLevel::kWarn);
  const auto parsed = ParseLogLevel("loud");
  ASSERT_FALSE(parsed.ok());
  EXPECT_NE(parsed.status().message().find("trace, debug, info, warn, error, off"),
            absl::string_view::npos);
}

}  // namespace
}  // namespace dra
