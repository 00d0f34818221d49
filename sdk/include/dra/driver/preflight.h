#pragma once

#include <string>
#include <vector>

#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/driver/config.h"

namespace dra::driver {

// One finding of `dra-driver --check`.
struct CheckResult {
  std::string subject;  // "kubelet root /var/lib/kubelet"
  bool ok = false;
  std::string message;  // what was found, or what to do
};

// Looks at everything a start needs and changes nothing that stays: paths, CDI directories, credentials, the API server
// (reachable, serves v1, knows the node), each backend (loads, creates, describes, discovers once). Every check is
// made, whatever the others found. May take as long as the backends' discover.
std::vector<CheckResult> RunChecks(const DaemonConfig& config, FileSystem& fs, Clock& clock);

}  // namespace dra::driver
