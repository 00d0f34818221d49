#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dra/testing/kubelet_double.h"
#include "test/crash/child.h"
#include "test/crash/crash_node.h"

namespace dra::crash {

// One node on which a scenario is played again and again, killed at another point each time.
struct World {
  explicit World(bool undo) : keeps_undo(undo), node(undo) {}
  explicit World(Hardware hardware) : keeps_undo(false), node(std::move(hardware)) {}

  const bool keeps_undo;
  CrashNode node;
  std::unique_ptr<Child> child;  // the process that is killed, and the one after it
  std::unique_ptr<Child> other;  // the other instance of a hand-over
  int boots = 1;
  std::string pod_uid;                          // of every process; "": each has its own
  std::map<std::string, std::string> verdicts;  // see StartOptions, of the next processes
  bool looks_for_orphans = false;
  testing::KubeletClaim a;  // the claim under test: devices 0 and 1, with a configuration
  testing::KubeletClaim b;  // a bystander on device 2, prepared before
  std::map<std::string, ClaimAnswer> answers;  // what the kubelet was told in the end

  StartOptions Options() const;
  // A new process that is not killed.
  bool StartQuietly();
};

// What is done to a node while it is killed. The functions fail the running test where something is wrong that no kill
// can excuse.
class Scenario {
 public:
  virtual ~Scenario() = default;
  // From a clean node with a running process to the moment before the act. Both claims exist already.
  virtual void SetUp(World& world) = 0;
  // True: the act is the start of a process, which SetUp has stopped.
  virtual bool acts_by_starting() const { return false; }
  // True: processes pass points of their own accord all the time. Then reading operations are no points.
  virtual bool never_quiet() const { return false; }
  // The call under test, if it is one. The process may die in the middle.
  virtual void Act(World&) {}
  // What the kubelet does afterwards; a new process runs. Fills `answers`.
  virtual void Repeat(World& world) = 0;
};

template <typename T>
std::unique_ptr<Scenario> Make() {
  return std::make_unique<T>();
}

// Each is played for a backend that keeps undo data, and for one that keeps none.
struct NamedScenario {
  std::string name;
  std::function<std::unique_ptr<Scenario>()> make;
};
const std::vector<NamedScenario>& Scenarios();
std::vector<NamedScenario> CallScenarios();       // calls and starts
std::vector<NamedScenario> CaretakerScenarios();  // what the driver does beyond the kubelet's calls

// Steps of scenarios.
void PrepareBoth(World& world);
// Until it is done; what the kubelet was told goes to world.answers[name].
void PrepareAgain(World& world, const std::string& name, const testing::KubeletClaim& claim);

}  // namespace dra::crash
