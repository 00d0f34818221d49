// The process dies within the backend: between what it does to the hardware and what it tells the host.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "test/crash/kill_rig.h"

namespace dra::crash {
namespace {

// Where, as in the fake backend's control file.
struct Crash {
  std::string scenario;
  std::string hook;
  std::string at;
  int skip;
  std::string name;
};

const std::vector<Crash>& Crashes() {
  static const auto* const crashes = new std::vector<Crash>{
      {"Prepare", "prepare", "undoSaved", 0, "PrepareUndoSaved"},
      {"Prepare", "prepare", "configured", 0, "PrepareFirstCardSet"},
      {"Prepare", "prepare", "configured", 1, "PrepareSecondCardSet"},
      {"PrepareGone", "prepare", "undoSaved", 0, "PrepareGoneUndoSaved"},
      {"PrepareGone", "prepare", "configured", 0, "PrepareGoneFirstCardSet"},
      {"PrepareGone", "prepare", "configured", 1, "PrepareGoneSecondCardSet"},
      {"Unprepare", "unprepare", "configured", 0, "UnprepareCardsSetBack"},
  };
  return *crashes;
}

const NamedScenario& ScenarioOf(const Crash& crash) {
  for (const NamedScenario& scenario : Scenarios()) {
    if (scenario.name == crash.scenario) return scenario;
  }
  return Scenarios()[0];
}

class BackendCrash : public KillRig,
                     public ::testing::WithParamInterface<std::tuple<size_t, bool>> {
 protected:
  BackendCrash()
      : KillRig(ScenarioOf(Crashes()[std::get<0>(GetParam())]), std::get<1>(GetParam())) {}
};

TEST_P(BackendCrash, IsUndoneOrRepeatedByTheNextProcess) {
  const Crash& crash = Crashes()[std::get<0>(GetParam())];
  ASSERT_EQ(named_.name, crash.scenario);
  ASSERT_TRUE(world_.StartQuietly());
  ASSERT_TRUE(world_.node.WaitForReady(world_.child.get())) << world_.node.LogTail();
  CountPoints();
  ASSERT_FALSE(HasFailure()) << "without a crash already\n" << world_.node.LogTail();
  SetUpWorld();
  world_.node.Control({{"hooks",
                        {{crash.hook,
                          {{"id", NewUuid()},
                           {"claim", world_.a.uid},
                           {"at", crash.at},
                           {"skip", crash.skip},
                           {"times", 1},
                           {"crash", "kill"}}}}}});
  Act(Json());
  ASSERT_TRUE(world_.child->WaitForEnd(kPatience)) << "it went on";
  EXPECT_TRUE(world_.child->was_killed()) << "it ended by itself";
  std::cout << name_ << " " << crash.name << ": " << Outcome() << "\n";
  world_.node.Control(Json::object());
  ASSERT_TRUE(world_.StartQuietly());
  GoOn();
  if (HasFailure()) std::cout << world_.node.LogTail() << "\n";
}

INSTANTIATE_TEST_SUITE_P(Daemon, BackendCrash,
                         ::testing::Combine(::testing::Range(size_t{0}, Crashes().size()),
                                            ::testing::Bool()),
                         [](const ::testing::TestParamInfo<BackendCrash::ParamType>& run) {
                           return absl::StrCat(Crashes()[std::get<0>(run.param)].name,
                                               std::get<1>(run.param) ? "Undo" : "NoUndo");
                         });

}  // namespace
}  // namespace dra::crash
