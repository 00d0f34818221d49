#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "test/crash/scenario.h"

namespace dra::crash {

void PrepareBoth(World& world) {
  ASSERT_TRUE(world.node.Prepare(world.a).ok()) << world.node.LogTail();
  ASSERT_TRUE(world.node.Prepare(world.b).ok()) << world.node.LogTail();
}

void PrepareAgain(World& world, const std::string& name, const testing::KubeletClaim& claim) {
  const absl::Status status = world.node.Prepare(claim, &world.answers[name]);
  EXPECT_TRUE(status.ok()) << "claim " << name << ": " << status;
}

namespace {

void Plant(World& world, const std::string& path, const std::string& content) {
  PosixFileSystem& fs = world.node.fs();
  ASSERT_TRUE(MakeDirectories(fs, DirectoryName(path), 0755).ok());
  const absl::Status written = fs.CreateFile(path, content, 0600, false);
  ASSERT_TRUE(written.ok()) << written;
}

class Prepare : public Scenario {
 public:
  void SetUp(World& world) override { ASSERT_TRUE(world.node.Prepare(world.b).ok()); }
  void Act(World& world) override { (void)world.node.PrepareOnce(world.a); }
  void Repeat(World& world) override {
    PrepareAgain(world, "a", world.a);
    PrepareAgain(world, "b", world.b);
  }
};

// The pod is deleted while the driver is away: the kubelet's next word is Unprepare.
class PrepareGone final : public Prepare {
 public:
  void Repeat(World& world) override {
    const absl::Status status = world.node.Unprepare(world.a);
    EXPECT_TRUE(status.ok()) << status;
    PrepareAgain(world, "b", world.b);
  }
};

class PrepareRepeated final : public Prepare {
 public:
  void SetUp(World& world) override { PrepareBoth(world); }
};

class PrepareCdiLost final : public Prepare {
 public:
  void SetUp(World& world) override {
    PrepareBoth(world);
    ASSERT_TRUE(world.node.fs().Remove(world.node.CdiPath(world.a)).ok());
  }
};

class PrepareReallocated final : public Prepare {
 public:
  void SetUp(World& world) override {
    PrepareBoth(world);
    world.node.Reallocate(world.a, world.node.Devices({3, 1}));
  }
};

// The backend fails after it has set a card: the way back is walked within the prepare.
class PrepareFails final : public Prepare {
 public:
  void SetUp(World& world) override {
    Prepare::SetUp(world);
    world.node.Control(
        {{"hooks",
          {{"prepare",
            {{"id", absl::StrCat(NewUuid())},
             {"claim", world.a.uid},
             {"at", "configured"},
             {"times", 1},
             {"fail", {{"code", "FAILED_PRECONDITION"}, {"message", "planted"}}}}}}}});
  }
  void Repeat(World& world) override {
    world.node.Control(Json::object());
    Prepare::Repeat(world);
  }
};

class Unprepare final : public Scenario {
 public:
  void SetUp(World& world) override { PrepareBoth(world); }
  void Act(World& world) override { (void)world.node.UnprepareOnce(world.a); }
  void Repeat(World& world) override {
    const absl::Status status = world.node.Unprepare(world.a);
    EXPECT_TRUE(status.ok()) << status;
    PrepareAgain(world, "b", world.b);
  }
};

// A start of the same boot: one CDI file was lost meanwhile.
class Start : public Scenario {
 public:
  bool acts_by_starting() const override { return true; }
  void SetUp(World& world) override {
    PrepareBoth(world);
    world.child->Kill();
    ASSERT_TRUE(world.node.fs().Remove(world.node.CdiPath(world.a)).ok());
  }
  void Repeat(World& world) override {
    PrepareAgain(world, "a", world.a);
    PrepareAgain(world, "b", world.b);
  }
};

// Power was lost, nothing else: hardware and tmpfs are empty, the boot has another id.
class StartReboot : public Start {
 public:
  void SetUp(World& world) override {
    PrepareBoth(world);
    world.child->Kill();
    world.node.LoseTmpfs();
    world.node.ResetHardware();
    ++world.boots;
  }
};

// After the reboot the pod of one claim is gone.
class RebootUnprepare final : public StartReboot {
 public:
  void Repeat(World& world) override {
    const absl::Status status = world.node.Unprepare(world.a);
    EXPECT_TRUE(status.ok()) << status;
    PrepareAgain(world, "b", world.b);
  }
};

// Files of ours that belong to nobody, beside those of prepared claims.
class Sweep final : public Start {
 public:
  void SetUp(World& world) override {
    PrepareBoth(world);
    world.child->Kill();
    CrashNode& node = world.node;
    const std::string uid = NewUuid();
    const std::string dead = NewUuid();
    const std::string key = Sha256Hex("nothing").substr(0, 32);
    Plant(world,
          node.directory().Path(
              absl::StrCat("cdi/.k8s.", kDriver, "-claim_", uid, ".json.abc123.tmp")),
          "{");
    Plant(world, node.DataPath(absl::StrCat("files/", uid, "/claim.json")), "{}");
    Plant(world, node.DataPath(absl::StrCat("claims/.", uid, ".json.abc123.tmp")), "half a rec");
    const std::string held = node.DataPath(absl::StrCat("held/", world.Options().boot_id));
    Plant(world, absl::StrCat(held, "/", key, "/", dead),
          absl::StrCat(R"({"key":"nothing","claim":{"namespace":"ns1","name":"dead","uid":")", dead,
                       R"("},"devices":[{"pool":"n1","device":"gpu-3","shape":""}]})"));
    Plant(world, absl::StrCat(held, "/", key, "/.", uid, ".abc123.tmp"), "{");
  }
};

// A rolling update: the newcomer starts beside the old instance, and dies on its way.
class HandOverNewcomerDies final : public Start {
 public:
  void SetUp(World& world) override {
    PrepareBoth(world);
    world.other = std::move(world.child);
  }
  void Repeat(World& world) override {
    // The old instance still serves whatever became of the newcomer, until it is told to end.
    EXPECT_TRUE(world.other->Stop());
    world.other = nullptr;
    Start::Repeat(world);
  }
};

// The newcomer serves, and the old instance dies on its way out.
class HandOverOldDies final : public Scenario {
 public:
  void SetUp(World& world) override {
    PrepareBoth(world);
    // It has been the newcomer of an earlier round, and its predecessor may have let it only just now.
    EXPECT_TRUE(WaitFor([&] { return IsOwner(world); })) << world.node.LogTail();
  }
  void Act(World& world) override {
    StartOptions options = world.Options();
    options.clock_ahead_seconds = 0;
    world.other = world.node.StartChild(options);
    ASSERT_NE(world.other, nullptr);
    // The old one may die at what it does when the newcomer asks it to let it publish.
    const auto ready = [&] {
      return world.node.WaitForReady(world.other.get(), world.child->running() ? 2 : 1,
                                     absl::Milliseconds(200));
    };
    EXPECT_TRUE(WaitFor(ready)) << world.node.LogTail();
    // To the newcomer, which registered last.
    EXPECT_TRUE(world.node.UnprepareOnce(world.a).ok());
    (void)world.child->Ask({{"do", "halt"}});
  }
  void Repeat(World& world) override {
    world.child = std::move(world.other);
    PrepareAgain(world, "a", world.a);
    PrepareAgain(world, "b", world.b);
  }

 private:
  static bool IsOwner(World& world) {
    const std::optional<Json> status = world.child->Ask({{"do", "status"}});
    return status.has_value() && BoolOr((*status)["drivers"][0]["publication"], "owner");
  }
};

// The kubelet started the container anew in the same pod: the sockets have the names of those that the dead process left.
class StartSamePod final : public Start {
 public:
  void SetUp(World& world) override {
    if (world.pod_uid.empty()) {
      world.pod_uid = NewUuid();
      EXPECT_TRUE(world.child->Stop());
      ASSERT_TRUE(world.StartQuietly());
      ASSERT_TRUE(world.node.WaitForReady(world.child.get())) << world.node.LogTail();
    }
    Start::SetUp(world);
  }
};

}  // namespace

StartOptions World::Options() const {
  StartOptions options;
  options.pod_uid = pod_uid.empty() ? NewUuid() : pod_uid;
  options.verdicts = verdicts;
  options.looks_for_orphans = looks_for_orphans;
  // Beside another instance, what was written just now is not left over.
  if (other != nullptr) options.clock_ahead_seconds = 0;
  // It sweeps all the time, and must not take what it writes itself for old.
  if (looks_for_orphans) options.clock_ahead_seconds = 0;
  options.boot_id = absl::StrCat("11111111-0000-4000-8000-0000000", 10000 + boots);
  return options;
}

bool World::StartQuietly() {
  child = node.StartChild(Options());
  return child != nullptr;
}

const std::vector<NamedScenario>& Scenarios() {
  static const auto* const scenarios = [] {
    auto* all = new std::vector<NamedScenario>(CallScenarios());
    for (const NamedScenario& scenario : CaretakerScenarios()) all->push_back(scenario);
    return all;
  }();
  return *scenarios;
}

std::vector<NamedScenario> CallScenarios() {
  return {
      {"Prepare", Make<Prepare>},
      {"PrepareGone", Make<PrepareGone>},
      {"PrepareRepeated", Make<PrepareRepeated>},
      {"PrepareCdiLost", Make<PrepareCdiLost>},
      {"PrepareReallocated", Make<PrepareReallocated>},
      {"PrepareFails", Make<PrepareFails>},
      {"Unprepare", Make<Unprepare>},
      {"Start", Make<Start>},
      {"StartSamePod", Make<StartSamePod>},
      {"StartReboot", Make<StartReboot>},
      {"RebootUnprepare", Make<RebootUnprepare>},
      {"Sweep", Make<Sweep>},
      {"HandOverNewcomerDies", Make<HandOverNewcomerDies>},
      {"HandOverOldDies", Make<HandOverOldDies>},
  };
}

}  // namespace dra::crash
