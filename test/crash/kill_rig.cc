#include "test/crash/kill_rig.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace dra::crash {
namespace {

constexpr char kNextSweep[] = "left to the next sweep";
constexpr absl::Duration kSweepPatience = absl::Seconds(2);

}  // namespace

bool Coalesces(const std::string& label) {
  // An event, a status or a hint is sent beside the operation, and with others; a watch is opened again when it ends.
  return absl::StartsWith(label, "host health_changed ") ||
         absl::StartsWith(label, "host inventory_changed ") ||
         absl::StartsWith(label, "hook discover ") || absl::StartsWith(label, "api watch ") ||
         absl::StartsWith(label, "api list ") || absl::StartsWith(label, "api apply ") ||
         absl::StartsWith(label, "api get nodes ") || absl::StrContains(label, " events ");
}

bool IsOneOfAPair(const std::string& label) {
  return absl::EndsWith(label, " before") && !absl::StartsWith(label, "hook ") &&
         !absl::StartsWith(label, "host ");
}

KillRig::KillRig(const NamedScenario& scenario, bool undo)
    : named_(scenario),
      scenario_(named_.make()),
      world_(undo),
      name_(absl::StrCat(named_.name, undo ? "/undo" : "/no-undo")) {}

KillRig::KillRig(NamedScenario scenario, Hardware hardware)
    : named_(std::move(scenario)),
      scenario_(named_.make()),
      world_(std::move(hardware)),
      name_(named_.name) {}

void KillRig::SetUpWorld() {
  world_.answers.clear();
  world_.a = world_.node.MakeClaim("a", world_.node.Devices({0, 1}), true);
  world_.b = world_.node.MakeClaim("b", world_.node.Devices({2}), false);
  scenario_->SetUp(world_);
}

void KillRig::Act(const Json& arm) {
  if (!scenario_->acts_by_starting()) {
    if (!arm.is_null()) {
      ASSERT_TRUE(world_.child->Ask(arm).has_value());
    }
    scenario_->Act(world_);
    return;
  }
  StartOptions options = world_.Options();
  options.arm = arm;
  world_.child = world_.node.StartChild(options);
  ASSERT_NE(world_.child, nullptr);
  WaitForQuiet();
}

void KillRig::WaitForQuiet() {
  const absl::Time limit = absl::Now() + kPatience;
  std::map<std::string, int> before;
  absl::Time changed = absl::Now();
  while (absl::Now() < limit && world_.child->running()) {
    const std::map<std::string, int> now = world_.child->Counts();
    if (now != before) changed = absl::Now();
    before = now;
    const std::optional<Json> status = world_.child->Ask({{"do", "status"}});
    // Only a start is to end ready: another act may be the end of the process's work.
    const bool ready =
        !scenario_->acts_by_starting() || (status.has_value() && BoolOr(*status, "ready"));
    if (ready && absl::Now() - changed > absl::Milliseconds(300)) return;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

void KillRig::Finish() {
  CrashNode& node = world_.node;
  EXPECT_TRUE(node.Unprepare(world_.a).ok());
  EXPECT_TRUE(node.Unprepare(world_.b).ok());
  node.DeleteClaim(world_.a);
  node.DeleteClaim(world_.b);
  const testing::KubeletClaim other = node.MakeClaim("other", node.Devices({0, 1, 2, 3}), false);
  const absl::Status taken = node.Prepare(other);
  EXPECT_TRUE(taken.ok()) << "a device is lost: " << taken;
  EXPECT_TRUE(node.Unprepare(other).ok());
  node.DeleteClaim(other);
  EXPECT_TRUE(node.WaitForReady(world_.child.get())) << node.Describe(world_.child.get());
  EXPECT_EQ(node.CheckHardware(), "");
  EXPECT_EQ(node.CheckHooks(), "");
  // Where files stay each time, there is nothing to wait for.
  const absl::Duration patience =
      outcomes_.contains(kNextSweep) ? absl::Milliseconds(50) : kSweepPatience;
  if (!node.WaitForNoLeftovers(patience).empty()) {
    // The sweep at the start leaves what belongs to a claim that is being prepared just then to the next sweep.
    world_.child->Kill();
    ASSERT_TRUE(world_.StartQuietly());
    ASSERT_TRUE(node.WaitForReady(world_.child.get())) << node.Describe(world_.child.get());
    ++outcomes_[kNextSweep];
    EXPECT_EQ(node.WaitForNoLeftovers(kSweepPatience), "");
  }
  node.ForgetHooks();
}

std::string KillRig::Outcome() {
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

PointCounts KillRig::CountPoints() {
  // Once without looking: what is made by the first use of a node is no part of the scenario.
  SetUpWorld();
  if (HasFatalFailure()) return {};
  Act({{"do", "arm"}});
  scenario_->Repeat(world_);
  Finish();
  SetUpWorld();
  if (HasFatalFailure()) return {};
  // What is left to be sent of the work before is not of the scenario.
  if (!scenario_->acts_by_starting() && !scenario_->never_quiet()) WaitForQuiet();
  Act({{"do", "arm"}});
  // What is sent beside the operation comes after its end.
  if (!scenario_->never_quiet()) WaitForQuiet();
  const PointCounts counts = world_.child->Counts();
  scenario_->Repeat(world_);
  expected_ = world_.answers;
  Finish();
  return counts;
}

void KillRig::KillAt(const Point& point) {
  // What else the process does meanwhile, on a busy machine above all, decides how often it comes to a point.
  constexpr int kAttempts = 3;
  const bool certain = !Coalesces(point.label) && !IsOneOfAPair(point.label);
  for (int attempt = 1; !TryKillAt(point); ++attempt) {
    if (HasFailure()) return;
    ++outcomes_["not reached"];
    if (!certain) return;
    if (attempt == kAttempts) {
      ADD_FAILURE() << "the point was not reached in " << kAttempts << " runs";
      return;
    }
  }
}

bool KillRig::TryKillAt(const Point& point) {
  SetUpWorld();
  if (HasFatalFailure()) return false;
  Act({{"do", "arm"}, {"label", point.label}, {"occurrence", point.occurrence}});
  // One that lives on must not die at the point later.
  const bool reached = world_.child->WaitForEnd(absl::Seconds(2)) || !world_.child->Arm();
  if (reached) AfterTheKill();
  if (!HasFatalFailure()) GoOn();
  return reached;
}

void KillRig::AfterTheKill() {
  ASSERT_TRUE(world_.child->WaitForEnd(kPatience));
  EXPECT_TRUE(world_.child->was_killed()) << "it ended by itself";
  ++outcomes_[Outcome()];
  ASSERT_TRUE(world_.StartQuietly());
}

void KillRig::GoOn() {
  scenario_->Repeat(world_);
  EXPECT_EQ(world_.answers.size(), expected_.size());
  for (const auto& [claim, answer] : world_.answers) {
    EXPECT_EQ(answer.devices, expected_[claim].devices);
    EXPECT_EQ(answer.cdi, expected_[claim].cdi);
  }
  Finish();
}

}  // namespace dra::crash
