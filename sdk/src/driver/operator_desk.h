#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/logger.h"
#include "dra/inventory/inventory.h"
#include "dra/loader/backend_handle.h"
#include "dra/observe/events.h"
#include "dra/observe/metrics.h"
#include "driver/health_notes.h"
#include "driver/requests.h"

namespace dra::driver {

// What the status socket shows of it.
struct OperatorView {
  std::optional<DrainRequest> drain;  // with the mode that it has in effect
  std::vector<inventory::Fault> faults;
  std::vector<Requests::Result> requests;
};

// What one driver does for its operator: keeps the notes of faults, follows the request files (drain, clear-fault), and
// shows both. Poll on one thread, the rest on any.
class OperatorDesk {
 public:
  struct Options {
    std::string driver_name;
    std::string node_name;
    std::string data_directory;
    bool never_tainted = false;  // the backend's devices get no taints: a drain withdraws them
  };
  struct Callbacks {
    std::function<void(bool)> set_withdrawn;
    std::function<void(std::shared_ptr<const inventory::Snapshot>)> on_snapshot;
  };

  // All pointers outlive this.
  OperatorDesk(Options options, FileSystem* fs, inventory::Inventory* inventory, Clock* clock,
               observe::EventRecorder* events, observe::Metrics* metrics, const Logger& logger,
               Callbacks callbacks);

  HealthNotes& notes() { return notes_; }
  // What the API server keeps: where it drops taints, a drain withdraws.
  void SetServerFields(const loader::ServerFields& fields);
  // Looks at the requests once. Before the first discovery, so that a drained node stays drained over a restart; then
  // each second.
  void Poll();

  OperatorView View() const;

 private:
  enum class Effect { kNone, kTaint, kWithdraw };
  Effect EffectOf(const DrainRequest& request) const;
  void ApplyDrain();
  absl::StatusOr<std::string> ClearFault(const ClearFaultRequest& request);
  void OnResult(const Requests::Result& result);
  void Record(observe::EventType type, const char* reason, const std::string& note);

  const Options options_;
  inventory::Inventory* const inventory_;
  Clock* const clock_;
  observe::EventRecorder* const events_;
  observe::Metrics* const metrics_;
  const Logger logger_;
  const Callbacks callbacks_;
  HealthNotes notes_;
  Requests requests_;
  // Evidence that counts already, but could not be noted yet: device -> the answer to give then. Poll's thread.
  std::map<std::pair<std::string, std::string>, std::string> unsaved_;
  std::pair<Effect, absl::Time> applied_ = {Effect::kNone, absl::Time()};  // Poll's thread

  mutable absl::Mutex mutex_;
  loader::ServerFields fields_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::driver
