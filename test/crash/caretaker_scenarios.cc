#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "dra/base/ids.h"
#include "test/crash/scenario.h"

namespace dra::crash {
namespace {

bool FileSays(World& world, const std::string& path, const std::string& text) {
  const auto content = world.node.fs().ReadFile(path);
  return content.ok() && absl::StrContains(*content, text);
}

std::string RecordPath(World& world) {
  return world.node.DataPath(absl::StrCat("claims/", world.a.uid, ".json"));
}

void UnprepareA(World& world) {
  const absl::Status status = world.node.Unprepare(world.a);
  EXPECT_TRUE(status.ok()) << status;
}

// Nobody else gets a device of the claim under test: each has its hold. (A prepare of another claim would wait for it.)
void ExpectHeld(World& world) {
  int holds = 0;
  for (const absl::string_view file : absl::StrSplit(world.node.Leftovers(), ", ")) {
    if (absl::StrContains(file, "/held/") && absl::EndsWith(file, world.a.uid)) ++holds;
  }
  EXPECT_EQ(holds, 2) << world.node.Leftovers();
}

// A start whose backend has something to say about the claim under test, in every process from now on.
class Reconcile : public Scenario {
 public:
  explicit Reconcile(std::string verdict) : verdict_(std::move(verdict)) {}
  bool acts_by_starting() const override { return true; }
  void SetUp(World& world) override {
    PrepareBoth(world);
    world.child->Kill();
    world.verdicts = {{world.a.uid, verdict_}};
  }

 private:
  const std::string verdict_;
};

// The devices are fine, the containers need something else.
class ReconcileEdits final : public Reconcile {
 public:
  ReconcileEdits() : Reconcile("edits") {}
  void Repeat(World& world) override {
    // No call of the kubelet comes for a pod that runs.
    const auto renewed = [&] {
      return FileSays(world, world.node.CdiPath(world.a), "RECONCILED=1") &&
             FileSays(world, RecordPath(world), "RECONCILED=1");
    };
    EXPECT_TRUE(WaitFor(renewed)) << world.node.LogTail();
    PrepareAgain(world, "a", world.a);
    PrepareAgain(world, "b", world.b);
  }
};

// The cards have lost their settings.
class ReconcileRedo final : public Reconcile {
 public:
  ReconcileRedo() : Reconcile("redo") {}
  void SetUp(World& world) override {
    Reconcile::SetUp(world);
    world.node.ResetHardware();
  }
  void Repeat(World& world) override {
    const auto again = [&] {
      return FileSays(world, world.node.directory().Path("state/hardware.json"), "Long") &&
             FileSays(world, RecordPath(world), "\"prepared\"") &&
             world.node.fs().Stat(world.node.CdiPath(world.a), false).ok();
    };
    EXPECT_TRUE(WaitFor(again)) << world.node.LogTail();
    PrepareAgain(world, "a", world.a);
    PrepareAgain(world, "b", world.b);
  }
};

// A device is gone for good.
class ReconcileLost final : public Reconcile {
 public:
  ReconcileLost() : Reconcile("lost") {}
  void Repeat(World& world) override {
    const auto lost = [&] {
      return FileSays(world, RecordPath(world), "\"dirty\"") &&
             !world.node.fs().Stat(world.node.CdiPath(world.a), false).ok();
    };
    EXPECT_TRUE(WaitFor(lost)) << world.node.LogTail();
    ExpectHeld(world);
    UnprepareA(world);
    PrepareAgain(world, "b", world.b);
  }
};

// The claim is deleted and no call comes: the driver ends it by itself.
class OrphanRelease final : public Scenario {
 public:
  bool never_quiet() const override { return true; }
  void SetUp(World& world) override {
    if (!world.looks_for_orphans) {
      world.looks_for_orphans = true;
      EXPECT_TRUE(world.child->Stop());
      ASSERT_TRUE(world.StartQuietly());
      ASSERT_TRUE(world.node.WaitForReady(world.child.get())) << world.node.LogTail();
    }
    PrepareBoth(world);
  }
  void Act(World& world) override {
    world.node.DeleteClaim(world.a);
    EXPECT_TRUE(WaitFor([&] { return !world.child->running() || IsGone(world); }))
        << world.node.LogTail();
  }
  void Repeat(World& world) override {
    EXPECT_TRUE(world.node.WaitUntilGone(world.a)) << world.node.LogTail();
    const testing::KubeletClaim next =
        world.node.MakeClaim("next", world.node.Devices({0, 1}), true);
    PrepareAgain(world, "next", next);
    EXPECT_TRUE(world.node.Unprepare(next).ok());
    world.node.DeleteClaim(next);
    PrepareAgain(world, "b", world.b);
  }

 private:
  static bool IsGone(World& world) {
    return !absl::StrContains(world.node.Leftovers(), world.a.uid);
  }
};

// The record of a claim whose pod runs was lost: the start holds its devices again.
class LostRecord : public Scenario {
 public:
  bool acts_by_starting() const override { return true; }
  void SetUp(World& world) override {
    PrepareBoth(world);
    world.child->Kill();
    world.node.LoseRecord(world.a);
    world.node.KubeletKnows({world.a, world.b});
  }
  void Repeat(World& world) override {
    EXPECT_TRUE(WaitFor([&] { return FileSays(world, RecordPath(world), "\"dirty\""); }))
        << world.node.LogTail();
    EXPECT_TRUE(world.node.fs().Stat(world.node.CdiPath(world.a), false).ok()) << "the pod's file";
    ExpectHeld(world);
    GoOn(world);
    PrepareAgain(world, "b", world.b);
  }

 protected:
  virtual void GoOn(World& world) { UnprepareA(world); }
};

class LostRecordPrepare final : public LostRecord {
  void GoOn(World& world) override { PrepareAgain(world, "a", world.a); }
};

// A CDI file of a claim that neither the records nor the kubelet know.
class OrphanCdi final : public Scenario {
 public:
  bool acts_by_starting() const override { return true; }
  void SetUp(World& world) override {
    PrepareBoth(world);
    world.child->Kill();
    ghost_ = {"ns1", "ghost", NewUuid()};
    PosixFileSystem& fs = world.node.fs();
    const auto content = fs.ReadFile(world.node.CdiPath(world.a));
    ASSERT_TRUE(content.ok()) << content.status();
    ASSERT_TRUE(fs.CreateFile(world.node.CdiPath(ghost_),
                              absl::StrReplaceAll(*content, {{world.a.uid, ghost_.uid}}), 0644,
                              false)
                    .ok());
    world.node.KubeletKnows({world.a, world.b});
  }
  void Repeat(World& world) override {
    EXPECT_TRUE(world.node.WaitUntilGone(ghost_)) << world.node.LogTail();
    PrepareAgain(world, "a", world.a);
    PrepareAgain(world, "b", world.b);
  }

 private:
  testing::KubeletClaim ghost_;
};

// A start that finds the API without this node's slices.
class SlicesGone : public Scenario {
 public:
  bool acts_by_starting() const override { return true; }
  void SetUp(World& world) override {
    PrepareBoth(world);
    world.child->Kill();
    for (const Json& slice : world.node.api().store().All(kube::ResourceSlices()))
      world.node.api().store().Erase(kube::ResourceSlices(), "",
                                     StringOr(slice["metadata"], "name"));
  }
  void Repeat(World& world) override {
    EXPECT_TRUE(world.node.WaitForReady(world.child.get())) << world.node.LogTail();
    PrepareAgain(world, "a", world.a);
    PrepareAgain(world, "b", world.b);
  }
};

// A start that finds a slice which lacks a device, and another that offers the same devices once more.
class SlicesWrong final : public SlicesGone {
 public:
  void SetUp(World& world) override {
    PrepareBoth(world);
    world.child->Kill();
    for (Json slice : world.node.api().store().All(kube::ResourceSlices())) {
      Json twice = slice;
      twice["metadata"]["name"] = "twice";
      twice["metadata"].erase("uid");
      twice["metadata"].erase("resourceVersion");
      world.node.api().store().Put(std::move(twice));
      slice["spec"]["devices"].erase(0);
      world.node.api().store().Put(std::move(slice));
    }
  }
};

}  // namespace

std::vector<NamedScenario> CaretakerScenarios() {
  return {
      {"ReconcileEdits", Make<ReconcileEdits>}, {"ReconcileRedo", Make<ReconcileRedo>},
      {"ReconcileLost", Make<ReconcileLost>},   {"OrphanRelease", Make<OrphanRelease>},
      {"LostRecord", Make<LostRecord>},         {"LostRecordPrepare", Make<LostRecordPrepare>},
      {"OrphanCdi", Make<OrphanCdi>},           {"SlicesGone", Make<SlicesGone>},
      {"SlicesWrong", Make<SlicesWrong>},
  };
}

}  // namespace dra::crash
