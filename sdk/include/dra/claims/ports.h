#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/call.h"
#include "dra/base/json.h"
#include "dra/loader/backend_handle.h"
#include "dra/resource/claim.h"
#include "nlohmann/json.hpp"

// What the claim state machine asks of the rest of the driver. The driver layer implements these over kube, inventory,
// cdi and status; tests implement them in memory. Every function may be called from any thread.
namespace dra::claims {

class ClaimReader {
 public:
  virtual ~ClaimReader() = default;
  // One consistent GET. NotFound if there is no such claim; never a cached answer.
  virtual absl::StatusOr<resource::ResourceClaim> GetClaim(absl::string_view namespace_name,
                                                           absl::string_view name,
                                                           const Call& call) = 0;
};

// What the inventory knows of an allocated device.
struct DeviceFacts {
  std::string identity;
  std::vector<loader::ExclusionKey> exclusion_keys;  // never empty
  Json device;                                       // resource.k8s.io/v1 Device as discovered
  // Not empty: the device is unhealthy, and the scheduler could not know. Why new work must not have it, what helps.
  std::string hidden_fault;
};

class DeviceCatalog {
 public:
  virtual ~DeviceCatalog() = default;
  // Looks the device up; when it is unknown, discovers once more at once and looks again (SLC-10). NotFound if it is
  // not there then, Unavailable while no discovery has succeeded.
  virtual absl::StatusOr<DeviceFacts> FindDevice(absl::string_view pool, absl::string_view device,
                                                 const Call& call) = 0;
  // The pool's counter sets: array of resource.k8s.io/v1 CounterSet. Empty if the pool has none or is unknown.
  virtual Json CounterSets(absl::string_view pool) = 0;
};

// One device entry of a claim's CDI file.
struct CdiDevice {
  std::string device;    // published device name
  std::string share_id;  // "" if none
  Json edits;            // CDI containerEdits; null or {}: the device gets no CDI entry
};

class CdiFiles {
 public:
  virtual ~CdiFiles() = default;
  // Writes the one file of the claim (atomically, replacing an old one) and returns for each device, in order, its
  // qualified CDI ids: unique over the claim, empty for a device without edits when the claim has none either. The
  // same input always gives the same ids. InvalidArgument, with the path, for edits that CDI does not allow.
  virtual absl::StatusOr<std::vector<std::vector<std::string>>> Write(
      absl::string_view claim_uid, const std::vector<CdiDevice>& devices,
      const Json& claim_edits) = 0;
  // True if the claim's file is there with exactly what Write would write now.
  virtual absl::StatusOr<bool> Matches(absl::string_view claim_uid,
                                       const std::vector<CdiDevice>& devices,
                                       const Json& claim_edits) = 0;
  // OK if there is none.
  virtual absl::Status Remove(absl::string_view claim_uid) = 0;
  // Claim UIDs that have a file of ours.
  virtual absl::StatusOr<std::vector<std::string>> ListClaims() = 0;
  // The claims with a half-written file: left by a kill, or being written by who holds the claim's lock.
  virtual absl::StatusOr<std::vector<std::string>> ListTemporaries() = 0;
  // Removes those of a claim whose lock is held.
  virtual absl::Status RemoveTemporaries(absl::string_view claim_uid) = 0;
  // (device, share id or "") of each entry of the claim's file: what is left to tell when the record is lost or
  // damaged. The file does not name the pool, and a device without edits may have no entry. Errors: NotFound if there
  // is no file, DataLoss if it cannot be understood.
  virtual absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Devices(
      absl::string_view claim_uid) = 0;
};

// What the kubelet itself has written down: which claims it will still unprepare.
class KubeletState {
 public:
  virtual ~KubeletState() = default;
  // The claims with devices of our driver in the kubelet's checkpoint, whose pods it has not seen end. Errors: it
  // cannot be read or understood, an absent file included (the driver may not be shown the kubelet's directory): then
  // nothing is known.
  virtual absl::StatusOr<std::vector<loader::ClaimIdentity>> PreparedClaims() = 0;
};

// status.devices of a claim. Never blocks, never fails a prepare.
class DeviceStatusSink {
 public:
  virtual ~DeviceStatusSink() = default;
  // `entries`: complete AllocatedDeviceStatus objects of our driver for this claim; replaces what was submitted before.
  virtual void Submit(const loader::ClaimIdentity& claim, std::vector<Json> entries) = 0;
  // The claim was unprepared: stop sending.
  virtual void Withdraw(const loader::ClaimIdentity& claim) = 0;
};

}  // namespace dra::claims
