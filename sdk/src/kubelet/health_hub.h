#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "dra/kubelet/plugin_server.h"

namespace dra::kubelet {

using HealthList =
    std::shared_ptr<const std::vector<DeviceHealth>>;  // never null where it is passed on

// One open NodeWatchResources stream. Any thread.
class HealthStream {
 public:
  virtual ~HealthStream() = default;
  // Sends the list, or, while an earlier one is on its way, remembers it in place of one that waits.
  virtual void Offer(HealthList list) = 0;
  // Forgets a list that waits. One that is on its way is sent.
  virtual void Withhold() = 0;
  // Ends the stream with `status` after what is on its way.
  virtual void End(absl::Status status) = 0;
};

// The driver's device health and the streams that want it. No lock is held while a stream is called, so a stream that
// ends or hangs holds up nothing. Any thread.
class HealthHub {
 public:
  // Off: new streams end with Unimplemented, as if the service were not there, and so do the open ones.
  void SetEnabled(bool enabled);

  // As PluginServer::SetReporting. On at first.
  void SetReporting(bool reporting);
  // As PluginServer::SetHealth. last_updated of a device never goes back; a list that differs only there is stored, and
  // sent with the next Resend.
  void Set(std::optional<std::vector<DeviceHealth>> devices);
  // Sends the list again to every stream, if there is one and it is reported at all.
  void Resend();

  // A stream was opened: it gets the list at once, if there is one.
  void Open(std::shared_ptr<HealthStream> stream);
  void Closed(HealthStream* stream);
  // Ends all streams with OK and each later one at once with Unavailable.
  void Shutdown();

  size_t open_streams() const;

 private:
  std::vector<std::shared_ptr<HealthStream>> Streams() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  bool enabled_ ABSL_GUARDED_BY(mutex_) = false;
  bool reporting_ ABSL_GUARDED_BY(mutex_) = true;
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
  HealthList list_ ABSL_GUARDED_BY(mutex_);  // null: the source is stuck or has not spoken yet
  std::vector<DeviceHealth> last_known_ ABSL_GUARDED_BY(mutex_);
  std::set<std::shared_ptr<HealthStream>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::kubelet
