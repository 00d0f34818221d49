#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "dra/base/json.h"
#include "dra/base/unique_fd.h"
#include "nlohmann/json.hpp"

namespace dra::crash {

// One crash_daemon process. One thread at a time.
class Child {
 public:
  // Starts `program SETTINGS`, stderr to the end of `log`. Fails the test and gives null if it cannot.
  static std::unique_ptr<Child> Start(const std::string& program, const std::string& settings,
                                      const std::string& log);
  // Kills what still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // One command, one answer; nullopt if the process died instead.
  std::optional<Json> Ask(const Json& command);
  // Counts from now on; with a label dies at that point.
  bool Arm();
  bool ArmToKill(const std::string& label, int occurrence);
  std::map<std::string, int> Counts();

  // True if the process has ended within `patience`.
  bool WaitForEnd(absl::Duration patience);
  bool running() { return !WaitForEnd(absl::ZeroDuration()); }
  // Ended by SIGKILL.
  bool was_killed() const;
  // As the kubelet ends a container: SIGKILL, no grace.
  void Kill();
  // Orderly, within `patience`; then by force. True if it was orderly.
  bool Stop(absl::Duration patience = absl::Seconds(20));
  pid_t pid() const { return pid_; }

 private:
  Child(pid_t pid, UniqueFd in, UniqueFd out);

  const pid_t pid_;
  UniqueFd in_;   // its stdin
  UniqueFd out_;  // its stdout
  std::string buffered_;
  std::optional<int> status_;  // of wait
};

}  // namespace dra::crash
