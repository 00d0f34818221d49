#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dra/base/call.h"
#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/logger.h"
#include "dra/claims/ports.h"
#include "dra/loader/backend_handle.h"

namespace dra::observe {
class EventRecorder;
class Metrics;
}  // namespace dra::observe

namespace dra::claims {

struct Options {
  std::string driver_name;
  std::string
      data_directory;  // <kubelet root>/plugins/<driver>: claims/, held/, notes/, files/, serialize.lock
  std::string boot_id;
  int prepare_threads = 32;
  int unprepare_threads = 4;  // reserved: prepares never use them
  absl::Duration answer_limit =
      absl::Seconds(40);  // a call is answered by then; the kubelet gives up at 45 s
  // Between the first evidence that a claim is gone and its release; monotonic.
  absl::Duration orphan_grace = absl::Minutes(5);
  double orphan_gets_per_second = 10;  // of CollectOrphans
};

struct Dependencies {  // all outlive the manager
  FileSystem* fs = nullptr;
  Clock* clock = nullptr;
  ClaimReader* claims = nullptr;
  DeviceCatalog* devices = nullptr;
  CdiFiles* cdi = nullptr;
  DeviceStatusSink* status = nullptr;
  loader::BackendHandle* backend = nullptr;
  KubeletState* kubelet = nullptr;           // may be null: what the kubelet knows is unknown
  observe::EventRecorder* events = nullptr;  // may be null
  observe::Metrics* metrics = nullptr;       // may be null
  Logger logger;
};

// One device of an answer to the kubelet.
struct PreparedDevice {
  std::vector<std::string> request_names;  // base request names
  std::string pool;
  std::string device;
  std::vector<std::string> cdi_ids;  // first one unique to this device
  std::optional<std::string> share_id;
};

// For the status socket and for discovery.
struct ClaimSummary {
  loader::ClaimIdentity claim;
  std::string phase;  // "preparing", "prepared", "unpreparing", "dirty", "quarantined"
  bool same_boot = true;
  std::vector<resource::DeviceId> devices;
  std::string last_error;  // "" if none
  bool lost = false;       // a device of it is lost, said the backend in Reconcile
  absl::Time since;
};

// What one pass of CollectOrphans found, in claims.
struct OrphanReport {
  int asked = 0;      // the API server answered for these
  int unknown = 0;    // it did not, or the claim's name is not known
  int suspected = 0;  // gone, but not long or not often enough seen to be
  int kept = 0;       // gone, and kept: a device is in use or may be, or the release failed
  int released = 0;
};

// The life of claims on this node: design.md 3. Prepare and Unprepare start or join the claim's one detached operation
// and return at once; `done` runs exactly once, on some thread, at the latest when call's deadline or the answer limit
// has passed (Unavailable, "still working"). Any thread.
class ClaimManager {
 public:
  using PrepareDone = std::function<void(absl::StatusOr<std::vector<PreparedDevice>>)>;
  using UnprepareDone = std::function<void(absl::Status)>;

  // Makes the directories, reads the records, completes the holds of this boot. Does not call the backend. Errors:
  // the directory cannot be used. A damaged record is quarantined, not an error.
  static absl::StatusOr<std::unique_ptr<ClaimManager>> Create(Options options,
                                                              Dependencies dependencies);
  // As Shutdown with no time.
  virtual ~ClaimManager() = default;

  virtual void Prepare(const loader::ClaimIdentity& claim, const Call& call, PrepareDone done) = 0;
  virtual void Unprepare(const loader::ClaimIdentity& claim, const Call& call,
                         UnprepareDone done) = 0;

  // Work that is not needed before the first call: restores lost CDI files of this boot's prepared claims, submits
  // their statuses again (the first time), decides about CDI files of claims without a record by the API server's and
  // the kubelet's word, removes files that belong to nobody. Idempotent: called again from time to time, it tries
  // again what could not be done.
  virtual void Restore(const Call& call) = 0;

  // Tells the backend every record, under the exclusive lock, and does what it answers: after each successful create
  // of the backend. New operations wait meanwhile, within their time. OK also for a backend that cannot reconcile.
  // Errors: the lock was not to be had, or the backend did not begin or end; then leftovers may be on the hardware and
  // a later call tries again. What goes wrong with one claim is an Event about it, and no error.
  virtual absl::Status Reconcile(const Call& call) = 0;
  // Prepares claims again that the backend asked for in Reconcile: no call of the kubelet comes for a pod that runs.
  // Returns how many are left to try later, because something was away.
  virtual int PrepareAgain(const Call& call) = 0;
  // Looks for claims that have a record and are gone: one paced GET for each record, and what has been gone for the
  // grace time, and is not in use, is unprepared (docs/reconcile.md). One pass at a time.
  virtual OrphanReport CollectOrphans(const Call& call) = 0;

  virtual std::vector<ClaimSummary> Claims() const = 0;
  // Devices held by claims of this boot: (pool, device), sorted, unique; admin access left out.
  virtual std::vector<std::pair<std::string, std::string>> HeldDevices() const = 0;
  // The identities of the devices that the claims known to this process hold, for the backend's discover: known from
  // the records before the first discovery. Sorted, unique; admin access left out.
  virtual std::vector<std::string> HeldIdentities() const = 0;

  // For the backend's host functions (loader::HostServices); claim_uid is that of the running hook.
  virtual absl::Status SaveUndo(absl::string_view claim_uid, absl::string_view undo) = 0;
  virtual absl::Status UpdateDevice(absl::string_view claim_uid, absl::string_view pool,
                                    absl::string_view device, absl::string_view share_id,
                                    const Json& status) = 0;
  virtual absl::StatusOr<std::string> NoteGet(absl::string_view identity,
                                              absl::string_view key) = 0;
  virtual absl::Status NotePut(absl::string_view identity, absl::string_view key,
                               absl::string_view value) = 0;
  virtual absl::StatusOr<std::vector<loader::OtherClaim>> Held(absl::string_view claim_uid,
                                                               absl::string_view pool,
                                                               absl::string_view device) = 0;
  virtual absl::StatusOr<std::string> ClaimDirectory(absl::string_view claim_uid) = 0;
  virtual absl::StatusOr<std::string> SharedFile(absl::string_view claim_uid,
                                                 absl::string_view bytes) = 0;

  // Refuses new calls (Unavailable), lets running operations end within `bound`, cancels the rest and waits for them.
  // Records and CDI files stay.
  virtual void Shutdown(absl::Duration bound) = 0;
};

}  // namespace dra::claims
