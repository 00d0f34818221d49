#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/logger.h"
#include "dra/inventory/inventory.h"
#include "dra/loader/backend_handle.h"
#include "dra/observe/metrics.h"
#include "dra/records/notes.h"

namespace dra::driver {

// The text of an identity's note "health": the faults of its devices (docs/operations.md). Lenient with members it does
// not know. Errors of the reader: DataLoss.
std::string EncodeFaults(const std::vector<inventory::Fault>& faults);
absl::StatusOr<std::vector<inventory::Fault>> DecodeFaults(absl::string_view text,
                                                           absl::string_view identity);

// Keeps the faults that the inventory knows on disk, one durable note per device identity, so that neither a restart
// nor a reboot makes a bad device good. The inventory does no I/O; this stands beside it, and holds no lock while it
// reads or writes. Any thread.
class HealthNotes {
 public:
  struct Options {
    std::string driver_name;
    std::string node_name;
    std::string directory;  // <data directory>/notes
  };

  // All pointers outlive this.
  HealthNotes(Options options, FileSystem* fs, inventory::Inventory* inventory, Clock* clock,
              observe::Metrics* metrics, Logger logger);

  // Before inventory.Update(found): reads the notes of devices that are new to the inventory and hands them over. A
  // damaged note counts as a fault that only evidence ends. Errors: a note could not be read, so nothing is known of its
  // device: publish nothing new, try again.
  absl::Status Load(const loader::DiscoverResult& found);

  // Before inventory.UpdateHealth: takes evidence that another instance of the driver has noted.
  void TakeForeignEvidence();

  // After each change: writes the notes of faults that changed, durably. What could not be written is kept and written
  // by the next call. Errors: the first of those.
  absl::Status Save();

 private:
  using Key = std::pair<std::string, std::string>;  // pool, device
  absl::StatusOr<std::vector<inventory::Fault>> Read(const std::string& identity) const;
  absl::Status Write(const std::string& identity,
                     const std::map<Key, inventory::Fault>& changed) const;

  const Options options_;
  const records::Notes notes_;
  inventory::Inventory* const inventory_;
  Clock* const clock_;
  observe::Metrics* const metrics_;
  const Logger logger_;

  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  // identity -> what its note does not say yet
  std::map<std::string, std::map<Key, inventory::Fault>> pending_ ABSL_GUARDED_BY(mutex_);
  std::string logged_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::driver
