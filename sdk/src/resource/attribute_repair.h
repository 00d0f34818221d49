#pragma once

#include <optional>
#include <string>

#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::resource {

struct AttributeRepair {
  std::optional<Json> attribute;  // nothing: drop it
  std::string problem;            // "" if the attribute was in order
};

// The value of one attribute, by the rules of RepairDevice; `name` as published.
AttributeRepair RepairAttribute(const std::string& name, const Json& attribute);

}  // namespace dra::resource
