#include "faults.h"

#include <map>

#include "nvml.h"

namespace nvidia {
namespace {

// A reset needs the GPU to be closed by everybody, by the one that watches its health too.
constexpr char kReset[] =
    "drain the GPU and reset it (nvidia-smi --gpu-reset, while this driver's pod is stopped), or "
    "reboot the node";
constexpr char kResetOrReplace[] =
    "drain the GPU and reset it (nvidia-smi --gpu-reset, while this driver's pod is stopped), or "
    "reboot the node; if it comes again, have the card checked";
constexpr char kReplace[] =
    "have the card checked (NVIDIA field diagnostics), then give the word with dra-driver "
    "clear-fault";

struct XidRow {
  const char* name;
  const char* meaning;
  const char* remedy;
  const char* clears_with;
};

// XIDs whose meaning for new work differs from "look it up".
const std::map<uint64_t, XidRow>& XidTable() {
  static const std::map<uint64_t, XidRow> kTable = {
      {48, {"ecc-uncorrectable", "double-bit ECC error", kResetOrReplace, kClearsWithReset}},
      {54,
       {"power-missing", "auxiliary power is not connected to the board",
        "connect it, then give the word with dra-driver clear-fault", kClearsWithOperator}},
      {61,
       {"microcontroller-halted", "internal microcontroller breakpoint", kResetOrReplace,
        kClearsWithReset}},
      {62,
       {"microcontroller-halted", "internal microcontroller halt", kResetOrReplace,
        kClearsWithReset}},
      // Whether a repair waits for a reset is polled.
      {63, {"ecc-repair-pending", "a memory page or row was recorded for repair", kReset, ""}},
      {64,
       {"ecc-repair-failed", "a memory page or row could not be recorded for repair", kReplace,
        kClearsWithOperator}},
      {74,
       {"nvlink-error", "NVLink error",
        "drain the GPUs of the fabric and reset them; if it comes again, check cables, switches "
        "and the card",
        kClearsWithReset}},
      {79,
       {"fallen-off-the-bus", "the GPU has fallen off the bus",
        "reboot the node; if it comes again, check power, cooling and seat of the card",
        kClearsWithReset}},
      {92, {"ecc-error-rate", "high rate of single-bit ECC errors", kReplace, kClearsWithOperator}},
      {94,
       {"ecc-contained", "contained ECC error: the applications that it hit were ended",
        "reset the GPU at the next maintenance (nvidia-smi --gpu-reset, while this driver's pod is "
        "stopped): that repairs the memory",
        kClearsWithReset}},
      {95,
       {"ecc-uncontained", "uncontained ECC error: every application of the GPU is affected",
        kResetOrReplace, kClearsWithReset}},
      {119,
       {"gsp-failure", "the GPU's system processor does not answer", kResetOrReplace,
        kClearsWithReset}},
      {120,
       {"gsp-failure", "error of the GPU's system processor", kResetOrReplace, kClearsWithReset}},
      {140, {"ecc-uncorrectable", "unrecovered ECC error", kResetOrReplace, kClearsWithReset}},
      {143,
       {"initialization-failed", "the GPU could not be initialised", kResetOrReplace,
        kClearsWithReset}},
      {154,
       {"recovery-action", "the driver says that the GPU needs an action to recover",
        "see \"GPU Recovery Action\" in nvidia-smi -q, and do that", kClearsWithReset}},
  };
  return kTable;
}

int Weight(const FaultClass& fault) {
  if (fault.clears_with == kClearsWithOperator) return 2;
  return fault.clears_with.empty() ? 0 : 1;
}

}  // namespace

const std::map<std::string, dra::FaultSeverity>& Severities() {
  using enum dra::FaultSeverity;
  static const std::map<std::string, dra::FaultSeverity> kSeverities = {
      // The page is taken out of use: other applications go on, new ones may start.
      {"ecc-contained", kMinor},
      {"ecc-error-rate", kMajor},
      {"ecc-repair-failed", kMajor},
      {"ecc-repair-pending", kMajor},
      {"driver-mismatch", kMajor},
      // Whom it hit, XIDs 94 and 95 tell.
      {"ecc-uncorrectable", kMajor},
      {"ecc-uncontained", kCritical},
      {"fabric-failed", kMajor},
      {"fabric-not-ready", kMajor},
      {"fallen-off-the-bus", kCritical},
      {"gpu-missing", kCritical},
      {"gsp-failure", kCritical},
      {"initialization-failed", kCritical},
      {"microcontroller-halted", kMajor},
      {"nvlink-error", kMajor},
      {"power-missing", kMajor},
      {"recovery-action", kMajor},
      {"recovery-bus-reset", kCritical},
      {"recovery-drain-and-reset", kMajor},
      {"recovery-drain-p2p", kMajor},
      {"recovery-gpu-reset", kMajor},
      {"recovery-imex-domain", kMajor},
      {"recovery-node-reboot", kCritical},
      {"recovery-system-reboot", kCritical},
      {"reset-required", kCritical},
  };
  return kSeverities;
}

dra::FaultSeverity SeverityOf(const FaultClass& fault) {
  const auto found = Severities().find(fault.name);
  return found == Severities().end() ? dra::FaultSeverity::kMajor : found->second;
}

bool AsksForMore(const FaultClass& a, const FaultClass& b) { return Weight(a) > Weight(b); }

bool IsWorse(const FaultClass& a, const FaultClass& b) {
  const dra::FaultSeverity of_a = SeverityOf(a), of_b = SeverityOf(b);
  return of_a != of_b ? of_a > of_b : AsksForMore(a, b);
}

std::optional<FaultClass> FaultOfXid(uint64_t xid, const std::set<int64_t>& ignored) {
  // Faults that applications cause. Source: kubernetes-sigs/dra-driver-nvidia-gpu.
  static const std::set<uint64_t> kOfApplications = {13, 31, 43, 45, 68, 109};
  if (kOfApplications.contains(xid) || ignored.contains(static_cast<int64_t>(xid))) {
    return std::nullopt;
  }
  const std::string number = std::to_string(xid);
  const auto row = XidTable().find(xid);
  if (row != XidTable().end()) {
    const XidRow& known = row->second;
    return FaultClass{known.name, "XID " + number + ": " + known.meaning, known.remedy,
                      known.clears_with};
  }
  return FaultClass{"xid-" + number, "XID " + number,
                    "look it up in NVIDIA's document \"XID Errors\" and in the kernel's log; " +
                        std::string(kReset),
                    kClearsWithReset};
}

std::optional<FaultClass> FaultOfRecoveryAction(unsigned action) {
  const std::string asks = "the driver asks for recovery of the GPU: ";
  switch (action) {
    case nvml::kRecoveryNone:
      return std::nullopt;
    case nvml::kRecoveryGpuReset:
      return FaultClass{"recovery-gpu-reset", asks + "a reset", kReset, ""};
    case nvml::kRecoveryNodeReboot:
      return FaultClass{"recovery-node-reboot",
                        asks + "a reboot of the node, whose system may be inconsistent",
                        "drain the node and reboot it", ""};
    case nvml::kRecoveryDrainP2p:
      return FaultClass{"recovery-drain-p2p", asks + "an end of its peer-to-peer traffic",
                        "end the pods whose GPUs exchange data with this one, and switch UVM's "
                        "persistence mode off; the driver then names the next action",
                        ""};
    case nvml::kRecoveryDrainAndReset:
      return FaultClass{"recovery-drain-and-reset",
                        asks +
                            "a reset once its work has ended; until then it has less memory or "
                            "fewer MIG instances",
                        "let the pods that use it end; then " + std::string(kReset), ""};
    case nvml::kRecoveryImexDomain:
      return FaultClass{"recovery-imex-domain", asks + "a recovery of its IMEX domain",
                        "see NVIDIA's IMEX guide, and the log of nvidia-imex on the domain's nodes",
                        ""};
    case nvml::kRecoveryBusReset:
      return FaultClass{"recovery-bus-reset", asks + "a reset of its PCIe bus",
                        "drain the node and reboot it", ""};
    case nvml::kRecoverySystemReboot:
      return FaultClass{"recovery-system-reboot", asks + "a reboot of the system",
                        "drain the node and reboot it; where several nodes are one system, all of "
                        "them",
                        ""};
    default:
      return FaultClass{"recovery-action", asks + "action " + std::to_string(action),
                        XidTable().at(kXidRecoveryAction).remedy, ""};
  }
}

bool IsReset(unsigned recovery_action) {
  switch (recovery_action) {
    case nvml::kRecoveryGpuReset:
    case nvml::kRecoveryNodeReboot:
    case nvml::kRecoveryDrainAndReset:
    case nvml::kRecoveryBusReset:
    case nvml::kRecoverySystemReboot:
      return true;
    default:
      return false;
  }
}

FaultClass UncorrectableEcc(const std::string& message) {
  return {"ecc-uncorrectable", message, kResetOrReplace, kClearsWithReset};
}

FaultClass LostGpu(const std::string& message) {
  const XidRow& row = XidTable().at(79);
  return {row.name, message, row.remedy, row.clears_with};
}

FaultClass MissingGpu(const std::string& message) {
  return {"gpu-missing", message,
          "if nobody took it away, see the kernel's log; if it was bound to another driver or "
          "removed on purpose, nothing is to be done",
          ""};
}

// What NVML goes on saying until it is over needs no other evidence.
FaultClass ResetRequired(const std::string& message) {
  return {"reset-required", message, kReset, ""};
}

FaultClass RepairPending(const std::string& message) {
  return {"ecc-repair-pending", message, kReset, ""};
}

FaultClass RepairFailed(const std::string& message) {
  return {"ecc-repair-failed", message, kReplace, kClearsWithOperator};
}

FaultClass FabricNotReady(const std::string& message) {
  return {"fabric-not-ready", message,
          "see that nvidia-fabricmanager runs and has found every switch", ""};
}

FaultClass FabricFailed(const std::string& message) {
  return {"fabric-failed", message,
          "see the log of nvidia-fabricmanager; restart it, and reset the GPUs of the fabric", ""};
}

// What runs goes on with the library that it has; what starts now gets none that fits the module.
FaultClass DriverMismatch(const std::string& message) {
  return {
      "driver-mismatch", message,
      "finish the driver's upgrade: load its kernel module anew (while nothing uses the GPUs and "
      "this driver's pod is stopped), or reboot the node",
      ""};
}

}  // namespace nvidia
