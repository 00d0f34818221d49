#include "dra/driver/preflight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "test/driver/node_fixture.h"

namespace dra::driver {
namespace {

using ::testing::HasSubstr;

class Preflight : public NodeFixture {
 protected:
  Preflight() {
    StartApi();
    for (const char* name : {"kubelet/plugins_registry", "kubelet/plugins"})
      EXPECT_TRUE(MakeDirectories(fs_, directory_.Path(name), 0755).ok());
  }
  // The finding whose subject begins so.
  CheckResult Finding(const DaemonConfig& config, const std::string& subject) {
    for (CheckResult& result : RunChecks(config, fs_, clock_)) {
      if (absl::StartsWith(result.subject, subject)) return std::move(result);
    }
    return {subject, false, "no such finding"};
  }
};

TEST_F(Preflight, EveryFindingIsGoodOnANodeThatIsInOrder) {
  const std::vector<CheckResult> results = RunChecks(Config(), fs_, clock_);
  EXPECT_GE(results.size(), 9u);
  for (const CheckResult& result : results)
    EXPECT_TRUE(result.ok) << result.subject << ": " << result.message;
  EXPECT_THAT(results.back().message, HasSubstr("4 devices"));
  // It leaves nothing behind.
  EXPECT_TRUE(fs_.List(directory_.Path("kubelet/plugins"))->empty());
  EXPECT_TRUE(fs_.List(directory_.Path("kubelet/plugins_registry"))->empty());
  EXPECT_TRUE(CdiFiles().empty());
}

TEST_F(Preflight, AMissingRegistryIsNamed) {
  ASSERT_TRUE(fs_.RemoveDirectory(directory_.Path("kubelet/plugins_registry")).ok());
  const CheckResult result = Finding(Config(), "kubelet registry");
  EXPECT_FALSE(result.ok);
  EXPECT_THAT(result.message, HasSubstr("plugins_registry"));
  // The others are looked at all the same.
  EXPECT_TRUE(Finding(Config(), "backend of").ok);
}

TEST_F(Preflight, AnUnknownNodeAMissingServerAndABrokenBackendAreEachSaid) {
  DaemonConfig config = Config();
  config.node_name = "elsewhere";
  EXPECT_FALSE(Finding(config, "node elsewhere").ok);
  config = Config();
  config.drivers[0].backend = directory_.Path("absent.so");
  EXPECT_THAT(Finding(config, "backend of").message, HasSubstr("absent.so"));
  api_->GoAway();
  EXPECT_FALSE(Finding(Config(), "API server").ok);
}

TEST_F(Preflight, AnInvalidConfigurationEndsIt) {
  DaemonConfig config = Config();
  config.drivers.clear();
  const std::vector<CheckResult> results = RunChecks(config, fs_, clock_);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_FALSE(results[0].ok);
}

}  // namespace
}  // namespace dra::driver
