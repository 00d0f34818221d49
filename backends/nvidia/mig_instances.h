#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hardware.h"
#include "nvml_library.h"

namespace nvidia {

// The MIG instances that stand on a GPU whose MIG mode is on, in NVML's order. A GPU instance that is divided into
// smaller compute instances is left out; so is one that vanishes meanwhile. gpu: for texts.
std::vector<MigInstance> MigInstancesOf(const NvmlLibrary& nvml, nvml::Device device,
                                        const std::string& gpu,
                                        std::optional<uint64_t> gpu_memory_bytes);

// MIG mode and where the instances stand, as a text that differs when another discovery would find other instances.
// instances: profile, capacities and order do not matter.
std::string MigLayout(bool enabled, const std::vector<MigInstance>& instances);
// The layout now, with fewer questions than MigInstancesOf. nullopt: a question failed for a reason that may pass.
// Throws NvmlError if it is the library that is lost.
std::optional<std::string> MigLayoutOf(const NvmlLibrary& nvml, nvml::Device device,
                                       const std::string& gpu);

// "1g.10gb+me" from what a profile has. profile: its number in nvmlDeviceGetGpuInstanceProfileInfo, which tells the
// media and graphics variants apart. Source of the rule: NVIDIA, go-nvlib; the GB of a profile are its eighths of the
// GPU's memory, in whole GiB.
std::string MigProfileName(unsigned profile, unsigned slices, uint64_t profile_mib,
                           uint64_t gpu_memory_bytes);

}  // namespace nvidia
