#pragma once

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/clock.h"
#include "dra/records/record.h"
#include "dra/records/record_store.h"

namespace dra::claims {

// Puts `status` of a backend into what is recorded of a device: members replace members (null removes), conditions
// replace conditions of the same type. A condition without lastTransitionTime gets one: that of the condition it
// repeats, else `now`; one without a reason gets "Reported". Pure.
void MergeStatus(Json& recorded, const Json& status, absl::Time now);

// The record of a claim while a hook of it runs: what the backend saves and reports through the host functions meets
// what the operation is going to write. Any thread.
class RunningHook {
 public:
  // store and clock outlive this. backend: "<name> <version>" of the one that runs, for the undo data it saves.
  RunningHook(records::RecordStore* store, Clock* clock, records::Record draft,
              std::string backend = "");

  // Writes the draft with this undo data, durably. This and the next: FailedPrecondition after TakeDraft.
  absl::Status SaveUndo(absl::string_view undo);
  // NotFound if the claim has no such device.
  absl::Status UpdateDevice(absl::string_view pool, absl::string_view device,
                            absl::string_view share_id, const Json& status);
  void AddSharedFile(const std::string& name);

  records::Record draft() const;
  // The draft for good, once no SaveUndo writes it: what a hook that overran reports later is of no claim any more.
  records::Record TakeDraft();
  // True once a SaveUndo has reached the disk: there is a record file now.
  bool saved() const;

 private:
  records::RecordStore* const store_;
  Clock* const clock_;
  const std::string backend_;
  mutable absl::Mutex mutex_;
  records::Record draft_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool taken_ ABSL_GUARDED_BY(mutex_) = false;
  bool saved_ ABSL_GUARDED_BY(mutex_) = false;
};

// The hooks that run now, by claim UID: one at most for each claim. Any thread.
class RunningHooks {
 public:
  // Registers the hook until the returned object ends.
  class Registration {
   public:
    Registration(RunningHooks* hooks, std::string uid) : hooks_(hooks), uid_(std::move(uid)) {}
    ~Registration() { hooks_->Remove(uid_); }
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    RunningHooks* const hooks_;
    const std::string uid_;
  };
  std::unique_ptr<Registration> Add(std::shared_ptr<RunningHook> hook, const std::string& uid);
  // null if none runs.
  std::shared_ptr<RunningHook> Find(absl::string_view claim_uid) const;

 private:
  void Remove(const std::string& uid);

  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<RunningHook>, std::less<>> hooks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::claims
