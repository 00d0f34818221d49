#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "dra/backend/abi.h"
#include "dra/base/call.h"
#include "dra/base/unique_fd.h"
#include "loader/withheld.h"

namespace dra::loader {

// The dra_call of one running hook, and what the host knows of it. Lives until the hook returns, which may be after the
// caller gave up.
class RunningHook {
 public:
  // Adds what was given to the hook and must not come back in its texts; may be null. It owns what it uses. Any thread.
  using GivenSecrets = std::function<void(Withheld&)>;

  // deadline: when the hook should be done. stop: of the caller, forwarded to the hook's descriptor and poll.
  RunningHook(std::string claim_uid, GivenSecrets secrets, MonotonicTime deadline,
              const std::stop_token& stop);

  const dra_call* call() const { return &call_; }
  uint64_t id() const { return call_.id; }
  const std::string& claim_uid() const { return claim_uid_; }
  // For host functions that block: ends with the hook's deadline or cancellation.
  Call host_call() const { return Call{deadline_, source_.get_token()}; }

  // Nobody takes the result any more: cancels the hook, and per-call host functions are refused from now on, since the
  // undo that a late one saves would be seen by nobody.
  void Abandon() {
    abandoned_.store(true);
    source_.request_stop();
  }
  bool abandoned() const { return abandoned_.load(); }

  // Undo data that the hook has saved is a secret of it too. Any thread.
  void AddSavedUndo(std::string undo);
  // The texts without the hook's secrets. Any thread.
  absl::Status Scrub(const absl::Status& status) const;
  std::string Scrub(std::string text) const;

 private:
  struct Signal {
    int fd;
    void operator()() const;
  };
  struct Forward {
    std::stop_source* source;
    void operator()() const { source->request_stop(); }
  };

  Withheld Secrets() const;

  const std::string claim_uid_;
  const GivenSecrets secrets_;
  mutable std::mutex mutex_;
  std::vector<std::string> saved_undo_;  // guarded by mutex_
  const MonotonicTime deadline_;
  std::atomic<bool> abandoned_ = false;
  std::stop_source source_;
  UniqueFd cancel_fd_;
  dra_call call_ = {};
  // Last: their callbacks use what stands above.
  std::stop_callback<Signal> signal_;
  std::stop_callback<Forward> forward_;
};

}  // namespace dra::loader
