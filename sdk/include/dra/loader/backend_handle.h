#pragma once

#include <cstdint>
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
#include "dra/base/call.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::loader {

// What a backend says of itself (hook `describe`), checked.
struct Manifest {
  struct ConfigKind {
    std::string api_version;  // "gpu.resource.example.com/v1alpha1"
    std::string kind;
    Json schema;  // JSON schema of the parameters, or null
  };
  struct Attribute {
    std::string name;
    std::string type;  // "string", "int", "bool", "version" or their plurals
    std::string description;
    bool is_volatile =
        false;  // changes during a device's life: published only with a warning (INV-03)
  };
  std::string name;
  std::string version;
  std::vector<Attribute> attributes;
  std::vector<ConfigKind> config_kinds;
  std::map<std::string, absl::Duration> hook_limits;  // hook name -> longest time it may take
  bool parallel = false;       // prepare/unprepare of different claims may run at the same time
  bool shared_claims = false;  // a claim may be reserved for more than one consumer
  bool never_tainted = false;  // devices never get taints: 128 to a slice
  bool no_injection = false;   // a device without edits is in order
  bool reports_health = false;
  bool keeps_undo = false;  // calls save_undo

  // The limit of a hook, or the default: discover 30 s, describe/validate_config/busy 5 s, health 10 s,
  // prepare/unprepare 40 s, reconcile 60 s, create/destroy 30 s.
  absl::Duration HookLimit(absl::string_view hook) const;
};

// A physical thing that several published devices stand for. Devices with the same key may be held together only in
// equal shapes (whole GPU against MIG slices, PF against VF).
struct ExclusionKey {
  std::string key;
  std::string shape;
  friend bool operator==(const ExclusionKey&, const ExclusionKey&) = default;
};

struct DiscoveredDevice {
  Json device;           // resource.k8s.io/v1 Device
  std::string identity;  // stable physical identity (serial, UUID, PCI address), never a position
  std::string pool;      // suffix of the pool name; "" is the node's own pool
  std::vector<ExclusionKey> exclusion_keys;
};
// One item of a discovery: a device, or why one could not be looked at.
struct DiscoverItem {
  std::optional<DiscoveredDevice> device;
  std::string
      error_subject;  // what could not be looked at ("dfl-fme.0 interface_id"); set when there is no device
  absl::Status error;
};
struct CounterSet {
  std::string pool;  // as DiscoveredDevice::pool
  Json counter_set;  // resource.k8s.io/v1 CounterSet
};
struct DiscoverResult {
  std::vector<DiscoverItem> items;
  std::vector<CounterSet> counter_sets;
  std::map<std::string, Json>
      slice_fields;  // pool suffix -> further ResourceSliceSpec members (object)
  bool complete =
      true;  // false: what is missing may exist all the same, the last good inventory stays
};

// What the API server keeps of the gated fields: told to discover, so that a backend can show another shape.
enum class FieldSupport { kUnknown, kKept, kDropped };
struct ServerFields {
  FieldSupport counters = FieldSupport::kUnknown;  // sharedCounters, consumesCounters
  FieldSupport multiple_allocations =
      FieldSupport::kUnknown;  // allowMultipleAllocations, requestPolicy
  FieldSupport taints = FieldSupport::kUnknown;
  FieldSupport binding_conditions = FieldSupport::kUnknown;
  FieldSupport list_attributes = FieldSupport::kUnknown;
  FieldSupport node_allocatable = FieldSupport::kUnknown;  // nodeAllocatableResources
  FieldSupport skip_node_operations = FieldSupport::kUnknown;
  FieldSupport taint_effect_none = FieldSupport::kUnknown;  // 1.34 refuses it; not told to backends
  friend bool operator==(const ServerFields&, const ServerFields&) = default;
};

struct ClaimIdentity {
  std::string namespace_name;
  std::string name;
  std::string uid;
};
// Another claim on the same hardware (same device or exclusion key).
struct OtherClaim {
  std::string claim_uid;
  std::string device;
  std::optional<std::string> share_id;
  bool admin_access = false;
};
struct PrepareDevice {
  Json result;           // the DeviceRequestAllocationResult
  std::string identity;  // stable identity as discover gave it
  Json configs;          // array, lowest precedence first: {"source","request","parameters"}
};
struct PrepareArgs {
  ClaimIdentity claim;
  Json reserved_for;  // array as in the claim's status
  std::vector<PrepareDevice> devices;
  std::string saved_undo;  // what the last save_undo of this claim stored; "" if none
  std::vector<OtherClaim> others;
};
struct PreparedDevice {
  Json edits;   // CDI containerEdits of this device; null or {} = none
  Json status;  // AllocatedDeviceStatus members (conditions, data, networkData), or null
};
struct PrepareResult {
  std::vector<PreparedDevice> devices;  // one for each of PrepareArgs::devices, same order
  Json claim_edits;                     // CDI containerEdits of the claim, or null
  std::string undo;                     // replaces the saved undo if `has_undo`
  bool has_undo = false;
};
struct UnprepareArgs {
  ClaimIdentity claim;
  std::vector<PrepareDevice> devices;  // as recorded
  std::string undo;
  std::vector<OtherClaim> others;
};

enum class ReconcileVerdict { kTrue, kTrueWithEdits, kRedo, kLost };
struct ReconcileRecord {
  UnprepareArgs record;
  bool same_boot = true;
};
struct ReconcileResult {
  ReconcileVerdict verdict = ReconcileVerdict::kTrue;
  std::vector<Json> device_edits;  // with kTrueWithEdits, one for each device
  Json claim_edits;
};

enum class Busy { kIdle, kBusy, kUnknown };
enum class HealthState { kUnknown, kHealthy, kUnhealthy };
// How bad a fault is, ascending; unset counts as major.
enum class FaultSeverity { kUnset, kMinor, kMajor, kCritical };
struct DeviceHealth {
  std::string device;  // published name
  std::string pool;    // suffix
  HealthState state = HealthState::kUnknown;
  std::string fault_class;  // "" or a label-name, e.g. "ecc-uncorrectable"
  std::string message;
  std::string remedy;
  std::string clears_with;  // evidence that clears it, e.g. "reset"
  FaultSeverity severity = FaultSeverity::kUnset;
  int unknown_severity = 0;  // what the backend gave, where this host knows no such severity
};

struct BackendDescription {
  std::string path;  // of the library
  uint32_t abi_minor = 0;
};

// Services that a running hook or a backend thread asks of the host. Implemented by the driver layer; any thread.
// Per-call functions get the claim UID of the running hook.
class HostServices {
 public:
  virtual ~HostServices() = default;
  virtual void Log(int level, absl::string_view text) = 0;  // LogLevel numbers
  virtual void InventoryChanged() = 0;
  virtual void HealthChanged() = 0;
  virtual absl::Status SaveUndo(absl::string_view claim_uid, absl::string_view undo) = 0;
  virtual absl::Status UpdateDevice(absl::string_view claim_uid, absl::string_view pool,
                                    absl::string_view device, absl::string_view share_id,
                                    const Json& status) = 0;
  virtual absl::StatusOr<std::string> NoteGet(absl::string_view identity,
                                              absl::string_view key) = 0;
  virtual absl::Status NotePut(absl::string_view identity, absl::string_view key,
                               absl::string_view value) = 0;
  virtual absl::StatusOr<std::vector<OtherClaim>> Held(absl::string_view claim_uid,
                                                       absl::string_view pool,
                                                       absl::string_view device) = 0;
  virtual absl::StatusOr<std::string> ClaimDirectory(absl::string_view claim_uid) = 0;
  virtual absl::StatusOr<std::string> SharedFile(absl::string_view claim_uid,
                                                 absl::string_view bytes) = 0;
  struct HelperResult {
    int exit_code = 0;   // 128 + signal when killed
    std::string output;  // stdout and stderr, at most 64 KiB
  };
  virtual absl::StatusOr<HelperResult> RunHelper(const std::vector<std::string>& argv,
                                                 const Call& call) = 0;
  virtual void RequestRestart(absl::string_view reason) = 0;
};

// A loaded backend, in this process or in dra-backend-host. Every function may block up to the hook's limit; `call`
// shortens it. A backend that throws, hangs past its limit or answers junk gives a status, never more. Any thread;
// serialisation that the manifest asks for happens inside. Codes pass through from the backend.
class BackendHandle {
 public:
  virtual ~BackendHandle() = default;

  virtual BackendDescription Description() const = 0;
  // Creates the backend's instance and asks describe. Repeatable after a failure.
  virtual absl::Status Create(absl::string_view config_json, HostServices* host,
                              const Call& call) = 0;
  // Known before create where the library can say it; FailedPrecondition before the first successful Create.
  // Never null; shared, because every claim looks at it.
  virtual absl::StatusOr<std::shared_ptr<const Manifest>> GetManifest() const = 0;
  virtual void Destroy() = 0;

  virtual absl::StatusOr<DiscoverResult> Discover(const ServerFields& fields,
                                                  const std::vector<std::string>& held_devices,
                                                  const Call& call) = 0;
  // OK, or InvalidArgument with the path of what is wrong.
  virtual absl::Status ValidateConfig(const Json& parameters, absl::string_view source,
                                      const Call& call) = 0;
  virtual absl::StatusOr<PrepareResult> Prepare(const PrepareArgs& args, const Call& call) = 0;
  virtual absl::Status Unprepare(const UnprepareArgs& args, const Call& call) = 0;
  virtual absl::Status ReconcileBegin(const Call& call) = 0;
  virtual absl::StatusOr<ReconcileResult> ReconcileRecordHook(const ReconcileRecord& record,
                                                              const Call& call) = 0;
  virtual absl::Status ReconcileEnd(const Call& call) = 0;
  virtual absl::StatusOr<Busy> IsBusy(absl::string_view pool, absl::string_view device,
                                      absl::string_view identity, const Call& call) = 0;
  virtual absl::StatusOr<std::vector<DeviceHealth>> Health(const Call& call) = 0;
};

}  // namespace dra::loader
