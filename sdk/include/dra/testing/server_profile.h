#pragma once

#include <map>
#include <string>

#include "absl/strings/string_view.h"

namespace dra::testing {

// Which API server a double behaves as: its minor version and its feature gates.
struct ServerProfile {
  int minor = 37;  // 34 to 37: Kubernetes 1.34 to 1.37
  std::map<std::string, bool>
      gates;  // differs from the minor's defaults: {"DRAListTypeAttributes", true}

  // The gate's state: as set, else the default of the minor. A gate the minor does not have is off.
  bool Enabled(absl::string_view gate) const;
};

}  // namespace dra::testing
