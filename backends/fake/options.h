#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "dra/backend/backend.h"
#include "gpu_layout.h"

namespace fake {

enum class ProfileName { kGpu, kNet, kCpu };

// The NICs of the simulated machine.
struct NetLayout {
  int64_t cards = 8;
};

// The processors of the simulated machine.
struct CpuLayout {
  int64_t numa_nodes = 8;
  int64_t cpus_per_node = 4;
  std::string driver_name = "cpu.example.com";  // of the capacity: "<driver name>/cpu"
};

// The backend's part of the driver's configuration; README.md says what each option does.
struct Options {
  ProfileName profile = ProfileName::kGpu;
  std::string node_name;
  // Only that of the profile counts.
  GpuLayout gpu;
  NetLayout net;
  CpuLayout cpu;
  bool device_nodes = false;
  std::string dev_root;
  bool device_status = false;
  bool merge_configs = false;  // "configPolicy": "merge"; default "highestWins"
  std::string inventory_file;
  std::string state_directory;
  std::string control_file;  // default: control.json in the state directory
  std::string hook_log;      // default: hooks.jsonl in the state directory
  std::chrono::milliseconds poll_interval{50};

  // What the manifest says otherwise than by default.
  std::optional<bool> parallel;
  std::optional<bool> shared_claims;
  std::optional<bool> never_tainted;
  std::optional<bool> no_injection;
  std::optional<bool> keeps_undo;
  std::map<std::string, std::chrono::milliseconds> hook_limits;

  // Throws dra::BackendError, DRA_INVALID_ARGUMENT, with the path of what is wrong.
  static Options Parse(const dra::Json& config);
};

}  // namespace fake
