// As kill_test.cc, with the NVIDIA backend on a simulated host: the driver is killed at every step of prepare and unprepare,
// the backend's own among them, and while it notes a fault. DRA_CRASH_FULL=1: all points of all scenarios.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "test/crash/kill_rig.h"
#include "test/crash/nvidia_scenarios.h"
#include "test/crash/simulated_gpus.h"

namespace dra::crash {
namespace {

// Which points a scenario is killed at.
enum class Which {
  kAll,
  kOwn,    // what the backend does, and one in 16 of what the core does around it
  kHooks,  // the same without the nodes it makes, which Prepare is killed at
  kNotes,  // those of the notes, and what leads to them
};

struct Case {
  std::string scenario;
  Which which;
  size_t least;                     // points that are killed at; fewer: they are not seen any more
  std::vector<std::string> passed;  // some of them
  friend void PrintTo(const Case& of, std::ostream* out) { *out << of.scenario; }
};

const std::vector<Case>& Cases() {
  static const auto* const cases = new std::vector<Case>{
      {"Prepare", Which::kAll, 40, {"hook prepare after", "host shared_file after"}},
      {"Unprepare", Which::kAll, 12, {"hook unprepare after"}},
      {"PrepareGone", Which::kOwn, 10, {"hook prepare after"}},
      {"PrepareReallocated", Which::kOwn, 10, {"hook unprepare after", "hook prepare after"}},
      {"PrepareOnWrongNodes", Which::kOwn, 6, {"hook prepare after"}},
      {"PrepareUpgraded", Which::kHooks, 8, {"hook prepare after"}},
      {"StartReboot", Which::kHooks, 10, {"hook reconcile_record after"}},
      {"FirstFault", Which::kNotes, 10, {"host note_put after"}},
      {"NextFault", Which::kNotes, 8, {"host note_put after"}},
  };
  return *cases;
}

bool IsOfTheBackend(const std::string& label, Which which) {
  if (absl::StartsWith(label, "hook ") || absl::StartsWith(label, "host ")) return true;
  return which == Which::kOwn &&
         (absl::StartsWith(label, "mknod ") || absl::StartsWith(label, "chmod "));
}

bool IsOfNotes(const std::string& label) {
  return absl::StrContains(label, "data/notes") || absl::StartsWith(label, "host ") ||
         absl::StartsWith(label, "hook health ");
}

std::vector<Point> Chosen(const PointCounts& counts, Which which) {
  constexpr int kOneIn = 16;
  std::vector<Point> points;
  int of_the_core = 0;
  for (const auto& [label, count] : counts) {
    if (which == Which::kNotes && !IsOfNotes(label)) continue;
    for (int i = 1; i <= count; ++i) {
      const bool thinned = which == Which::kOwn || which == Which::kHooks;
      if (thinned && !IsOfTheBackend(label, which) && of_the_core++ % kOneIn != 0) continue;
      points.push_back({label, i});
    }
  }
  return points;
}

// The host is made before the node, whose configuration names it.
class WithGpus {
 protected:
  SimulatedGpus gpus_;
};

NamedScenario Named(const std::string& name, SimulatedGpus* gpus) {
  for (NamedScenario& scenario : NvidiaScenarios(gpus)) {
    if (scenario.name == name) return std::move(scenario);
  }
  ADD_FAILURE() << "no scenario " << name;
  return {};
}

class NvidiaKillTest : public WithGpus, public KillRig, public ::testing::WithParamInterface<Case> {
 protected:
  NvidiaKillTest() : KillRig(Named(GetParam().scenario, &gpus_), gpus_.ToHardware()) {}
};

TEST_P(NvidiaKillTest, LosesNothingAndHoldsNothingTwice) {
  ASSERT_TRUE(world_.StartQuietly());
  ASSERT_TRUE(world_.node.WaitForReady(world_.child.get())) << world_.node.LogTail();
  const PointCounts counts = CountPoints();
  ASSERT_FALSE(HasFailure()) << "without a kill already\n" << world_.node.LogTail();
  const bool full = std::getenv("DRA_CRASH_FULL") != nullptr;
  const bool of_all = full && GetParam().which != Which::kNotes;
  std::vector<Point> points = Chosen(counts, of_all ? Which::kAll : GetParam().which);
  const size_t all = points.size();
  // Before a file operation all is as after the last one.
  if (!full) std::erase_if(points, [](const Point& point) { return IsOneOfAPair(point.label); });
  EXPECT_GE(points.size(), GetParam().least);
  for (const std::string& label : GetParam().passed)
    EXPECT_TRUE(counts.contains(label)) << "never at \"" << label << "\"";
  int killed = 0;
  for (const Point& point : points) {
    SCOPED_TRACE(absl::StrCat(name_, ": ", point.label, " #", point.occurrence));
    KillAt(point);
    ++killed;
    if (HasFailure()) {
      std::cout << world_.node.LogTail() << "\n";
      break;  // the node is no longer as the next point expects it
    }
  }
  std::cout << name_ << ": points killed: " << killed << " of " << all << ", outcomes:";
  for (const auto& [outcome, times] : outcomes_) std::cout << " " << outcome << " " << times << ";";
  std::cout << "\n";
}

INSTANTIATE_TEST_SUITE_P(Daemon, NvidiaKillTest, ::testing::ValuesIn(Cases()),
                         [](const auto& run) { return run.param.scenario; });

}  // namespace
}  // namespace dra::crash
