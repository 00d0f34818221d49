#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace rdma {

// Calls `changed` soon after links, addresses or routes of the calling thread's namespace change, or after a uevent of
// the subsystems net, infiniband, infiniband_verbs, infiniband_mad or pci. Bursts become one call: the first at once,
// then at most one per `quiet` after it, the last change included. Lost events (ENOBUFS) count as a change. `changed`
// runs on the watch's thread and does not throw. Throws NetlinkError if links cannot be watched; without uevents it
// goes on.
class LinkWatch {
 public:
  explicit LinkWatch(std::function<void()> changed,
                     std::chrono::milliseconds quiet = std::chrono::milliseconds(200));
  ~LinkWatch();  // stops and joins

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rdma
