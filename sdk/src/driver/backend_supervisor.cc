#include "driver/backend_supervisor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"

namespace dra::driver {

BackendSupervisor::BackendSupervisor(Options options, loader::BackendHandle* backend,
                                     loader::HostServices* host, inventory::Inventory* inventory,
                                     Clock* clock, observe::Metrics* metrics, Logger logger,
                                     Callbacks callbacks)
    : options_(std::move(options)),
      backend_(backend),
      host_(host),
      inventory_(inventory),
      clock_(clock),
      metrics_(metrics),
      logger_(std::move(logger)),
      callbacks_(std::move(callbacks)) {}

BackendSupervisor::~BackendSupervisor() { Stop(); }

void BackendSupervisor::Start() {
  discovery_thread_ = std::jthread([this](const std::stop_token& stop) { RunDiscovery(stop); });
  health_thread_ = std::jthread([this](const std::stop_token& stop) { RunHealth(stop); });
}

void BackendSupervisor::Stop() {
  discovery_thread_.request_stop();
  health_thread_.request_stop();
  if (discovery_thread_.joinable()) discovery_thread_.join();
  if (health_thread_.joinable()) health_thread_.join();
}

void BackendSupervisor::RequestDiscovery() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++discovery_wanted_;
  wake_.notify_all();
}

void BackendSupervisor::RequestHealth() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++health_wanted_;
  wake_.notify_all();
}

void BackendSupervisor::RequestRestart(absl::string_view reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  state_.restart_reason = std::string(reason);
  restart_wanted_ = true;
  ++discovery_wanted_;
  wake_.notify_all();
}

void BackendSupervisor::SetServerFields(const loader::ServerFields& fields) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fields_ == fields) return;
  fields_ = fields;
  ++discovery_wanted_;
  wake_.notify_all();
}

absl::Status BackendSupervisor::DiscoverNow(const Call& call) {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t number = ++discovery_wanted_;
  wake_.notify_all();
  const auto done = [&] { return discovery_done_ >= number; };
  const auto limit =
      call.deadline.value_or(std::chrono::steady_clock::now() + std::chrono::minutes(1));
  if (!wake_.wait_until(lock, call.stop, limit, done)) {
    DRA_RETURN_IF_ERROR(call.Check("wait for a discovery"));
    return absl::DeadlineExceededError("wait for a discovery: deadline exceeded");
  }
  return discovery_status_;
}

BackendSupervisor::State BackendSupervisor::GetState() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return state_;
}

void BackendSupervisor::WaitFor(const uint64_t& wanted, uint64_t done, absl::Duration duration,
                                const std::stop_token& stop) {
  std::unique_lock<std::mutex> lock(mutex_);
  wake_.wait_for(lock, stop, absl::ToChronoNanoseconds(duration), [&] { return wanted != done; });
}

absl::Status BackendSupervisor::CreateBackend(const std::stop_token& stop) {
  Call call;
  call.stop = stop;
  DRA_RETURN_IF_ERROR(
      Annotate(backend_->Create(options_.backend_config, host_, call), "create backend"));
  DRA_ASSIGN_OR_RETURN(const auto manifest, backend_->GetManifest());
  logger_.Info("backend created", {{"backend", manifest->name}, {"version", manifest->version}});
  callbacks_.on_created(*manifest);
  const std::lock_guard<std::mutex> lock(mutex_);
  state_.created = true;
  ++health_wanted_;
  wake_.notify_all();
  return absl::OkStatus();
}

absl::Status BackendSupervisor::Discover(const std::stop_token& stop) {
  loader::ServerFields fields;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    fields = fields_;
  }
  const HeldDevices held = callbacks_.held();
  Call call;
  call.stop = stop;
  const MonotonicTime start = clock_->Monotonic();
  const absl::StatusOr<loader::DiscoverResult> result =
      backend_->Discover(fields, callbacks_.held_identities(), call);
  metrics_->Observe("dra_discovery_seconds",
                    absl::ToDoubleSeconds(absl::FromChrono(clock_->Monotonic() - start)),
                    {{"driver", options_.driver_name}});
  metrics_->Increment("dra_discoveries_total",
                      {{"driver", options_.driver_name},
                       {"code", absl::StatusCodeToString(result.status().code())}});
  const absl::Status usable = result.ok() ? callbacks_.before_update(*result) : result.status();
  if (!usable.ok()) {
    callbacks_.on_snapshot(inventory_->UpdateFailed(usable));
    return Annotate(usable, "discover");
  }
  std::shared_ptr<const inventory::Snapshot> snapshot = inventory_->Update(*result, fields, held);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    state_.fields = fields;
  }
  callbacks_.on_snapshot(std::move(snapshot));
  return absl::OkStatus();
}

void BackendSupervisor::RunDiscovery(const std::stop_token& stop) {
  absl::Duration backoff = options_.retry_min;
  bool created = false;
  while (!stop.stop_requested()) {
    uint64_t number = 0;
    bool restart = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      number = discovery_wanted_;
      restart = std::exchange(restart_wanted_, false);
    }
    if (created && restart) {
      logger_.Warn("backend asked for a restart", {{"reason", GetState().restart_reason}});
      {
        // Health is not asked meanwhile: that there is no instance says nothing of the devices.
        const std::lock_guard<std::mutex> lock(mutex_);
        state_.created = false;
      }
      backend_->Destroy();
      created = false;
    }
    absl::Status status;
    if (!created) {
      status = CreateBackend(stop);
      created = status.ok();
      if (!created) callbacks_.on_snapshot(inventory_->UpdateFailed(status));
    }
    if (status.ok()) status = Discover(stop);
    if (stop.stop_requested()) break;
    bool log_failure = false;
    bool log_recovery = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      log_failure = !status.ok() && state_.error != status.message();
      log_recovery = status.ok() && !state_.error.empty();
      state_.created = created;
      state_.alive = status.ok();
      state_.error = std::string(status.message());
      ++state_.discoveries;
      discovery_done_ = number;
      discovery_status_ = status;
      wake_.notify_all();
    }
    if (log_failure)
      logger_.Warn("backend does not answer, will be asked again", {{"error", status.ToString()}});
    if (log_recovery) logger_.Info("backend answers again");
    if (status.ok()) {
      backoff = options_.retry_min;
      WaitFor(discovery_wanted_, number, options_.discover_interval, stop);
    } else {
      WaitFor(discovery_wanted_, number, backoff, stop);
      backoff = std::min(backoff * 2, options_.retry_max);
    }
  }
}

void BackendSupervisor::RunHealth(const std::stop_token& stop) {
  std::string last_error;
  while (!stop.stop_requested()) {
    uint64_t number = 0;
    bool created = false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      number = health_wanted_;
      created = state_.created;
    }
    const auto manifest = backend_->GetManifest();
    if (created && manifest.ok() && (*manifest)->reports_health) {
      Call call;
      call.stop = stop;
      const absl::StatusOr<std::vector<loader::DeviceHealth>> health = backend_->Health(call);
      if (stop.stop_requested()) break;
      callbacks_.before_health();
      callbacks_.on_snapshot(health.ok() ? inventory_->UpdateHealth(*health)
                                         : inventory_->UpdateHealthFailed(health.status()));
      // A monitor that fails means "unknown", never "healthy" (HLT-03): said once, and once when it recovers.
      const std::string error(health.status().message());
      if (error != last_error) {
        if (error.empty()) {
          logger_.Info("backend reports health again");
        } else {
          logger_.Warn("backend reports no health, devices are unknown",
                       {{"error", health.status().ToString()}});
        }
        last_error = error;
      }
    }
    WaitFor(health_wanted_, number, created ? options_.health_interval : absl::Seconds(1), stop);
  }
}

}  // namespace dra::driver
