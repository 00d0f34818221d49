#include "dra/driver/config.h"

#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/base/file_system.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"
#include "dra/driver/yaml.h"
#include "dra/kubelet/sockets.h"
#include "dra/resource/names.h"

namespace dra::driver {
namespace {

void ReadLog(YamlMapping log, DaemonConfig* config) {
  std::string level = "info";
  std::string format = "text";
  log.OneOf("level", {"trace", "debug", "info", "warn", "error", "off"}, &level);
  log.OneOf("format", {"text", "json"}, &format);
  config->log_level = *ParseLogLevel(level);
  config->log_format = format == "json" ? LogFormat::kJson : LogFormat::kText;
}

// What a fault does to its device, by severity and by fault class.
void ReadTaintEffects(YamlMapping mapping, inventory::TaintEffects* effects) {
  YamlMapping by_severity = mapping.Mapping("bySeverity");
  for (auto& [severity, effect] : effects->by_severity) {
    std::string name = inventory::TaintEffectName(effect);
    by_severity.OneOf(inventory::SeverityName(severity), {"None", "NoSchedule", "NoExecute"},
                      &name);
    effect = *inventory::TaintEffectOf(name);
  }
  YamlMapping by_class = mapping.Mapping("byClass");
  for (const std::string& fault_class : by_class.Keys()) {
    Json name;
    by_class.Any(fault_class, &name);
    const std::optional<inventory::TaintEffect> effect =
        name.is_string() ? inventory::TaintEffectOf(name.get<std::string>()) : std::nullopt;
    const absl::Status valid = fault_class.empty() ? absl::InvalidArgumentError("is empty")
                                                   : resource::CheckLabelValue(fault_class);
    if (!valid.ok()) {
      by_class.Fail(fault_class, absl::StrCat("no fault class is called so: ", valid.message()));
    } else if (!effect.has_value()) {
      by_class.Fail(fault_class, "must be one of None, NoSchedule, NoExecute");
    } else {
      effects->by_class[fault_class] = *effect;
    }
  }
}

DriverConfig ReadDriver(YamlMapping mapping) {
  DriverConfig driver;
  mapping.String("name", &driver.name);
  mapping.String("backend", &driver.backend);
  mapping.Any("config", &driver.backend_config);
  if (!driver.backend_config.is_object()) mapping.Fail("config", "must be a mapping");
  mapping.Duration("discoverInterval", absl::Seconds(1), absl::Hours(24),
                   &driver.discover_interval);
  mapping.Duration("healthInterval", absl::Seconds(1), absl::Hours(1), &driver.health_interval);
  mapping.Int("prepareThreads", 1, 256, &driver.prepare_threads);
  mapping.Int("unprepareThreads", 1, 256, &driver.unprepare_threads);
  mapping.Bool("deviceStatus", &driver.device_status);
  mapping.Duration("orphanCheckInterval", absl::Seconds(1), absl::Hours(24),
                   &driver.orphan_check_interval);
  mapping.Duration("orphanGrace", absl::Seconds(1), absl::Hours(24), &driver.orphan_grace);
  ReadTaintEffects(mapping.Mapping("taintEffects"), &driver.taint_effects);
  if (driver.name.empty())
    mapping.Fail("name", "is required: the driver name, such as gpu.example.com");
  if (driver.backend.empty()) {
    mapping.Fail("backend",
                 "is required: a library's absolute path, or the <name> of dra-backend-<name>.so");
  }
  return driver;
}

absl::Status CheckAbsolute(absl::string_view setting, absl::string_view path) {
  if (absl::StartsWith(path, "/")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(setting, " \"", path, "\" must be an absolute path"));
}

}  // namespace

std::string DaemonConfig::LibraryPath(const DriverConfig& driver) const {
  if (absl::StrContains(driver.backend, "/")) return driver.backend;
  return JoinPath(backend_directory, absl::StrCat("dra-backend-", driver.backend, ".so"));
}

std::string DaemonConfig::DataDirectory(absl::string_view driver_name) const {
  return JoinPath(JoinPath(kubelet_root, "plugins"), driver_name);
}

absl::StatusOr<std::string> StatusSocketPath(const DaemonConfig& config) {
  if (!config.status_socket.empty()) return config.status_socket;
  if (config.drivers.empty()) {
    return absl::InvalidArgumentError(
        "the status socket is unknown: give --status-socket, or --config with a driver");
  }
  const std::string directory = config.DataDirectory(config.drivers.front().name);
  const std::string name =
      config.pod_uid.empty() ? "status.sock" : absl::StrCat("status-", config.pod_uid, ".sock");
  std::string path = JoinPath(directory, name);
  if (path.size() <= kubelet::kMaxSocketPath) return path;
  return JoinPath(directory, absl::StrCat("status-", Sha256Base64Url(config.pod_uid, 4), ".sock"));
}

absl::StatusOr<DaemonConfig> ParseDaemonConfig(absl::string_view text, absl::string_view what) {
  DRA_ASSIGN_OR_RETURN(YamlMapping mapping, YamlMapping::Parse(text, what));
  DaemonConfig config;
  mapping.String("nodeName", &config.node_name);
  mapping.String("podUID", &config.pod_uid);
  mapping.String("installation", &config.installation);
  mapping.String("kubeletRoot", &config.kubelet_root);
  mapping.String("cdiDirectory", &config.cdi_directory);
  mapping.String("backendDirectory", &config.backend_directory);
  mapping.String("kubeconfig", &config.kubeconfig);
  mapping.String("httpAddress", &config.http_address);
  mapping.String("statusSocket", &config.status_socket);
  mapping.Duration("shutdownGrace", absl::Seconds(1), absl::Minutes(5), &config.shutdown_grace);
  ReadLog(mapping.Mapping("log"), &config);
  for (YamlMapping& driver : mapping.Mappings("drivers"))
    config.drivers.push_back(ReadDriver(driver));
  DRA_RETURN_IF_ERROR(mapping.Finish());
  return config;
}

absl::Status ApplyOverrides(const Overrides& overrides,
                            const std::function<std::string(const char*)>& get_environment,
                            DaemonConfig* config) {
  const auto take = [](const std::optional<std::string>& value, std::string* setting) {
    if (value.has_value()) *setting = *value;
  };
  take(overrides.node_name, &config->node_name);
  take(overrides.pod_uid, &config->pod_uid);
  take(overrides.kubelet_root, &config->kubelet_root);
  take(overrides.cdi_directory, &config->cdi_directory);
  take(overrides.backend_directory, &config->backend_directory);
  take(overrides.kubeconfig, &config->kubeconfig);
  take(overrides.http_address, &config->http_address);
  take(overrides.status_socket, &config->status_socket);
  if (config->node_name.empty()) config->node_name = get_environment("NODE_NAME");
  if (config->pod_uid.empty()) config->pod_uid = get_environment("POD_UID");
  if (overrides.log_level.has_value()) {
    DRA_ASSIGN_OR_RETURN(config->log_level, ParseLogLevel(*overrides.log_level));
  }
  if (overrides.log_format.has_value()) {
    if (*overrides.log_format != "text" && *overrides.log_format != "json") {
      return absl::InvalidArgumentError(
          absl::StrCat("log format \"", *overrides.log_format, "\" is not one of text, json"));
    }
    config->log_format = *overrides.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  }
  return absl::OkStatus();
}

absl::Status ValidateDaemonConfig(const DaemonConfig& config) {
  if (config.node_name.empty()) {
    return absl::InvalidArgumentError(
        "node name is not set: give nodeName in the configuration, --node-name, or the environment "
        "variable NODE_NAME "
        "(in a DaemonSet from fieldRef spec.nodeName)");
  }
  DRA_RETURN_IF_ERROR(Annotate(resource::CheckDnsSubdomain(config.node_name), "node name"));
  if (!config.pod_uid.empty() && !IsSafeFileId(config.pod_uid)) {
    return absl::InvalidArgumentError(absl::StrCat("pod UID \"", config.pod_uid, "\" is not one"));
  }
  DRA_RETURN_IF_ERROR(CheckAbsolute("kubeletRoot", config.kubelet_root));
  DRA_RETURN_IF_ERROR(CheckAbsolute("cdiDirectory", config.cdi_directory));
  if (config.drivers.empty()) {
    return absl::InvalidArgumentError(
        "drivers: at least one driver is needed, with a name and a backend");
  }
  std::set<std::string> names;
  for (const DriverConfig& driver : config.drivers) {
    DRA_RETURN_IF_ERROR(Annotate(resource::CheckDriverName(driver.name), "driver name"));
    if (!names.insert(driver.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("driver \"", driver.name, "\" is configured twice"));
    }
    DRA_RETURN_IF_ERROR(Annotate(CheckAbsolute("backend", config.LibraryPath(driver)),
                                 absl::StrCat("driver ", driver.name)));
  }
  return absl::OkStatus();
}

}  // namespace dra::driver
