#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layout.h"
#include "state.h"

namespace nvidia_simulator {

// What `set` can do to a node that runs. Everything that is asked for at once happens in the order of these members.
struct NodeChanges {
  bool install = false, uninstall = false;  // the driver's files and its module
  std::string driver_upgrade;               // to this version, with a reload of the module
  bool only_library = false, only_kernel = false;
  std::string cuda;  // of the new driver
  bool unload_driver = false, load_driver = false, reload_driver = false;
  bool reboot = false;
  std::vector<std::string> majors;    // "nvidia-uvm=511"
  std::vector<std::string> add_gpus;  // names of cards
  std::string minors;                 // "reversed" or "2,0,1"
  std::vector<std::string> faults;    // "nvmlDeviceGetUUID=GPU_IS_LOST:3"
  std::vector<std::string> hangs;     // "nvmlInitWithFlags=2.5:1"
  bool clear_faults = false;
};
struct CardChanges {
  bool remove = false;
  bool release = false;            // nothing holds it any more
  std::vector<std::string> holds;  // pids or names
  bool reset = false;
  std::string mig;                                     // "on" or "off", at once
  std::vector<std::string> mig_destroys, mig_creates;  // "1g.10gb:0"
  std::string merge;                                   // JSON over the card's members
  bool heal = false, lost = false;
  std::string recovery_action;  // a name
  std::optional<uint64_t> ecc;  // so many uncorrectable errors more
  bool remap_pending = false, remap_failed = false, retired_pages_pending = false;
  std::vector<uint64_t> xids;
  std::vector<std::string> events;  // "fatal-poison" or "fatal-poison=7"
  std::string instance;             // of xids and events: "<gi>" or "<gi>:<ci>"
};
struct Changes {
  std::vector<std::string> gpus;  // UUIDs or indexes, or "all"
  NodeChanges node;
  CardChanges card;
  std::string merge_node;  // JSON over the state's members
};

// Throws std::invalid_argument for what is not understood, std::runtime_error for what the hardware refuses, with what
// to do.
void Apply(const Changes& changes, Layout& layout, State& state);

// The parts of it. `gpu`: one of the state's.
void ApplyToNode(const NodeChanges& changes, const std::vector<std::string>& gpus, Layout& layout,
                 State& state);
void ApplyToCard(const CardChanges& changes, State& state, const std::string& uuid);

// "1, train.py": what holds the card; "" if nothing does.
std::string Holders(const Gpu& gpu);
// "name=value" in two; throws std::invalid_argument with `example`.
std::pair<std::string, std::string> SplitPair(const std::string& text, char by,
                                              const std::string& example);
// A whole number without sign that is all of the text, else throws std::invalid_argument with `what`.
uint64_t ToNumber(const std::string& text, const std::string& what);

}  // namespace nvidia_simulator
