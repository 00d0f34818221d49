// The daemon is killed at every file operation, host call and hook boundary of each scenario, started again, and the
// kubelet's call repeated. DRA_CRASH_FULL=1: all variants of all points; DRA_CRASH_FROM, DRA_CRASH_TO: points by number;
// DRA_CRASH_UPDATE=1: writes points.txt.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dra/base/json.h"
#include "test/crash/points_file.h"
#include "test/crash/scenario.h"

namespace dra::crash {
namespace {

struct Point {
  std::string label;
  int occurrence = 0;
};

int FromEnvironment(const char* name, int fallback) {
  const char* value = std::getenv(name);
  int number = 0;
  return value != nullptr && absl::SimpleAtoi(value, &number) ? number : fallback;
}

class KillTest : public ::testing::TestWithParam<std::tuple<size_t, bool>> {
 protected:
  KillTest()
      : named_(Scenarios()[std::get<0>(GetParam())]),
        scenario_(named_.make()),
        world_(std::get<1>(GetParam())),
        name_(absl::StrCat(named_.name, std::get<1>(GetParam()) ? "/undo" : "/no-undo")) {}

  void SetUpWorld() {
    world_.answers.clear();
    world_.a = world_.node.MakeClaim("a", {"gpu-0", "gpu-1"}, true);
    world_.b = world_.node.MakeClaim("b", {"gpu-2"}, false);
    scenario_->SetUp(world_);
  }

  // The act, up to its end or the death of the process.
  void Act(const Json& arm) {
    if (!scenario_->acts_by_starting()) {
      ASSERT_TRUE(world_.child->Ask(arm).has_value());
      scenario_->Act(world_);
      return;
    }
    StartOptions options = world_.Options();
    options.arm = arm;
    world_.child = world_.node.StartChild(options);
    ASSERT_NE(world_.child, nullptr);
    WaitForQuiet();
  }

  // Until the process is dead, or ready and passes no more points.
  void WaitForQuiet() {
    const absl::Time limit = absl::Now() + kPatience;
    std::map<std::string, int> before;
    absl::Time changed = absl::Now();
    while (absl::Now() < limit && world_.child->running()) {
      const std::map<std::string, int> now = world_.child->Counts();
      if (now != before) changed = absl::Now();
      before = now;
      const std::optional<Json> status = world_.child->Ask({{"do", "status"}});
      const bool ready = status.has_value() && BoolOr(*status, "ready");
      if (ready && absl::Now() - changed > absl::Milliseconds(300)) return;
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  // Everything is given back, and can be had by another claim.
  void Finish() {
    CrashNode& node = world_.node;
    EXPECT_TRUE(node.Unprepare(world_.a).ok());
    EXPECT_TRUE(node.Unprepare(world_.b).ok());
    node.DeleteClaim(world_.a);
    node.DeleteClaim(world_.b);
    const testing::KubeletClaim other =
        node.MakeClaim("other", {"gpu-0", "gpu-1", "gpu-2", "gpu-3"}, false);
    const absl::Status taken = node.Prepare(other);
    EXPECT_TRUE(taken.ok()) << "a device is lost: " << taken;
    EXPECT_TRUE(node.Unprepare(other).ok());
    node.DeleteClaim(other);
    EXPECT_TRUE(node.WaitForReady(world_.child.get())) << node.Describe(world_.child.get());
    EXPECT_EQ(node.CheckHardware(), "");
    EXPECT_EQ(node.CheckHooks(), "");
    if (!node.WaitForNoLeftovers().empty()) {
      // The sweep at the start leaves what belongs to a claim that is being prepared just then to the next sweep.
      world_.child->Kill();
      ASSERT_TRUE(world_.StartQuietly());
      ASSERT_TRUE(node.WaitForReady(world_.child.get())) << node.Describe(world_.child.get());
      ++outcomes_["left to the next sweep"];
      EXPECT_EQ(node.WaitForNoLeftovers(), "");
    }
    node.ForgetHooks();
  }

  // What stands on disk of the claim under test when the process is dead.
  std::string Outcome() {
    const auto record = world_.node.fs().ReadFile(
        world_.node.DataPath(absl::StrCat("claims/", world_.a.uid, ".json")));
    std::string outcome = "no record";
    const std::string marked = absl::StrCat("claims/", world_.a.uid, ".unpreparing.json");
    if (world_.node.fs().Stat(world_.node.DataPath(marked), false).ok()) outcome = "unpreparing";
    if (record.ok()) {
      outcome = "record";
      for (const char* phase : {"preparing", "prepared", "unpreparing", "dirty"}) {
        if (absl::StrContains(*record, absl::StrCat("\"", phase, "\""))) outcome = phase;
      }
    }
    if (world_.node.fs().Stat(world_.node.CdiPath(world_.a), false).ok())
      absl::StrAppend(&outcome, "+cdi");
    return outcome;
  }

  PointCounts CountPoints() {
    // Once without looking: what is made by the first use of a node is no part of the scenario.
    SetUpWorld();
    if (HasFatalFailure()) return {};
    Act({{"do", "arm"}});
    scenario_->Repeat(world_);
    Finish();
    SetUpWorld();
    if (HasFatalFailure()) return {};
    Act({{"do", "arm"}});
    const PointCounts counts = world_.child->Counts();
    scenario_->Repeat(world_);
    expected_ = world_.answers;
    Finish();
    return counts;
  }

  void KillAt(const Point& point) {
    SetUpWorld();
    if (HasFatalFailure()) return;
    Act({{"do", "arm"}, {"label", point.label}, {"occurrence", point.occurrence}});
    if (world_.child->WaitForEnd(absl::Seconds(2))) {
      EXPECT_TRUE(world_.child->was_killed()) << "it ended by itself";
      ++outcomes_[Outcome()];
      ASSERT_TRUE(world_.StartQuietly());
    } else {
      ++outcomes_["not reached"];
      ADD_FAILURE() << "the point was not reached this time";
    }
    scenario_->Repeat(world_);
    EXPECT_EQ(world_.answers.size(), expected_.size());
    for (const auto& [claim, answer] : world_.answers) {
      EXPECT_EQ(answer.devices, expected_[claim].devices);
      EXPECT_EQ(answer.cdi, expected_[claim].cdi);
    }
    Finish();
  }

  const NamedScenario& named_;
  const std::unique_ptr<Scenario> scenario_;
  World world_;
  const std::string name_;
  std::map<std::string, ClaimAnswer> expected_;
  std::map<std::string, int> outcomes_;
};

// Before a file operation the disk is as it was after the last change, which has a point of its own.
bool IsOneOfAPair(const std::string& label) {
  return absl::EndsWith(label, " before") && !absl::StartsWith(label, "hook ") &&
         !absl::StartsWith(label, "host ");
}

std::vector<Point> PointsOf(const PointCounts& counts, bool full) {
  std::vector<Point> points;
  for (const auto& [label, count] : counts) {
    if (!full && IsOneOfAPair(label)) continue;
    for (int i = 1; i <= count; ++i) points.push_back({label, i});
  }
  return points;
}

TEST_P(KillTest, LosesNothingAndHoldsNothingTwice) {
  ASSERT_TRUE(world_.StartQuietly());
  ASSERT_TRUE(world_.node.WaitForReady(world_.child.get())) << world_.node.LogTail();
  const PointCounts counts = CountPoints();
  ASSERT_FALSE(HasFailure()) << "without a kill already\n" << world_.node.LogTail();
  if (FromEnvironment("DRA_CRASH_UPDATE", 0) != 0) StorePoints(name_, counts);
  EXPECT_EQ(FindLostPoints(name_, counts), "");

  const std::vector<Point> all = PointsOf(counts, true);
  const std::vector<Point> points = PointsOf(counts, FromEnvironment("DRA_CRASH_FULL", 0) != 0);
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
    if (Scenarios()[i].without_undo) all.emplace_back(i, false);
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
