#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "dra/backend/backend.h"
#include "gpu_profile.h"

namespace fake {

// The backend's part of the driver's configuration; README.md says what each option does.
struct Options {
  GpuLayout layout;
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
