#include "dra/testing/kubelet_double.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"
#include "testing/kubelet_state.h"

namespace dra::testing {
namespace {

constexpr absl::Duration kMaxRegistrationRetry = absl::Seconds(122);
constexpr absl::Duration kConnectionPoll = absl::Milliseconds(50);

bool Lists(const std::vector<std::string>& services, absl::string_view service) {
  return std::find(services.begin(), services.end(), service) != services.end();
}

}  // namespace

FakeKubelet::State::~State() { StopAll(); }

absl::Status FakeKubelet::State::StartWatching() {
  housekeeper = std::jthread([this](const std::stop_token& stop) { Housekeep(stop); });
  absl::StatusOr<std::unique_ptr<RegistryWatcher>> started = RegistryWatcher::Start(
      JoinPath(options.root, "plugins_registry"),
      [this](const std::string& path) { OnSocketCreated(path); },
      [this](const std::string& path) { OnSocketRemoved(path); });
  if (!started.ok()) return started.status();
  watcher = *std::move(started);
  return absl::OkStatus();
}

void FakeKubelet::State::StopAll() {
  watcher.reset();
  for (auto& [path, thread] : registrations) thread.request_stop();
  registrations.clear();  // joins
  {
    absl::MutexLock lock(&mutex);
    backoffs.clear();
  }
  std::vector<PluginPtr> ended;
  {
    absl::MutexLock lock(&mutex);
    ended.swap(plugins);
  }
  for (const PluginPtr& plugin : ended) {
    plugin->monitor.request_stop();
    plugin->health.request_stop();
  }
  for (const PluginPtr& plugin : ended) {
    plugin->monitor = {};
    plugin->health = {};
  }
  if (housekeeper.joinable()) {
    housekeeper.request_stop();
    housekeeper.join();
  }
  absl::MutexLock lock(&mutex);
  wipe_at.clear();
  health.clear();
  changed.SignalAll();
}

void FakeKubelet::State::WipeSlices(const std::string& driver) {
  StoreQuery query;
  query.field_selector = absl::StrCat("spec.nodeName=", options.node_name);
  if (!driver.empty()) absl::StrAppend(&query.field_selector, ",spec.driver=", driver);
  (void)store->DeleteCollection(kube::ResourceSlices(), "", query);
}

void FakeKubelet::State::Housekeep(const std::stop_token& stop) {
  std::stop_callback wake(stop, [this] {
    absl::MutexLock lock(&mutex);
    changed.SignalAll();
  });
  while (!stop.stop_requested()) {
    std::vector<std::string> due;
    {
      absl::MutexLock lock(&mutex);
      absl::Time next = absl::InfiniteFuture();
      for (const auto& [driver, at] : wipe_at) {
        if (at <= absl::Now()) due.push_back(driver);
        next = std::min(next, at);
      }
      for (const std::string& driver : due) wipe_at.erase(driver);
      if (due.empty() && !stop.stop_requested()) changed.WaitWithDeadline(&mutex, next);
    }
    for (const std::string& driver : due) WipeSlices(driver);
  }
}

void FakeKubelet::State::OnSocketCreated(const std::string& path) {
  registrations[path] =
      std::jthread([this, path](const std::stop_token& stop) { Register(path, stop); });
}

void FakeKubelet::State::OnSocketRemoved(const std::string& path) {
  registrations.erase(path);  // stops and joins
  RemovePlugin(path);
}

void FakeKubelet::State::Register(const std::string& path, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    absl::Duration wait;
    {
      absl::MutexLock lock(&mutex);
      const auto before = backoffs.find(path);
      if (before != backoffs.end()) wait = before->second.until - clock.Now();
    }
    if (wait > absl::ZeroDuration() && !clock.Sleep(wait, stop)) return;
    bool retry = true;
    const absl::Status status = TryRegister(path, stop, retry);
    absl::MutexLock lock(&mutex);
    if (status.ok()) {
      backoffs.erase(path);
      return;
    }
    errors.push_back(absl::StrCat(path, ": ", status.ToString()));
    changed.SignalAll();
    Backoff& backoff =
        backoffs.try_emplace(path, Backoff{{}, options.registration_retry}).first->second;
    backoff.until = clock.Now() + backoff.next;
    backoff.next = std::min(backoff.next * 2, kMaxRegistrationRetry);
    if (!retry) return;
  }
}

absl::Status FakeKubelet::State::TryRegister(const std::string& path, const std::stop_token& stop,
                                             bool& retry) {
  PluginClient registration(path);
  if (!registration.Connect(options.dial_timeout, stop)) {
    return absl::UnavailableError(
        absl::StrCat("dial failed within ", absl::FormatDuration(options.dial_timeout)));
  }
  DRA_ASSIGN_OR_RETURN(const PluginInfo info, registration.GetInfo(options.get_info_timeout));
  const auto refuse = [&](const std::string& why) {
    (void)registration.NotifyRegistrationStatus(false, why, options.notify_timeout);
    return absl::FailedPreconditionError(why);
  };
  if (info.type != "DRAPlugin") {
    return refuse(
        absl::StrCat("no handler registered for plugin type: ", info.type, " at socket ", path));
  }
  if (info.name.empty()) return refuse("empty DRA driver name");
  KubeletPlugin plugin;
  plugin.driver = info.name;
  plugin.registration_socket = path;
  plugin.endpoint = info.endpoint.empty() ? path : info.endpoint;
  // The first of the plugin's own list that this kubelet speaks, whatever is newer.
  for (const std::string& service : info.supported_versions) {
    if (service == "v1.DRAPlugin" || service == "v1beta1.DRAPlugin") {
      plugin.service = service;
      break;
    }
  }
  if (plugin.service.empty()) {
    return refuse(
        absl::StrCat("none of the DRA gRPC services advertised by the plugin are supported: [",
                     absl::StrJoin(info.supported_versions, " "), "]"));
  }
  if (options.minor >= 37) {
    for (const char* service : {"v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"}) {
      if (plugin.health_service.empty() && Lists(info.supported_versions, service))
        plugin.health_service = service;
    }
  } else {
    plugin.health_service = "v1alpha1.DRAResourceHealth";  // advertised or not
  }
  const PluginPtr added = AddPlugin(plugin);
  if (added == nullptr) {
    // Up to 1.35 the manager takes the plugin for registered from here on, and never tries again.
    retry = options.minor >= 36;
    return refuse(absl::StrCat("endpoint ", plugin.endpoint,
                               " already registered for DRA driver plugin ", plugin.driver));
  }
  const absl::Status notified =
      registration.NotifyRegistrationStatus(true, "", options.notify_timeout);
  if (notified.ok()) return notified;
  retry = options.minor >= 36;
  if (retry) RemovePlugin(path);
  return notified;
}

FakeKubelet::State::PluginPtr FakeKubelet::State::AddPlugin(KubeletPlugin info) {
  auto plugin = std::make_shared<Plugin>(std::move(info));
  {
    absl::MutexLock lock(&mutex);
    for (const PluginPtr& other : plugins) {
      if (other->info.driver == plugin->info.driver &&
          other->info.endpoint == plugin->info.endpoint)
        return nullptr;
    }
    plugins.push_back(plugin);
    changed.SignalAll();
  }
  plugin->monitor =
      std::jthread([this, raw = plugin.get()](const std::stop_token& stop) { Monitor(raw, stop); });
  if (options.health && !plugin->info.health_service.empty()) {
    plugin->health = std::jthread(
        [this, raw = plugin.get()](const std::stop_token& stop) { StreamHealth(raw, stop); });
  }
  return plugin;
}

void FakeKubelet::State::RemovePlugin(const std::string& registration_socket) {
  PluginPtr removed;
  {
    absl::MutexLock lock(&mutex);
    for (auto plugin = plugins.begin(); plugin != plugins.end(); ++plugin) {
      if ((*plugin)->info.registration_socket != registration_socket) continue;
      removed = *plugin;
      plugins.erase(plugin);
      ScheduleWipeIfAlone(removed->info.driver);
      break;
    }
    changed.SignalAll();
  }
  if (removed == nullptr) return;
  removed->client.BreakCalls();
  removed->health.request_stop();
  removed->monitor = {};
  removed->health = {};
}

void FakeKubelet::State::ScheduleWipeIfAlone(const std::string& driver) {
  for (const PluginPtr& plugin : plugins) {
    if (plugin->info.driver == driver && plugin->info.connected) return;
  }
  wipe_at.emplace(driver, absl::Now() + options.wipe_delay);  // further losses do not prolong it
}

void FakeKubelet::State::Monitor(Plugin* plugin, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const bool connected = plugin->client.PollConnected(kConnectionPoll);
    absl::MutexLock lock(&mutex);
    if (connected == plugin->info.connected || stop.stop_requested()) continue;
    plugin->info.connected = connected;
    if (connected) {
      wipe_at.erase(plugin->info.driver);
    } else {
      ScheduleWipeIfAlone(plugin->info.driver);
    }
    changed.SignalAll();
  }
}

void FakeKubelet::State::StreamHealth(Plugin* plugin, const std::stop_token& stop) {
  const std::string driver = plugin->info.driver;
  while (!stop.stop_requested()) {
    const absl::Status end = plugin->client.WatchHealth(
        plugin->info.health_service,
        [&](const std::vector<ReportedHealth>& report) {
          absl::MutexLock lock(&mutex);
          for (ReportedHealth device : report) {
            if (options.minor < 36) device.message.clear();
            if (options.minor < 35) device.timeout = absl::Seconds(30);
            health[driver][absl::StrCat(device.pool, "/", device.device)] = {device, absl::Now()};
          }
          changed.SignalAll();
        },
        stop);
    {
      // Whichever stream of the driver ends: everything known of it is forgotten.
      absl::MutexLock lock(&mutex);
      health.erase(driver);
      changed.SignalAll();
    }
    if (options.minor >= 37 && absl::IsUnimplemented(end)) return;
    if (!clock.Sleep(options.health_retry, stop)) return;
  }
}

FakeKubelet::State::PluginPtr FakeKubelet::State::Select(absl::string_view driver) const {
  absl::MutexLock lock(&mutex);
  PluginPtr newest;
  for (auto plugin = plugins.rbegin(); plugin != plugins.rend(); ++plugin) {
    if ((*plugin)->info.driver != driver) continue;
    if ((*plugin)->info.connected) return *plugin;
    if (newest == nullptr) newest = *plugin;
  }
  return newest;
}

FakeKubelet::FakeKubelet(std::unique_ptr<State> state) : state_(std::move(state)) {}
FakeKubelet::~FakeKubelet() = default;

absl::StatusOr<std::unique_ptr<FakeKubelet>> FakeKubelet::Start(KubeletOptions options,
                                                                ObjectStore* store) {
  PosixFileSystem fs;
  for (const char* directory : {"plugins_registry", "plugins"}) {
    DRA_RETURN_IF_ERROR(Annotate(MakeDirectories(fs, JoinPath(options.root, directory), 0755),
                                 "start kubelet double"));
  }
  auto state = std::make_unique<State>(std::move(options), store);
  state->WipeSlices("");
  DRA_RETURN_IF_ERROR(Annotate(state->StartWatching(), "start kubelet double"));
  return std::unique_ptr<FakeKubelet>(new FakeKubelet(std::move(state)));
}

void FakeKubelet::Restart() {
  state_->StopAll();
  {
    absl::MutexLock lock(&state_->mutex);
    for (auto& [uid, claim] : state_->claims) claim.prepared = false;
  }
  state_->WipeSlices("");
  (void)state_->StartWatching();
}

void FakeKubelet::Reboot() {
  state_->StopAll();
  if (state_->options.on_reboot != nullptr) state_->options.on_reboot();
  if (!state_->options.boot_id_path.empty()) {
    PosixFileSystem fs;
    (void)WriteFileAtomically(fs, state_->options.boot_id_path, NewUuid() + "\n", 0444,
                              Durability::kVolatile);
  }
  Restart();
}

std::vector<KubeletPlugin> FakeKubelet::Plugins() const {
  absl::MutexLock lock(&state_->mutex);
  std::vector<KubeletPlugin> all;
  for (const State::PluginPtr& plugin : state_->plugins) all.push_back(plugin->info);
  return all;
}

bool FakeKubelet::WaitForPlugin(absl::string_view driver, absl::Duration patience) const {
  const absl::Time until = absl::Now() + patience;
  absl::MutexLock lock(&state_->mutex);
  for (;;) {
    for (const State::PluginPtr& plugin : state_->plugins) {
      if (plugin->info.driver == driver && plugin->info.connected) return true;
    }
    if (state_->changed.WaitWithDeadline(&state_->mutex, until)) return false;
  }
}

bool FakeKubelet::WaitForPlugins(absl::string_view driver, int count,
                                 absl::Duration patience) const {
  const absl::Time until = absl::Now() + patience;
  absl::MutexLock lock(&state_->mutex);
  for (;;) {
    int registered = 0;
    for (const State::PluginPtr& plugin : state_->plugins)
      registered += plugin->info.driver == driver ? 1 : 0;
    if (registered == count) return true;
    if (state_->changed.WaitWithDeadline(&state_->mutex, until)) return false;
  }
}

bool FakeKubelet::WaitForConnected(absl::string_view driver, int count,
                                   absl::Duration patience) const {
  const absl::Time until = absl::Now() + patience;
  absl::MutexLock lock(&state_->mutex);
  for (;;) {
    int connected = 0;
    for (const State::PluginPtr& plugin : state_->plugins) {
      connected += plugin->info.driver == driver && plugin->info.connected ? 1 : 0;
    }
    if (connected == count) return true;
    if (state_->changed.WaitWithDeadline(&state_->mutex, until)) return false;
  }
}

std::vector<std::string> FakeKubelet::RegistrationErrors() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->errors;
}

bool FakeKubelet::WaitForRegistrationError(absl::Duration patience) const {
  const absl::Time until = absl::Now() + patience;
  absl::MutexLock lock(&state_->mutex);
  while (state_->errors.empty()) {
    if (state_->changed.WaitWithDeadline(&state_->mutex, until)) return false;
  }
  return true;
}

}  // namespace dra::testing
