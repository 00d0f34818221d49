#pragma once

#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/clock.h"
#include "dra/testing/kubelet_double.h"
#include "testing/plugin_client.h"
#include "testing/registry_watcher.h"

namespace dra::testing {

struct FakeKubelet::State {
  // One registered endpoint. Its threads end before it does.
  struct Plugin {
    KubeletPlugin info;  // `connected` is guarded by State::mutex, the rest does not change
    PluginClient client;
    std::jthread monitor;
    std::jthread health;
    explicit Plugin(KubeletPlugin registered)
        : info(std::move(registered)), client(info.endpoint) {}
  };
  using PluginPtr = std::shared_ptr<Plugin>;

  struct Claim {
    KubeletClaim ref;
    std::set<std::string> pods;  // "<namespace>/<name>"
    std::map<std::string, std::vector<KubeletDevice>> drivers;
    bool prepared = false;  // memory only: a restart forgets it
  };
  struct HealthEntry {
    ReportedHealth report;
    absl::Time received;
  };

  State(KubeletOptions given, ObjectStore* objects) : options(std::move(given)), store(objects) {}
  ~State();

  absl::Status StartWatching();
  // Ends all threads; closes all connections.
  void StopAll();
  void WipeSlices(const std::string& driver);  // "": of all drivers
  void Housekeep(const std::stop_token& stop);

  // -- registration --
  void OnSocketCreated(const std::string& path);
  void OnSocketRemoved(const std::string& path);
  void Register(const std::string& path, const std::stop_token& stop);
  // OK, or why not; `retry` says whether this kubelet version tries again.
  absl::Status TryRegister(const std::string& path, const std::stop_token& stop, bool& retry);
  PluginPtr AddPlugin(KubeletPlugin info);
  void RemovePlugin(const std::string& registration_socket);
  void Monitor(Plugin* plugin, const std::stop_token& stop);
  void StreamHealth(Plugin* plugin, const std::stop_token& stop);
  void ScheduleWipeIfAlone(const std::string& driver) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Newest connected, else newest, else null.
  PluginPtr Select(absl::string_view driver) const;

  // -- pods --
  KubeletReply Call(const std::string& driver, const std::vector<KubeletClaim>& claims,
                    bool prepare);
  KubeletDeviceHealth HealthOf(const std::string& driver, const std::string& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  const KubeletOptions options;
  ObjectStore* const store;
  SystemClock clock;

  mutable absl::Mutex mutex;
  mutable absl::CondVar changed;
  std::vector<PluginPtr> plugins ABSL_GUARDED_BY(mutex);
  std::map<std::string, absl::Time> wipe_at ABSL_GUARDED_BY(mutex);  // by driver
  std::map<std::string, Claim> claims ABSL_GUARDED_BY(mutex);        // by uid
  std::map<std::string, std::map<std::string, HealthEntry>> health ABSL_GUARDED_BY(mutex);
  std::vector<std::string> errors ABSL_GUARDED_BY(mutex);
  // By socket path, of those where the last attempt failed: what comes to lie there later waits all the same, as with
  // the plugin manager's operations, which are kept by path. A restart forgets them.
  struct Backoff {
    absl::Time until;
    absl::Duration next;
  };
  std::map<std::string, Backoff> backoffs ABSL_GUARDED_BY(mutex);

  std::map<std::string, std::jthread>
      registrations;  // by socket; the watcher's thread only, or nobody else alive
  std::unique_ptr<RegistryWatcher> watcher;
  std::jthread housekeeper;
};

}  // namespace dra::testing
