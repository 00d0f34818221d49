#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

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

// True if `a` asks for more than `b` to end.
bool IsWorse(const FaultClass& a, const FaultClass& b);

// What an XID says of the GPU. nullopt: an application's own fault, which says nothing of it (13, 31, 43, 45, 68, 109
// and `ignored`). One that is not in the table is a class of its own number.
// Source of the meanings: NVIDIA, "XID Errors" (GPU Deployment and Management documentation), r580.
std::optional<FaultClass> FaultOfXid(uint64_t xid, const std::set<int64_t>& ignored);

FaultClass UncorrectableEcc(const std::string& message);
FaultClass LostGpu(const std::string& message);
FaultClass MissingGpu(const std::string& message);
FaultClass ResetRequired(const std::string& message);
FaultClass RepairPending(const std::string& message);
FaultClass RepairFailed(const std::string& message);
FaultClass FabricNotReady(const std::string& message);
FaultClass FabricFailed(const std::string& message);

}  // namespace nvidia
