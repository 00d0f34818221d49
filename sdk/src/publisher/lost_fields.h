#pragma once

#include <string>
#include <vector>

#include "dra/base/json.h"
#include "dra/loader/backend_handle.h"
#include "nlohmann/json.hpp"
#include "publisher/selection.h"

// What a server has silently left out of a slice that it stored.
namespace dra::publisher {

struct LostField {
  std::string device;  // "" for a field of the slice
  std::string field;   // "taints", "capacity[memory].requestPolicy", "sharedCounters", ...
  std::string gate;  // the feature gate that is likely off; "" if none is known to cover the field
  Json value;        // what was sent
};

// Compares what was sent with what was stored. Values that the server spells differently or adds are no loss. Pure.
std::vector<LostField> LostFields(const Json& sent_spec, const Json& stored_spec);

// Notes in `fields` that the server drops this field. False if the field is none that is tracked there, or noted
// already.
bool MarkDropped(const LostField& lost, loader::ServerFields& fields);

// What people are told of the loss. Pure.
Report ReportOf(const std::string& pool, const LostField& lost);

}  // namespace dra::publisher
