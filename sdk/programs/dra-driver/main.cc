// dra-driver: the node daemon. Reads its configuration, runs until SIGTERM or SIGINT.

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/logger.h"
#include "dra/base/status.h"
#include "dra/driver/config.h"
#include "dra/driver/daemon.h"
#include "dra/driver/preflight.h"
#include "dra/driver/version.h"
#include "dra/loader/loader.h"

namespace dra::driver {
namespace {

struct Flags {
  std::string config_file;
  Overrides overrides;
  bool check = false;
  bool list_backends = false;
};

std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void AddFlags(CLI::App* app, Flags* flags) {
  app->description(
      "Runs DRA drivers on a node: one or several driver names, each with a backend library.");
  app->add_option("--config", flags->config_file,
                  "configuration file (YAML), see docs/configuration.md");
  app->add_option("--node-name", flags->overrides.node_name,
                  "this node's name; default $NODE_NAME");
  app->add_option("--pod-uid", flags->overrides.pod_uid,
                  "this pod's UID, for rolling updates; default $POD_UID");
  app->add_option("--kubeconfig", flags->overrides.kubeconfig,
                  "kubeconfig; default: the pod's service account");
  app->add_option("--kubelet-root", flags->overrides.kubelet_root, "the kubelet's --root-dir");
  app->add_option("--cdi-directory", flags->overrides.cdi_directory, "directory for CDI files");
  app->add_option("--backend-directory", flags->overrides.backend_directory,
                  "where dra-backend-<name>.so are");
  app->add_option("--http-address", flags->overrides.http_address,
                  "address of /metrics, /healthz, /readyz");
  app->add_option("--status-socket", flags->overrides.status_socket, "path of the status socket");
  app->add_option("--log-level", flags->overrides.log_level,
                  "trace, debug, info, warn, error or off");
  app->add_option("--log-format", flags->overrides.log_format, "text or json");
  app->add_flag("--check", flags->check,
                "check configuration, paths, credentials and backends, then exit");
  app->add_flag("--list-backends", flags->list_backends,
                "show the libraries of the backend directory, then exit");
  app->set_version_flag("--version", std::string("dra-driver ") + kVersion);
}

absl::StatusOr<DaemonConfig> ReadConfig(const Flags& flags, FileSystem& fs) {
  DaemonConfig config;
  if (!flags.config_file.empty()) {
    DRA_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(flags.config_file));
    DRA_ASSIGN_OR_RETURN(config, ParseDaemonConfig(text, flags.config_file));
  }
  if (config.backend_directory.empty()) config.backend_directory = DRA_BACKEND_DIRECTORY;
  DRA_RETURN_IF_ERROR(ApplyOverrides(flags.overrides, FromEnvironment, &config));
  return config;
}

int Fail(const absl::Status& status) {
  std::cerr << "dra-driver: " << std::string(status.message()) << "\n";
  return 1;
}

int ListBackends(const DaemonConfig& config) {
  const auto files = loader::ListBackends(config.backend_directory);
  if (!files.ok()) return Fail(files.status());
  for (const loader::BackendFile& file : *files) {
    const char* state = "not a backend";
    if (file.state == loader::BackendFile::State::kUsable) state = "usable";
    if (file.state == loader::BackendFile::State::kRefused) state = "refused";
    std::cout << file.path << "\t" << state << "\t" << file.name << " " << file.version;
    if (!file.cause.empty()) std::cout << "\t" << file.cause;
    std::cout << "\n";
  }
  return 0;
}

int Check(const DaemonConfig& config, FileSystem& fs, Clock& clock) {
  bool all_ok = true;
  for (const CheckResult& result : RunChecks(config, fs, clock)) {
    std::cout << (result.ok ? "ok    " : "FAIL  ") << result.subject << ": " << result.message
              << "\n";
    all_ok = all_ok && result.ok;
  }
  return all_ok ? 0 : 1;
}

// Signals are blocked in every thread and taken here, one at a time.
int RunDaemon(const DaemonConfig& config, FileSystem& fs, Clock& clock) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  const Logger logger = Logger::ToStderr(config.log_level, config.log_format);
  absl::StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Create(config, &fs, &clock, logger);
  if (!daemon.ok()) return Fail(daemon.status());
  logger.Info("starting", {{"version", kVersion}, {"node", config.node_name}});
  const absl::Status started = (*daemon)->Start();
  if (!started.ok()) return Fail(started);
  int signal = 0;
  sigwait(&signals, &signal);
  logger.Info("stopping", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
  (*daemon)->Stop();
  logger.Info("stopped");
  return 0;
}

int Main(int argc, char** argv) {
  CLI::App app;
  Flags flags;
  AddFlags(&app, &flags);
  CLI11_PARSE(app, argc, argv);

  PosixFileSystem fs;
  SystemClock clock;
  const absl::StatusOr<DaemonConfig> config = ReadConfig(flags, fs);
  if (!config.ok()) return Fail(config.status());
  if (flags.list_backends) return ListBackends(*config);
  if (flags.check) return Check(*config, fs, clock);
  const absl::Status valid = ValidateDaemonConfig(*config);
  if (!valid.ok()) return Fail(valid);
  return RunDaemon(*config, fs, clock);
}

}  // namespace
}  // namespace dra::driver

int main(int argc, char** argv) { return dra::driver::Main(argc, argv); }
