#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::resource {

// Identity of one allocated device, or of one share of it. Source: resource/v1 DeviceRequestAllocationResult.
struct DeviceId {
  std::string driver;
  std::string pool;
  std::string device;
  std::optional<std::string>
      share_id;  // RFC 4122, lower case; only for devices with multiple allocations

  // "<driver>/<pool>/<device>" with "/<share id>" when there is one; for texts a person reads.
  std::string ToString() const;
  friend bool operator==(const DeviceId&, const DeviceId&) = default;
  friend auto operator<=>(const DeviceId&, const DeviceId&) = default;
};

// status.allocation.devices.results[]
struct AllocationResult {
  std::string request;  // "<request>" or "<request>/<subrequest>"
  DeviceId id;
  bool admin_access = false;
  std::map<std::string, std::string> consumed_capacity;  // qualified name -> Quantity text
  Json raw;                                              // the whole result as the server gave it

  // The request name the kubelet knows: what stands before '/'.
  std::string BaseRequest() const;
};

// status.allocation.devices.config[]
struct DeviceConfiguration {
  std::string source;  // "FromClass" or "FromClaim"; anything else is an unknown source
  std::vector<std::string> requests;  // empty: all requests
  bool has_opaque = false;            // false: a kind of configuration this build does not know
  std::string driver;                 // of opaque
  Json parameters;                    // of opaque
};

// status.reservedFor[]
struct ConsumerReference {
  std::string api_group;
  std::string resource;
  std::string name;
  std::string uid;
};

// What a driver needs of a ResourceClaim.
struct ResourceClaim {
  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::map<std::string, std::string> annotations;
  bool allocated = false;  // status.allocation is set
  std::vector<AllocationResult> results;
  std::vector<DeviceConfiguration> configs;
  std::vector<ConsumerReference> reserved_for;
  Json device_statuses;  // status.devices as the server gave it, an array
};

// Decodes a resource.k8s.io/v1 ResourceClaim. Unknown members are ignored (kept in `raw`). Errors: InvalidArgument
// with the path of what is missing or of the wrong type; identity (uid, namespace, name) is required.
absl::StatusOr<ResourceClaim> ParseResourceClaim(const Json& object);

// One resolved opaque configuration of one allocation result: lowest precedence first.
struct ResolvedConfig {
  std::string source;   // "FromClass" or "FromClaim"
  std::string request;  // which name matched: "" (all), "<request>" or "<request>/<subrequest>"
  Json parameters;
};

// The configurations of `claim` that apply to `result` and are for result.id.driver: FromClass in list order, then
// FromClaim in list order (later outranks earlier). Matches "<request>/<subrequest>" and "<request>" alike.
// Errors: InvalidArgument for an entry without `opaque` or with an unknown source, with its index.
// Source: facts of the allocator's assembly, kubernetes/api:resource/v1 DeviceAllocationConfiguration.
absl::StatusOr<std::vector<ResolvedConfig>> ResolveConfigs(const ResourceClaim& claim,
                                                           const AllocationResult& result);

// A digest of what of an allocation concerns `driver` (its results and its configs, in order, semantically): two equal
// digests mean the same allocation for us. Lower-case hexadecimal SHA-256.
std::string AllocationDigest(const ResourceClaim& claim, absl::string_view driver);

}  // namespace dra::resource
