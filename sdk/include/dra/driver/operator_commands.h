#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/file_system.h"

namespace dra::driver {

// The commands that `dra-driver drain`, `clear-fault` and `uninstall-check` run: docs/operations.md. They work on the
// files of the node alone, need neither API server nor a running driver, and print for people. Each returns the exit
// status. fs, clock and streams outlive the call.
struct CommandContext {
  FileSystem* fs = nullptr;
  Clock* clock = nullptr;
  std::ostream* out = nullptr;
  std::ostream* error = nullptr;
  std::string kubelet_root;
  std::string by;  // who asks, for the records
};

inline constexpr int kExitNothing = 0;    // done; nothing is held
inline constexpr int kExitSomething = 1;  // something is held, or the request was refused
inline constexpr int kExitUnknown = 2;    // could not look, or nobody answered: says nothing

struct DrainCommand {
  std::string driver;
  std::string mode = "taint";  // or "withdraw"
  bool off = false;
  absl::Duration wait = absl::ZeroDuration();  // for the claims to end
};
// Writes or removes the request. Without `wait` the exit status says only whether the request was written.
int RunDrain(const CommandContext& context, const DrainCommand& command);

struct ClearFaultCommand {
  std::string driver;
  std::string device;
  std::string pool;  // "": the node's own
  std::string evidence;
  absl::Duration wait = absl::Seconds(10);  // for the driver's answer
};
int RunClearFault(const CommandContext& context, const ClearFaultCommand& command);

struct UninstallCheckCommand {
  std::optional<std::string> driver;    // else all configured, and all that have run on this node
  std::vector<std::string> configured;  // driver names of the configuration
  bool json = false;
};
int RunUninstallCheck(const CommandContext& context, const UninstallCheckCommand& command);

}  // namespace dra::driver
