#pragma once

#include "card_profile.h"
#include "environment.h"

namespace fake {

// Cards that no claim sets anything on: containers are told what they have, and there is nothing to undo.
class StatelessProfile : public CardProfile {
 public:
  using CardProfile::CardProfile;

  dra::PrepareReply Prepare(const dra::HookCall& call, const dra::PrepareRequest& request) override;

 protected:
  // What containers are told of a device that is there. Throws for a configuration that cannot be.
  virtual std::vector<std::string> Environment(const dra::AllocatedDevice& device,
                                               const std::string& claim_uid, bool admin) const = 0;
};

}  // namespace fake
