#pragma once

#include <string>
#include <vector>

#include "stateless_profile.h"

namespace fake {

// NUMA nodes numa-0, numa-1, ... whose CPUs are shared, as profile "cpu" of the public example driver has them. Their
// capacity stands for the node's own CPUs: the scheduler takes what claims consume from the node's allocatable. There
// are no configurations.
class CpuProfile final : public StatelessProfile {
 public:
  CpuProfile(const Options& options, Control& control);

  void Describe(dra::BackendManifest& manifest) override;
  void ValidateConfig(const dra::Json& parameters) override;

 protected:
  void AddCard(int64_t slot, const CardDevice& card, const CardCondition& condition,
               const dra::DiscoverRequest& request, CardInventory& inventory) const override;
  std::vector<std::string> Environment(const dra::AllocatedDevice& device,
                                       const std::string& claim_uid, bool admin) const override;
  std::string Contents() const override;
};

void DescribeCpu(dra::BackendManifest& manifest);

}  // namespace fake
