// The dra-driver daemon with kill points. Its one argument is a JSON file (see Settings); it reads commands from stdin,
// one JSON object a line, answers each with one line on stdout, and ends at the end of stdin:
//   {"do": "arm"}                                    counts kill points from now on
//   {"do": "arm", "label": L, "occurrence": K}       and dies at that one
//   {"do": "counts"}                                 {label: passes}
//   {"do": "status"}                                 the status document
//   {"do": "halt"}                                   Daemon::Stop; the process stays, to be asked for its counts
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/json.h"
#include "dra/base/logger.h"
#include "dra/driver/daemon.h"
#include "dra/kube/http_api_client.h"
#include "test/crash/kill_points.h"
#include "test/crash/killing_api_client.h"
#include "test/crash/killing_file_system.h"
#include "test/crash/killing_locks.h"
#include "test/crash/killing_nodes.h"

namespace {

// For the backend library, which finds C functions.
dra::crash::KillPoints* g_points = nullptr;
const dra::Json* g_settings = nullptr;

// Wall time that runs ahead: what was written just now is old for this process.
class AheadClock final : public dra::Clock {
 public:
  explicit AheadClock(absl::Duration ahead) : ahead_(ahead) {}
  absl::Time Now() override { return system_.Now() + ahead_; }
  dra::MonotonicTime Monotonic() override { return system_.Monotonic(); }
  bool Sleep(absl::Duration duration, const std::stop_token& stop) override {
    return system_.Sleep(duration, stop);
  }

 private:
  const absl::Duration ahead_;
  dra::SystemClock system_;
};

dra::driver::DaemonConfig ConfigOf(const dra::Json& settings) {
  dra::driver::DaemonConfig config;
  config.node_name = dra::StringOr(settings, "node");
  config.pod_uid = dra::StringOr(settings, "podUID");
  config.kubelet_root = dra::StringOr(settings, "kubeletRoot");
  config.cdi_directory = dra::StringOr(settings, "cdiDirectory");
  config.kubeconfig = dra::StringOr(settings, "kubeconfig");
  config.status_socket = dra::StringOr(settings, "statusSocket");
  config.http_address = "";
  config.shutdown_grace = absl::Seconds(5);
  dra::driver::DriverConfig driver;
  driver.name = dra::StringOr(settings, "driver");
  driver.backend = dra::StringOr(settings, "backend");
  driver.backend_config = settings["backendConfig"];
  // Nothing of its own accord: what is counted is then the operation under test alone.
  driver.discover_interval = absl::Hours(1);
  driver.health_interval = absl::Hours(1);
  if (dra::BoolOr(settings, "looksForOrphans")) {
    driver.orphan_check_interval = absl::Milliseconds(100);
    driver.orphan_grace = absl::Milliseconds(50);
  }
  config.drivers.push_back(std::move(driver));
  return config;
}

void Arm(const dra::Json& command, dra::crash::KillPoints* points) {
  points->ArmToKill(dra::StringOr(command, "label"), command.value("occurrence", 0));
}

// One line into the hook log.
void NoteHook(const dra::Json& line) {
  if (g_settings == nullptr) return;
  std::ofstream log(dra::StringOr(*g_settings, "hookLog"), std::ios::app);
  log << dra::DumpJson(line) + "\n" << std::flush;
}

int Run(const dra::Json& settings) {
  dra::crash::KillPoints points;
  g_points = &points;
  g_settings = &settings;
  const dra::Json* arm = dra::Find(settings, "arm");
  if (arm != nullptr) Arm(*arm, &points);
  dra::crash::KillingFileSystem fs(&points, dra::StringOr(settings, "root"),
                                   dra::StringOr(settings, "bootID"));
  dra::crash::SetLockPoints(&points, dra::StringOr(settings, "root"));
  dra::crash::SetNodePoints(&points);
  AheadClock clock(absl::Seconds(settings.value("clockAheadSeconds", 0)));
  const dra::Logger logger = dra::Logger::ToStderr(dra::LogLevel::kInfo, dra::LogFormat::kText);
  auto daemon = dra::driver::Daemon::Create(ConfigOf(settings), &fs, &clock, logger);
  if (!daemon.ok()) {
    std::cerr << daemon.status() << "\n";
    return 1;
  }
  const absl::Status started = (*daemon)->Start();
  if (!started.ok()) {
    std::cerr << started << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    const dra::Json command = dra::ParseJson(line, "command").value_or(dra::Json::object());
    const std::string what = dra::StringOr(command, "do");
    dra::Json answer = dra::Json::object();
    if (what == "arm") Arm(command, &points);
    if (what == "counts") answer = points.Counts();
    if (what == "status") answer = (*daemon)->Status();
    if (what == "halt") (*daemon)->Stop();
    std::cout << dra::DumpJson(answer) << std::endl;
  }
  (*daemon)->Stop();
  daemon->reset();
  dra::crash::SetLockPoints(nullptr, "");
  dra::crash::SetNodePoints(nullptr);
  g_points = nullptr;
  return 0;
}

}  // namespace

namespace dra::crash {

// The linker leads every call of kube::MakeHttpApiClient to the first of these, and the second to that function
// (--wrap, in CMakeLists.txt). Were its signature another one day, points.txt would miss the points of the API.
absl::StatusOr<std::unique_ptr<kube::ApiClient>> MakeClientWithPoints(
    kube::ClusterConfig config, kube::HttpOptions options, Clock* clock, Logger logger,
    kube::RequestObserver observer) __asm__("__wrap_" DRA_MAKE_HTTP_API_CLIENT);
absl::StatusOr<std::unique_ptr<kube::ApiClient>> MakeClient(
    kube::ClusterConfig config, kube::HttpOptions options, Clock* clock, Logger logger,
    kube::RequestObserver observer) __asm__("__real_" DRA_MAKE_HTTP_API_CLIENT);

absl::StatusOr<std::unique_ptr<kube::ApiClient>> MakeClientWithPoints(
    kube::ClusterConfig config, kube::HttpOptions options, Clock* clock, Logger logger,
    kube::RequestObserver observer) {
  auto client = MakeClient(std::move(config), std::move(options), clock, std::move(logger),
                           std::move(observer));
  if (!client.ok()) return client.status();
  return MakeKillingApiClient(*std::move(client), g_points);
}

}  // namespace dra::crash

extern "C" __attribute__((visibility("default"))) void dra_crash_kill_point(const char* label) {
  if (g_points != nullptr) g_points->Reach(label);
}

extern "C" __attribute__((visibility("default"))) void dra_crash_note(const char* event,
                                                                      const char* claim,
                                                                      const char* undo) {
  NoteHook({{"event", event}, {"claim", claim}, {"undo", undo}});
}

// The same for a backend that keeps no hook log. devices: what the hook got.
extern "C" __attribute__((visibility("default"))) void dra_crash_note_begin(const char* hook,
                                                                            const char* claim,
                                                                            const char* devices) {
  dra::Json identities = dra::Json::array();
  for (const dra::Json& device : dra::ParseJson(devices, "devices").value_or(dra::Json::array())) {
    identities.push_back(dra::StringOr(device, "identity"));
  }
  NoteHook(
      {{"event", "begin"}, {"hook", hook}, {"claim", claim}, {"devices", std::move(identities)}});
}
extern "C" __attribute__((visibility("default"))) void dra_crash_note_end(const char* hook,
                                                                          const char* claim,
                                                                          int32_t code) {
  NoteHook({{"event", "end"}, {"hook", hook}, {"claim", claim}, {"code", code}});
}

// What reconcile_record is to answer for the claim: "edits", "redo" or "lost"; "": what the backend says.
extern "C" __attribute__((visibility("default"))) const char* dra_crash_verdict(const char* claim) {
  const dra::Json* verdicts = g_settings == nullptr ? nullptr : dra::Find(*g_settings, "verdicts");
  if (verdicts == nullptr || !verdicts->contains(claim)) return "";
  return verdicts->at(claim).get_ref<const std::string&>().c_str();
}

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: crash_daemon SETTINGS.json\n";
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  dra::PosixFileSystem fs;
  const auto text = fs.ReadFile(argv[1]);
  if (!text.ok()) {
    std::cerr << text.status() << "\n";
    return 2;
  }
  const auto settings = dra::ParseJsonObject(*text, argv[1]);
  if (!settings.ok()) {
    std::cerr << settings.status() << "\n";
    return 2;
  }
  return Run(*settings);
}
