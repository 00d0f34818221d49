#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "dra/base/call.h"
#include "dra/base/clock.h"
#include "dra/base/logger.h"
#include "dra/inventory/inventory.h"
#include "dra/loader/backend_handle.h"
#include "dra/observe/metrics.h"

namespace dra::driver {

using HeldDevices = std::vector<std::pair<std::string, std::string>>;  // (pool, device)

// Keeps a backend's instance alive and its inventory fresh: creates it (again and again, with backoff, until it
// succeeds), discovers on a timer and on every hint, and asks for health on its own thread so that a stuck health hook
// delays no discovery. Level-driven: a hint only says "look again". Any thread may call.
class BackendSupervisor {
 public:
  struct Options {
    std::string driver_name;
    std::string backend_config;  // JSON text
    absl::Duration discover_interval;
    absl::Duration health_interval;
    absl::Duration retry_min = absl::Seconds(1);
    absl::Duration retry_max = absl::Minutes(1);
  };
  struct Callbacks {
    std::function<void(const loader::Manifest&)> on_created;  // after each successful create
    std::function<void(std::shared_ptr<const inventory::Snapshot>)> on_snapshot;
    std::function<HeldDevices()> held;
    std::function<std::vector<std::string>()> held_identities;
    // What has to be known before the inventory takes a discovery; a failure fails the discovery.
    std::function<absl::Status(const loader::DiscoverResult&)> before_update;
    std::function<void()> before_health;  // before the inventory takes a health report
  };
  struct State {
    bool created = false;
    bool alive = false;          // the last create and the last discovery succeeded
    std::string error;           // the last failure, "" when alive
    std::string restart_reason;  // of the last restart the backend asked for
    uint64_t discoveries = 0;    // finished, failed ones included
    std::optional<loader::ServerFields>
        fields;  // what the last successful discovery was told of the server
  };

  // All pointers outlive this.
  BackendSupervisor(Options options, loader::BackendHandle* backend, loader::HostServices* host,
                    inventory::Inventory* inventory, Clock* clock, observe::Metrics* metrics,
                    Logger logger, Callbacks callbacks);
  ~BackendSupervisor();

  void Start();
  // Ends both threads; a running hook is cancelled. Does not destroy the backend.
  void Stop();

  void RequestDiscovery();
  void RequestHealth();
  void RequestRestart(absl::string_view reason);
  void SetServerFields(const loader::ServerFields& fields);

  // Waits for a discovery that starts after this call. Its status, or call's.
  absl::Status DiscoverNow(const Call& call);

  State GetState() const;

 private:
  void RunDiscovery(const std::stop_token& stop);
  void RunHealth(const std::stop_token& stop);
  absl::Status CreateBackend(const std::stop_token& stop);
  absl::Status Discover(const std::stop_token& stop);
  // Waits until `wanted` differs from `done`, `duration` has passed, or stop.
  void WaitFor(const uint64_t& wanted, uint64_t done, absl::Duration duration,
               const std::stop_token& stop);

  const Options options_;
  loader::BackendHandle* const backend_;
  loader::HostServices* const host_;
  inventory::Inventory* const inventory_;
  Clock* const clock_;
  observe::Metrics* const metrics_;
  const Logger logger_;
  const Callbacks callbacks_;

  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  State state_;                    // guarded by mutex_
  loader::ServerFields fields_;    // guarded by mutex_
  bool restart_wanted_ = false;    // guarded by mutex_
  uint64_t discovery_wanted_ = 1;  // guarded by mutex_: number of the newest discovery asked for
  uint64_t discovery_done_ = 0;    // guarded by mutex_: all asked for up to this one are answered
  absl::Status discovery_status_;  // guarded by mutex_
  uint64_t health_wanted_ = 0;     // guarded by mutex_
  std::jthread discovery_thread_;
  std::jthread health_thread_;
};

}  // namespace dra::driver
