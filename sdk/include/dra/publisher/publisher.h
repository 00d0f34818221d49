#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/json.h"
#include "dra/base/logger.h"
#include "dra/inventory/inventory.h"
#include "dra/kube/api_client.h"
#include "dra/loader/backend_handle.h"

namespace dra::observe {
class EventRecorder;
class Metrics;
}  // namespace dra::observe

namespace dra::publisher {

struct Options {
  std::string driver_name;
  std::string node_name;
  bool never_tainted = false;                        // 128 devices to a slice instead of 64
  absl::Duration coalesce = absl::Milliseconds(50);  // a burst of changes is one update
  absl::Duration retry_min = absl::Milliseconds(200);
  absl::Duration retry_max = absl::Seconds(30);
};

struct State {
  bool published =
      false;  // the stored pools equal what is wanted; false while a change is on its way. While this
              // publisher may not write: they are complete, whoever wrote them
  std::string error;  // why not; "" while working
  std::string node_uid;
  uint64_t creates = 0, updates = 0, deletes = 0;  // successful writes since start
  std::vector<inventory::Finding> findings;  // dropped by the server or by this layer, by name
};

// InvalidArgument that names a setting which is missing. A publisher with such options does nothing but say so in its
// state, so a program checks first.
absl::Status ValidateOptions(const Options& options);

// Keeps the driver's ResourceSlices on the API server equal to the inventory's snapshot. One thread for the list and
// watch, one for the writes. Any thread may call.
class Publisher {
 public:
  // `on_fields` is told (any thread) what the dry-run probe found, the first time and when it changes; the driver
  // discovers again.
  static std::unique_ptr<Publisher> Create(
      Options options, kube::ApiClient* api, Clock* clock, observe::EventRecorder* events,
      observe::Metrics* metrics, Logger logger,
      std::function<void(const loader::ServerFields&)> on_fields);
  virtual ~Publisher() = default;  // stops

  virtual void Start() = 0;
  // The wanted state; the newest wins. Snapshots that are not known are ignored.
  virtual void SetInventory(std::shared_ptr<const inventory::Snapshot> snapshot) = 0;
  // Devices that claims hold stay published whatever the probe says: (pool, device).
  virtual void SetHeld(std::vector<std::pair<std::string, std::string>> held) = 0;
  // Drains the node: every slice of this driver is deleted and none comes back until this is called with false.
  virtual void SetWithdrawn(bool withdrawn) = 0;
  // False: another instance of the driver publishes. This one goes on watching and probing, and writes, repairs and
  // reports nothing; when the call returns, a write that was under way has ended (30 s at most, less after Stop). True,
  // as it is at first: the slices are listed before the first write, then what is stored already is taken over.
  virtual void SetWriting(bool writing) = 0;
  // The kubelet has just registered us, so it may have wiped the slices: compare with the server now.
  virtual void Resync() = 0;
  virtual State GetState() const = 0;
  // Stops writing and watching; slices stay.
  virtual void Stop() = 0;
};

}  // namespace dra::publisher
