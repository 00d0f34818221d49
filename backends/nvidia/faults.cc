#include "faults.h"

#include <map>

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
       {"ecc-contained", "contained ECC error: the applications that it hit were ended", kReset,
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

bool IsWorse(const FaultClass& a, const FaultClass& b) { return Weight(a) > Weight(b); }

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

}  // namespace nvidia
