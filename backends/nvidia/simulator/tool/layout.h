#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "state.h"

namespace nvidia_simulator {

// How a simulated host was laid out, and what was written for it. It stands in <root>/.nvidia-simulator.json, so that
// later changes find it.
struct Layout {
  std::string root;               // absolute, no "/" at the end
  std::string driver_root;        // below root: "" or "run/nvidia/driver"
  std::string library_directory;  // below the driver's root: "usr/lib/x86_64-linux-gnu"
  std::string node = "simulated";
  std::string nvml_library;  // to copy in place of the one that this program carries; "" for that
  bool nodes = true;         // device nodes are made
  bool installed = true;     // the driver's files are there
  unsigned boots = 1;
  // Majors that the kernel gives out; that of "nvidia" is always 195.
  std::map<std::string, unsigned> majors = {
      {"nvidia-caps", 236}, {"nvidia-caps-imex-channels", 235}, {"nvidia-uvm", 510}};
  std::vector<std::string> paths;  // written, below root

  std::string Driver(const std::string& path) const;  // below root
  std::string DevRoot() const;                        // below root: where dev lies
  // The state file, absolute: beside the library, with the suffix that makes a driver's files reach containers.
  std::string StateFile(const std::string& driver_version) const;
  // The one that is there, whatever its version; nullopt if there is none.
  std::optional<std::string> FindStateFile() const;
  std::string RequireStateFile() const;  // throws std::runtime_error
};

// The directory for libraries of this machine's architecture, as Debian names it.
std::string DefaultLibraryDirectory();

// Throws std::runtime_error if there is no simulated host.
Layout ReadLayout(const std::string& root);
void WriteLayout(const Layout& layout);

// Held while a tree is changed: one program at a time.
class LayoutLock {
 public:
  explicit LayoutLock(const std::string& root);
  ~LayoutLock();
  LayoutLock(const LayoutLock&) = delete;
  LayoutLock& operator=(const LayoutLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace nvidia_simulator
