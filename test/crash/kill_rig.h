#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "dra/base/json.h"
#include "test/crash/points_file.h"
#include "test/crash/scenario.h"

namespace dra::crash {

struct Point {
  std::string label;
  int occurrence = 0;
};

// Is done once for all who asked meanwhile: how often depends on who is first. One pass is certain, the further ones are
// points that may not be reached.
bool Coalesces(const std::string& label);
// Before a file operation or a request all is as it was after the last change, which has a point of its own. How often a
// process reads depends on what else happens meanwhile, so such a point may not be reached.
bool IsOneOfAPair(const std::string& label);

// Plays one scenario again and again on one node. The functions fail the running test.
class KillRig : public ::testing::Test {
 protected:
  // With the fake backend.
  KillRig(const NamedScenario& scenario, bool undo);
  KillRig(NamedScenario scenario, Hardware hardware);

  void SetUpWorld();
  // The act, up to its end or the death of the process. arm: a command of crash_daemon; null: none.
  void Act(const Json& arm);
  // Everything is given back, and can be had by another claim.
  void Finish();
  // What stands on disk of the claim under test when the process is dead.
  std::string Outcome();
  // Plays it without a kill: the points, and what the kubelet is told.
  PointCounts CountPoints();
  // Plays it, and the process dies at the point.
  void KillAt(const Point& point);
  // False if it did not come to the point this time.
  bool TryKillAt(const Point& point);
  void AfterTheKill();
  // The process has died, or was not to: the next one goes on, and all ends as without a death.
  void GoOn();

  const NamedScenario named_;
  const std::unique_ptr<Scenario> scenario_;
  World world_;
  const std::string name_;
  std::map<std::string, ClaimAnswer> expected_;
  std::map<std::string, int> outcomes_;

 private:
  // Until the process is dead, or passes no more points; one that starts must be ready too.
  void WaitForQuiet();
};

}  // namespace dra::crash
