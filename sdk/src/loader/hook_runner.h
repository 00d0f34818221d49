#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "dra/backend/abi.h"
#include "dra/base/call.h"
#include "dra/loader/loader.h"
#include "loader/hook_call.h"
#include "loader/host_table.h"

namespace dra::loader {

// Which hooks may run beside a hook (abi.h, "Threads").
enum class HookMode {
  kAny,  // beside everything
  kClaim,  // not beside another hook of the claim; without "parallel" beside no kClaim or kSerial at all
  kSerial,  // beside no other kSerial; without "parallel" beside no kClaim
  kAlone,   // beside no kClaim and no kSerial
  kQuiet,   // beside nothing: create, destroy
};

struct HookSpec {
  std::string name;  // "prepare"
  HookMode mode = HookMode::kAny;
  std::string claim_uid;  // with kClaim; also for the host's per-call functions
  absl::Duration limit;
  bool reserved = false;      // may use the reserved threads: unprepare, destroy
  HostTable* host = nullptr;  // knows the call while it runs; may be null
  RunningHook::GivenSecrets secrets;
};

// Runs hooks on threads of its own, each under a limit. A hook that overruns keeps its thread; the caller gets
// DeadlineExceeded, and what the hook writes later belongs to the hook alone. Any thread.
class HookRunner {
 public:
  // subject: "backend /path", begins the texts.
  HookRunner(std::string subject, const LoadOptions& options);
  // Joins the threads that are idle. Those that hang in a hook are left to it: they hold all that they use.
  ~HookRunner();
  HookRunner(const HookRunner&) = delete;
  HookRunner& operator=(const HookRunner&) = delete;

  // From the manifest; false at first.
  void SetParallel(bool parallel);
  // The instance that exists now, named by its host table; null: none. Hooks of another one (kQuiet ones apart) are
  // refused: their instance is gone.
  void SetInstance(const HostTable* host);

  // Waits for its turn and a thread within the limit, then runs `body` there. `body` must own what it uses. OK: body has
  // returned and what it wrote may be read. Errors: DeadlineExceeded (names hook and limit), Cancelled (before it
  // started; a running hook is told and waited for), Unavailable (too many hang), FailedPrecondition
  // (its instance is gone).
  absl::Status Run(const HookSpec& spec, const Call& call, std::function<void(RunningHook&)> body);

  // Hooks that overran and still run.
  size_t Stuck() const;

 private:
  struct Task;
  struct Core;
  static void Work(const std::shared_ptr<Core>& core, size_t worker);

  const std::string subject_;
  const LoadOptions options_;
  const std::shared_ptr<Core> core_;
};

}  // namespace dra::loader
