#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "faults.h"
#include "nvml_library.h"

namespace nvidia {

// What NVML says of a GPU's state when asked now.
struct GpuState {
  std::vector<FaultClass> faults;  // true now
  std::string unknown;             // why it cannot be told; "" if it can
  bool lost = false;               // the handle is dead
  bool reset_required = false;
  std::optional<uint64_t> uncorrected;  // ECC errors since the GPU was initialised
};

// What an answer other than success makes of the whole GPU: lost, missing, to be reset, or unknown.
// Throws NvmlError if it is the library that is lost. text: names function and answer, for what is unknown.
GpuState StateOfFailure(nvml::Return result, const std::string& text);

// Asks cheap questions only. What the GPU does not have is no fault. Throws NvmlError as above. mig: its MIG mode is
// on, so that it takes no part in a fabric.
GpuState LookAtState(const NvmlLibrary& nvml, nvml::Device device, const std::string& uuid,
                     bool mig);

}  // namespace nvidia
