#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/json.h"
#include "dra/base/logger.h"
#include "dra/inventory/fault.h"
#include "dra/inventory/taint_effects.h"
#include "dra/loader/backend_handle.h"
#include "nlohmann/json.hpp"

namespace dra::inventory {

// Something that was repaired, dropped or could not be looked at. Shown in log, metric, Event and status socket.
struct Finding {
  std::string pool;
  std::string device;   // "" for a pool-level finding
  std::string field;    // "attributes[driverVersion]", "" for the whole device
  std::string value;    // what the backend gave, cut to 128 bytes
  std::string problem;  // names the limit
  std::string
      action;  // "repaired to ...", "attribute dropped", "device dropped", "kept last inventory", ...
  friend bool operator==(const Finding&, const Finding&) = default;
};

struct Device {
  std::string pool;  // full pool name
  std::string name;
  std::string identity;
  std::vector<loader::ExclusionKey>
      exclusion_keys;  // never empty: a device without a key is its own key
  Json device;         // resource.k8s.io/v1 Device, valid; health taints merged in
  loader::DeviceHealth health;
  absl::Time health_since;
  bool gone = false;  // not discovered any more, published because a claim holds it
  bool leans =
      false;  // on a field that the server drops, or may drop: published only while a claim holds it
  bool withheld =
      false;  // not published: leans on a field the server drops; still prepared if allocated, but see hidden_fault
  bool hidden_fault =
      false;  // sick, and no taint can tell the scheduler; not to be given to new work
};

struct Pool {
  std::string name;
  std::vector<std::shared_ptr<const Device>> devices;  // sorted by name
  std::vector<Json> counter_sets;      // resource.k8s.io/v1 CounterSet, sorted by name
  Json slice_fields = Json::object();  // further ResourceSliceSpec members
};

// An immutable picture of what the backend reported.
struct Snapshot {
  uint64_t version = 0;     // grows with every change of content
  bool known = false;       // false: no discovery has succeeded yet; pools are unknown, not empty
  std::vector<Pool> pools;  // sorted by name; at least the node's own pool once known
  std::vector<Finding> findings;
  // As given to SetLost, also what is not in `pools`: a process that starts does not know what is gone.
  std::map<std::pair<std::string, std::string>, std::string> lost;
  absl::Time lost_since;    // of the last change of `lost`
  absl::Status last_error;  // of the last discovery; OK when it succeeded
  absl::Time last_success;

  const Device* FindDevice(absl::string_view pool, absl::string_view name) const;
};

struct Options {
  std::string driver_name;
  std::string node_name;  // name of the node's own pool; further pools are "<node>/<suffix>"
  bool never_tainted = false;
  std::string taint_key;            // of health taints; default "<driver name>/unhealthy"
  TaintEffects taint_effects = {};  // of health taints
};

// Keeps one state per device. Discoveries and health reports go in, snapshots come out. Any thread.
//
// Names: a name belongs to an identity. Other hardware under the name of a held device, and a held device under a new
//   name, are refused with a finding until the claim ends; without a claim the new report counts (other hardware in the
//   same slot keeps the slot's name). Of two devices with one name the one with the lower identity stays; two devices
//   may have one identity only if they have an exclusion key in common. An empty identity costs the device.
// Absence: a device missing from a complete discovery goes, unless a claim holds it (gone), or an item error names it or
//   its identity. A backend that wants a broken slot to stay listed and tainted goes on reporting the
//   device, and reports it unhealthy.
// Health: one state per device, the worst of the backend's health reports, its own taints that keep work away, the
//   fault that an earlier process noted, and SetLost. It goes to the taint and to Device::health alike, but what is only
//   lost to its claim gets no taint: whether new work may have it is for the backend's reports to say. A device with a fault gets
//   the taint {taint_key, fault class, effect by taint_effects} beside its own taints; timeAdded is the second the effect
//   appeared and stays, also over a restart. The fault ends as fault.h says: "unknown" is shown where there is none, gives no taint, and
//   takes none away; a stored fault waits for a report of this process. Other hardware in the place inherits nothing.
// Drain: the taint {<driver name>/drain, NoSchedule} on every device; it says nothing of their health.
// Withheld: a device that leans on a gated field (counters, shares, binding conditions, a taint that keeps
//   work away) is withheld until the server is known to keep it, unless a claim holds it.
class Inventory {
 public:
  Inventory(Options options, Clock* clock, Logger logger);  // clock outlives this

  // Takes a discovery. A device that `held` names (full pool, name) and that is no longer reported stays, marked gone.
  // With result.complete false, devices that are not in it stay as they were. Returns the new snapshot.
  std::shared_ptr<const Snapshot> Update(
      const loader::DiscoverResult& result, const loader::ServerFields& fields,
      const std::vector<std::pair<std::string, std::string>>& held);
  // A discovery that failed: what is known stays, the error is shown.
  std::shared_ptr<const Snapshot> UpdateFailed(const absl::Status& error);
  // Takes a health report of all devices. Devices it leaves out become unknown.
  std::shared_ptr<const Snapshot> UpdateHealth(const std::vector<loader::DeviceHealth>& health);
  // The health source itself failed: every device's health becomes unknown.
  std::shared_ptr<const Snapshot> UpdateHealthFailed(const absl::Status& error);

  // What the notes of devices say that the next Update may bring: taken for devices that are new to it, then forgotten.
  void Restore(const std::vector<Fault>& faults);
  // The faults that changed since the last call, each once, for their notes. The caller writes them.
  std::vector<Fault> TakeFaultChanges();
  // The devices that are sick now.
  std::vector<Fault> Faults() const;
  // Takes evidence that the device's fault has gone. It ends now, unless the last report says that the device is sick:
  // then with the first healthy one. `pool` is the full name. Returns the fault as it is then; evidence that ended it may
  // be given again. Errors: Unavailable before the first discovery, NotFound, FailedPrecondition if there is no fault or the evidence is
  // older than it.
  absl::StatusOr<Fault> ClearFault(absl::string_view pool, absl::string_view device,
                                   const Evidence& evidence);
  // Devices that are lost to the claims that hold them: (full pool, name) -> text for people. Takes the place of the last
  // ones.
  std::shared_ptr<const Snapshot> SetLost(
      std::map<std::pair<std::string, std::string>, std::string> lost);
  // Puts the drain taint on every device, since then, or takes it away.
  std::shared_ptr<const Snapshot> SetDrain(bool on, absl::Time since);

  std::shared_ptr<const Snapshot> Get() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace dra::inventory
