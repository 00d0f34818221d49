#include "dra/kubelet/plugin_server.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/file_system.h"
#include "dra/base/status.h"
#include "dra/kubelet/sockets.h"
#include "kubelet/acceptor.h"
#include "kubelet/claim_gateway.h"
#include "kubelet/dra_service.h"
#include "kubelet/grpc_server.h"
#include "kubelet/health_hub.h"
#include "kubelet/health_service.h"
#include "kubelet/registration_keeper.h"
#include "kubelet/registration_service.h"
#include "kubelet/socket_slot.h"

namespace dra::kubelet {

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  // absl took its codes from gRPC.
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), WireError(status));
}

namespace {

constexpr uint32_t kPluginDirectoryMode = 0750;
constexpr absl::Duration kRegistrationGrace = absl::Milliseconds(200);
constexpr absl::Duration kServiceGrace = absl::Seconds(1);
// For answers that are already on their way: microseconds in practice.
constexpr absl::Duration kAnswerGrace = absl::Seconds(5);

std::vector<std::string> Versions(bool health) {
  // The kubelet takes the first it knows of each kind.
  std::vector<std::string> versions = {"v1.DRAPlugin", "v1beta1.DRAPlugin"};
  if (health) {
    versions.insert(versions.end(), {"v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"});
  }
  return versions;
}

int64_t WholeSeconds(absl::Duration duration) {
  return std::max<int64_t>(1, absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1))));
}

class GrpcPluginServer final : public PluginServer {
 public:
  GrpcPluginServer(Options options, SocketPaths paths, ClaimHandler* handler, Clock* clock,
                   observe::Metrics* metrics, Logger logger)
      : options_(std::move(options)),
        paths_(std::move(paths)),
        clock_(clock),
        logger_(logger.With({{"driver", options_.driver_name}})),
        gateway_(options_.driver_name, handler, clock, metrics, logger_),
        dra_v1_(&gateway_),
        dra_v1beta1_(&gateway_),
        health_v1_(&hub_, WholeSeconds(options_.health_timeout)),
        health_v1alpha1_(&hub_, WholeSeconds(options_.health_timeout)),
        registration_(options_.driver_name, paths_.service_socket, clock, logger_,
                      [this] { Wake(); }),
        keeper_(options_.registration_patience),
        acceptor_(std::make_unique<Acceptor>(logger_)),
        service_slot_(paths_.service_socket, options_.driver_name,
                      paths_.service_needs_marker ? paths_.plugin_directory : "", logger_),
        registration_slot_(paths_.registration_socket, options_.driver_name,
                           paths_.registration_needs_marker ? paths_.plugin_directory : "",
                           logger_),
        advertised_(options_.health),
        registration_path_(paths_.registration_socket) {
    registration_.SetVersions(Versions(options_.health));
    hub_.SetEnabled(options_.health);
  }

  ~GrpcPluginServer() override { Shutdown(absl::ZeroDuration()); }

  absl::Status Start() override;
  void SetHealthAdvertised(bool advertised) override;
  void SetHealth(std::optional<std::vector<DeviceHealth>> devices) override {
    hub_.Set(std::move(devices));
  }
  void SetReporting(bool reporting) override { hub_.SetReporting(reporting); }
  void ResendHealth() override { hub_.Resend(); }
  void RemoveDeadSockets() override {
    absl::MutexLock lock(&mutex_);
    sweep_ = wake_ = true;
  }
  void OnRegistered(std::function<void()> callback) override {
    absl::MutexLock lock(&mutex_);
    callbacks_.push_back(std::move(callback));
  }
  RegistrationState State() const override;
  void Shutdown(absl::Duration bound) override;

 private:
  void Wake() {
    absl::MutexLock lock(&mutex_);
    wake_ = true;
  }
  // The thread that looks after sockets, registration and health until Shutdown.
  void Tend();
  void TendSockets();
  void SweepSockets();
  void TendRegistration();
  absl::Status OpenService();
  absl::Status Announce();
  enum class Where { kSamePath, kNewPath };
  void Reannounce(Where where);
  void MoveRegistration();

  const Options options_;
  const SocketPaths paths_;
  Clock* const clock_;
  const Logger logger_;

  // Declared before the servers, which call them until they are shut down.
  HealthHub hub_;
  ClaimGateway gateway_;
  DraService<DraV1> dra_v1_;
  DraService<DraV1beta1> dra_v1beta1_;
  HealthService<HealthV1> health_v1_;
  HealthService<HealthV1alpha1> health_v1alpha1_;
  RegistrationService registration_;
  std::unique_ptr<GrpcServer> service_server_;
  std::unique_ptr<GrpcServer> registration_server_;

  // Of Start, then of the tending thread, then of Shutdown.
  RegistrationKeeper keeper_;
  std::unique_ptr<Acceptor> acceptor_;
  SocketSlot service_slot_;
  SocketSlot registration_slot_;
  std::thread tender_;

  mutable absl::Mutex mutex_;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool wake_ ABSL_GUARDED_BY(mutex_) = false;
  bool reannounce_ ABSL_GUARDED_BY(mutex_) = false;
  bool sweep_ ABSL_GUARDED_BY(mutex_) = false;
  bool advertised_ ABSL_GUARDED_BY(mutex_);
  std::string registration_path_ ABSL_GUARDED_BY(mutex_);  // of registration_slot_, for State
  std::vector<std::function<void()>> callbacks_ ABSL_GUARDED_BY(mutex_);
};

absl::Status GrpcPluginServer::Start() {
  {
    absl::MutexLock lock(&mutex_);
    if (started_ || stopping_)
      return absl::FailedPreconditionError("plugin server: started before");
    started_ = true;
  }
  PosixFileSystem fs;
  DRA_RETURN_IF_ERROR(Annotate(MakeDirectories(fs, paths_.plugin_directory, kPluginDirectoryMode),
                               "make the plugin directory"));
  if (ProbeSocket(paths_.registration_socket) == Peer::kDead) MoveRegistration();
  SweepSockets();
  DRA_ASSIGN_OR_RETURN(service_server_, GrpcServer::Create({&dra_v1_, &dra_v1beta1_, &health_v1_,
                                                            &health_v1alpha1_}));
  DRA_ASSIGN_OR_RETURN(registration_server_, GrpcServer::Create({&registration_}));
  DRA_RETURN_IF_ERROR(acceptor_->Start());
  // The kubelet calls the service as soon as it has found the registration socket.
  DRA_RETURN_IF_ERROR(OpenService());
  DRA_RETURN_IF_ERROR(Announce());
  tender_ = std::thread([this] { Tend(); });
  return absl::OkStatus();
}

void GrpcPluginServer::SweepSockets() {
  for (const std::string& path :
       RemoveStaleSockets({options_.driver_name, paths_.registry_directory, paths_.plugin_directory,
                           registration_slot_.path(), paths_.service_socket})) {
    logger_.Info(absl::StrCat("removed a socket that an earlier instance left: ", path));
  }
}

absl::Status GrpcPluginServer::OpenService() {
  return service_slot_.Open(*acceptor_, *service_server_);
}

absl::Status GrpcPluginServer::Announce() {
  registration_.Forget();
  DRA_RETURN_IF_ERROR(registration_slot_.Open(*acceptor_, *registration_server_));
  keeper_.Announced(clock_->Monotonic(), clock_->Now());
  return absl::OkStatus();
}

// A kubelet that dialled a path in vain asks there again ever more seldom, up to two minutes, whatever has come to lie at the
// path; one that is dialling it just now takes the new socket for the old one, and registers twice. It knows nothing of
// a path that is new. Source: kubernetes pkg/kubelet/pluginmanager, seen with 1.34 and 1.37.
void GrpcPluginServer::MoveRegistration() {
  std::string path = FreshRegistrationSocket(paths_, options_.driver_name);
  registration_slot_.MoveTo(path, paths_.plugin_directory);
  absl::MutexLock lock(&mutex_);
  registration_path_ = std::move(path);
}

void GrpcPluginServer::Reannounce(Where where) {
  // Unlink first: the kubelet must see the old socket go, or a 1.34 or 1.35 one keeps its failed registration.
  registration_slot_.Close(*acceptor_);
  if (where == Where::kNewPath) MoveRegistration();
  (void)Announce();  // the slot has logged it; the next look tries again
}

void GrpcPluginServer::SetHealthAdvertised(bool advertised) {
  {
    absl::MutexLock lock(&mutex_);
    if (advertised_ == advertised) return;
    advertised_ = advertised;
    reannounce_ = started_;
    wake_ = true;
    registration_.SetVersions(Versions(advertised));
  }
  hub_.SetEnabled(advertised);
}

void GrpcPluginServer::TendSockets() {
  if (service_slot_.NeedsOpening()) {
    PosixFileSystem fs;
    (void)MakeDirectories(fs, paths_.plugin_directory,
                          kPluginDirectoryMode);  // it may have gone too
    (void)OpenService();
  }
  if (registration_slot_.NeedsOpening()) (void)Announce();
}

void GrpcPluginServer::TendRegistration() {
  const RegistrationFacts facts = registration_.Facts();
  if (keeper_.NewRegistration(facts)) {
    std::vector<std::function<void()>> callbacks;
    {
      absl::MutexLock lock(&mutex_);
      callbacks = callbacks_;
    }
    for (const auto& callback : callbacks) callback();
  }
  if (registration_slot_.LostToAnother()) return;
  if (keeper_.ShouldWarn(facts, clock_->Monotonic())) {
    logger_.Error(absl::StrCat(
        "the kubelet has not asked for this plugin at ", registration_slot_.path(),
        ". Usual causes: the kubelet's --root-dir is not ", options_.kubelet_root,
        " (set kubelet_root); ", paths_.registry_directory,
        " is not the host's directory, mounted at the same path; the kubelet is not running"));
  }
  if (!keeper_.ShouldReannounce(facts, clock_->Monotonic())) return;
  logger_.Warn("registering again: the kubelet has not accepted this plugin",
               {{"error", facts.error}});
  Reannounce(Where::kNewPath);
}

void GrpcPluginServer::Tend() {
  const absl::Duration resend_interval = options_.health_timeout / 3;
  const absl::Duration look_interval = std::min(options_.poll_interval, resend_interval);
  MonotonicTime next_resend = clock_->Monotonic() + absl::ToChronoNanoseconds(resend_interval);
  for (;;) {
    bool reannounce = false;
    bool sweep = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto woken = [this]()
                             ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return wake_ || stopping_; };
      (void)mutex_.AwaitWithTimeout(absl::Condition(&woken), look_interval);
      if (stopping_) return;
      wake_ = false;
      reannounce = std::exchange(reannounce_, false);
      sweep = std::exchange(sweep_, false);
    }
    if (sweep) SweepSockets();
    if (reannounce && !registration_slot_.LostToAnother()) Reannounce(Where::kSamePath);
    TendSockets();
    TendRegistration();
    gateway_.AnswerOverdue();
    (void)service_server_->CountPeers();
    (void)registration_server_->CountPeers();
    if (clock_->Monotonic() >= next_resend) {
      hub_.Resend();
      next_resend = clock_->Monotonic() + absl::ToChronoNanoseconds(resend_interval);
    }
  }
}

RegistrationState GrpcPluginServer::State() const {
  const RegistrationFacts facts = registration_.Facts();
  absl::MutexLock lock(&mutex_);
  return {facts.registered,     facts.error,        facts.last_get_info,
          gateway_.last_call(), registration_path_, paths_.service_socket};
}

void GrpcPluginServer::Shutdown(absl::Duration bound) {
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
  }
  if (tender_.joinable()) tender_.join();
  const MonotonicTime end = clock_->Monotonic() + absl::ToChronoNanoseconds(bound);
  const auto left = [&] {
    return std::max(absl::ZeroDuration(), absl::FromChrono(end - clock_->Monotonic()));
  };
  (void)gateway_.WaitUntilIdle(std::min(left() / 2, options_.idle_patience));
  registration_slot_.Close(*acceptor_);
  registration_.Forget();
  if (service_server_ != nullptr) {
    (void)service_server_->WaitUntilLeft(std::min(left() / 2, options_.leave_patience));
  }
  hub_.Shutdown();
  gateway_.RefuseNew();
  if (!gateway_.WaitUntilIdle(left())) {
    gateway_.AnswerAll(absl::UnavailableError("the driver is shutting down before it was done"));
    (void)gateway_.WaitUntilIdle(kAnswerGrace);
  }
  service_slot_.Close(*acceptor_);
  acceptor_.reset();  // no connection is handed on any more
  if (registration_server_ != nullptr) registration_server_->Shutdown(kRegistrationGrace);
  if (service_server_ != nullptr) service_server_->Shutdown(kServiceGrace);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PluginServer>> PluginServer::Create(Options options,
                                                                   ClaimHandler* handler,
                                                                   Clock* clock,
                                                                   observe::Metrics* metrics,
                                                                   Logger logger) {
  DRA_ASSIGN_OR_RETURN(SocketPaths paths, ComputeSocketPaths(options.kubelet_root,
                                                             options.driver_name, options.pod_uid));
  for (const absl::Duration duration :
       {options.health_timeout, options.registration_patience, options.poll_interval}) {
    if (duration <= absl::ZeroDuration()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "driver ", options.driver_name, ": health_timeout, registration_patience and ",
          "poll_interval must be over 0, one is ", absl::FormatDuration(duration)));
    }
  }
  PosixFileSystem fs;
  const absl::StatusOr<FileInfo> registry = fs.Stat(paths.registry_directory, /*follow=*/true);
  if (absl::IsNotFound(registry.status()) ||
      (registry.ok() && registry->type != FileType::kDirectory)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the kubelet's plugin registry ", paths.registry_directory,
        " is no directory: set kubelet_root (now ", options.kubelet_root,
        ") to the kubelet's --root-dir and mount it at the same path in this container"));
  }
  if (!registry.ok()) return Annotate(registry.status(), "look at the kubelet's plugin registry");
  return std::unique_ptr<PluginServer>(new GrpcPluginServer(
      std::move(options), std::move(paths), handler, clock, metrics, std::move(logger)));
}

}  // namespace dra::kubelet
