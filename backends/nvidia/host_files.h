#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "options.h"

namespace nvidia {

// The driver's files on the host. Every path given out is one of the host, with the driver's root in it and without
// links, so that it means the same to the container runtime. Any thread. Of what is found only the driver's files are
// remembered, and only while all that was looked at for them is as it was: a driver can be upgraded underneath. Throws
// DRA_UNAVAILABLE for what cannot be looked at, which is not the same as absent.
class HostFiles {
 public:
  // quiet: files that have changed more recently are looked at each time; see Sightings::Settled.
  explicit HostFiles(const Options& options,
                     std::chrono::nanoseconds quiet = std::chrono::seconds(2))
      : options_(options), quiet_(quiet) {}

  // libnvidia-ml.so.1, searched where NVIDIA's own tools search; regular files only, links followed within the driver's
  // root. nullopt if there is none.
  std::optional<std::string> NvmlLibrary() const;
  // What the host's path is for this process.
  std::string Open(const std::string& host_path) const { return options_.HostPath(host_path); }

  struct Mount {
    std::string host_path, container_path;
  };
  struct Link {
    std::string path, target;  // in the container
  };
  struct DriverFiles {
    std::vector<Mount> libraries;                  // *.so.<version>, and few others
    std::vector<Mount> binaries;                   // nvidia-smi, ...
    std::vector<Mount> firmware, sockets, other;   // what is there
    std::vector<Link> links;                       // sonames, and libcuda.so -> libcuda.so.1
    std::vector<std::string> library_directories;  // in the container
  };
  // All files of the driver version that runs; no container path twice. Throws DRA_UNAVAILABLE if its libraries are not
  // there.
  std::shared_ptr<const DriverFiles> FilesOf(const std::string& driver_version) const;
  // How often they were searched for so far.
  int searches() const { return searches_; }

  // The host's ldconfig, else the driver root's: the program itself, statically linked, not a distribution's script
  // around it. nullopt if there is none.
  std::optional<std::string> Ldconfig() const;

  // The root that /dev lies in, on the host: "" for the host's own, else such as "/run/nvidia/driver".
  std::string DevRoot() const;

  // Names below /sys/bus/pci/devices/<address>/drm that have a node: "card0", "renderD128".
  std::vector<std::string> DrmNodes(const std::string& pci_bus_id) const;

  // Links to those nodes by the card's address, as udev makes them: "/dev/dri/by-path/pci-0000:65:00.0-card" to
  // "../card0".
  std::vector<Link> DrmLinks(const std::string& pci_bus_id,
                             const std::vector<std::string>& nodes) const;

  // Character device numbers. Major by name from /proc/devices ("nvidia-uvm", "nvidia-caps"); "nvidia" is 195 where
  // that says nothing.
  std::optional<unsigned> Major(const std::string& name) const;
  // Whether the kernel has a character device of that name now.
  bool HasDriver(const std::string& name) const;
  // The capability minor of a MIG instance's access file: /proc/driver/nvidia/capabilities/gpu<minor>/mig/gi<g>/access
  // or .../gi<g>/ci<c>/access; where that is not shown, /proc/driver/nvidia-caps/mig-minors.
  std::optional<unsigned> CapabilityMinor(unsigned gpu_minor, unsigned gpu_instance,
                                          std::optional<unsigned> compute_instance) const;

 private:
  struct Search;
  std::shared_ptr<const Search> SearchFor(const std::string& driver_version,
                                          const std::string& firmware_path) const;

  const Options options_;
  const std::chrono::nanoseconds quiet_;
  mutable std::atomic<int> searches_ = 0;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Search>
      last_;  // under mutex_: the last that succeeded and was settled
};

}  // namespace nvidia
