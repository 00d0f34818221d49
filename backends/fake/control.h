#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "cards.h"
#include "dra/backend/backend.h"
#include "nlohmann/json.hpp"

namespace fake {

// A host function that a fault calls from a thread of its own.
struct Callback {
  std::string function;  // "inventoryChanged", "healthChanged", "saveUndo", "requestRestart", "log"
  int64_t delay_ms = 0;
  std::string text;  // of "saveUndo", "requestRestart" and "log"; "": one of its own
};

// One entry of "hooks" in the control file: what a hook does wrong.
struct Fault {
  std::string hook;
  std::string at = "begin";  // "begin", "undoSaved", "configured", "end"
  std::string claim;         // only for this claim UID; "" for all
  int64_t skip = 0;          // let this many matching calls pass first
  int64_t times = -1;        // then hit so often; -1 without end
  int64_t latency_ms = 0;
  std::optional<int32_t> fail_code;
  std::string fail_text;
  std::string hang;    // "", "untilCancelled", "untilRemoved"
  std::string crash;   // "", "abort", "exit", "kill", "segv"
  std::string thrown;  // "", "exception", "int", "own"
  std::string junk;    // "", see JunkApi
  std::optional<Callback> callback;
  std::string key;  // names the entry in the counts; another one whenever its text changes
};

// The health that the control file gives a device.
struct ControlledHealth {
  std::string state = "healthy";  // "healthy", "unhealthy", "unknown"
  std::string fault_class;
  std::string message;
  std::string remedy;
  std::string clears_with;
  dra::FaultSeverity severity = dra::FaultSeverity::kUnset;
};

// One reading of the control file.
struct ControlState {
  std::map<std::string, CardCondition> cards;
  std::map<std::string, std::string> configure_errors;  // card -> text: setting it fails
  std::map<std::string, std::string> restore_errors;    // card -> text: setting it back fails
  std::map<std::string, std::string> busy;              // device -> "idle", "busy", "unknown"
  std::map<std::string, ControlledHealth> health;       // device
  std::string partial;  // not empty: discover is partial, with this reason
  bool save_undo = true;
  std::vector<Fault> faults;
  std::string inventory_text;  // changes when discover's answer may have changed
  std::string health_text;     // changes when health's answer may have changed
};

// The control file, read anew whenever it changed, so that a test can change the backend's behaviour at run time. No
// file: nothing is wrong. A file that cannot be read as documented fails each hook with DRA_INVALID_ARGUMENT and the
// path of what is wrong. Any thread. See README.md for the format.
class Control {
 public:
  // file: "" for none. counts_file: keeps how often each fault hit, across processes; "" counts in this object.
  Control(std::string file, std::string counts_file)
      : file_(std::move(file)), counts_file_(std::move(counts_file)) {}

  std::shared_ptr<const ControlState> Read();

  // The first fault for `hook` at `at` that is not used up, counted as hit; nullopt if there is none. junk: look for
  // junk faults only; otherwise for the others only.
  std::optional<Fault> Take(const std::string& hook, const std::string& at,
                            const std::string& claim, bool junk);

  const std::string& file() const { return file_; }

 private:
  bool Count(const Fault& fault);

  const std::string file_;
  const std::string counts_file_;
  std::mutex mutex_;
  std::string stamp_;                          // under mutex_
  std::shared_ptr<const ControlState> state_;  // under mutex_
  std::map<std::string, int64_t> counts_;      // without a counts file; under mutex_
};

// Carries out everything of `fault` but junk and callback: waits, hangs, crashes, throws, fails. Returns if the hook
// shall go on.
void Suffer(const Fault& fault, Control& control, const dra::HookCall& call);

}  // namespace fake
