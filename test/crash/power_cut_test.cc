// The power goes at every file operation of each scenario, the disk is found in several of the states it may be in, the
// node boots, and the kubelet goes on. DRA_CRASH_STATES: states for each cut; DRA_CRASH_SEED: the first seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "dra/base/json.h"
#include "dra/records/notes.h"
#include "test/claims/claims_rig.h"
#include "test/crash/power_cut_file_system.h"
#include "test/crash/power_cut_node.h"

namespace dra::crash {
namespace {

// What the kubelet was told before the power went.
enum class Told { kNothing, kPrepared, kUnprepared };

struct Play {
  Node* node;
  claims::FakeClaims* claims;
  Told told = Told::kNothing;

  bool Prepare() {
    const bool ok = node->Prepare("A").ok();
    // What ends after the cut has told nobody anything.
    if (ok && !node->disk().cut()) told = Told::kPrepared;
    return ok;
  }
  bool Unprepare() {
    // From here on the record may be there or not.
    if (!node->disk().cut()) told = Told::kNothing;
    const bool ok = node->Unprepare("A").ok();
    if (ok && !node->disk().cut()) told = Told::kUnprepared;
    return ok;
  }
};

Json Config() {
  return Json::array(
      {{{"source", "FromClaim"},
        {"requests", Json::array()},
        {"opaque",
         {{"driver", claims::kDriver}, {"parameters", {{"apiVersion", "x/v1"}, {"kind", "C"}}}}}}});
}

void Allocate(claims::FakeClaims* claims, const std::string& uid,
              const std::vector<std::string>& devices, bool config) {
  std::vector<Json> results;
  for (size_t i = 0; i < devices.size(); ++i)
    results.push_back(claims::Result(devices[i], absl::StrCat("r", i)));
  claims->Put(
      claims::ClaimObject(claims::Identity(uid), results, config ? Config() : Json::array()));
}

int FromEnvironment(const char* name, int fallback) {
  const char* value = std::getenv(name);
  int number = 0;
  return value != nullptr && absl::SimpleAtoi(value, &number) ? number : fallback;
}

class PowerCut : public ::testing::Test {
 protected:
  PowerCut() {
    // The lock file is a real one: it carries no content that a cut could lose.
    PosixFileSystem fs;
    EXPECT_TRUE(fs.MakeDirectory(directory_.Path("data"), 0700).ok());
  }

  std::unique_ptr<Node> Boot(std::unique_ptr<PowerCutFileSystem> disk) {
    return std::make_unique<Node>(std::move(disk), directory_.path(),
                                  absl::StrCat("boot-", ++boots_), &claims_);
  }
  std::unique_ptr<PowerCutFileSystem> NewDisk() {
    auto disk = std::make_unique<PowerCutFileSystem>(directory_.path(), directory_.Path("cdi"));
    // The kubelet made the plugin directory long ago.
    EXPECT_TRUE(disk->MakeDirectory(directory_.Path("data"), 0700).ok());
    EXPECT_TRUE(disk->SyncDirectory(directory_.path()).ok());
    return disk;
  }

  // Plays `scenario` with a cut at each of its operations.
  void CutEverywhere(const std::string& name, const std::function<void(Play&)>& scenario) {
    const int states = FromEnvironment("DRA_CRASH_STATES", 3);
    const uint32_t seed = static_cast<uint32_t>(FromEnvironment("DRA_CRASH_SEED", 1));
    int cuts = 0;
    int found = 0;
    std::map<std::string, int> outcomes;
    for (int n = 1;; ++n) {
      Allocate(&claims_, "A", {"d0", "d1"}, true);
      std::unique_ptr<Node> node = Boot(NewDisk());
      ASSERT_TRUE(node->start_error().ok()) << node->start_error();
      node->AfterStart();
      node->disk().CutAt(n);
      Play play{node.get(), &claims_};
      scenario(play);
      const bool reached = node->disk().cut();
      ++cuts;
      for (int state = 0; state < states; ++state) {
        Survival survival;
        survival.kind = state == 0             ? Survival::kAll
                        : state == 1           ? Survival::kNone
                        : (n + state) % 2 == 0 ? Survival::kPrefix
                                               : Survival::kRandom;
        survival.seed = seed + static_cast<uint32_t>(n * 1000 + state);
        for (const bool hardware_survives : {true, false}) {
          for (const bool pod_exists : {true, false}) {
            SCOPED_TRACE(absl::StrCat(name, ", power gone before operation ", n, ", state ", state,
                                      hardware_survives ? ", hardware kept" : ", hardware reset",
                                      pod_exists ? ", pod exists" : ", pod gone"));
            GoOn(*node, play.told, survival, hardware_survives, pod_exists, &outcomes);
            ++found;
            if (HasFailure()) return;
          }
        }
      }
      if (!reached) break;  // the scenario was played to its end
    }
    std::cout << name << ": cuts " << cuts << ", states " << found << ", found:";
    for (const auto& [outcome, times] : outcomes)
      std::cout << " " << outcome << " " << times << ";";
    std::cout << "\n";
  }

  // The node comes back.
  void GoOn(Node& before, Told told, const Survival& survival, bool hardware_survives,
            bool pod_exists, std::map<std::string, int>* outcomes) {
    std::unique_ptr<Node> node = Boot(before.disk().AfterCut(survival));
    ASSERT_TRUE(node->start_error().ok()) << node->start_error();
    if (hardware_survives) node->hardware().Restore(before.hardware().owners());
    ++(*outcomes)[node->Phase("A")];
    if (told == Told::kPrepared) {
      EXPECT_EQ(node->Phase("A"), "prepared") << "the kubelet was told that it is";
    }
    node->AfterStart();
    // A claim that the kubelet knows to be unprepared is not asked for again by it; the API server's word ends it.
    const bool repeats = pod_exists && told != Told::kUnprepared;
    if (repeats) {
      const absl::Status prepared = node->Prepare("A");
      EXPECT_TRUE(prepared.ok()) << prepared;
      EXPECT_TRUE(node->disk().Stat(CdiPath("A"), false).ok()) << "no CDI file";
    }
    const absl::Status unprepared = node->Unprepare("A");
    EXPECT_TRUE(unprepared.ok()) << unprepared;
    EXPECT_TRUE(node->hardware().owners().empty()) << "undo data was lost";
    Allocate(&claims_, "B", {"d0", "d1", "d2"}, false);
    const absl::Status taken = node->Prepare("B");
    EXPECT_TRUE(taken.ok()) << "a device is lost: " << taken;
    EXPECT_TRUE(node->Unprepare("B").ok());
    EXPECT_EQ(node->Leftovers(), "");
  }

  std::string CdiPath(const std::string& uid) const {
    return directory_.Path(absl::StrCat("cdi/k8s.", claims::kDriver, "-claim_", uid, ".json"));
  }

  testing::TempDirectory directory_;
  claims::FakeClaims claims_;
  int boots_ = 0;
};

TEST_F(PowerCut, PreparedClaimsSurvive) {
  CutEverywhere("prepare, unprepare", [](Play& play) {
    play.Prepare();
    play.Unprepare();
  });
}

TEST_F(PowerCut, RepeatedPrepareChangesNothing) {
  CutEverywhere("prepare twice", [this](Play& play) {
    play.Prepare();
    (void)play.node->disk().Remove(CdiPath("A"));
    play.Prepare();
  });
}

TEST_F(PowerCut, FailedPrepareIsUndone) {
  CutEverywhere("failed prepare", [](Play& play) {
    play.node->prepare_failures = 1;
    play.Prepare();
    play.Prepare();
  });
}

TEST_F(PowerCut, DirtyClaimKeepsItsUndo) {
  CutEverywhere("dirty", [](Play& play) {
    play.node->prepare_failures = 1;
    play.node->unprepare_failures = 1;
    play.Prepare();
    play.Unprepare();
  });
}

TEST_F(PowerCut, FailedUnprepareKeepsItsUndo) {
  CutEverywhere("failed unprepare", [](Play& play) {
    play.Prepare();
    play.node->unprepare_failures = 2;
    play.Unprepare();
    play.Unprepare();
    play.Unprepare();
  });
}

TEST_F(PowerCut, ReallocatedClaimIsUndoneFirst) {
  CutEverywhere("reallocated", [](Play& play) {
    play.Prepare();
    // The old promise ends with the old allocation.
    play.told = Told::kNothing;
    Allocate(play.claims, "A", {"d1", "d2"}, true);
    play.Prepare();
  });
}

TEST_F(PowerCut, NewEditsLoseNothing) {
  CutEverywhere("reconcile, edits", [](Play& play) {
    play.Prepare();
    play.node->Reconcile(loader::ReconcileVerdict::kTrueWithEdits);
  });
}

TEST_F(PowerCut, ClaimThatIsPreparedAgainKeepsItsUndo) {
  CutEverywhere("reconcile, redo", [](Play& play) {
    play.Prepare();
    play.told = Told::kNothing;  // the driver itself ends the promise, until it has prepared again
    play.node->Reconcile(loader::ReconcileVerdict::kRedo);
  });
}

TEST_F(PowerCut, LostClaimKeepsItsUndo) {
  CutEverywhere("reconcile, lost", [](Play& play) {
    play.Prepare();
    play.told = Told::kNothing;
    play.node->Reconcile(loader::ReconcileVerdict::kLost);
  });
}

// A note that was stored is there, whatever of the rest the disk kept, and also if it is the first one of a device.
TEST(PowerCutNotes, StoredNoteSurvives) {
  const std::string root = "/disk";
  for (int n = 1;; ++n) {
    PowerCutFileSystem disk(root, "/disk/tmpfs");
    ASSERT_TRUE(disk.MakeDirectory("/disk/data", 0700).ok());
    ASSERT_TRUE(disk.SyncDirectory(root).ok());
    disk.CutAt(n);
    const records::Notes notes(&disk, "/disk/data/notes");
    std::string stored;
    for (const char* value : {"first", "second"}) {
      if (!notes.Put(records::NoteOwner::kBackend, "pci-1", "before", value).ok()) break;
      stored = value;
    }
    for (const Survival::Kind kind :
         {Survival::kAll, Survival::kNone, Survival::kPrefix, Survival::kRandom}) {
      SCOPED_TRACE(absl::StrCat("power gone before operation ", n, ", state ", kind));
      const auto left = disk.AfterCut({kind, static_cast<uint32_t>(n)});
      const auto found = records::Notes(left.get(), "/disk/data/notes")
                             .Get(records::NoteOwner::kBackend, "pci-1", "before");
      if (stored.empty()) {
        EXPECT_TRUE(found.ok() || absl::IsNotFound(found.status())) << found.status();
      } else {
        ASSERT_TRUE(found.ok()) << found.status();
        EXPECT_TRUE(*found == stored || *found == "second") << *found << " after " << stored;
      }
    }
    if (!disk.cut()) break;
  }
}

TEST_F(PowerCut, DamagedRecordIsReleased) {
  CutEverywhere("quarantine", [](Play& play) {
    Allocate(play.claims, "A", {"d0", "d1"},
             false);  // no setting that only the undo data would tell
    play.Prepare();
    play.told = Told::kNothing;
    const std::string path = play.node->RecordPath("A");
    (void)play.node->disk().Remove(path);
    (void)play.node->disk().CreateFile(path, "{\"half", 0600, true);
    (void)play.node->disk().SyncDirectory(DirectoryName(path));
    play.Prepare();
    play.Unprepare();
  });
}

}  // namespace
}  // namespace dra::crash
