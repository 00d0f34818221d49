#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "dra/backend/types.h"

namespace nvidia {

// What ends a fault, beside the GPU being reported healthy. "": nothing else.
//   gpu-reset  the GPU was initialised anew: a new boot, a new load of the driver, or a reset that was seen. The
//              backend gives it itself.
//   operator   a person has looked and says so with dra-driver clear-fault.
inline constexpr char kClearsWithReset[] = "gpu-reset";
inline constexpr char kClearsWithOperator[] = "operator";

// A class of faults and what the operator is told.
struct FaultClass {
  std::string name;  // a label's value: "fallen-off-the-bus", "xid-32"
  std::string message, remedy;
  std::string clears_with;
  friend bool operator==(const FaultClass&, const FaultClass&) = default;
};

// Every class but those of XIDs without a name. Source: NVIDIA, "XID Errors" and "GPU Memory Error Management": critical is
// what ends every application of the GPU, minor what lets new ones run.
const std::map<std::string, dra::FaultSeverity>& Severities();
// That of the class; of an XID without a name, major.
dra::FaultSeverity SeverityOf(const FaultClass& fault);

// True if `a` asks for more than `b` to end.
bool AsksForMore(const FaultClass& a, const FaultClass& b);
// True if `a` is more severe than `b`; of two alike, if it asks for more to end.
bool IsWorse(const FaultClass& a, const FaultClass& b);

// What an XID says of the GPU. nullopt: an application's own fault, which says nothing of it (13, 31, 43, 45, 68, 109
// and `ignored`). One that is not in the table is a class of its own number.
// Source of the meanings: NVIDIA, "XID Errors" (GPU Deployment and Management documentation), r580.
std::optional<FaultClass> FaultOfXid(uint64_t xid, const std::set<int64_t>& ignored);

// The XID that says that the recovery action of a GPU has changed, be it to none.
inline constexpr uint64_t kXidRecoveryAction = 154;
// What the driver asks for to recover a GPU (nvml::kRecovery...), as a fault that lasts as long as it asks. nullopt: for
// nothing. Source of the meanings: NVIDIA, "GPU Memory Error Management", error recovery and response flags; of those
// from 5 on, the comments in nvml.h alone.
std::optional<FaultClass> FaultOfRecoveryAction(unsigned action);
// True if the GPU, once it has been recovered so, was initialised anew.
bool IsReset(unsigned recovery_action);

FaultClass UncorrectableEcc(const std::string& message);
FaultClass LostGpu(const std::string& message);
FaultClass MissingGpu(const std::string& message);
FaultClass ResetRequired(const std::string& message);
FaultClass RepairPending(const std::string& message);
FaultClass RepairFailed(const std::string& message);
FaultClass FabricNotReady(const std::string& message);
FaultClass FabricFailed(const std::string& message);
FaultClass DriverMismatch(const std::string& message);

}  // namespace nvidia
