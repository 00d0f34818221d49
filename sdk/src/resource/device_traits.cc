#include "dra/resource/device_traits.h"

#include <string>

#include "nlohmann/json.hpp"

namespace dra::resource {

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
