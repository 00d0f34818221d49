#include "test/crash/nvidia_scenarios.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dra::crash {
namespace {

std::unique_ptr<Scenario> MakeByName(const std::string& name) {
  for (const NamedScenario& scenario : CallScenarios()) {
    if (scenario.name == name) return scenario.make();
  }
  ADD_FAILURE() << "no scenario " << name;
  return nullptr;
}

// A scenario of every backend.
class OnGpus : public Scenario {
 public:
  // places: devices of the claim under test in the end.
  OnGpus(const std::string& name, SimulatedGpus* gpus, std::vector<size_t> places = {0, 1})
      : inner_(MakeByName(name)), gpus_(gpus), places_(std::move(places)) {}
  bool acts_by_starting() const override { return inner_->acts_by_starting(); }
  void SetUp(World& world) override { inner_->SetUp(world); }
  void Act(World& world) override { inner_->Act(world); }
  void Repeat(World& world) override {
    inner_->Repeat(world);
    Check(world, "a", world.a, places_, kNewDriver);
    Contend(world);
    Check(world, "b", world.b, {2}, kNewDriver);
  }

 protected:
  SimulatedGpus& gpus() { return *gpus_; }

  void Check(World& world, const std::string& name, const testing::KubeletClaim& claim,
             const std::vector<size_t>& places, const char* driver) {
    if (!world.answers.contains(name)) return;  // it was to end
    EXPECT_EQ(gpus_->CheckCdi(world.node, claim, world.node.Devices(places), driver), "");
  }

 private:
  // Another claim for a device of the claim under test comes while that has it, if it does.
  void Contend(World& world) {
    const std::vector<std::string> contested = world.node.Devices({places_[0]});
    const bool stands = world.answers.contains("a");
    const testing::KubeletClaim second = world.node.MakeClaim("second", contested, false);
    std::atomic<bool> done = false;
    absl::Status taken;
    std::jthread other([&] {
      taken = world.node.Prepare(second);
      done = true;
    });
    testing::RequestMatcher read;
    read.verb = "get";
    read.resource = "resourceclaims";
    read.name = second.name;
    const int reads = reads_of_second_;
    EXPECT_TRUE(WaitFor([&] { return world.node.api().traffic().Count(read) > reads; }));
    if (stands) {
      // It waits for the claim under test, and its neighbours do not wait for it.
      PrepareAgain(world, "b", world.b);
      EXPECT_FALSE(done) << "two claims have one card: " << taken;
      const absl::Status ended = world.node.Unprepare(world.a);
      EXPECT_TRUE(ended.ok()) << ended;
    }
    other.join();
    reads_of_second_ = world.node.api().traffic().Count(read);
    EXPECT_TRUE(taken.ok()) << taken;
    EXPECT_EQ(gpus_->CheckCdi(world.node, second, contested, kNewDriver), "");
    const absl::Status ended = world.node.Unprepare(second);
    EXPECT_TRUE(ended.ok()) << ended;
    world.node.DeleteClaim(second);
  }

  const std::unique_ptr<Scenario> inner_;
  SimulatedGpus* const gpus_;
  const std::vector<size_t> places_;
  int reads_of_second_ = 0;
};

// The driver made no nodes, or they are gone: the backend makes them.
class WithoutNodes : public OnGpus {
 public:
  using OnGpus::OnGpus;
  void SetUp(World& world) override {
    OnGpus::SetUp(world);
    gpus().RemoveNodes(world.node.Devices({2})[0]);
  }
};

// In place of the nodes lies what an earlier driver, somebody's hand and a process that died have left.
class WrongNodes final : public WithoutNodes {
 public:
  explicit WrongNodes(SimulatedGpus* gpus) : WithoutNodes("Prepare", gpus) {}
  void SetUp(World& world) override {
    WithoutNodes::SetUp(world);
    // The bystander is prepared anew: what it was given before is no device any more.
    EXPECT_TRUE(world.node.Unprepare(world.b).ok());
    gpus().PlantNode("nvidiactl", SimulatedGpus::Wrong::kPlainFile);
    gpus().PlantNode(gpus().NodeOf(world.node.Devices({0})[0]), SimulatedGpus::Wrong::kHalfMade);
    gpus().PlantNode(gpus().NodeOf(world.node.Devices({1})[0]), SimulatedGpus::Wrong::kNumbers);
    EXPECT_TRUE(world.node.Prepare(world.b).ok());
  }
};

// Another version of NVIDIA's driver is installed underneath, and the next claim is prepared. A claim that stands keeps
// the files that its containers have.
class Upgraded final : public OnGpus {
 public:
  explicit Upgraded(SimulatedGpus* gpus) : OnGpus("Prepare", gpus) {}
  void SetUp(World& world) override {
    world.child->Kill();
    gpus().Upgrade(kOldDriver);
    ASSERT_TRUE(world.StartQuietly());
    ASSERT_TRUE(world.node.WaitForReady(world.child.get())) << world.node.LogTail();
    OnGpus::SetUp(world);
    gpus().Upgrade(kNewDriver);
  }
  void Repeat(World& world) override {
    PrepareAgain(world, "a", world.a);
    PrepareAgain(world, "b", world.b);
    // What is held gets the new driver's files too, when the backend has started anew.
    if (world.answers.contains("b")) {
      EXPECT_TRUE(WaitFor([&] {
        return gpus().CheckCdi(world.node, world.b, world.node.Devices({2}), kNewDriver).empty();
      })) << world.node.LogTail();
    }
    const absl::Status ended = world.node.Unprepare(world.b);
    EXPECT_TRUE(ended.ok()) << ended;
    OnGpus::Repeat(world);
  }
};

// The boot gives the cards other minors.
class SlidMinors final : public OnGpus {
 public:
  explicit SlidMinors(SimulatedGpus* gpus) : OnGpus("StartReboot", gpus) {}
  void SetUp(World& world) override {
    gpus().SetMinors("0,1,2");
    OnGpus::SetUp(world);
    gpus().SetMinors("2,0,1");
    gpus().Reboot();
    gpus().RemoveNodes("");
  }
};

// The XID is over at once; the core remembers it, and the backend notes what it waits for.
class Fault final : public Scenario {
 public:
  Fault(SimulatedGpus* gpus, bool is_next) : gpus_(gpus), is_next_(is_next) {}

  void SetUp(World& world) override {
    // A card that falls sick again soon would have to be well for a while.
    world.child->Kill();
    ASSERT_TRUE(RemoveTree(world.node.fs(), world.node.DataPath("notes")).ok());
    gpus_->Set("--gpu 0 --reset");
    ASSERT_TRUE(world.StartQuietly());
    ASSERT_TRUE(world.node.WaitForReady(world.child.get())) << world.node.LogTail();
    ASSERT_TRUE(WaitForHealth(world, 0, testing::KubeletHealth::kHealthy));
    if (!is_next_) return;
    gpus_->Set("--gpu 0 --xid 48");
    ASSERT_TRUE(WaitFor([&] { return IsNoted(world); })) << world.node.LogTail();
    ASSERT_TRUE(WaitFor([&] { return IsTainted(world); })) << world.node.LogTail();
  }
  void Act(World& world) override {
    if (is_next_) {
      gpus_->Set("--gpu 0 --ecc 1");
    } else {
      gpus_->Set("--gpu 0 --xid 48");
    }
    const auto done = [&] {
      return !world.child->running() ||
             (IsNoted(world) && IsTainted(world) &&
              (!is_next_ || NoteSays(world, "backend", R"("uncorrected":1)")));
    };
    EXPECT_TRUE(WaitFor(done)) << world.node.LogTail();
  }
  void Repeat(World& world) override {
    ASSERT_TRUE(world.node.WaitForReady(world.child.get())) << world.node.LogTail();
    const bool stands = NoteSays(world, "host", kFaultClass);
    EXPECT_TRUE(stands || !is_next_) << "the core's note is gone";
    // The cards are looked at together: what the sick one reports is known as well then.
    EXPECT_TRUE(WaitForHealth(world, 2, testing::KubeletHealth::kHealthy));
    EXPECT_TRUE(WaitForHealth(
        world, 0, stands ? testing::KubeletHealth::kUnhealthy : testing::KubeletHealth::kHealthy));
    EXPECT_TRUE(WaitFor([&] { return IsTainted(world) == stands; })) << world.node.LogTail();
    // A card is reset by a new boot. Without the backend's note only an operator can say so.
    const bool ends = !stands || NoteSays(world, "backend", kClearsWith);
    EXPECT_TRUE(ends || !is_next_) << "the backend's note is gone";
    world.child->Kill();
    gpus_->Reboot();
    ++world.boots;
    ASSERT_TRUE(world.StartQuietly());
    ASSERT_TRUE(world.node.WaitForReady(world.child.get())) << world.node.LogTail();
    EXPECT_TRUE(WaitForHealth(
        world, 0, ends ? testing::KubeletHealth::kHealthy : testing::KubeletHealth::kUnhealthy))
        << world.node.LogTail();
    EXPECT_TRUE(WaitFor([&] { return IsTainted(world) == !ends; })) << world.node.LogTail();
  }

 private:
  static constexpr char kFaultClass[] = "ecc-uncorrectable";
  static constexpr char kClearsWith[] = "gpu-reset";

  static bool WaitForHealth(World& world, size_t place, testing::KubeletHealth health) {
    return world.node.kubelet().WaitForHealth(kDriver, kNode, world.node.Devices({place})[0],
                                              health, kPatience);
  }
  static bool IsTainted(World& world) {
    const std::string name = world.node.Devices({0})[0];
    for (const Json& slice : world.node.api().store().All(kube::ResourceSlices())) {
      for (const Json& device : slice["spec"].value("devices", Json::array())) {
        if (StringOr(device, "name") == name && !device.value("taints", Json::array()).empty())
          return true;
      }
    }
    return false;
  }
  // Whether a note of the core ("host") or of the backend says this. There are no others than those of the fault.
  static bool NoteSays(World& world, const std::string& owner, const std::string& text) {
    PosixFileSystem& fs = world.node.fs();
    const std::string notes = world.node.DataPath(absl::StrCat("notes/", owner));
    for (const std::string& identity : fs.List(notes).value_or(std::vector<std::string>())) {
      const std::string directory = JoinPath(notes, identity);
      for (const std::string& name : fs.List(directory).value_or(std::vector<std::string>())) {
        if (IsTemporaryName(name)) continue;
        const auto content = fs.ReadFile(JoinPath(directory, name));
        const auto note = ParseJson(content.value_or(""), name).value_or(Json());
        std::string value;
        if (absl::Base64Unescape(StringOr(note, "value"), &value) && absl::StrContains(value, text))
          return true;
      }
    }
    return false;
  }
  static bool IsNoted(World& world) {
    return NoteSays(world, "host", kFaultClass) && NoteSays(world, "backend", kClearsWith);
  }

  SimulatedGpus* const gpus_;
  const bool is_next_;
};

}  // namespace

std::vector<NamedScenario> NvidiaScenarios(SimulatedGpus* gpus) {
  std::vector<NamedScenario> scenarios;
  for (const char* name : {"Prepare", "PrepareGone"})
    scenarios.push_back({name, [=] { return std::make_unique<WithoutNodes>(name, gpus); }});
  scenarios.push_back({"Unprepare", [=] { return std::make_unique<OnGpus>("Unprepare", gpus); }});
  scenarios.push_back({"PrepareReallocated", [=] {
                         return std::make_unique<WithoutNodes>("PrepareReallocated", gpus,
                                                               std::vector<size_t>{3, 1});
                       }});
  scenarios.push_back({"PrepareOnWrongNodes", [=] { return std::make_unique<WrongNodes>(gpus); }});
  scenarios.push_back({"PrepareUpgraded", [=] { return std::make_unique<Upgraded>(gpus); }});
  scenarios.push_back({"StartReboot", [=] { return std::make_unique<SlidMinors>(gpus); }});
  scenarios.push_back({"FirstFault", [=] { return std::make_unique<Fault>(gpus, false); }});
  scenarios.push_back({"NextFault", [=] { return std::make_unique<Fault>(gpus, true); }});
  return scenarios;
}

}  // namespace dra::crash
