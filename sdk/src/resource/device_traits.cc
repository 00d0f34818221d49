#include "dra/resource/device_traits.h"

#include <string>

#include "nlohmann/json.hpp"

namespace dra::resource {

bool HasListAttribute(const Json& device) {
  const Json* attributes = Find(device, "attributes");
  if (attributes == nullptr || !attributes->is_object()) return false;
  for (const Json& attribute : *attributes) {
    for (const absl::string_view type : {"ints", "bools", "strings", "versions"}) {
      if (Find(attribute, type) != nullptr) return true;
    }
  }
  return false;
}

bool HasKeepAwayTaint(const Json& device) {
  const Json* taints = Find(device, "taints");
  if (taints == nullptr || !taints->is_array()) return false;
  for (const Json& taint : *taints) {
    const std::string effect = StringOr(taint, "effect");
    if (effect == "NoSchedule" || effect == "NoExecute") return true;
  }
  return false;
}

}  // namespace dra::resource
