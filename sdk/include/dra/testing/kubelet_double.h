#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/testing/object_store.h"

namespace dra::testing {

struct KubeletOptions {
  std::string root;       // the kubelet root; plugins_registry and plugins are made in it
  std::string node_name;  // whose slices are wiped
  int minor = 37;         // 34 to 37
  bool health = true;     // gate ResourceHealthStatus
  absl::Duration dial_timeout = absl::Seconds(10);
  absl::Duration get_info_timeout = absl::Seconds(1);
  absl::Duration notify_timeout = absl::Seconds(5);
  absl::Duration call_timeout = absl::Seconds(45);              // of Prepare and Unprepare
  absl::Duration registration_retry = absl::Milliseconds(500);  // first; doubles up to two minutes
  absl::Duration wipe_delay =
      absl::Seconds(30);  // from the loss of the last connection to the wipe of slices
  absl::Duration health_retry = absl::Seconds(5);
  std::string boot_id_path;         // rewritten by Reboot; "": none
  std::function<void()> on_reboot;  // empties what is tmpfs on a node: the dynamic CDI directory
};

// One registered endpoint.
struct KubeletPlugin {
  std::string driver;
  std::string registration_socket;
  std::string endpoint;
  std::string service;         // "v1.DRAPlugin" or "v1beta1.DRAPlugin"
  std::string health_service;  // as advertised and chosen; ""
  bool connected = false;
};

struct KubeletClaim {
  std::string namespace_name;
  std::string name;
  std::string uid;
};

struct KubeletDevice {
  std::vector<std::string> request_names;
  std::string pool;
  std::string device;
  std::vector<std::string> cdi_ids;
  std::optional<std::string> share_id;
  friend bool operator==(const KubeletDevice&, const KubeletDevice&) = default;
};

// What came back from one NodePrepareResources or NodeUnprepareResources.
struct KubeletReply {
  absl::Status verdict;  // as the kubelet judges it: OK, or why it gives the pod up
  std::map<std::string, std::vector<KubeletDevice>>
      devices;                                // by claim uid, of the entries without error
  std::map<std::string, std::string> errors;  // by claim uid, of the entries with one
};

// What a container gets.
struct KubeletContainer {
  std::string name;
  std::vector<std::string> cdi_ids;
};

enum class KubeletHealth { kUnknown, kHealthy, kUnhealthy };
struct KubeletDeviceHealth {
  KubeletHealth health = KubeletHealth::kUnknown;
  std::string message;
};

// The DRA side of a kubelet over the real sockets: plugin watcher, registration, prepare and unprepare, slice wiping,
// health. Reads claims and pods from, and wipes slices in, the store of an API double. docs/test-doubles.md has the
// rules. Any thread.
class FakeKubelet {
 public:
  // store outlives this. Wipes the node's slices, as every start of a kubelet does.
  static absl::StatusOr<std::unique_ptr<FakeKubelet>> Start(KubeletOptions options,
                                                            ObjectStore* store);
  ~FakeKubelet();
  FakeKubelet(const FakeKubelet&) = delete;
  FakeKubelet& operator=(const FakeKubelet&) = delete;

  // In the order of their registration.
  std::vector<KubeletPlugin> Plugins() const;
  // Waits for a connected endpoint of the driver; with `count`, for so many registered ones.
  bool WaitForPlugin(absl::string_view driver, absl::Duration patience = absl::Seconds(15)) const;
  bool WaitForPlugins(absl::string_view driver, int count,
                      absl::Duration patience = absl::Seconds(15)) const;
  // Waits until so many endpoints of the driver are registered and connected.
  bool WaitForConnected(absl::string_view driver, int count,
                        absl::Duration patience = absl::Seconds(15)) const;
  // Registration attempts that failed, "<socket>: <why>", oldest first.
  std::vector<std::string> RegistrationErrors() const;
  bool WaitForRegistrationError(absl::Duration patience = absl::Seconds(15)) const;

  // One RPC to the driver's newest connected endpoint.
  KubeletReply PrepareResources(absl::string_view driver, const std::vector<KubeletClaim>& claims);
  KubeletReply UnprepareResources(absl::string_view driver,
                                  const std::vector<KubeletClaim>& claims);

  // What the kubelet does before it creates the sandbox of a pod that is in the store: claims fetched and checked, all
  // drivers called, the CDI ids of each container. The pod's claims must be allocated and reserved for it.
  absl::StatusOr<std::vector<KubeletContainer>> RunPod(absl::string_view namespace_name,
                                                       absl::string_view name);
  // The pod's containers have ended: unprepares what no other pod uses. May be called for a pod that is gone.
  absl::Status StopPod(absl::string_view namespace_name, absl::string_view name);

  KubeletDeviceHealth Health(absl::string_view driver, absl::string_view pool,
                             absl::string_view device) const;
  bool WaitForHealth(absl::string_view driver, absl::string_view pool, absl::string_view device,
                     KubeletHealth health, absl::Duration patience = absl::Seconds(15)) const;
  // Devices in the cache of the driver, whatever their health.
  int KnownHealth(absl::string_view driver) const;

  // The kubelet process anew: connections closed, slices of the node wiped, sockets found by a walk; pods keep running
  // and every claim counts as unprepared.
  void Restart();
  // on_reboot, a new boot id, then a Restart.
  void Reboot();

  struct State;  // of the implementation

 private:
  explicit FakeKubelet(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace dra::testing
