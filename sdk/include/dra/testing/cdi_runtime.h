#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dra/base/file_system.h"
#include "dra/base/json.h"

namespace dra::testing {

// What a container sees, as text a person reads.
struct ContainerView {
  std::vector<std::string> env;           // "NAME=VALUE", the last value of each name, sorted
  std::vector<std::string> device_nodes;  // "/dev/gpu0 c 195:0 rwm", the cgroup access at the end
  std::vector<std::string> mounts;        // "/host/lib -> /lib (ro,bind)"
  std::vector<std::string> net_devices;   // "eth7 -> net1"
  std::vector<std::string> hooks;         // "createContainer /usr/bin/hook --flag"

  // One line each, grouped; "" if there is nothing.
  std::string ToText() const;
};

// CDI as a container runtime does it: scans the spec directories, resolves ids, merges the edits into an OCI
// config.json. Each call scans anew, as a runtime does on a miss. Any thread.
class CdiRuntime {
 public:
  // fs outlives this. Directories in rising priority.
  explicit CdiRuntime(FileSystem* fs,
                      std::vector<std::string> directories = {"/etc/cdi", "/var/run/cdi"});

  struct Registry {
    std::vector<std::string> devices;  // qualified names that resolve, sorted
    std::map<std::string, std::string>
        errors;  // path -> why its file (or directory) is not, or not wholly, used
  };
  Registry Scan() const;

  // `oci` with the edits of `ids` in their order. A file's own edits come once, with its first device.
  // Errors: NotFound "unresolvable CDI devices a, b" naming the missing ones, with the scan's errors in the text; nothing
  // is applied then. Otherwise what cdi::ApplyEdits says.
  absl::StatusOr<Json> Inject(const Json& oci, const std::vector<std::string>& ids) const;

  // A config.json of a container without anything.
  static Json EmptyConfig();
  // What a config.json shows, PATH and other variables of its own included.
  static ContainerView View(const Json& oci);

 private:
  FileSystem* const fs_;
  const std::vector<std::string> directories_;
};

}  // namespace dra::testing
