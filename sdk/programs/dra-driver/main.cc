// dra-driver: the node daemon. Reads its configuration, runs until SIGTERM or SIGINT.

#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/logger.h"
#include "dra/base/status.h"
#include "dra/driver/config.h"
#include "dra/driver/daemon.h"
#include "dra/driver/operator_commands.h"
#include "dra/driver/preflight.h"
#include "dra/driver/probe.h"
#include "dra/driver/version.h"
#include "dra/loader/loader.h"

namespace dra::driver {
namespace {

// glibc's allocator gives each thread an arena of its own, up to eight a core, and each keeps what it once had. Our
// threads mostly wait: a few arenas do, and memory that one thread frees is there for the next.
constexpr int kAllocatorArenas = 2;
// How often memory that is free inside of the allocator goes back to the system: a look at a thousand devices or a burst
// of claims needs megabytes for a moment, and the process runs for months.
constexpr timespec kTrimPeriod = {10, 0};

struct Flags {
  std::string config_file;
  Overrides overrides;
  bool check = false;
  bool list_backends = false;
  std::optional<std::string> probe;
  DrainCommand drain;
  ClearFaultCommand clear_fault;
  UninstallCheckCommand uninstall_check;
  double drain_wait_seconds = 0;
  double clear_fault_wait_seconds = 10;
};

constexpr char kDrain[] = "drain";
constexpr char kClearFault[] = "clear-fault";
constexpr char kUninstallCheck[] = "uninstall-check";

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
  app->add_option("--probe", flags->probe,
                  "ask the running instance at the status socket, then exit: live or ready");
  app->set_version_flag("--version", std::string("dra-driver ") + kVersion);
}

// The operator's commands; they take the flags above too.
void AddCommands(CLI::App* app, Flags* flags) {
  app->require_subcommand(0, 1);
  CLI::App* drain = app->add_subcommand(kDrain, "keep new work away from a driver's devices");
  drain->add_option("--driver", flags->drain.driver, "driver name")->required();
  drain->add_option("--mode", flags->drain.mode, "taint (default) or withdraw");
  drain->add_flag("--off", flags->drain.off, "end the drain");
  drain->add_option("--wait", flags->drain_wait_seconds,
                    "seconds to wait until no claim holds a device");
  CLI::App* clear =
      app->add_subcommand(kClearFault, "give evidence that a device's fault has gone");
  clear->add_option("--driver", flags->clear_fault.driver, "driver name")->required();
  clear->add_option("--device", flags->clear_fault.device, "device name")->required();
  clear->add_option("--pool", flags->clear_fault.pool, "pool; default: the node's own");
  clear->add_option("--evidence", flags->clear_fault.evidence, "what was done or seen")->required();
  clear->add_option("--wait", flags->clear_fault_wait_seconds,
                    "seconds to wait for the driver's answer");
  CLI::App* check = app->add_subcommand(kUninstallCheck,
                                        "show the claims that a removed driver would leave stuck");
  check->add_option("--driver", flags->uninstall_check.driver,
                    "driver name; default: all that are configured or have run here");
  check->add_flag("--json", flags->uninstall_check.json, "print JSON");
  for (CLI::App* command : {drain, clear, check}) command->fallthrough();
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

int Probe(const std::string& question, const DaemonConfig& config) {
  const std::optional<ProbeQuestion> parsed = ParseProbeQuestion(question);
  if (!parsed.has_value()) {
    std::cerr << "dra-driver: probe \"" << question << "\" is not one of live, ready\n";
    return kProbeUnknown;
  }
  const absl::StatusOr<std::string> path = StatusSocketPath(config);
  if (!path.ok()) {
    Fail(path.status());
    return kProbeUnknown;
  }
  return RunProbe({*parsed, *path, config.pod_uid}, std::cout, std::cerr);
}

// The exit status of the operator's command that was given, if one was.
std::optional<int> RunCommand(const CLI::App& app, Flags flags, const DaemonConfig& config,
                              FileSystem& fs, Clock& clock) {
  const char* login = ::getlogin();
  const CommandContext context = {&fs,
                                  &clock,
                                  &std::cout,
                                  &std::cerr,
                                  config.kubelet_root,
                                  login != nullptr ? login : absl::StrCat("uid ", ::getuid())};
  if (app.got_subcommand(kDrain)) {
    flags.drain.wait = absl::Seconds(flags.drain_wait_seconds);
    return RunDrain(context, flags.drain);
  }
  if (app.got_subcommand(kClearFault)) {
    flags.clear_fault.wait = absl::Seconds(flags.clear_fault_wait_seconds);
    return RunClearFault(context, flags.clear_fault);
  }
  if (!app.got_subcommand(kUninstallCheck)) return std::nullopt;
  for (const DriverConfig& driver : config.drivers)
    flags.uninstall_check.configured.push_back(driver.name);
  return RunUninstallCheck(context, flags.uninstall_check);
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
  int signal = -1;
  while ((signal = sigtimedwait(&signals, nullptr, &kTrimPeriod)) < 0) malloc_trim(0);
  logger.Info("stopping", {{"signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"}});
  (*daemon)->Stop();
  logger.Info("stopped");
  return 0;
}

int Main(int argc, char** argv) {
  mallopt(M_ARENA_MAX, kAllocatorArenas);
  // Debian builds abseil with its search for deadlocks: each lock of each mutex, gRPC's too, updates one graph of all
  // mutexes under one lock. That is for tests.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  CLI::App app;
  Flags flags;
  AddFlags(&app, &flags);
  AddCommands(&app, &flags);
  CLI11_PARSE(app, argc, argv);

  PosixFileSystem fs;
  SystemClock clock;
  const absl::StatusOr<DaemonConfig> config = ReadConfig(flags, fs);
  if (!config.ok()) {
    const int failed = Fail(config.status());
    // For a command and a probe 1 would be an answer.
    return app.get_subcommands().empty() && !flags.probe.has_value() ? failed : kExitUnknown;
  }
  if (const std::optional<int> status = RunCommand(app, flags, *config, fs, clock)) return *status;
  if (flags.probe.has_value()) return Probe(*flags.probe, *config);
  if (flags.list_backends) return ListBackends(*config);
  if (flags.check) return Check(*config, fs, clock);
  const absl::Status valid = ValidateDaemonConfig(*config);
  if (!valid.ok()) return Fail(valid);
  return RunDaemon(*config, fs, clock);
}

}  // namespace
}  // namespace dra::driver

int main(int argc, char** argv) { return dra::driver::Main(argc, argv); }
