#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "dra/backend/host.h"

namespace rdma {

// Tells the host what the hook did: it watches the directories of the claims that have one, and passes on every state.json
// as the devices' status. Any thread.
class AttachReporter {
 public:
  struct Device {
    std::string pool_suffix, name, share_id;
  };

  explicit AttachReporter(dra::Host host);
  ~AttachReporter();  // stops and joins

  // Also tells what stands there already. Again for the same claim: replaces.
  void Track(const std::string& claim_uid, const std::string& directory,
             std::map<std::string, Device> devices);
  void Forget(const std::string& claim_uid);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rdma
