#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dra/base/unique_fd.h"

namespace dra::bench {

// A program that runs beside the bench. The destructor kills it. One thread.
class Process {
 public:
  struct Options {
    std::vector<std::string> command;  // the program's path first
    std::string error_file;            // stderr is appended to it; "": ours
    bool pipes = false;                // stdin and stdout are pipes to us
  };
  static absl::StatusOr<Process> Start(const Options& options);

  Process() = default;
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  pid_t pid() const { return pid_; }
  // Up to the end of its stdout; with `pipes`.
  absl::StatusOr<std::string> ReadAll();
  bool Running();
  // The signal, then waits; an error, after a SIGKILL, if it has not ended after `patience`.
  absl::Status Stop(int signal, absl::Duration patience);

 private:
  pid_t pid_ = -1;
  UniqueFd input_;   // its stdin
  UniqueFd output_;  // its stdout
};

// What /proc says of a process.
struct ProcessUse {
  double rss_mb = 0;        // smaps_rollup Rss, in 10^6 bytes
  double anonymous_mb = 0;  // of that: Anonymous
  int threads = 0;
  int open_files = 0;
};
absl::StatusOr<ProcessUse> ReadUse(pid_t pid);

// User and system time so far, with nanoseconds. Zero if the process is gone.
absl::Duration CpuTime(pid_t pid);

}  // namespace dra::bench
