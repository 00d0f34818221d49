#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dra/base/call.h"
#include "dra/base/clock.h"
#include "dra/base/logger.h"

namespace dra::observe {
class Metrics;
}

namespace dra::kubelet {

struct ClaimRef {
  std::string namespace_name;
  std::string name;
  std::string uid;
};

struct PreparedDevice {
  std::vector<std::string> request_names;  // base request names; empty = all
  std::string pool;
  std::string device;
  std::vector<std::string> cdi_ids;
  std::optional<std::string> share_id;  // v1 only
};

// What the kubelet's calls reach. Functions return at once; `done` runs exactly once, on any thread.
class ClaimHandler {
 public:
  virtual ~ClaimHandler() = default;
  using PrepareDone = std::function<void(absl::StatusOr<std::vector<PreparedDevice>>)>;
  using UnprepareDone = std::function<void(absl::Status)>;
  virtual void PrepareClaim(const ClaimRef& claim, const Call& call, PrepareDone done) = 0;
  virtual void UnprepareClaim(const ClaimRef& claim, const Call& call, UnprepareDone done) = 0;
};

enum class Health { kUnknown = 0, kHealthy = 1, kUnhealthy = 2 };  // the wire's numbers
struct DeviceHealth {
  std::string pool;
  std::string device;
  Health health = Health::kUnknown;
  absl::Time last_updated;
  std::string message;
};

struct Options {
  std::string driver_name;
  std::string kubelet_root = "/var/lib/kubelet";
  std::string pod_uid;  // "": dra.sock and <driver>-reg.sock; else names of a rolling update
  bool health = false;  // serve and advertise DRAResourceHealth v1 and v1alpha1
  absl::Duration health_timeout =
      absl::Seconds(30);  // sent as health_check_timeout_seconds; re-sent each third
  absl::Duration registration_patience =
      absl::Seconds(30);  // then unlink and bind the registration socket again
  absl::Duration poll_interval =
      absl::Seconds(1);  // how often the socket files and the registration are looked at
  // How long Shutdown waits for a moment without a call before the registration socket goes: the kubelet breaks off the
  // calls of an endpoint that it deregisters.
  absl::Duration idle_patience = absl::Seconds(5);
  // How long Shutdown serves on without a registration socket, until the kubelet has closed its connections. It sees that
  // the socket is gone within about a second.
  absl::Duration leave_patience = absl::Seconds(2);
};

struct RegistrationState {
  bool registered = false;
  std::string error;         // the kubelet's text when it refused
  absl::Time last_get_info;  // InfinitePast: never
  absl::Time last_call;      // of the kubelet on the service socket
  std::string registration_socket;
  std::string service_socket;
};

// The two sockets of a DRA plugin and the services on them (docs/sockets.md). Any thread.
// Every claim UID of a call is answered by exactly one entry, whatever the handler does: a UID that may not name a file,
// a handler that is silent for 44 s and a shutdown give that claim an error and leave its neighbours alone. A handler
// that blocks holds up other calls, but never the registration, which has threads of its own.
// Source: kubernetes/kubelet pkg/apis, and the behaviour of kubelets 1.34 to 1.37.
class PluginServer {
 public:
  // handler, clock, metrics (may be null) outlive this. Errors: InvalidArgument for a driver name the kubelet would
  // refuse; FailedPrecondition if <root>/plugins_registry does not exist, with the path and the setting.
  static absl::StatusOr<std::unique_ptr<PluginServer>> Create(Options options,
                                                              ClaimHandler* handler, Clock* clock,
                                                              observe::Metrics* metrics,
                                                              Logger logger);
  virtual ~PluginServer() = default;

  // Binds the service socket, then the registration socket; removes stale sockets of ours that nobody listens at. Makes
  // <root>/plugins/<driver> (0750). From then on the socket files are watched: one that was removed is made again, one
  // that another instance replaced is left to it. Once. Errors: of the system, with the path.
  virtual absl::Status Start() = 0;
  // Changes what is advertised (a backend that appeared later reports health): registers anew if it differs.
  virtual void SetHealthAdvertised(bool advertised) = 0;
  // The full list of the driver's devices; sent at once when it differs and again each health_timeout / 3. An empty
  // optional: the source is stuck, nothing is sent any more until the next list, so that the kubelet's view decays.
  virtual void SetHealth(std::optional<std::vector<DeviceHealth>> devices) = 0;
  // False: another instance of the driver reports. The streams stay open and silent, and lists are kept for later. True,
  // as it is at first: the list is sent at once.
  virtual void SetReporting(bool reporting) = 0;
  // Sends the list again on every stream, unless another instance reports: the kubelet forgets the health of all devices
  // of a driver when a stream of any of its instances ends (kubernetes/kubernetes#140818).
  virtual void ResendHealth() = 0;
  // Removes, soon, the sockets of ours that nobody listens at, as Start does: another instance has ended, perhaps without
  // removing its own, and the kubelet would go on calling it.
  virtual void RemoveDeadSockets() = 0;
  // Called each time the kubelet has registered this plugin, on the thread that looks after the sockets: it must return
  // at once and must not call Shutdown.
  virtual void OnRegistered(std::function<void()> callback) = 0;

  virtual RegistrationState State() const = 0;

  // Takes `bound` at most (each patience at most half of what is left of it). In this order: a moment without a call,
  // registration socket away, calls served until the kubelet has left, new calls refused, running calls answered, streams
  // ended, sockets removed (each only if the file is still this instance's).
  virtual void Shutdown(absl::Duration bound) = 0;
};

}  // namespace dra::kubelet
