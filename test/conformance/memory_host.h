#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/file_system.h"
#include "dra/loader/backend_handle.h"

namespace dra::conformance {

// The host's side of a backend, kept in memory: what a backend may ask of dra-driver, without claims, locks or an API
// server. It outlives the instances of a backend, so a test can destroy one and see what the next one finds. Any
// thread.
class MemoryHost final : public loader::HostServices {
 public:
  // directory: for the directories of claims and shared files; it exists and belongs to the caller.
  explicit MemoryHost(std::string directory) : directory_(std::move(directory)) {}

  void Log(int level, absl::string_view text) override;
  void InventoryChanged() override;
  void HealthChanged() override;
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
  absl::StatusOr<HelperResult> RunHelper(const std::vector<std::string>& argv,
                                         const Call& call) override;
  void RequestRestart(absl::string_view reason) override;

  // What the last SaveUndo of the claim stored; "" if none.
  std::string Undo(absl::string_view claim_uid) const;
  void ForgetClaim(absl::string_view claim_uid);
  // What UpdateDevice was told last of a claim's device; null if nothing.
  Json DeviceStatus(absl::string_view claim_uid, absl::string_view device) const;
  std::string Note(absl::string_view identity, absl::string_view key) const;
  std::vector<std::string> Logs() const;
  int inventory_changes() const;
  int health_changes() const;
  // True once there were so many calls of InventoryChanged (HealthChanged); false when `timeout` passed before.
  bool WaitForInventoryChanges(int count, absl::Duration timeout) const;
  bool WaitForHealthChanges(int count, absl::Duration timeout) const;
  // From now on SaveUndo fails.
  void FailSaveUndo(absl::Status status);

 private:
  const std::string directory_;
  PosixFileSystem fs_;
  mutable absl::Mutex mutex_;
  std::map<std::string, std::string> undo_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, std::string>, std::string> notes_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<std::string, std::string>, Json> statuses_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> logs_ ABSL_GUARDED_BY(mutex_);
  int inventory_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  int health_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status save_undo_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::conformance
