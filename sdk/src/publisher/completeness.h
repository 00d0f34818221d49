#pragma once

#include <string>
#include <vector>

#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::publisher {

// True if the slices make up complete pools, as the scheduler judges it (as many slices of the highest generation as
// resourceSliceCount says, no device twice), and each pool of `pools` is among them. Pure.
// Source: kubernetes/kubernetes:staging/src/k8s.io/dynamic-resource-allocation/structured, pools.
bool AreComplete(const std::vector<Json>& slices, const std::vector<std::string>& pools);

}  // namespace dra::publisher
