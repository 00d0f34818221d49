#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dra/base/json.h"
#include "dra/testing/kubelet_double.h"

// Lines that a person reads. Pure but for DescribeContainer, which scans the CDI directory as a runtime does.
namespace dra::sandbox {

// "00000-gpu.example.com-sandbox-x7k2p: pool sandbox, generation 1: 4 devices gpu-0 gpu-1 gpu-2 gpu-3"
std::string DescribeSlice(const Json& slice);
// "gpu-0 (request gpu), gpu-1 (request gpu)"
std::string DescribeAllocation(const Json& claim);
// What the container runtime makes of the container's CDI ids: environment, device nodes, mounts.
absl::StatusOr<std::vector<std::string>> DescribeContainer(
    const testing::KubeletContainer& container, const std::string& cdi_directory);

}  // namespace dra::sandbox
