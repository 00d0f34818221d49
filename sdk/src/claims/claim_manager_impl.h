#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "claims/claim_core.h"
#include "claims/operations.h"
#include "claims/timer_queue.h"
#include "dra/base/thread_pool.h"
#include "dra/claims/claim_manager.h"

namespace dra::claims {

// Joins the parts: calls come in here, operations.h runs them, prepare_steps.h and unprepare_steps.h do the work.
class ClaimManagerImpl final : public ClaimManager {
 public:
  ClaimManagerImpl(Options options, Dependencies dependencies);
  ~ClaimManagerImpl() override;

  // Directories, records, holds: see ClaimManager::Create.
  absl::Status Start();

  void Prepare(const loader::ClaimIdentity& claim, const Call& call, PrepareDone done) override;
  void Unprepare(const loader::ClaimIdentity& claim, const Call& call, UnprepareDone done) override;
  void Restore(const Call& call) override;
  absl::Status Reconcile(const Call& call) override;
  int PrepareAgain(const Call& call) override;
  OrphanReport CollectOrphans(const Call& call) override;
  std::vector<ClaimSummary> Claims() const override;
  std::vector<std::pair<std::string, std::string>> HeldDevices() const override;
  std::vector<std::string> HeldIdentities() const override;
  absl::Status SaveUndo(absl::string_view claim_uid, absl::string_view undo) override;
  absl::Status UpdateDevice(absl::string_view claim_uid, absl::string_view pool,
                            absl::string_view device, absl::string_view share_id,
                            const Json& status) override;
  absl::StatusOr<std::string> NoteGet(absl::string_view identity, absl::string_view key) override;
  absl::Status NotePut(absl::string_view identity, absl::string_view key,
                       absl::string_view value) override;
  absl::StatusOr<std::vector<loader::OtherClaim>> Held(absl::string_view claim_uid,
                                                       absl::string_view pool,
                                                       absl::string_view device) override;
  absl::StatusOr<std::string> ClaimDirectory(absl::string_view claim_uid) override;
  absl::StatusOr<std::string> SharedFile(absl::string_view claim_uid,
                                         absl::string_view bytes) override;
  void Shutdown(absl::Duration bound) override;

 private:
  // A prepare call that still has to read its claim.
  struct PrepareCall {
    loader::ClaimIdentity claim;
    std::shared_ptr<PendingAnswer> answer;
    int failures = 0;
  };
  void ReadThenSubmit(std::shared_ptr<PrepareCall> call);
  // The answer of one call: counted, logged, passed on.
  std::shared_ptr<PendingAnswer> Answer(absl::string_view operation,
                                        const loader::ClaimIdentity& claim, const Call& call,
                                        std::function<void(Outcome)> done);
  // False when calls are refused.
  bool EnterCall();
  void LeaveCall();

  // Start-up (start.cc).
  void EnterRecord(const records::RecordStore::Item& item);
  void CompleteHolds(const records::Record& record);
  void RemoveStaleHolds();
  // Restore (restore.cc, lost_records.cc).
  void RestoreClaim(const records::Record& record, bool submit_status, const Call& call);
  void DecideLostRecords(const Call& call);
  void RecoverRecord(const loader::ClaimIdentity& claim, const Call& call);
  absl::StatusOr<records::Record> RecordFromApi(const loader::ClaimIdentity& claim,
                                                const Call& call);
  void SayLost(const std::string& claim_uid, absl::string_view why);
  void SweepFiles();
  void SweepTemporaries();
  absl::Status SweepNotes();
  // Reconcile (reconcile.cc).
  absl::StatusOr<std::set<std::string>> RecordedClaims();
  absl::Status CheckNoRecordIsLost(const std::set<std::string>& recorded);
  // Orphans (orphans.cc).
  enum class ReleaseResult { kReleased, kNotGone, kLater, kKept };
  struct Release {
    ReleaseResult result;
    std::string reason;  // of kKept
  };
  void LookAfter(const records::Record& record, const Call& call, OrphanReport* report);
  loader::ClaimIdentity NameOf(const records::Record& record);
  // Enters one piece of evidence that the claim is gone. True if the first is old enough.
  bool GoneLongEnough(const records::Record& record);
  void ForgetEvidence(const std::string& claim_uid);
  Release ReleaseOrphan(const records::Record& judged, const loader::ClaimIdentity& claim,
                        const Call& call);
  void SayNameless(const records::Record& record);
  // Says once, for each time that the claim is found gone, why it is kept.
  void SayKept(const loader::ClaimIdentity& claim, const std::string& text);
  // True, with the claim locked, if it has no record and no operation.
  bool LockForgotten(const std::string& claim_uid, records::OperationLock* lock);

  mutable ClaimCore core_;  // its caches change under const looks
  mutable absl::Mutex mutex_;
  bool refusing_ ABSL_GUARDED_BY(mutex_) = false;
  int reading_ ABSL_GUARDED_BY(mutex_) = 0;  // calls that still read their claim
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;    // calls not answered yet
  mutable std::vector<std::pair<std::string, std::string>> last_held_ ABSL_GUARDED_BY(mutex_);
  // Evidence that a recorded claim is gone; a failed look neither adds to it nor takes it away.
  struct Evidence {
    MonotonicTime first;
    absl::Time since;  // of the record it is about
    records::Phase phase = records::Phase::kPrepared;
    bool reported = false;
  };
  std::map<std::string, Evidence> evidence_ ABSL_GUARDED_BY(mutex_);               // by claim uid
  std::set<std::string> prepare_again_ ABSL_GUARDED_BY(mutex_);                    // claim uids
  std::set<std::string> said_lost_ ABSL_GUARDED_BY(mutex_);                        // claim uids
  std::map<std::string, MonotonicTime> note_temporaries_ ABSL_GUARDED_BY(mutex_);  // first seen
  std::set<std::string> said_nameless_ ABSL_GUARDED_BY(mutex_);                    // claim uids
  std::atomic<bool> restored_ = false;
  std::stop_source shutdown_;  // ends what reads claims
  // In this order: the pools end first, and what runs on them uses the operations and the timers until then.
  TimerQueue timers_;
  Operations operations_;
  ThreadPool prepares_;
  ThreadPool unprepares_;
};

}  // namespace dra::claims
