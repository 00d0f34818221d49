#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dra/backend/abi.h"
#include "dra/loader/backend_handle.h"
#include "loader/hook_call.h"

namespace dra::loader {

// The dra_host of one backend instance. A backend's threads may call it at any time, also after destroy: it is never
// freed (see Make), answers FailedPrecondition once detached, and throws nothing into the backend. Any thread.
//
// std::mutex here and in hook_runner, not absl::Mutex: Debian's abseil is not instrumented, ThreadSanitizer could not
// see its order.
class HostTable {
 public:
  // The table lives until the process ends. services outlives Detach.
  static HostTable* Make(HostServices* services);
  explicit HostTable(HostServices* services);

  const dra_host* table() const { return &table_; }

  // A hook's call may use the per-call functions from Begin to End.
  void Begin(std::shared_ptr<RunningHook> hook);
  void End(uint64_t call_id);
  // No function reaches the services after it returns; it waits for those that run, and cancels helpers.
  void Detach();

 private:
  struct Functions;  // the C functions

  template <typename Function>
  absl::Status WithServices(Function&& function);
  absl::StatusOr<std::shared_ptr<RunningHook>> FindCall(uint64_t call_id);
  // `text` as it may be shown, without the secrets of the hooks that run: a log line does not say whose it is.
  std::string Shown(dra_str text);

  dra_host table_ = {};
  std::mutex mutex_;
  std::condition_variable idle_;
  HostServices* services_;                                  // guarded by mutex_; null once detached
  int active_ = 0;                                          // guarded by mutex_
  std::map<uint64_t, std::shared_ptr<RunningHook>> calls_;  // guarded by mutex_
  std::stop_source detached_;
};

}  // namespace dra::loader
