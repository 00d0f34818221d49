#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/base/json.h"
#include "dra/base/logger.h"
#include "dra/inventory/taint_effects.h"
#include "nlohmann/json.hpp"

namespace dra::driver {

// One driver of the daemon: one driver name and one backend. docs/configuration.md has every key.
struct DriverConfig {
  std::string name;  // "gpu.example.com"
  std::string
      backend;  // absolute path of the library, or <x> for <backendDirectory>/dra-backend-<x>.so
  Json backend_config = Json::object();
  absl::Duration discover_interval = absl::Minutes(1);
  absl::Duration health_interval = absl::Seconds(10);
  int prepare_threads = 32;
  int unprepare_threads = 4;
  bool device_status = true;  // write status.devices
  inventory::TaintEffects taint_effects = {};
  absl::Duration orphan_check_interval = absl::Minutes(5);
  absl::Duration orphan_grace =
      absl::Minutes(5);  // a claim is gone for so long before it is released
};

struct DaemonConfig {
  std::string node_name;
  std::string pod_uid;  // set: per-pod socket names, for rolling updates
  // Which installation on the node this process is of: a driver that the same one served before, and no longer
  // configures, is retired (docs/operations.md). "": none is, since another installation's would look the same.
  std::string installation;
  std::string kubelet_root = "/var/lib/kubelet";
  std::string cdi_directory = "/var/run/cdi";
  std::string backend_directory;                // default set by the program
  std::string kubeconfig;                       // "": in-cluster credentials
  std::string http_address = "127.0.0.1:8099";  // "" = no HTTP endpoint
  std::string status_socket;  // "": <kubelet root>/plugins/<first driver>/status[-<pod uid>].sock
  LogLevel log_level = LogLevel::kInfo;
  LogFormat log_format = LogFormat::kText;
  absl::Duration shutdown_grace = absl::Seconds(20);
  std::vector<DriverConfig> drivers;

  // The library of a driver, always absolute if `backend_directory` is.
  std::string LibraryPath(const DriverConfig& driver) const;
  // Where a driver keeps its records, locks and service socket: <kubelet root>/plugins/<driver name>.
  std::string DataDirectory(absl::string_view driver_name) const;
};

// The configured status socket, or one in the first driver's data directory: with the pod's UID where there is one, so
// that two instances of a rolling update do not clash; hashed where the whole would not fit. InvalidArgument if the
// configuration has neither a path nor a driver.
absl::StatusOr<std::string> StatusSocketPath(const DaemonConfig& config);

// Reads the YAML text of a configuration file. Errors: InvalidArgument, one line each, "<what>:<line>:<column>: <path>:
// <problem>"; an unknown key is one, with the nearest known key.
absl::StatusOr<DaemonConfig> ParseDaemonConfig(absl::string_view text, absl::string_view what);

// What flags and the pod's environment add: a set value replaces the file's.
struct Overrides {
  std::optional<std::string> node_name, pod_uid, kubelet_root, cdi_directory, backend_directory,
      kubeconfig, http_address, status_socket, log_level, log_format;
};
// NODE_NAME and POD_UID, through `get_environment` (returns "" when unset): used only where the file says nothing.
absl::Status ApplyOverrides(const Overrides& overrides,
                            const std::function<std::string(const char*)>& get_environment,
                            DaemonConfig* config);

// Checks what can be checked without looking at the machine: node name, driver names, absolute paths, at least one
// driver, no driver twice. InvalidArgument that names the setting (SLC-08).
absl::Status ValidateDaemonConfig(const DaemonConfig& config);

}  // namespace dra::driver
