#pragma once

#include <string>
#include <vector>

#include "stateless_profile.h"

namespace fake {

// NICs nic-0, nic-1, ... whose bandwidth and virtual functions are shared, as profile "net" of the public example
// driver has them. A NetConfig limits the bursts of a claim's share; it sets nothing on the card.
class NetProfile final : public StatelessProfile {
 public:
  NetProfile(const Options& options, Control& control);

  void Describe(dra::BackendManifest& manifest) override;
  void ValidateConfig(const dra::Json& parameters) override;

 protected:
  void AddCard(int64_t slot, const CardDevice& card, const CardCondition& condition,
               const dra::DiscoverRequest& request, CardInventory& inventory) const override;
  std::vector<std::string> Environment(const dra::AllocatedDevice& device,
                                       const std::string& claim_uid, bool admin) const override;
};

void DescribeNet(dra::BackendManifest& manifest);

}  // namespace fake
