#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "dra/base/status.h"
#include "dra/claims/claim_manager.h"
#include "dra/observe/metrics.h"
#include "dra/records/record_store.h"
#include "dra/testing/faulty_file_system.h"
#include "dra/testing/temp_directory.h"

// In-memory ports and a backend under a test's control, around a real ClaimManager over a real directory.
namespace dra::claims {

inline std::string Text(const absl::Status& status) { return std::string(status.message()); }

constexpr char kDriver[] = "gpu.sdk.test";
inline constexpr absl::Duration kPatience = absl::Seconds(30);

class FakeClaims final : public ClaimReader {
 public:
  absl::StatusOr<resource::ResourceClaim> GetClaim(absl::string_view namespace_name,
                                                   absl::string_view name, const Call&) override {
    if (on_get) on_get();
    const absl::MutexLock lock(&mutex_);
    ++gets_;
    if (!failures_.empty()) {
      const absl::Status failure = failures_.front();
      failures_.erase(failures_.begin());
      if (!failure.ok()) return failure;
    }
    const auto found = claims_.find(absl::StrCat(namespace_name, "/", name));
    if (found == claims_.end()) return absl::NotFoundError(absl::StrCat("no claim ", name));
    return resource::ParseResourceClaim(found->second);
  }
  void Put(const Json& claim) {
    const absl::MutexLock lock(&mutex_);
    claims_[absl::StrCat(claim["metadata"]["namespace"].get<std::string>(), "/",
                         claim["metadata"]["name"].get<std::string>())] = claim;
  }
  void Erase(const loader::ClaimIdentity& claim) {
    const absl::MutexLock lock(&mutex_);
    claims_.erase(absl::StrCat(claim.namespace_name, "/", claim.name));
  }
  void Fail(std::vector<absl::Status> failures) {
    const absl::MutexLock lock(&mutex_);
    failures_ = std::move(failures);
  }
  int gets() const {
    const absl::MutexLock lock(&mutex_);
    return gets_;
  }
  std::function<void()> on_get;  // before each look; set before use

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, Json> claims_;
  std::vector<absl::Status> failures_;
  int gets_ = 0;
};

class FakeCatalog final : public DeviceCatalog {
 public:
  FakeCatalog() {
    for (int i = 0; i < 8; ++i) Put(absl::StrCat("d", i), {{absl::StrCat("card-", i), "whole"}});
  }
  void Put(const std::string& device, std::vector<loader::ExclusionKey> keys,
           Json published = Json::object()) {
    const absl::MutexLock lock(&mutex_);
    published["name"] = device;
    devices_[device] = {absl::StrCat("serial-", device), std::move(keys), std::move(published), ""};
  }
  // "" makes it well again.
  void SetHiddenFault(const std::string& device, const std::string& text) {
    const absl::MutexLock lock(&mutex_);
    devices_[device].hidden_fault = text;
  }
  void Erase(const std::string& device) {
    const absl::MutexLock lock(&mutex_);
    devices_.erase(device);
  }
  absl::StatusOr<DeviceFacts> FindDevice(absl::string_view pool, absl::string_view device,
                                         const Call&) override {
    const absl::MutexLock lock(&mutex_);
    const auto found = devices_.find(std::string(device));
    if (found == devices_.end())
      return absl::NotFoundError(absl::StrCat("no device ", pool, "/", device));
    return found->second;
  }
  Json CounterSets(absl::string_view) override {
    const absl::MutexLock lock(&mutex_);
    return counter_sets;
  }
  Json counter_sets = Json::array();

 private:
  absl::Mutex mutex_;
  std::map<std::string, DeviceFacts> devices_;
};

class FakeCdi final : public CdiFiles {
 public:
  absl::StatusOr<std::vector<std::vector<std::string>>> Write(absl::string_view uid,
                                                              const std::vector<CdiDevice>& devices,
                                                              const Json& claim_edits) override {
    const absl::MutexLock lock(&mutex_);
    if (!write_error.ok()) return write_error;
    ++writes;
    files[std::string(uid)] = Content(devices, claim_edits);
    auto& named = named_devices[std::string(uid)];
    named.clear();
    for (const CdiDevice& device : devices) named.emplace_back(device.device, device.share_id);
    std::vector<std::vector<std::string>> ids;
    for (const CdiDevice& device : devices) {
      ids.push_back({absl::StrCat("k8s.gpu.sdk.test/claim=", uid, "-", device.device,
                                  device.share_id.empty() ? "" : "-", device.share_id)});
    }
    return ids;
  }
  absl::StatusOr<bool> Matches(absl::string_view uid, const std::vector<CdiDevice>& devices,
                               const Json& claim_edits) override {
    const absl::MutexLock lock(&mutex_);
    const auto found = files.find(std::string(uid));
    return found != files.end() && found->second == Content(devices, claim_edits);
  }
  absl::Status Remove(absl::string_view uid) override {
    const absl::MutexLock lock(&mutex_);
    if (!remove_error.ok()) return remove_error;
    files.erase(std::string(uid));
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::string>> ListClaims() override {
    const absl::MutexLock lock(&mutex_);
    std::vector<std::string> claims;
    for (const auto& [uid, content] : files) claims.push_back(uid);
    return claims;
  }
  absl::StatusOr<std::vector<std::string>> ListTemporaries() override {
    const absl::MutexLock lock(&mutex_);
    return std::vector<std::string>(temporaries.begin(), temporaries.end());
  }
  absl::Status RemoveTemporaries(absl::string_view uid) override {
    const absl::MutexLock lock(&mutex_);
    temporaries.erase(std::string(uid));
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Devices(
      absl::string_view uid) override {
    const absl::MutexLock lock(&mutex_);
    if (!devices_error.ok()) return devices_error;
    if (!files.contains(std::string(uid))) return absl::NotFoundError("no CDI file");
    return named_devices[std::string(uid)];
  }
  bool Has(const std::string& uid) {
    const absl::MutexLock lock(&mutex_);
    return files.contains(uid);
  }
  void Set(absl::Status error) {
    const absl::MutexLock lock(&mutex_);
    write_error = std::move(error);
  }

  absl::Mutex mutex_;
  std::map<std::string, std::string> files;
  std::set<std::string> temporaries;  // claims with a half-written file
  std::map<std::string, std::vector<std::pair<std::string, std::string>>> named_devices;
  absl::Status write_error;
  absl::Status remove_error;
  absl::Status devices_error;
  int writes = 0;

 private:
  static std::string Content(const std::vector<CdiDevice>& devices, const Json& claim_edits) {
    std::string content = DumpJson(claim_edits);
    for (const CdiDevice& device : devices)
      absl::StrAppend(&content, device.device, DumpJson(device.edits));
    return content;
  }
};

// What the kubelet has written down; unknown until a test says it.
class FakeKubeletState final : public KubeletState {
 public:
  absl::StatusOr<std::vector<loader::ClaimIdentity>> PreparedClaims() override {
    const absl::MutexLock lock(&mutex_);
    return claims_;
  }
  void Set(absl::StatusOr<std::vector<loader::ClaimIdentity>> claims) {
    const absl::MutexLock lock(&mutex_);
    claims_ = std::move(claims);
  }

 private:
  absl::Mutex mutex_;
  absl::StatusOr<std::vector<loader::ClaimIdentity>> claims_ =
      absl::NotFoundError("no dra_manager_state");
};

// The system's clock, whose monotonic time a test can move forward.
class SkewedClock final : public Clock {
 public:
  absl::Time Now() override { return clock_.Now(); }
  MonotonicTime Monotonic() override {
    const absl::MutexLock lock(&mutex_);
    return clock_.Monotonic() + absl::ToChronoNanoseconds(ahead_);
  }
  bool Sleep(absl::Duration duration, const std::stop_token& stop) override {
    return clock_.Sleep(duration, stop);
  }
  void Advance(absl::Duration duration) {
    const absl::MutexLock lock(&mutex_);
    ahead_ += duration;
  }

 private:
  SystemClock clock_;
  absl::Mutex mutex_;
  absl::Duration ahead_;
};

class FakeStatusSink final : public DeviceStatusSink {
 public:
  void Submit(const loader::ClaimIdentity& claim, std::vector<Json> entries) override {
    const absl::MutexLock lock(&mutex_);
    submitted[claim.uid] = std::move(entries);
  }
  void Withdraw(const loader::ClaimIdentity& claim) override {
    const absl::MutexLock lock(&mutex_);
    submitted.erase(claim.uid);
  }
  std::vector<Json> Of(const std::string& uid) {
    const absl::MutexLock lock(&mutex_);
    return submitted[uid];
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, std::vector<Json>> submitted;
};

// Runs what a test puts in, records the order of hooks.
class FakeBackend final : public loader::BackendHandle {
 public:
  using PrepareHook =
      std::function<absl::StatusOr<loader::PrepareResult>(const loader::PrepareArgs&, const Call&)>;
  using UnprepareHook = std::function<absl::Status(const loader::UnprepareArgs&, const Call&)>;
  using ReconcileHook =
      std::function<absl::StatusOr<loader::ReconcileResult>(const loader::ReconcileRecord&)>;

  static loader::PrepareResult Plain(const loader::PrepareArgs& args) {
    loader::PrepareResult result;
    for (const loader::PrepareDevice& device : args.devices) {
      const std::string name = StringOr(device.result, "device");
      result.devices.push_back({{{"deviceNodes", {{{"path", absl::StrCat("/dev/", name)}}}}},
                                {{"data", {{"name", name}}}}});
    }
    return result;
  }

  loader::BackendDescription Description() const override { return {"/lib/fake.so", 0}; }
  absl::Status Create(absl::string_view, loader::HostServices*, const Call&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<const loader::Manifest>> GetManifest() const override {
    const absl::MutexLock lock(&mutex_);
    if (!manifest_error.ok()) return manifest_error;
    return std::make_shared<const loader::Manifest>(manifest);
  }
  void Destroy() override {}
  absl::StatusOr<loader::DiscoverResult> Discover(const loader::ServerFields&,
                                                  const std::vector<std::string>&,
                                                  const Call&) override {
    return loader::DiscoverResult();
  }
  absl::Status ValidateConfig(const Json& parameters, absl::string_view, const Call&) override {
    if (Find(parameters, "sharring") != nullptr)
      return absl::InvalidArgumentError("sharring: unknown field");
    return absl::OkStatus();
  }
  absl::StatusOr<loader::PrepareResult> Prepare(const loader::PrepareArgs& args,
                                                const Call& call) override {
    PrepareHook hook;
    {
      const absl::MutexLock lock(&mutex_);
      order.push_back(absl::StrCat("prepare ", args.claim.uid));
      prepare_args.push_back(args);
      hook = on_prepare;
    }
    return hook ? hook(args, call) : Plain(args);
  }
  absl::Status Unprepare(const loader::UnprepareArgs& args, const Call& call) override {
    UnprepareHook hook;
    {
      const absl::MutexLock lock(&mutex_);
      order.push_back(absl::StrCat("unprepare ", args.claim.uid));
      unprepare_args.push_back(args);
      hook = on_unprepare;
    }
    return hook ? hook(args, call) : absl::OkStatus();
  }
  absl::Status ReconcileBegin(const Call&) override {
    const absl::MutexLock lock(&mutex_);
    order.push_back("begin");
    return begin_error;
  }
  absl::StatusOr<loader::ReconcileResult> ReconcileRecordHook(const loader::ReconcileRecord& args,
                                                              const Call&) override {
    ReconcileHook hook;
    {
      const absl::MutexLock lock(&mutex_);
      order.push_back(absl::StrCat("record ", args.record.claim.uid));
      reconcile_args.push_back(args);
      hook = on_reconcile;
    }
    return hook ? hook(args) : loader::ReconcileResult();
  }
  absl::Status ReconcileEnd(const Call&) override {
    const absl::MutexLock lock(&mutex_);
    order.push_back("end");
    return absl::OkStatus();
  }
  absl::StatusOr<loader::Busy> IsBusy(absl::string_view, absl::string_view, absl::string_view,
                                      const Call&) override {
    const absl::MutexLock lock(&mutex_);
    ++busy_asked;
    return busy;
  }
  absl::StatusOr<std::vector<loader::DeviceHealth>> Health(const Call&) override {
    return std::vector<loader::DeviceHealth>();
  }

  void OnPrepare(PrepareHook hook) {
    const absl::MutexLock lock(&mutex_);
    on_prepare = std::move(hook);
  }
  void OnUnprepare(UnprepareHook hook) {
    const absl::MutexLock lock(&mutex_);
    on_unprepare = std::move(hook);
  }
  void OnReconcile(ReconcileHook hook) {
    const absl::MutexLock lock(&mutex_);
    on_reconcile = std::move(hook);
  }
  void SetBusy(absl::StatusOr<loader::Busy> answer) {
    const absl::MutexLock lock(&mutex_);
    busy = std::move(answer);
  }
  int BusyAsked() const {
    const absl::MutexLock lock(&mutex_);
    return busy_asked;
  }
  std::vector<loader::ReconcileRecord> Reconciled() const {
    const absl::MutexLock lock(&mutex_);
    return reconcile_args;
  }
  std::string Order() const {
    const absl::MutexLock lock(&mutex_);
    return absl::StrJoin(order, ", ");
  }
  loader::PrepareArgs LastPrepare() const {
    const absl::MutexLock lock(&mutex_);
    return prepare_args.back();
  }
  loader::UnprepareArgs LastUnprepare() const {
    const absl::MutexLock lock(&mutex_);
    return unprepare_args.back();
  }

  mutable absl::Mutex mutex_;
  loader::Manifest manifest;
  absl::Status manifest_error;
  absl::Status begin_error;

 private:
  ReconcileHook on_reconcile;
  std::vector<loader::ReconcileRecord> reconcile_args;
  absl::StatusOr<loader::Busy> busy = loader::Busy::kUnknown;
  int busy_asked = 0;
  PrepareHook on_prepare;
  UnprepareHook on_unprepare;
  std::vector<std::string> order;
  std::vector<loader::PrepareArgs> prepare_args;
  std::vector<loader::UnprepareArgs> unprepare_args;
};

// An answer that a test waits for.
template <typename T>
class Answered {
 public:
  std::function<void(T)> Done() {
    return [state = state_](T value) {
      state->value = std::move(value);
      state->done.Notify();
    };
  }
  bool Wait(absl::Duration patience = kPatience) {
    return state_->done.WaitForNotificationWithTimeout(patience);
  }
  bool done() const { return state_->done.HasBeenNotified(); }
  // The answer; DeadlineExceeded if none comes: a test then fails instead of hanging.
  T Get() {
    return Wait() ? state_->value : T(absl::DeadlineExceededError("the test waited in vain"));
  }

 private:
  struct State {
    T value = absl::UnknownError("no answer yet");
    absl::Notification done;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};
using PrepareAnswer = Answered<absl::StatusOr<std::vector<PreparedDevice>>>;
using UnprepareAnswer = Answered<absl::Status>;

inline Json Result(const std::string& device, const std::string& request = "r0",
                   Json more = Json::object()) {
  more["request"] = request;
  more["driver"] = kDriver;
  more["pool"] = "n1";
  more["device"] = device;
  return more;
}

inline loader::ClaimIdentity Identity(const std::string& uid, std::string name = "") {
  return {"ns1", name.empty() ? absl::StrCat("claim-", uid) : name, uid};
}

inline Json ClaimObject(
    const loader::ClaimIdentity& claim, std::vector<Json> results, Json config = Json::array(),
    Json reserved_for = Json::parse(R"([{"resource":"pods","name":"p1","uid":"P1"}])")) {
  return {{"apiVersion", "resource.k8s.io/v1"},
          {"kind", "ResourceClaim"},
          {"metadata",
           {{"namespace", claim.namespace_name},
            {"name", claim.name},
            {"uid", claim.uid},
            {"resourceVersion", "1"}}},
          {"status",
           {{"allocation",
             {{"devices", {{"results", std::move(results)}, {"config", std::move(config)}}}}},
            {"reservedFor", std::move(reserved_for)}}}};
}

class ClaimsRig {
 public:
  explicit ClaimsRig(std::string boot = "boot-1") : fs_(&posix_) { Boot(std::move(boot)); }
  ~ClaimsRig() { manager_.reset(); }

  Options MakeOptions(const std::string& boot) const {
    Options options;
    options.driver_name = kDriver;
    options.data_directory = directory_.Path("data");
    options.boot_id = boot;
    options.prepare_threads = 4;
    options.unprepare_threads = 2;
    options.answer_limit = answer_limit;
    options.orphan_gets_per_second = 1e6;
    return options;
  }
  Dependencies MakeDependencies() {
    Dependencies dependencies;
    dependencies.fs = &fs_;
    dependencies.clock = &clock_;
    dependencies.claims = &claims_;
    dependencies.devices = &catalog_;
    dependencies.cdi = &cdi_;
    dependencies.status = &status_;
    dependencies.backend = &backend_;
    dependencies.kubelet = &kubelet_;
    dependencies.metrics = &metrics_;
    dependencies.events = events_;
    return dependencies;
  }
  // The process ends and starts again.
  void Boot(const std::string& boot = "boot-1") {
    manager_.reset();
    boot_ = boot;
    auto manager = ClaimManager::Create(MakeOptions(boot), MakeDependencies());
    if (!manager.ok()) {
      start_error_ = manager.status();
      return;
    }
    start_error_ = absl::OkStatus();
    manager_ = *std::move(manager);
  }
  // As a reboot: another boot id, the CDI directory empty.
  void Reboot() {
    manager_.reset();
    {
      const absl::MutexLock lock(&cdi_.mutex_);
      cdi_.files.clear();
    }
    Boot(boot_ + "x");
  }

  PrepareAnswer StartPrepare(const loader::ClaimIdentity& claim, const Call& call = {}) {
    PrepareAnswer answer;
    manager_->Prepare(claim, call, answer.Done());
    return answer;
  }
  UnprepareAnswer StartUnprepare(const loader::ClaimIdentity& claim, const Call& call = {}) {
    UnprepareAnswer answer;
    manager_->Unprepare(claim, call, answer.Done());
    return answer;
  }
  absl::StatusOr<std::vector<PreparedDevice>> Prepare(const std::string& uid,
                                                      const Call& call = {}) {
    return StartPrepare(Identity(uid), call).Get();
  }
  absl::Status Unprepare(const std::string& uid) { return StartUnprepare(Identity(uid)).Get(); }
  void Allocate(const std::string& uid, std::vector<Json> results, Json config = Json::array()) {
    claims_.Put(ClaimObject(Identity(uid), std::move(results), std::move(config)));
  }

  std::string RecordPath(const std::string& uid) const {
    return directory_.Path("data/claims/" + uid + ".json");
  }
  // What is recorded now; a record that says so in last_error if there is none.
  records::Record Recorded(const std::string& uid) {
    records::RecordStore store(&posix_, directory_.Path("data/claims"));
    absl::StatusOr<records::Record> record = store.Load(uid);
    if (record.ok()) return *std::move(record);
    records::Record none;
    none.last_error = record.status().ToString();
    return none;
  }
  std::string UnpreparingPath(const std::string& uid) const {
    return directory_.Path("data/claims/" + uid + ".unpreparing.json");
  }
  bool HasRecord(const std::string& uid) {
    return posix_.Stat(RecordPath(uid), false).ok() ||
           posix_.Stat(UnpreparingPath(uid), false).ok();
  }
  std::string Phase(const std::string& uid) const {
    for (const ClaimSummary& claim : manager_->Claims()) {
      if (claim.claim.uid == uid) return claim.phase;
    }
    return "none";
  }
  // Every file of claims below the data directory, without the lock file and what was released.
  std::vector<std::string> Leftovers() {
    std::vector<std::string> files;
    Collect(directory_.Path("data"), &files);
    return files;
  }

  testing::TempDirectory directory_;
  PosixFileSystem posix_;
  testing::FaultyFileSystem fs_;
  SkewedClock clock_;
  FakeKubeletState kubelet_;
  FakeClaims claims_;
  FakeCatalog catalog_;
  FakeCdi cdi_;
  FakeStatusSink status_;
  FakeBackend backend_;
  observe::Metrics metrics_;
  observe::EventRecorder* events_ = nullptr;  // a test's own; outlives the managers made with it
  absl::Duration answer_limit = absl::Seconds(40);
  std::string boot_;
  absl::Status start_error_;
  std::unique_ptr<ClaimManager> manager_;

 private:
  void Collect(const std::string& path, std::vector<std::string>* files) {
    const auto names = posix_.List(path);
    if (!names.ok()) return;
    for (const std::string& name : *names) {
      const std::string child = JoinPath(path, name);
      if (name == "serialize.lock" || name == "released") continue;
      if (posix_.Stat(child, false)->type == FileType::kDirectory) {
        Collect(child, files);
      } else {
        files->push_back(child);
      }
    }
  }
};

}  // namespace dra::claims
