#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>

#include "state.h"

namespace nvidia_simulator {

// The state file of this process, read again when it has changed.
class StateFile {
 public:
  // $NVIDIA_SIMULATOR_STATE, else libnvidia-simulator.so.<anything> beside this library: the one with the
  // library's own version if there are several. "" if there is none.
  static std::string Search();

  StateFile() = default;
  explicit StateFile(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

  // The last that could be read; why one could not goes to stderr once. nullptr: none was ever read.
  std::shared_ptr<const State> Read();
  bool Exists() const;

 private:
  std::string path_;
  struct stat read_ {};  // of the file as it was read last, or tried
  std::shared_ptr<const State> state_;
};

}  // namespace nvidia_simulator
