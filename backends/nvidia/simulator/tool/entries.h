#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "layout.h"
#include "state.h"

namespace nvidia_simulator {

// One thing in the tree.
struct Entry {
  enum class Kind { kFile, kLink, kNode, kSocket, kDirectory };
  Kind kind = Kind::kFile;
  std::string text;  // of a file; a link's target
  mode_t mode = 0644;
  dev_t device = 0;  // of a node
};

// What shall be there, by path below the root. Pure: all that follows from layout and state is written down here, a
// change of either is carried out by tree.h.
using Entries = std::map<std::string, Entry>;

// The driver's own files below its root: libraries with their sonames, programs, firmware, the persistence daemon's
// socket.
void AddDriverFiles(const Layout& layout, const State& state, Entries& entries);
// What the kernel shows: /proc and /sys.
void AddKernelFiles(const Layout& layout, const State& state, Entries& entries);
// /dev.
void AddDeviceNodes(const Layout& layout, const State& state, Entries& entries);

// "0000:65:00.0", as the kernel writes it, of NVML's "00000000:65:00.0".
std::string KernelBusId(const Gpu& gpu);
// Numbers of the GPU's DRM nodes: the management card that most servers have is card0.
unsigned DrmCard(size_t index);
unsigned DrmRender(size_t index);
// Whether there is a driver in the kernel.
bool ModuleLoaded(const Layout& layout, const State& state);
// Files and links of an ordinary kind.
Entry TextFile(const std::string& text, mode_t mode = 0644);
Entry Link(const std::string& target);

inline constexpr unsigned kNvidiaMajor = 195, kDrmMajor = 226;

}  // namespace nvidia_simulator
