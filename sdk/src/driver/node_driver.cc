#include "dra/driver/node_driver.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/status.h"
#include "dra/claims/claim_manager.h"
#include "dra/inventory/inventory.h"
#include "dra/kubelet/plugin_server.h"
#include "dra/loader/loader.h"
#include "dra/publisher/publisher.h"
#include "dra/status/device_status_writer.h"
#include "driver/adapters.h"
#include "driver/backend_supervisor.h"
#include "driver/claim_caretaker.h"
#include "driver/driver_marker.h"
#include "driver/finding_reporter.h"
#include "driver/kubelet_checkpoint.h"
#include "driver/operator_desk.h"
#include "driver/path_safety.h"
#include "driver/publish_turn.h"
#include "driver/snapshot_views.h"
#include "driver/status_report.h"

namespace dra::driver {
namespace {

constexpr absl::Duration kStartRetry = absl::Seconds(5);
// How often the set of held devices is looked at after an unprepare; a burst of them is one look.
constexpr absl::Duration kHeldCheck = absl::Seconds(1);
// For the write that is under way when a stop begins.
constexpr absl::Duration kLastWrite = absl::Seconds(5);

class NodeDriverImpl final : public NodeDriver {
 public:
  NodeDriverImpl(const DaemonConfig& daemon, DriverConfig config, Environment environment)
      : daemon_(daemon),
        config_(std::move(config)),
        environment_(std::move(environment)),
        logger_(environment_.logger.With({{"driver", config_.name}})),
        library_(daemon.LibraryPath(config_)),
        host_(logger_, daemon.node_name),
        findings_(config_.name, daemon.node_name, environment_.events, environment_.metrics,
                  logger_) {}

  ~NodeDriverImpl() override { Stop(absl::ZeroDuration()); }

  void Start() override {
    main_thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
  }

  void Stop(absl::Duration grace) override {
    main_thread_.request_stop();
    if (main_thread_.joinable()) main_thread_.join();
    if (stopped_.exchange(true)) return;
    if (caretaker_ != nullptr) caretaker_->Stop();
    const MonotonicTime end = environment_.clock->Monotonic() + absl::ToChronoNanoseconds(grace);
    const auto left = [&] {
      return std::max(absl::ZeroDuration(),
                      absl::FromChrono(end - environment_.clock->Monotonic()));
    };
    // Another instance may publish while this one answers its last calls. Then the kubelet sends nothing more, then what
    // runs may end, then what feeds it.
    if (turn_ != nullptr) turn_->Resign(std::min(left(), kLastWrite));
    if (server_ != nullptr) server_->Shutdown(left());
    if (claims_ != nullptr) claims_->Shutdown(left());
    if (publisher_ != nullptr) publisher_->Stop();
    if (turn_ != nullptr) turn_->Stop();
    if (supervisor_ != nullptr) supervisor_->Stop();
    if (backend_ != nullptr) backend_->Destroy();
    host_.Disconnect();
  }

  std::vector<observe::Condition> Conditions() const override {
    const absl::MutexLock lock(&mutex_);
    std::vector<observe::Condition> conditions;
    conditions.push_back({config_.name, "loaded", started_, start_error_});
    if (!started_) return conditions;
    const kubelet::RegistrationState registration = server_->State();
    conditions.push_back({config_.name, "registered", registration.registered,
                          registration.error.empty()
                              ? "the kubelet has not registered this driver yet"
                              : registration.error});
    conditions.push_back(Published());
    const BackendSupervisor::State backend = supervisor_->GetState();
    conditions.push_back({config_.name, "backend", backend.alive,
                          backend.error.empty() ? "not created yet" : backend.error});
    return conditions;
  }

  Json Status() const override {
    const absl::MutexLock lock(&mutex_);
    if (!started_) return NotStartedStatus(config_.name, library_, start_error_);
    return DriverStatus({config_.name, backend_->Description(), backend_->GetManifest(),
                         supervisor_->GetState(), server_->State(), publisher_->GetState(),
                         turn_->GetState(), desk_->View(), *inventory_->Get(), claims_->Claims()});
  }

 private:
  observe::Condition Published() const {
    const publisher::State published = publisher_->GetState();
    const PublishTurn::State turn = turn_->GetState();
    observe::Condition condition{config_.name, "published",
                                 published.published && turn.error.empty(),
                                 "the stored slices are not complete yet"};
    for (const std::string& reason : {turn.error, published.error, turn.waiting}) {
      if (reason.empty()) continue;
      condition.message = reason;
      break;
    }
    return condition;
  }

  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const absl::Status started = StartParts();
      {
        const absl::MutexLock lock(&mutex_);
        if (!started.ok() && start_error_ != started.message()) {
          logger_.Error("driver did not start, will be tried again",
                        {{"error", started.ToString()}});
        }
        started_ = started.ok();
        start_error_ = std::string(started.message());
      }
      if (started.ok()) break;
      if (!environment_.clock->Sleep(kStartRetry, stop)) return;
    }
    if (stop.stop_requested()) return;
    WatchHeldDevices(stop);
  }

  // Repeatable: what was made by an earlier try stays.
  absl::Status StartParts() {
    if (backend_ == nullptr) {
      DRA_ASSIGN_OR_RETURN(backend_, loader::LoadBackend(library_));
    }
    const auto manifest = backend_->GetManifest();
    if (inventory_ == nullptr) MakeInventory(manifest.ok() && (*manifest)->never_tainted);
    if (claims_ == nullptr) DRA_RETURN_IF_ERROR(MakeClaims());
    if (server_ == nullptr)
      DRA_RETURN_IF_ERROR(MakeServer(manifest.ok() && (*manifest)->reports_health));
    DRA_RETURN_IF_ERROR(server_->Start());
    publisher_->Start();
    desk_->Poll();  // a drained node publishes nothing that was not drained
    supervisor_->Start();
    caretaker_->Start();
    turn_->Start();
    return absl::OkStatus();
  }

  void MakeInventory(bool never_tainted) {
    inventory::Options options;
    options.driver_name = config_.name;
    options.node_name = daemon_.node_name;
    options.never_tainted = never_tainted;
    options.taint_effects = config_.taint_effects;
    inventory_ = std::make_unique<inventory::Inventory>(options, environment_.clock, logger_);

    publisher::Options publish;
    publish.driver_name = config_.name;
    publish.node_name = daemon_.node_name;
    publish.never_tainted = never_tainted;
    publisher_ = publisher::Publisher::Create(
        publish, environment_.api, environment_.clock, environment_.events, environment_.metrics,
        logger_, [this](const loader::ServerFields& fields) { OnServerFields(fields); });
    publisher_->SetWriting(false);
    MakeTurn();
    desk_ = std::make_unique<OperatorDesk>(
        OperatorDesk::Options{config_.name, daemon_.node_name, daemon_.DataDirectory(config_.name),
                              never_tainted},
        environment_.fs, inventory_.get(), environment_.clock, environment_.events,
        environment_.metrics, logger_,
        OperatorDesk::Callbacks{[this](bool withdrawn) {
                                  publisher_->SetWithdrawn(withdrawn);
                                  // Taking slices away needs no inventory.
                                  if (withdrawn) turn_->SetReady();
                                },
                                [this](std::shared_ptr<const inventory::Snapshot> snapshot) {
                                  OnSnapshot(std::move(snapshot));
                                }});

    BackendSupervisor::Options supervise;
    supervise.driver_name = config_.name;
    supervise.backend_config = DumpJson(config_.backend_config);
    supervise.discover_interval = config_.discover_interval;
    supervise.health_interval = config_.health_interval;
    supervisor_ = std::make_unique<BackendSupervisor>(
        supervise, backend_.get(), &host_, inventory_.get(), environment_.clock,
        environment_.metrics, logger_,
        BackendSupervisor::Callbacks{
            [this](const loader::Manifest& manifest) {
              server_->SetHealthAdvertised(manifest.reports_health);
              caretaker_->BackendCreated();
            },
            [this](std::shared_ptr<const inventory::Snapshot> snapshot) {
              OnSnapshot(std::move(snapshot));
            },
            [this] { return claims_->HeldDevices(); }, [this] { return claims_->HeldIdentities(); },
            [this](const loader::DiscoverResult& found) { return desk_->notes().Load(found); },
            [this] { desk_->notes().TakeForeignEvidence(); }});
  }

  void MakeTurn() {
    PublishTurn::Options options;
    options.path = JoinPath(daemon_.DataDirectory(config_.name), "publish.lock");
    turn_ = std::make_unique<PublishTurn>(
        options, environment_.clock, logger_,
        PublishTurn::Callbacks{[this] {
                                 server_->SetReporting(true);
                                 publisher_->SetWriting(true);
                               },
                               [this] {
                                 server_->SetReporting(false);
                                 publisher_->SetWriting(false);
                               },
                               [this] { server_->ResendHealth(); },
                               [this] { server_->RemoveDeadSockets(); }});
  }

  absl::Status MakeClaims() {
    DRA_RETURN_IF_ERROR(CheckDriverPaths(*environment_.fs, daemon_, config_.name));
    if (reader_ == nullptr) {
      reader_ = std::make_unique<ApiClaimReader>(environment_.api);
      catalog_ = std::make_unique<InventoryCatalog>(inventory_.get(), supervisor_.get());
      cdi_ = std::make_unique<ClaimCdiFiles>(environment_.fs, daemon_.cdi_directory, config_.name);
      kubelet_state_ =
          std::make_unique<KubeletCheckpoint>(environment_.fs, daemon_.kubelet_root, config_.name);
      if (config_.device_status) {
        status_writer_ = status::DeviceStatusWriter::Create(environment_.api, environment_.clock,
                                                            logger_, config_.name);
      }
      status_ = std::make_unique<StatusSink>(status_writer_.get());
    }
    claims::Options options;
    options.driver_name = config_.name;
    options.data_directory = daemon_.DataDirectory(config_.name);
    options.boot_id = environment_.boot_id;
    options.prepare_threads = config_.prepare_threads;
    options.unprepare_threads = config_.unprepare_threads;
    options.orphan_grace = config_.orphan_grace;
    claims::Dependencies dependencies;
    dependencies.fs = environment_.fs;
    dependencies.clock = environment_.clock;
    dependencies.claims = reader_.get();
    dependencies.devices = catalog_.get();
    dependencies.cdi = cdi_.get();
    dependencies.status = status_.get();
    dependencies.backend = backend_.get();
    dependencies.kubelet = kubelet_state_.get();
    dependencies.events = environment_.events;
    dependencies.metrics = environment_.metrics;
    dependencies.logger = logger_;
    DRA_ASSIGN_OR_RETURN(claims_,
                         claims::ClaimManager::Create(std::move(options), std::move(dependencies)));
    host_.Connect(claims_, supervisor_.get());
    ClaimCaretaker::Options care;
    care.driver_name = config_.name;
    care.check_interval = config_.orphan_check_interval;
    caretaker_ = std::make_unique<ClaimCaretaker>(
        care, claims_.get(),
        [this] {
          ShowLostDevices();
          supervisor_->RequestDiscovery();
        },
        environment_.clock, logger_);
    ShowLostDevices();  // those that an earlier process found
    MarkDirectory();
    return absl::OkStatus();
  }

  // What an operator, and a daemon in which this driver is no longer configured, look for.
  void MarkDirectory() {
    const std::string directory = daemon_.DataDirectory(config_.name);
    absl::Status marked = WriteDriverMarker(
        *environment_.fs, {config_.name, library_, directory, daemon_.installation});
    if (marked.ok()) marked = environment_.fs->MakeDirectory(JoinPath(directory, "requests"), 0700);
    if (!marked.ok()) {
      logger_.Warn("data directory is not marked as this driver's", {{"error", marked.ToString()}});
    }
  }

  absl::Status MakeServer(bool health) {
    calls_ = std::make_unique<ClaimCalls>(claims_.get(), [this] { held_changed_ = true; });
    kubelet::Options options;
    options.driver_name = config_.name;
    options.kubelet_root = daemon_.kubelet_root;
    options.pod_uid = daemon_.pod_uid;
    options.health = health;
    DRA_ASSIGN_OR_RETURN(server_,
                         kubelet::PluginServer::Create(options, calls_.get(), environment_.clock,
                                                       environment_.metrics, logger_));
    server_->SetReporting(false);
    // A kubelet that registers us may just have started, and a kubelet that starts deletes this node's slices.
    server_->OnRegistered([this] { publisher_->Resync(); });
    return absl::OkStatus();
  }

  void OnSnapshot(std::shared_ptr<const inventory::Snapshot> snapshot) {
    // First: what is published must not be forgotten by a restart. A failure is said there and tried again.
    (void)desk_->notes().Save();
    findings_.Report(*snapshot);
    if (snapshot->known) {
      leans_on_holders_ = LeansOnHolders(*snapshot);
      if (leans_on_holders_) publisher_->SetHeld(claims_->HeldDevices());
    }
    if (Deliver()) CheckReadyToPublish();
  }

  // Hands the newest snapshot on, whichever thread made it: discovery and health run side by side, and the older of two
  // pictures must not be delivered last. Nothing blocks under the lock. True if the inventory is known.
  bool Deliver() {
    const auto manifest = backend_->GetManifest();
    const absl::MutexLock lock(&deliver_mutex_);
    std::shared_ptr<const inventory::Snapshot> newest = inventory_->Get();
    if (newest->known && manifest.ok() && (*manifest)->reports_health) {
      server_->SetHealth(KubeletHealth(*newest));
    }
    const bool known = newest->known;
    publisher_->SetInventory(std::move(newest));
    return known;
  }

  void OnServerFields(const loader::ServerFields& fields) {
    {
      const absl::MutexLock lock(&fields_mutex_);
      fields_ = fields;
    }
    desk_->SetServerFields(fields);
    supervisor_->SetServerFields(fields);
    CheckReadyToPublish();
  }

  // Whoever publishes without an inventory made for this server would take away what it leans on and bring it back.
  void CheckReadyToPublish() {
    const std::optional<loader::ServerFields> discovered_with = supervisor_->GetState().fields;
    const absl::MutexLock lock(&fields_mutex_);
    if (fields_.has_value() && fields_ == discovered_with) turn_->SetReady();
  }

  // A device that its claim has lost is unhealthy for the kubelet until the claim ends.
  void ShowLostDevices() {
    std::map<std::pair<std::string, std::string>, std::string> lost;
    for (const claims::ClaimSummary& claim : claims_->Claims()) {
      if (!claim.lost || !claim.same_boot) continue;
      for (const resource::DeviceId& device : claim.devices) {
        lost[{device.pool, device.device}] =
            absl::StrCat("lost to claim ", claim.claim.namespace_name, "/", claim.claim.name,
                         " (uid ", claim.claim.uid, "): ", claim.last_error);
      }
    }
    some_are_lost_ = !lost.empty();
    const std::shared_ptr<const inventory::Snapshot> before = inventory_->Get();
    std::shared_ptr<const inventory::Snapshot> now = inventory_->SetLost(std::move(lost));
    if (now != before) OnSnapshot(std::move(now));
  }

  // Follows the operator's requests. A device that is published only because a claim holds it goes when the claim does.
  // A library that was replaced on disk is said once: the old code runs on until a restart (PLG-10).
  void WatchHeldDevices(const std::stop_token& stop) {
    bool library_changed = false;
    while (environment_.clock->Sleep(kHeldCheck, stop)) {
      const absl::Status unchanged = loader::CheckUnchanged(*backend_);
      if (!unchanged.ok() && !library_changed) {
        logger_.Warn("restart to run the new library",
                     {{"error", std::string(unchanged.message())}});
      }
      library_changed = !unchanged.ok();
      desk_->Poll();
      if (some_are_lost_) ShowLostDevices();  // its claim may have ended, or been prepared again
      if (!held_changed_.exchange(false) || !leans_on_holders_) continue;
      publisher_->SetHeld(claims_->HeldDevices());
      supervisor_->RequestDiscovery();
    }
  }

  const DaemonConfig daemon_;
  const DriverConfig config_;
  const Environment environment_;
  const Logger logger_;
  const std::string library_;

  // In order of construction; each is set once, before started_, by the main thread.
  HostAdapter host_;
  FindingReporter findings_;
  std::unique_ptr<loader::BackendHandle> backend_;
  std::unique_ptr<inventory::Inventory> inventory_;
  std::unique_ptr<publisher::Publisher> publisher_;
  std::unique_ptr<PublishTurn> turn_;
  std::unique_ptr<OperatorDesk> desk_;
  std::unique_ptr<BackendSupervisor> supervisor_;
  std::unique_ptr<ApiClaimReader> reader_;
  std::unique_ptr<InventoryCatalog> catalog_;
  std::unique_ptr<ClaimCdiFiles> cdi_;
  std::unique_ptr<status::DeviceStatusWriter> status_writer_;
  std::unique_ptr<StatusSink> status_;
  std::unique_ptr<KubeletCheckpoint> kubelet_state_;
  std::shared_ptr<claims::ClaimManager> claims_;
  std::unique_ptr<ClaimCaretaker> caretaker_;
  std::unique_ptr<ClaimCalls> calls_;
  std::unique_ptr<kubelet::PluginServer> server_;

  absl::Mutex fields_mutex_;
  std::optional<loader::ServerFields> fields_
      ABSL_GUARDED_BY(fields_mutex_);  // what the API server keeps, once it was asked

  std::atomic<bool> held_changed_ = false;
  std::atomic<bool> some_are_lost_ = false;
  std::atomic<bool> leans_on_holders_ = false;
  std::atomic<bool> stopped_ = false;
  absl::Mutex deliver_mutex_;
  mutable absl::Mutex mutex_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  std::string start_error_ ABSL_GUARDED_BY(mutex_) = "starting";
  std::jthread main_thread_;
};

}  // namespace

std::unique_ptr<NodeDriver> NodeDriver::Create(const DaemonConfig& daemon, DriverConfig config,
                                               Environment environment) {
  return std::make_unique<NodeDriverImpl>(daemon, std::move(config), std::move(environment));
}

}  // namespace dra::driver
