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
  std::optional<unsigned>
      recovery_action;                    // nvml::kRecovery...; nullopt: this driver does not tell
  std::optional<std::string> mig_layout;  // of MigLayoutOf; nullopt if it cannot be told
};

// What an answer other than success makes of the whole GPU: lost, missing, to be reset, or unknown.
// Throws NvmlError if it is the library that is lost. text: names function and answer, for what is unknown.
GpuState StateOfFailure(nvml::Return result, const std::string& text);

struct LookOptions {
  bool mig = false;      // its MIG mode is on, so that it takes no part in a fabric
  bool recovery = true;  // what the driver asks for to recover it is asked too
};
// Asks cheap questions only. What the GPU does not have is no fault. Throws NvmlError as above.
GpuState LookAtState(const NvmlLibrary& nvml, nvml::Device device, const std::string& uuid,
                     const LookOptions& options);

// What the driver asks for to recover the GPU, now. nullopt: it does not tell, for whatever reason.
std::optional<unsigned> RecoveryActionOf(const NvmlLibrary& nvml, nvml::Device device);

}  // namespace nvidia
