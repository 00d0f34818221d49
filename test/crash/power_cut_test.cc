// The power goes at every file operation of each scenario, the disk is found in several of the states it may be in, the
// node boots, and the kubelet goes on. DRA_CRASH_STATES: states for each cut; DRA_CRASH_SEED: the first seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dra/base/json.h"
#include "dra/cdi/claim_specs.h"
#include "test/claims/claims_rig.h"
#include "test/crash/power_cut_file_system.h"

namespace dra::crash {
namespace {

using claims::ClaimManager;

// Settings of cards, as the hardware has them. Freezes when the power goes: a hook that runs on in this process after
// the cut changes nothing.
class Hardware {
 public:
  explicit Hardware(const PowerCutFileSystem* power) : power_(power) {}
  void Set(const std::string& device, const std::string& claim) {
    const absl::MutexLock lock(&mutex_);
    if (power_->cut()) return;
    if (claim.empty()) {
      owner_.erase(device);
    } else {
      owner_[device] = claim;
    }
  }
  std::map<std::string, std::string> owners() const {
    const absl::MutexLock lock(&mutex_);
    return owner_;
  }
  void Restore(std::map<std::string, std::string> owners) {
    const absl::MutexLock lock(&mutex_);
    owner_ = std::move(owners);
  }

 private:
  const PowerCutFileSystem* const power_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::string> owner_;  // device -> claim that changed its setting
};

// The CDI files of the driver layer, on the disk under test.
class CdiOnDisk final : public claims::CdiFiles {
 public:
  CdiOnDisk(FileSystem* disk, const std::string& directory)
      : specs_(disk, directory, claims::kDriver) {}
  absl::StatusOr<std::vector<std::vector<std::string>>> Write(
      absl::string_view uid, const std::vector<claims::CdiDevice>& devices,
      const Json& claim_edits) override {
    return specs_.Write(uid, Converted(devices), claim_edits);
  }
  absl::StatusOr<bool> Matches(absl::string_view uid, const std::vector<claims::CdiDevice>& devices,
                               const Json& claim_edits) override {
    return specs_.Matches(uid, Converted(devices), claim_edits);
  }
  absl::Status Remove(absl::string_view uid) override { return specs_.Remove(uid); }
  absl::StatusOr<std::vector<std::string>> ListClaims() override { return specs_.ListClaims(); }
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Devices(
      absl::string_view uid) override {
    return specs_.Devices(uid);
  }

 private:
  static std::vector<cdi::ClaimDevice> Converted(const std::vector<claims::CdiDevice>& devices) {
    std::vector<cdi::ClaimDevice> converted;
    for (const claims::CdiDevice& device : devices)
      converted.push_back({device.device, device.share_id, device.edits});
    return converted;
  }

  cdi::ClaimSpecs specs_;
};

// A node that was booted: a ClaimManager over one disk, with a backend that changes the setting of each device of a claim
// with a configuration, and keeps in its undo data which ones.
class Node {
 public:
  Node(std::unique_ptr<PowerCutFileSystem> disk, const std::string& root, const std::string& boot,
       claims::FakeClaims* claims)
      : root_(root),
        disk_(std::move(disk)),
        hardware_(disk_.get()),
        claims_(claims),
        cdi_(disk_.get(), JoinPath(root, "cdi")) {
    backend_.manifest.keeps_undo = true;
    backend_.manifest.parallel = true;
    backend_.OnPrepare(
        [this](const loader::PrepareArgs& args, const Call&) { return PrepareHook(args); });
    backend_.OnUnprepare(
        [this](const loader::UnprepareArgs& args, const Call&) { return UnprepareHook(args); });
    claims::Options options;
    options.driver_name = claims::kDriver;
    options.data_directory = JoinPath(root, "data");
    options.boot_id = boot;
    options.prepare_threads = 1;
    options.unprepare_threads = 1;
    options.answer_limit = absl::Seconds(5);
    claims::Dependencies dependencies;
    dependencies.fs = disk_.get();
    dependencies.clock = &clock_;
    dependencies.claims = claims_;
    dependencies.devices = &catalog_;
    dependencies.cdi = &cdi_;
    dependencies.status = &status_;
    dependencies.backend = &backend_;
    auto manager = ClaimManager::Create(options, dependencies);
    if (manager.ok()) {
      manager_ = *std::move(manager);
    } else {
      start_error_ = manager.status();
    }
  }
  ~Node() { manager_.reset(); }

  absl::Status Prepare(const std::string& uid) {
    if (manager_ == nullptr) return start_error_;
    claims::PrepareAnswer answer;
    manager_->Prepare(claims::Identity(uid), {}, answer.Done());
    return answer.Get().status();
  }
  absl::Status Unprepare(const std::string& uid) {
    if (manager_ == nullptr) return start_error_;
    claims::UnprepareAnswer answer;
    manager_->Unprepare(claims::Identity(uid), {}, answer.Done());
    return answer.Get();
  }
  // What the daemon does after its start.
  void AfterStart() {
    manager_->Restore({});
    // Of a damaged record that tells no devices the backend cannot be told: an error, and nothing is destroyed.
    const bool damaged = Phase("A") == "quarantined";
    const absl::Status reconciled = manager_->Reconcile({});
    EXPECT_TRUE(reconciled.ok() || damaged) << reconciled;
    (void)manager_->PrepareAgain({});
  }
  std::string Phase(const std::string& uid) const {
    for (const claims::ClaimSummary& claim : manager_->Claims()) {
      if (claim.claim.uid == uid) return claim.phase;
    }
    return "none";
  }
  std::string RecordPath(const std::string& uid) const {
    return JoinPath(root_, absl::StrCat("data/claims/", uid, ".json"));
  }
  // Files of claims that are left.
  std::string Leftovers() const {
    std::vector<std::string> left;
    for (const std::string& file : disk_->Files()) {
      if (!absl::StrContains(file, "/released/") && !absl::StrContains(file, "/notes/"))
        left.push_back(file);
    }
    return absl::StrJoin(left, ", ");
  }

  PowerCutFileSystem& disk() { return *disk_; }
  Hardware& hardware() { return hardware_; }
  const absl::Status& start_error() const { return start_error_; }

  int prepare_failures = 0;    // how many prepares fail after the first device was set
  int unprepare_failures = 0;  // how many unprepares fail

 private:
  absl::StatusOr<loader::PrepareResult> PrepareHook(const loader::PrepareArgs& args) {
    std::vector<std::string> wanted;
    for (const loader::PrepareDevice& device : args.devices) {
      if (!device.configs.empty()) wanted.push_back(StringOr(device.result, "device"));
    }
    if (!wanted.empty()) {
      const std::string undo = absl::StrJoin(wanted, ",");
      if (undo != args.saved_undo) {
        absl::Status saved = manager_->SaveUndo(args.claim.uid, undo);
        if (!saved.ok()) return saved;
      }
      for (const std::string& device : wanted) {
        hardware_.Set(device, args.claim.uid);
        if (prepare_failures > 0) {
          --prepare_failures;
          // What it cannot take back itself is left to the saved undo.
          return absl::InternalError("planted: the second card does not answer");
        }
      }
    }
    return claims::FakeBackend::Plain(args);
  }
  absl::Status UnprepareHook(const loader::UnprepareArgs& args) {
    if (unprepare_failures > 0) {
      --unprepare_failures;
      return absl::InternalError("planted: cannot be set back");
    }
    const std::map<std::string, std::string> owners = hardware_.owners();
    for (const absl::string_view device : absl::StrSplit(args.undo, ',', absl::SkipEmpty())) {
      const auto owner = owners.find(std::string(device));
      if (owner != owners.end() && owner->second == args.claim.uid)
        hardware_.Set(std::string(device), "");
    }
    return absl::OkStatus();
  }

  const std::string root_;
  const std::unique_ptr<PowerCutFileSystem> disk_;
  Hardware hardware_;
  claims::FakeClaims* const claims_;
  SystemClock clock_;
  claims::FakeCatalog catalog_;
  CdiOnDisk cdi_;
  claims::FakeStatusSink status_;
  claims::FakeBackend backend_;
  absl::Status start_error_;
  std::unique_ptr<ClaimManager> manager_;
};

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
