#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "claims/claim_table.h"
#include "claims/running_hooks.h"
#include "dra/claims/claim_manager.h"
#include "dra/records/claim_files.h"
#include "dra/records/claim_locks.h"
#include "dra/records/ledger.h"
#include "dra/records/notes.h"
#include "dra/records/record_store.h"

namespace dra::claims {

// How long an attempt tries for a lock before it gives its thread back and waits without one.
inline constexpr absl::Duration kLockPatience = absl::Milliseconds(50);
// How often a waiting operation looks whether another process has released what it needs.
inline constexpr absl::Duration kHolderPoll = absl::Milliseconds(100);

// Set on a status that refuses a claim because another one holds the device: the holder's uid.
inline constexpr char kHeldPayload[] = "dra.claims.held-by";

// What the steps of all operations share. Any thread; members are as thread-safe as they say.
class ClaimCore {
 public:
  ClaimCore(Options options_in, Dependencies dependencies);

  std::string Path(absl::string_view name) const;
  bool SameBoot(const records::Record& record) const { return record.boot_id == options.boot_id; }

  // The claim's record, or nullopt if it has none. A damaged one is moved aside first, with Event, metric and log, and
  // comes back as quarantined, with its devices: those that this boot's holds name, else those that its CDI file names,
  // which tells no pools, so that they are held by name in every pool (records::AnyPoolKey). `claim` helps to name it.
  // Call it with the claim's lock held. Errors: nothing is known about the claim.
  absl::StatusOr<std::optional<records::Record>> LoadOrQuarantine(
      const loader::ClaimIdentity& claim);

  // Where CDI and backend get a record's devices from.
  static std::vector<CdiDevice> CdiDevices(const records::Record& record);
  static bool NothingToInject(const records::Record& record);
  // Makes sure that the CDI file is there and says what the record says; the ids of each device.
  absl::StatusOr<ClaimTable::CdiIds> EnsureCdi(const records::Record& record, bool may_match);
  // Complete AllocatedDeviceStatus objects of the devices that report something.
  std::vector<Json> StatusEntries(const records::Record& record) const;
  void SubmitStatus(const records::Record& record);

  static loader::ClaimIdentity Identity(const records::Record& record);
  static std::vector<loader::PrepareDevice> HookDevices(const records::Record& record);
  // The claims of these holds, each of their devices once.
  static std::vector<loader::OtherClaim> OtherClaims(const std::vector<records::Hold>& holds);
  // The other claims on the hardware behind these keys, each of their devices once.
  absl::StatusOr<std::vector<loader::OtherClaim>> OthersOn(absl::string_view claim_uid,
                                                           const std::vector<std::string>& keys);

  // The limit of a hook by the manifest, or `fallback` while nothing is known of the backend.
  absl::Duration HookLimit(absl::string_view hook, absl::Duration fallback) const;

  // Says, as log line and Event, that the undo data was written by a newer version of the backend than the one that gets
  // it now; action: "Prepare" or "Unprepare". Whether it understands the data is the backend's to say: it gets it.
  void WarnOfOlderBackend(const records::Record& record, const loader::Manifest& manifest,
                          absl::string_view action);

  // Writes an Event about the claim, if there is a recorder.
  void Warn(const loader::ClaimIdentity& claim, absl::string_view reason, absl::string_view action,
            absl::string_view note);

  // Moves the damaged record aside and says so.
  absl::Status Quarantine(const loader::ClaimIdentity& claim, const absl::Status& damage);
  absl::Status FillQuarantined(records::Record* record);

  const Options options;
  const Dependencies deps;
  records::RecordStore store;
  records::ClaimLocks locks;
  records::Ledger ledger;
  records::Notes notes;
  records::ClaimFiles files;
  RunningHooks hooks;
  ClaimTable table;
  std::function<void()> on_released;  // set once, before any operation: a claim's holds are gone
};

// The manifest's limit of a hook, or `fallback`.
absl::Duration HookLimitOf(const loader::Manifest& manifest, absl::string_view hook,
                           absl::Duration fallback);
// The boundary's own limit of prepare and unprepare.
inline constexpr absl::Duration kPrepareLimit = absl::Seconds(40);

// True if `recorded`, the "<name> <version>" of a record, is the same backend in a newer version. False also where
// versions cannot be compared.
bool IsNewerThan(absl::string_view recorded, const loader::Manifest& manifest);

// "claim ns1/c1 (uid U1)".
std::string ClaimText(const loader::ClaimIdentity& claim);

// True for CDI containerEdits that change nothing.
bool NoEdits(const Json& edits);

// True for failures that may pass by themselves within a call.
bool MayPass(const absl::Status& status);
// 100 ms, doubled with each failure, at most 2 s.
absl::Duration Backoff(int failures);

}  // namespace dra::claims
