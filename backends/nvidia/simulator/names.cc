#include <array>
#include <cstdio>
#include <iterator>
#include <utility>

#include "state.h"

// Names of NVML's numbers, and identifiers made from a seed.
namespace nvidia_simulator {
namespace {

// Sources of the numbers: nvml.h of the PyPI package nvidia-nvml-dev, enum nvmlReturn_enum and nvmlEventType*.
constexpr std::pair<int, const char*> kReturns[] = {
    {0, "SUCCESS"},
    {1, "UNINITIALIZED"},
    {2, "INVALID_ARGUMENT"},
    {3, "NOT_SUPPORTED"},
    {4, "NO_PERMISSION"},
    {5, "ALREADY_INITIALIZED"},
    {6, "NOT_FOUND"},
    {7, "INSUFFICIENT_SIZE"},
    {8, "INSUFFICIENT_POWER"},
    {9, "DRIVER_NOT_LOADED"},
    {10, "TIMEOUT"},
    {11, "IRQ_ISSUE"},
    {12, "LIBRARY_NOT_FOUND"},
    {13, "FUNCTION_NOT_FOUND"},
    {14, "CORRUPTED_INFOROM"},
    {15, "GPU_IS_LOST"},
    {16, "RESET_REQUIRED"},
    {17, "OPERATING_SYSTEM"},
    {18, "LIB_RM_VERSION_MISMATCH"},
    {19, "IN_USE"},
    {20, "MEMORY"},
    {21, "NO_DATA"},
    {22, "VGPU_ECC_NOT_SUPPORTED"},
    {23, "INSUFFICIENT_RESOURCES"},
    {24, "FREQ_NOT_SUPPORTED"},
    {25, "ARGUMENT_VERSION_MISMATCH"},
    {26, "DEPRECATED"},
    {27, "NOT_READY"},
    {28, "GPU_NOT_FOUND"},
    {29, "INVALID_STATE"},
    {30, "RESET_TYPE_NOT_SUPPORTED"},
    {999, "UNKNOWN"},
};

constexpr std::pair<uint64_t, const char*> kEvents[] = {
    {0x1, "single-bit-ecc"},
    {0x2, "double-bit-ecc"},
    {0x4, "pstate"},
    {0x8, "xid"},
    {0x10, "clock"},
    {0x80, "power-source"},
    {0x100, "mig-config-change"},
    {0x200, "single-bit-ecc-storm"},
    {0x400, "dram-retirement"},
    {0x800, "dram-retirement-failure"},
    {0x1000, "non-fatal-poison"},
    {0x2000, "fatal-poison"},
    {0x4000, "gpu-unavailable"},
    {0x8000, "gpu-recovery-action"},
};

// In the order of nvml.h's NVML_GPU_RECOVERY_ACTION_*.
constexpr const char* kRecoveryActions[] = {"none",      "gpu-reset",       "node-reboot",
                                            "drain-p2p", "drain-and-reset", "recover-imex-domain",
                                            "bus-reset", "system-reboot"};

// FNV-1a, then splitmix64's finish: spread, and the same everywhere and for ever.
uint64_t Hash(const std::string& text, uint64_t basis) {
  uint64_t hash = 0xcbf29ce484222325u ^ basis;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

}  // namespace

std::optional<int> ReturnCode(const std::string& name) {
  for (const auto& [code, text] : kReturns) {
    if (name == text) return code;
  }
  return std::nullopt;
}

std::string ReturnName(int code) {
  for (const auto& [number, text] : kReturns) {
    if (number == code) return text;
  }
  return std::to_string(code);
}

std::optional<uint64_t> EventType(const std::string& name) {
  for (const auto& [type, text] : kEvents) {
    if (name == text) return type;
  }
  return std::nullopt;
}

std::string EventName(uint64_t type) {
  for (const auto& [number, text] : kEvents) {
    if (number == type) return text;
  }
  return std::to_string(type);
}

std::optional<unsigned> RecoveryAction(const std::string& name) {
  for (unsigned action = 0; action < std::size(kRecoveryActions); ++action) {
    if (name == kRecoveryActions[action]) return action;
  }
  return std::nullopt;
}

std::string RecoveryActionName(unsigned action) {
  return action < std::size(kRecoveryActions) ? kRecoveryActions[action] : std::to_string(action);
}

std::string RecoveryActionNames() {
  std::string names;
  for (const char* name : kRecoveryActions)
    names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

std::string StableUuid(const std::string& prefix, const std::string& seed) {
  uint64_t high = Hash(seed, 1), low = Hash(seed, 2);
  high = (high & ~uint64_t{0xf000}) | 0x5000;               // a name-based UUID
  low = (low & (~uint64_t{0} >> 2)) | (uint64_t{2} << 62);  // of the usual variant
  char text[40];
  std::snprintf(text, sizeof text, "%08x-%04x-%04x-%04x-%012llx", static_cast<unsigned>(high >> 32),
                static_cast<unsigned>(high >> 16) & 0xffff, static_cast<unsigned>(high) & 0xffff,
                static_cast<unsigned>(low >> 48),
                static_cast<unsigned long long>(low & 0xffffffffffffu));
  return prefix + text;
}

std::string MigUuid(const std::string& gpu_uuid, unsigned gi, unsigned ci) {
  return StableUuid("MIG-", gpu_uuid + "/" + std::to_string(gi) + "/" + std::to_string(ci));
}

}  // namespace nvidia_simulator
