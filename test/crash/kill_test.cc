// The daemon is killed at every file operation, lock, request to the API, host call and hook boundary of each scenario,
// started again, and the kubelet's call repeated. DRA_CRASH_FULL=1: all variants of all points; DRA_CRASH_FROM,
// DRA_CRASH_TO: points by number; DRA_CRASH_UPDATE=1: writes points.txt.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "test/crash/kill_rig.h"
#include "test/crash/points_file.h"
#include "test/crash/scenario.h"

namespace dra::crash {
namespace {

int FromEnvironment(const char* name, int fallback) {
  const char* value = std::getenv(name);
  int number = 0;
  return value != nullptr && absl::SimpleAtoi(value, &number) ? number : fallback;
}

class KillTest : public KillRig, public ::testing::WithParamInterface<std::tuple<size_t, bool>> {
 protected:
  KillTest() : KillRig(Scenarios()[std::get<0>(GetParam())], std::get<1>(GetParam())) {}
};

// What a process that is never quiet does at any time, whatever happens to the claim under test.
bool ComesOfItself(const std::string& label) {
  return IsOneOfAPair(label) || absl::StartsWith(label, "api get ") ||
         absl::StartsWith(label, "api list ") || absl::StrContains(label, "serialize.lock ");
}

std::vector<Point> AllPoints(const PointCounts& counts) {
  std::vector<Point> points;
  for (const auto& [label, count] : counts) {
    for (int i = 1; i <= count; ++i) points.push_back({label, i});
  }
  return points;
}

// Without those that are as good as another; and a part of those at which another scenario is killed, in the same work.
std::vector<Point> Thinned(const std::vector<Point>& all, const PointCounts& of_another) {
  constexpr int kOneIn = 8;
  std::vector<Point> points;
  int shared = 0;
  for (const Point& point : all) {
    if (IsOneOfAPair(point.label)) continue;
    const auto found = of_another.find(point.label);
    const bool is_shared = found != of_another.end() && point.occurrence <= found->second;
    if (is_shared && shared++ % kOneIn != 0) continue;
    points.push_back(point);
  }
  return points;
}

TEST_P(KillTest, LosesNothingAndHoldsNothingTwice) {
  ASSERT_TRUE(world_.StartQuietly());
  ASSERT_TRUE(world_.node.WaitForReady(world_.child.get())) << world_.node.LogTail();
  PointCounts counts = CountPoints();
  ASSERT_FALSE(HasFailure()) << "without a kill already\n" << world_.node.LogTail();
  if (scenario_->never_quiet()) {
    // How often it reads, and locks to look, depends on how long it takes.
    std::erase_if(counts, [](const auto& point) { return ComesOfItself(point.first); });
  }
  // How often it reads, and discovers, depends on what else happens meanwhile.
  PointCounts certain = counts;
  std::erase_if(certain, [](const auto& point) { return IsOneOfAPair(point.first); });
  for (auto& [label, count] : certain) {
    if (Coalesces(label)) count = 1;
  }
  if (FromEnvironment("DRA_CRASH_UPDATE", 0) != 0) StorePoints(name_, certain);
  EXPECT_EQ(FindLostPoints(name_, certain), "");

  const std::vector<Point> all = AllPoints(counts);
  // Most steps of a scenario are those of a start, of a prepare, or (a release of an orphan too) of an unprepare.
  std::string known = absl::StartsWith(named_.name, "Prepare") ? "Prepare/undo" : "Unprepare/undo";
  if (scenario_->acts_by_starting()) known = "Start/undo";
  if (known == name_) known.clear();
  const std::vector<Point> points =
      FromEnvironment("DRA_CRASH_FULL", 0) != 0 ? all : Thinned(all, StoredPoints(known));
  const int from = FromEnvironment("DRA_CRASH_FROM", 0);
  const int to = FromEnvironment("DRA_CRASH_TO", static_cast<int>(points.size()));
  int killed = 0;
  for (int i = from; i < to && i < static_cast<int>(points.size()); ++i) {
    const Point& point = points[static_cast<size_t>(i)];
    SCOPED_TRACE(absl::StrCat(name_, " point ", i, ": ", point.label, " #", point.occurrence));
    KillAt(point);
    ++killed;
    if (HasFailure()) {
      std::cout << world_.node.LogTail() << "\n";
      break;  // the node is no longer as the next point expects it
    }
  }
  std::cout << name_ << ": points killed: " << killed << " of " << all.size() << ", outcomes:";
  for (const auto& [outcome, times] : outcomes_) std::cout << " " << outcome << " " << times << ";";
  std::cout << "\n";
}

std::vector<std::tuple<size_t, bool>> AllScenarios() {
  std::vector<std::tuple<size_t, bool>> all;
  for (size_t i = 0; i < Scenarios().size(); ++i) {
    all.emplace_back(i, true);
    all.emplace_back(i, false);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Daemon, KillTest, ::testing::ValuesIn(AllScenarios()),
                         [](const ::testing::TestParamInfo<KillTest::ParamType>& run) {
                           return absl::StrCat(Scenarios()[std::get<0>(run.param)].name,
                                               std::get<1>(run.param) ? "Undo" : "NoUndo");
                         });

}  // namespace
}  // namespace dra::crash
