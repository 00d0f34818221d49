#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/json.h"
#include "dra/cdi/claim_specs.h"
#include "gtest/gtest.h"
#include "test/claims/claims_rig.h"
#include "test/crash/power_cut_file_system.h"

namespace dra::crash {

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
  absl::StatusOr<std::vector<std::string>> ListTemporaries() override {
    return specs_.ListTemporaries();
  }
  absl::Status RemoveTemporaries(absl::string_view uid) override {
    return specs_.RemoveTemporaries(uid);
  }
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
    backend_.OnReconcile([this](const loader::ReconcileRecord& args) { return Answer(args); });
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
    auto manager = claims::ClaimManager::Create(options, dependencies);
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
  // The backend was created anew, and has something to say about every claim.
  void Reconcile(loader::ReconcileVerdict verdict) {
    verdict_ = verdict;
    (void)manager_->Reconcile({});
    verdict_ = loader::ReconcileVerdict::kTrue;
    (void)manager_->PrepareAgain({});
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
  loader::ReconcileResult Answer(const loader::ReconcileRecord& args) const {
    loader::ReconcileResult result;
    result.verdict = verdict_;
    if (verdict_ == loader::ReconcileVerdict::kTrueWithEdits) {
      for (size_t i = 0; i < args.record.devices.size(); ++i)
        result.device_edits.push_back({{"env", Json::array({"RECONCILED=1"})}});
    }
    return result;
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
  loader::ReconcileVerdict verdict_ = loader::ReconcileVerdict::kTrue;
  std::unique_ptr<claims::ClaimManager> manager_;
};

}  // namespace dra::crash
