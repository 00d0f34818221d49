#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/file_system.h"
#include "dra/records/holds.h"

namespace dra::records {

// What bounds the sharing of devices: read from the inventory at the time of the check.
struct HoldLimits {
  struct Device {
    bool multiple_allocations = false;            // allowMultipleAllocations
    std::map<std::string, std::string> capacity;  // name -> Quantity
  };
  std::map<std::pair<std::string, std::string>, Device> devices;  // (pool, device)
  // CounterSetKey -> counter -> Quantity. A set that is not here is unknown, and nothing of it is given away.
  std::map<std::string, std::map<std::string, std::string>> counter_sets;
};

// Why a claim may not have what it asks for.
struct HoldConflict {
  std::string text;  // names device, holder and rule
  // Who must let go first. Empty uid: nobody can, the claim contradicts itself or the hardware.
  RecordClaim holder;
};

// Who holds which hardware in this boot: the directory held/<boot id>/ decides, memory only caches the files' contents.
// Check, Write and Remove are called with the keys' locks held (claim_locks.h); their cost depends on the holders of
// those keys alone. Any thread.
class Ledger {
 public:
  // is_alive: whether a claim has a record or an operation under way; a hold without either is stale (left by a
  // process that died) and holds nothing. fs outlives this.
  using IsAlive = std::function<absl::StatusOr<bool>(absl::string_view claim_uid)>;
  Ledger(FileSystem* fs, std::string held_directory, std::string boot_id, IsAlive is_alive);

  // Makes the directory of this boot, removes those of others (they hold nothing) and what is empty in its own, and
  // reads what is there. A key's directory stays until then, for making and removing one costs more than the hold.
  absl::Status Open();

  // nullopt: `holds`, all of one claim, may be taken. The rules: design 3.3. Stale holds in the way are removed with
  // `remove_stale`, which needs the locks; a look without them (while waiting) leaves them. With `others`, the holds of
  // other claims on these keys are added to it, sorted by key: what Others would read once more.
  // Errors: the directory could not be read; then nothing is known.
  absl::StatusOr<std::optional<HoldConflict>> Check(const std::vector<Hold>& holds,
                                                    const HoldLimits& limits, bool remove_stale,
                                                    std::vector<Hold>* others = nullptr);

  // Puts the holds in place, each by rename, without fsync. On failure none of them is left.
  absl::Status Write(const std::vector<Hold>& holds);
  // Removes the claim's holds on these keys. OK if they are gone.
  absl::Status Remove(absl::string_view claim_uid, const std::vector<std::string>& keys);

  // Holds of other claims on these keys, admin access included.
  absl::StatusOr<std::vector<Hold>> Others(absl::string_view claim_uid,
                                           const std::vector<std::string>& keys);
  // Every hold of this boot. Cost grows with their number.
  absl::StatusOr<std::vector<Hold>> All();
  // Keys on which this process knows holds of the claim: what it wrote, or found at Open.
  std::vector<std::string> KnownKeys(absl::string_view claim_uid) const;

  // Temporary files of writers, with the claim they belong to: to be removed under that claim's lock.
  struct Temporary {
    std::string path;
    std::string claim_uid;
  };
  absl::StatusOr<std::vector<Temporary>> ListTemporaries();

  std::string PathFor(absl::string_view key, absl::string_view claim_uid) const;

 private:
  struct Cached {
    uint64_t inode = 0;
    int64_t mtime_ns = 0;
    Hold hold;
  };
  // The holds in one key's directory, that of claim `without` left out.
  absl::StatusOr<std::vector<Hold>> ReadDirectory(const std::string& directory,
                                                  absl::string_view without = "");
  // A claim of which only the names of its devices are known and that has one of these.
  absl::StatusOr<std::optional<HoldConflict>> CheckNames(const std::vector<Hold>& holds,
                                                         bool remove_stale);
  // nullopt if the file has gone meanwhile.
  absl::StatusOr<std::optional<Hold>> ReadHold(const std::string& path);
  std::string DirectoryFor(absl::string_view key) const;
  void Forget(absl::string_view claim_uid, absl::string_view key, const std::string& path);

  FileSystem* const fs_;
  const std::string root_;       // held/
  const std::string directory_;  // held/<boot id>
  const std::string boot_id_;
  const IsAlive is_alive_;
  mutable absl::Mutex mutex_;
  std::map<std::string, Cached> cache_ ABSL_GUARDED_BY(mutex_);  // by path
  std::map<std::string, std::set<std::string>, std::less<>> keys_of_claim_ ABSL_GUARDED_BY(mutex_);
};

// The rules alone, for one key: whether `wanted` may stand beside `others`. Pure.
std::optional<HoldConflict> FindConflict(const Hold& wanted, const std::vector<Hold>& others,
                                         const HoldLimits& limits);

}  // namespace dra::records
