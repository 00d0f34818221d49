#include "stateless_profile.h"

#include <memory>
#include <utility>

namespace fake {

dra::PrepareReply StatelessProfile::Prepare(const dra::HookCall&,
                                            const dra::PrepareRequest& request) {
  const std::shared_ptr<const ControlState> state = control_.Read();
  const bool admin = HasAdminAccess(request);
  dra::PrepareReply reply;
  for (const dra::AllocatedDevice& device : request.devices) {
    UsableCard(*state, device);
    dra::PreparedDeviceReply prepared;
    prepared.edits = {{"env", Environment(device, request.claim.uid, admin)}};
    reply.devices.push_back(std::move(prepared));
  }
  reply.claim_edits = {{"env", ClaimEnvironment(options_.node_name, request)}};
  return reply;
}

}  // namespace fake
