#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::records {

// Where a claim stands on this node; docs/claim-states.md says what every event does in each.
enum class Phase {
  kPreparing,    // the backend may have begun: undo data was saved
  kPrepared,     // done and answered
  kUnpreparing,  // the way back has begun
  kDirty,        // an undo failed; leftovers are on the hardware
  kQuarantined,  // the record cannot be read; its file was moved aside
};
inline constexpr int kPhases = 5;

// "preparing", "prepared", "unpreparing", "dirty", "quarantined".
absl::string_view PhaseName(Phase phase);
std::optional<Phase> ParsePhase(absl::string_view name);

// A physical thing that several published devices stand for, and in which form a device takes it.
// Devices with the same key may be held together only in equal shapes.
struct KeyShape {
  std::string key;
  std::string shape;
  friend bool operator==(const KeyShape&, const KeyShape&) = default;
};

struct RecordClaim {
  std::string namespace_name;
  std::string name;
  std::string uid;
  // "<namespace>/<name> (uid <uid>)", for texts a person reads.
  std::string ToString() const;
};

// One allocation result of ours and what came of it.
struct RecordDevice {
  Json result;       // the DeviceRequestAllocationResult as the API server gave it
  std::string pool;  // from `result`
  std::string device;
  std::string request;  // "<request>" or "<request>/<subrequest>"
  std::optional<std::string> share_id;
  bool admin_access = false;
  std::string identity;  // stable physical identity as discovered
  std::vector<KeyShape> exclusion_keys;
  Json consumes_counters;  // as in the published device: array, or null
  Json configs;            // resolved opaque configs, lowest precedence first: array
  Json edits;              // CDI containerEdits, or null
  Json status;             // AllocatedDeviceStatus members of the backend, or null
  Json unknown;            // members that this build does not know: object
};

// All that this node knows of one claim: design 3.1, docs/record-format.md. A plain value.
struct Record {
  int format_minor = 0;  // of the file it was read from; never written lower
  Phase phase = Phase::kPreparing;
  std::string boot_id;
  RecordClaim claim;
  Json reserved_for;  // array as in the claim's status
  std::string
      allocation_digest;  // resource::AllocationDigest of the allocation it was prepared for
  std::vector<RecordDevice> devices;
  Json claim_edits;  // CDI containerEdits of the claim, or null
  std::string undo;  // the backend's bytes
  bool has_undo = false;
  std::string backend;  // "<name> <version>" of the backend that wrote the undo data
  std::vector<std::string> shared_files;  // SHA-256 of shared files it keeps alive
  absl::Time since;                       // when the phase began
  std::string last_error;
  bool lost = false;  // dirty because the backend's reconcile found a device of it lost
  Json unknown;       // members that this build does not know: object
};

// This build writes format kFormatMajor.kFormatMinor. A record of a newer minor is read and its unknown members are
// kept; one of another major is DataLoss.
inline constexpr int kFormatMajor = 1;
inline constexpr int kFormatMinor = 0;

// The file's text. Bytes that are not UTF-8 are replaced, except in `undo`, which is stored as base64.
std::string EncodeRecord(const Record& record);

// Reads what EncodeRecord of this or another version wrote. Lenient: unknown members are kept, absent ones have their
// defaults. Errors: DataLoss that says what is wrong (empty, cut short, checksum, other major, not the claim `uid`).
// Pure; any thread.
absl::StatusOr<Record> DecodeRecord(absl::string_view text, absl::string_view uid);

// The claim's name as far as a damaged record still tells it: for the Event about it. Never an error.
RecordClaim GuessClaim(absl::string_view text, absl::string_view uid);

}  // namespace dra::records
