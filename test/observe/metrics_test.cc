#include "dra/observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace dra::observe {
namespace {

using testing::HasSubstr;

TEST(Metrics, CountsByLabels) {
  Metrics metrics;
  metrics.Increment("dra_calls_total", {{"rpc", "Prepare"}, {"code", "OK"}});
  metrics.Increment("dra_calls_total", {{"code", "OK"}, {"rpc", "Prepare"}}, 2);
  metrics.Increment("dra_calls_total", {{"rpc", "Unprepare"}, {"code", "OK"}});
  EXPECT_EQ(metrics.Value("dra_calls_total", {{"rpc", "Prepare"}, {"code", "OK"}}), 3);
  EXPECT_EQ(metrics.Value("dra_calls_total", {{"rpc", "none"}}), 0);
  EXPECT_EQ(metrics.Value("dra_other"), 0);
  EXPECT_THAT(metrics.Serialize(), HasSubstr("dra_calls_total{code=\"OK\",rpc=\"Prepare\"} 3"));
  EXPECT_EQ(metrics.Serialize().find("none"), std::string::npos);  // asking makes no series
}

TEST(Metrics, SetsGaugesAndObservesSeconds) {
  Metrics metrics;
  metrics.Set("dra_devices", 8);
  metrics.Set("dra_devices", 5);
  metrics.Observe("dra_prepare_seconds", 0.0015, {{"driver", "d"}});
  EXPECT_EQ(metrics.Value("dra_devices"), 5);
  const std::string text = metrics.Serialize();
  EXPECT_THAT(text, HasSubstr("dra_prepare_seconds_bucket{driver=\"d\",le=\"0.001\"} 0"));
  EXPECT_THAT(text, HasSubstr("dra_prepare_seconds_bucket{driver=\"d\",le=\"0.002\"} 1"));
  EXPECT_THAT(text, HasSubstr("le=\"60\""));
}

TEST(Metrics, EachFamilySaysWhatItMeans) {
  Metrics metrics;
  metrics.Set("dra_drained", 1, {{"driver", "d"}});
  metrics.Increment("dra_calls_total");
  EXPECT_THAT(metrics.Serialize(), HasSubstr("# HELP dra_drained 1 while the driver is drained"));
  EXPECT_THAT(metrics.Serialize(), HasSubstr("# HELP dra_calls_total See docs/metrics.md."));
}

TEST(Metrics, SurvivesNamesAndLabelsThatAreNone) {
  Metrics metrics;
  metrics.Increment("not a name");
  metrics.Increment("dra_x", {{"not a label", "v"}});
  metrics.Increment("dra_y");
  metrics.Set("dra_y", 1);             // a counter already
  metrics.Increment("dra_y", {}, -1);  // counters only grow
  EXPECT_EQ(metrics.Value("dra_y"), 1);
}

TEST(Metrics, CountsFromManyThreads) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&metrics] {
      for (int k = 0; k < 500; ++k) {
        metrics.Increment("dra_n");
        metrics.Observe("dra_s", 0.1);
      }
      metrics.Serialize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(metrics.Value("dra_n"), 2000);
}

}  // namespace
}  // namespace dra::observe
