#include "dra/driver/daemon.h"

#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"
#include "dra/driver/node_driver.h"
#include "dra/driver/version.h"
#include "dra/kube/http_api_client.h"
#include "dra/kube/kube_config.h"
#include "dra/observe/events.h"
#include "dra/observe/metrics.h"
#include "driver/retired_drivers.h"

namespace dra::driver {
namespace {

// A status socket that nobody answers at is another's leftover once it is so old.
constexpr absl::Duration kStaleSocket = absl::Minutes(1);

class DaemonImpl final : public Daemon {
 public:
  DaemonImpl(DaemonConfig config, FileSystem* fs, Clock* clock, Logger logger)
      : config_(std::move(config)), fs_(fs), clock_(clock), logger_(std::move(logger)) {}

  ~DaemonImpl() override { Stop(); }

  absl::Status Init() {
    DRA_ASSIGN_OR_RETURN(status_path_, StatusSocketPath(config_));
    const std::string registry = JoinPath(config_.kubelet_root, "plugins_registry");
    const absl::StatusOr<FileInfo> info = fs_->Stat(registry, /*follow=*/true);
    if (!info.ok() || info->type != FileType::kDirectory) {
      return absl::FailedPreconditionError(absl::StrCat(
          registry,
          " is not there: the kubelet watches <its --root-dir>/plugins_registry; set kubeletRoot ",
          "to that root and mount both of its directories at the same path"));
    }
    DRA_ASSIGN_OR_RETURN(std::string boot_id, ReadBootId(*fs_));
    DRA_ASSIGN_OR_RETURN(
        kube::ClusterConfig cluster,
        kube::FindClusterConfig(*fs_, config_.kubeconfig, "", kube::GetEnvironment));
    DRA_ASSIGN_OR_RETURN(api_,
                         kube::MakeHttpApiClient(std::move(cluster), {}, clock_, logger_,
                                                 [this](const kube::RequestInfo& request) {
                                                   metrics_.Increment(
                                                       "dra_api_requests_total",
                                                       {{"verb", request.verb},
                                                        {"resource", request.resource},
                                                        {"code", absl::StrCat(request.http_code)}});
                                                 }));
    events_ = std::make_unique<observe::EventRecorder>(api_.get(), clock_, &metrics_, logger_,
                                                       "dra-driver", config_.node_name);
    Environment environment;
    environment.fs = fs_;
    environment.clock = clock_;
    environment.api = api_.get();
    environment.metrics = &metrics_;
    environment.events = events_.get();
    environment.logger = logger_;
    environment.boot_id = std::move(boot_id);
    for (const DriverConfig& driver : config_.drivers) {
      drivers_.push_back(NodeDriver::Create(config_, driver, environment));
    }
    retired_ = std::make_unique<RetiredDrivers>(config_, environment);
    return absl::OkStatus();
  }

  absl::Status Start() override {
    metrics_.Set("dra_build_info", 1, {{"version", kVersion}});
    for (const std::unique_ptr<NodeDriver>& driver : drivers_) driver->Start();
    retired_->Start();
    if (!config_.http_address.empty()) {
      endpoint_ = std::make_unique<observe::HttpEndpoint>(
          observe::EndpointOptions{config_.http_address}, &metrics_,
          [this] { return Conditions(); }, logger_);
      DRA_RETURN_IF_ERROR(Annotate(endpoint_->Start(), "httpAddress"));
    }
    DRA_RETURN_IF_ERROR(MakeDirectories(*fs_, DirectoryName(status_path_), 0750));
    if (config_.status_socket.empty()) {
      observe::RemoveDeadStatusSockets(DirectoryName(status_path_), clock_->Now() - kStaleSocket);
    }
    status_socket_ = std::make_unique<observe::StatusSocket>(
        status_path_, [this] { return DumpJson(Status()); }, logger_);
    absl::Status listening = status_socket_->Start();
    if (absl::IsAlreadyExists(listening) && config_.status_socket.empty()) {
      // An older instance without a pod UID serves the default path: stand beside it.
      status_path_ =
          JoinPath(DirectoryName(status_path_), absl::StrCat("status-", ::getpid(), ".sock"));
      status_socket_ = std::make_unique<observe::StatusSocket>(
          status_path_, [this] { return DumpJson(Status()); }, logger_);
      listening = status_socket_->Start();
    }
    return Annotate(listening, "statusSocket");
  }

  void Stop() override {
    if (std::exchange(stopped_, true)) return;
    if (retired_ != nullptr) retired_->Stop();
    std::vector<std::jthread> stopping;
    for (const std::unique_ptr<NodeDriver>& driver : drivers_) {
      stopping.emplace_back([this, &driver] { driver->Stop(config_.shutdown_grace); });
    }
    stopping.clear();
    status_socket_ = nullptr;
    endpoint_ = nullptr;
  }

  std::vector<observe::Condition> Conditions() const override {
    std::vector<observe::Condition> conditions;
    for (const std::unique_ptr<NodeDriver>& driver : drivers_) {
      for (observe::Condition& condition : driver->Conditions())
        conditions.push_back(std::move(condition));
    }
    for (observe::Condition& condition : retired_->Conditions())
      conditions.push_back(std::move(condition));
    return conditions;
  }

  Json Status() const override {
    Json drivers = Json::array();
    for (const std::unique_ptr<NodeDriver>& driver : drivers_) drivers.push_back(driver->Status());
    Json conditions = Json::array();
    bool ready = true;
    for (const observe::Condition& condition : Conditions()) {
      ready = ready && condition.ok;
      conditions.push_back({{"driver", condition.driver},
                            {"name", condition.name},
                            {"ok", condition.ok},
                            {"message", condition.ok ? "" : condition.message}});
    }
    return {{"version", kVersion},       {"pid", ::getpid()},       {"node", config_.node_name},
            {"podUID", config_.pod_uid}, {"httpPort", http_port()}, {"ready", ready},
            {"conditions", conditions},  {"drivers", drivers}};
  }

  int http_port() const override { return endpoint_ == nullptr ? 0 : endpoint_->bound_port(); }
  const std::string& status_socket() const override { return status_path_; }

 private:
  const DaemonConfig config_;
  FileSystem* const fs_;
  Clock* const clock_;
  const Logger logger_;
  std::string status_path_;
  observe::Metrics metrics_;
  std::unique_ptr<kube::ApiClient> api_;
  std::unique_ptr<observe::EventRecorder> events_;
  std::vector<std::unique_ptr<NodeDriver>> drivers_;
  std::unique_ptr<RetiredDrivers> retired_;
  std::unique_ptr<observe::HttpEndpoint> endpoint_;
  std::unique_ptr<observe::StatusSocket> status_socket_;
  bool stopped_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Create(DaemonConfig config, FileSystem* fs,
                                                       Clock* clock, Logger logger) {
  auto daemon = std::make_unique<DaemonImpl>(std::move(config), fs, clock, std::move(logger));
  DRA_RETURN_IF_ERROR(daemon->Init());
  return daemon;
}

}  // namespace dra::driver
