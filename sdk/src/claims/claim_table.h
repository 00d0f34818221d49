#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "dra/claims/claim_manager.h"
#include "dra/records/record.h"

namespace dra::claims {

// What this process knows of its claims beside the files: summaries for people and metrics, the CDI ids given out, and
// records that could not be written. Any thread.
class ClaimTable {
 public:
  // metrics may be null; it outlives this.
  ClaimTable(std::string driver_name, std::string boot_id, observe::Metrics* metrics);

  // The claim stands as this record says.
  void Put(const records::Record& record);
  // As Put; and the record could not be written: it outranks what is on disk until Put or Erase.
  void PutUnsaved(const records::Record& record);
  void Erase(absl::string_view claim_uid);

  std::optional<records::Record> Unsaved(absl::string_view claim_uid) const;

  using CdiIds = std::vector<std::vector<std::string>>;
  void SetCdiIds(absl::string_view claim_uid, CdiIds ids);
  // The ids written for the claim in this process, if the allocation is still the same.
  std::optional<CdiIds> GetCdiIds(absl::string_view claim_uid, absl::string_view digest) const;

  std::vector<ClaimSummary> Claims() const;
  // Of the devices that claims of this boot own, sorted, unique; admin access left out.
  std::vector<std::string> HeldIdentities() const;

 private:
  struct Entry {
    ClaimSummary summary;
    std::vector<std::string> identities;  // of the devices it owns
    records::Phase phase = records::Phase::kPreparing;
    std::string digest;
    std::optional<CdiIds> cdi_ids;
    std::optional<records::Record> unsaved;
  };
  void PutLocked(const records::Record& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Count(records::Phase phase, int change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string driver_name_;
  const std::string boot_id_;
  observe::Metrics* const metrics_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
  std::array<int, records::kPhases> counts_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace dra::claims
