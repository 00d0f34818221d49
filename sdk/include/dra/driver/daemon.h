#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "dra/base/logger.h"
#include "dra/driver/config.h"
#include "dra/kube/api_client.h"
#include "dra/observe/http_endpoint.h"

namespace dra::driver {

// The node daemon: several drivers, one API client, one HTTP endpoint, one status socket. Any thread.
class Daemon {
 public:
  // Reads credentials and the boot id; makes no connection. `config` has passed ValidateDaemonConfig. fs and clock
  // outlive the daemon. Errors name the setting: no credentials, no plugins_registry below the kubelet root (REG-06).
  static absl::StatusOr<std::unique_ptr<Daemon>> Create(DaemonConfig config, FileSystem* fs,
                                                        Clock* clock, Logger logger);
  virtual ~Daemon() = default;

  // Starts the drivers, then the endpoint and the status socket. Errors: an address that is none, a status socket
  // that another process serves. Anything else is retried by the part it concerns.
  virtual absl::Status Start() = 0;
  // Stops all drivers side by side within the configured grace. Records, CDI files and slices stay.
  virtual void Stop() = 0;

  virtual std::vector<observe::Condition> Conditions() const = 0;
  virtual Json Status() const = 0;
  // 0 until the endpoint is bound, or without one.
  virtual int http_port() const = 0;
  virtual const std::string& status_socket() const = 0;
};

}  // namespace dra::driver
