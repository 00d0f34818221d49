#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "node_box.h"

namespace dra::sandbox {

struct RunOptions {
  BoxOptions box;
  std::vector<std::string> files;               // manifests, applied in this order
  absl::Duration patience = absl::Seconds(30);  // for the driver to get ready
};

// Applies the manifests to a node in a box, runs every pod, shows what each container gets, stops the pods and checks
// that nothing is left. Tells each step on `out`. The exit status: 0 if all went well, 1 otherwise, with the reasons.
int RunSandbox(const RunOptions& options, std::ostream& out);

}  // namespace dra::sandbox
