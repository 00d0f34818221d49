#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dra/backend/abi.h"
#include "dra/backend/error.h"
#include "nlohmann/json.hpp"

namespace dra {

using Json = nlohmann::json;

// What a backend says of itself; see dra_describe_args in abi.h.
struct BackendManifest {
  struct Attribute {
    std::string name;
    std::string type;  // "string", "int", "bool", "version" or their plurals
    std::string description;
    bool is_volatile = false;
  };
  struct ConfigKind {
    std::string api_version;  // "gpu.example.com/v1"
    std::string kind;
    Json schema = nullptr;  // JSON schema of the parameters
  };
  std::string name;     // DNS label; dra_add_backend(<name> ...) gives the file its name
  std::string version;  // of the backend
  std::vector<Attribute> attributes = {};
  std::vector<ConfigKind> config_kinds = {};
  std::map<std::string, std::chrono::milliseconds> hook_limits = {};  // by hook name
  bool parallel = false;
  bool shared_claims = false;
  bool never_tainted = false;
  bool no_injection = false;
  bool keeps_undo = false;

  Json ToJson() const {
    Json result = {{"name", name},
                   {"version", version},
                   {"attributes", Json::array()},
                   {"config_kinds", Json::array()},
                   {"hook_limits", Json::object()},
                   {"parallel", parallel},
                   {"shared_claims", shared_claims},
                   {"never_tainted", never_tainted},
                   {"no_injection", no_injection},
                   {"keeps_undo", keeps_undo}};
    for (const Attribute& attribute : attributes) {
      result["attributes"].push_back({{"name", attribute.name},
                                      {"type", attribute.type},
                                      {"description", attribute.description},
                                      {"volatile", attribute.is_volatile}});
    }
    for (const ConfigKind& kind : config_kinds) {
      result["config_kinds"].push_back(
          {{"apiVersion", kind.api_version}, {"kind", kind.kind}, {"schema", kind.schema}});
    }
    for (const auto& [hook, limit] : hook_limits) {
      result["hook_limits"][hook] = static_cast<double>(limit.count()) / 1000.0;
    }
    return result;
  }
};

// -------------------------------------------------------------------------------------------------
// discover

enum class ServerField : int32_t {
  kUnknown = DRA_FIELD_UNKNOWN,
  kKept = DRA_FIELD_KEPT,
  kDropped = DRA_FIELD_DROPPED,
};

struct DiscoverRequest {
  ServerField counters = ServerField::kUnknown;
  ServerField multiple_allocations = ServerField::kUnknown;
  ServerField taints = ServerField::kUnknown;
  ServerField binding_conditions = ServerField::kUnknown;
  ServerField list_attributes = ServerField::kUnknown;
  ServerField node_allocatable = ServerField::kUnknown;
  ServerField skip_node_operations = ServerField::kUnknown;
  std::vector<std::string> held;  // identities of the devices that prepared claims hold
};

struct DeviceReport {
  Json device;            // resource.k8s.io/v1 Device
  std::string identity;   // serial, UUID, PCI address: what stays with the hardware
  std::string pool = {};  // suffix of the pool's name; "" is the node's own
  std::vector<std::pair<std::string, std::string>> exclusion_keys = {};  // key, shape
};

// Takes what discover finds, one item at a time. Use it inside Discover only.
class DiscoverSink {
 public:
  explicit DiscoverSink(const dra_discover_sink* sink) : sink_(sink) {}

  // A device that cannot be written as JSON (bytes that are not UTF-8) becomes an error of that
  // device alone.
  void AddDevice(const DeviceReport& report) {
    Try(report.identity, [&] {
      Json keys = Json::array();
      for (const auto& [key, shape] : report.exclusion_keys) {
        keys.push_back({{"key", key}, {"shape", shape}});
      }
      const std::string device = report.device.dump();
      const std::string keys_text = keys.dump();
      dra_device item = {};
      item.struct_size = sizeof(item);
      item.device_json = ToStr(device);
      item.identity = ToStr(report.identity);
      item.pool = ToStr(report.pool);
      item.exclusion_keys_json = ToStr(keys_text);
      sink_->emit_device(sink_->ctx, &item);
    });
  }
  // subject: what could not be looked at, with the path that was missing.
  void AddError(const std::string& subject, dra_code code, const std::string& message) {
    dra_item_error item = {};
    item.struct_size = sizeof(item);
    item.code = code;
    item.subject = ToStr(subject);
    item.message = ToStr(message);
    sink_->emit_error(sink_->ctx, &item);
  }
  void AddCounterSet(const std::string& pool, const Json& counter_set) {
    const std::string text = counter_set.dump();
    sink_->emit_counter_set(sink_->ctx, ToStr(pool), ToStr(text));
  }
  void SetSliceFields(const std::string& pool, const Json& fields) {
    const std::string text = fields.dump();
    sink_->set_slice_fields(sink_->ctx, ToStr(pool), ToStr(text));
  }
  void SetPartial(const std::string& reason) { sink_->set_partial(sink_->ctx, ToStr(reason)); }

  // Runs `look`; what it throws becomes the error of `subject`, and the loop around goes on.
  template <typename Function>
  void Try(const std::string& subject, Function&& look) {
    try {
      look();
    } catch (const BackendError& error) {
      AddError(subject, error.code(), error.what());
    } catch (const std::exception& error) {
      AddError(subject, DRA_INTERNAL, error.what());
    }
  }

 private:
  const dra_discover_sink* sink_;
};

// ---------------------------------------------------------------------------------------- prepare,
// unprepare

struct ClaimRef {
  std::string namespace_name;
  std::string name;
  std::string uid;
};

// One opaque configuration that applies to a device.
struct DeviceConfig {
  std::string source;   // "FromClass" (an administrator wrote it) or "FromClaim" (a user)
  std::string request;  // the request it came for
  Json parameters;
};

struct AllocatedDevice {
  Json result;                        // DeviceRequestAllocationResult
  std::string identity;               // as given to discover
  std::vector<DeviceConfig> configs;  // lowest precedence first; see configs.h

  std::string name() const { return Member("device"); }
  std::string pool() const { return Member("pool"); }        // full name
  std::string request() const { return Member("request"); }  // "request" or "request/subrequest"
  std::string share_id() const { return Member("shareID"); }
  // Look, but never reset, reconfigure or claim: another claim may own the device.
  bool admin_access() const {
    const auto found = result.find("adminAccess");
    return found != result.end() && found->is_boolean() && found->get<bool>();
  }

 private:
  std::string Member(const char* key) const {
    const auto found = result.find(key);
    return found != result.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
};

// Another claim on the same device or exclusion key.
struct NeighbourClaim {
  std::string claim_uid;
  std::string device;
  std::string share_id;  // "" if none
  bool admin_access = false;
};

struct PrepareRequest {
  ClaimRef claim;
  Json reserved_for;  // array
  std::vector<AllocatedDevice> devices;
  std::string saved_undo;  // "" if none
  std::vector<NeighbourClaim> others;
};

struct PreparedDeviceReply {
  Json edits = Json::object();  // CDI containerEdits
  Json status = nullptr;        // AllocatedDeviceStatus members
};
struct PrepareReply {
  std::vector<PreparedDeviceReply> devices;  // one for each of PrepareRequest::devices, same order
  Json claim_edits = nullptr;
  std::optional<std::string> undo;  // replaces the saved undo
};

struct UnprepareRequest {
  ClaimRef claim;
  std::vector<AllocatedDevice> devices;
  std::string undo;  // "" if none or lost
  std::vector<NeighbourClaim> others;
};

// ------------------------------------------------------------------------------------- reconcile,
// busy, health

enum class Reconciled : int32_t {
  kTrue = DRA_RECONCILE_TRUE,
  kTrueWithEdits = DRA_RECONCILE_TRUE_WITH_EDITS,
  kRedo = DRA_RECONCILE_REDO,
  kLost = DRA_RECONCILE_LOST,
};
struct ReconcileRequest : UnprepareRequest {
  bool same_boot = true;
};
struct ReconcileReply {
  Reconciled verdict = Reconciled::kTrue;
  std::vector<Json> device_edits = {};  // with kTrueWithEdits, one for each device
  Json claim_edits = nullptr;
};

enum class BusyState : int32_t {
  kIdle = DRA_BUSY_IDLE,
  kBusy = DRA_BUSY_BUSY,
  kUnknown = DRA_BUSY_UNKNOWN
};
struct BusyRequest {
  std::string pool;
  std::string device;
  std::string identity;
};

enum class HealthKind : int32_t {
  kUnknown = DRA_HEALTH_UNKNOWN,
  kHealthy = DRA_HEALTH_HEALTHY,
  kUnhealthy = DRA_HEALTH_UNHEALTHY,
};
enum class FaultSeverity : int32_t {
  kUnset = DRA_SEVERITY_UNSET,
  kMinor = DRA_SEVERITY_MINOR,
  kMajor = DRA_SEVERITY_MAJOR,
  kCritical = DRA_SEVERITY_CRITICAL,
};
struct HealthReport {
  std::string device;
  std::string pool = {};
  HealthKind state = HealthKind::kUnknown;
  std::string fault_class = {};
  std::string message = {};
  std::string remedy = {};
  std::string clears_with = {};
  FaultSeverity severity = FaultSeverity::kUnset;  // of an unhealthy device
};

}  // namespace dra
