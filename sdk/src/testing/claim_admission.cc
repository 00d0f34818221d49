#include <set>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "dra/resource/claim_status.h"
#include "dra/resource/limits.h"
#include "dra/resource/names.h"
#include "testing/admission.h"
#include "testing/status_apply.h"

namespace dra::testing {
namespace {

void Add(Causes& causes, absl::string_view reason, std::string field, std::string message) {
  causes.push_back({std::string(reason), std::move(field), std::move(message)});
}

void ValidateExactly(const Json& request, const std::string& path, Causes& causes) {
  if (StringOr(request, "deviceClassName").empty()) {
    Add(causes, "FieldValueRequired", absl::StrCat(path, ".deviceClassName"), "Required value");
  }
  const std::string mode = StringOr(request, "allocationMode", "ExactCount");
  const Json* count = Find(request, "count");
  if (mode == "ExactCount") {
    if (count != nullptr && (!count->is_number_integer() || count->get<int64_t>() <= 0)) {
      Add(causes, "FieldValueInvalid", absl::StrCat(path, ".count"),
          absl::StrCat("Invalid value: ", DumpJson(*count), ": must be greater than zero"));
    }
  } else if (mode == "All") {
    if (count != nullptr && *count != 0) {
      Add(causes, "FieldValueInvalid", absl::StrCat(path, ".count"),
          "Invalid value: must not be specified when allocationMode is 'All'");
    }
  } else {
    Add(causes, "FieldValueNotSupported", absl::StrCat(path, ".allocationMode"),
        absl::StrCat("Unsupported value: \"", mode,
                     "\": supported values: \"All\", \"ExactCount\""));
  }
  const Json* selectors = Find(request, "selectors");
  if (selectors != nullptr && selectors->size() > resource::kMaxSelectorsPerRequest) {
    Add(causes, "FieldValueTooMany", absl::StrCat(path, ".selectors"),
        "Too many: must have at most 32 items");
  }
}

void ValidateRequest(const Json& request, const std::string& path, Causes& causes) {
  if (const absl::Status name = resource::CheckDnsLabel(StringOr(request, "name")); !name.ok()) {
    Add(causes, "FieldValueInvalid", absl::StrCat(path, ".name"),
        absl::StrCat("Invalid value: ", std::string(name.message())));
  }
  const Json* exactly = Find(request, "exactly");
  const Json* first_available = Find(request, "firstAvailable");
  const bool has_list = first_available != nullptr && !first_available->empty();
  if ((exactly != nullptr) == has_list) {
    Add(causes, exactly == nullptr ? "FieldValueRequired" : "FieldValueInvalid", path,
        "exactly one of `exactly` or `firstAvailable` is required");
    return;
  }
  if (exactly != nullptr) {
    ValidateExactly(*exactly, absl::StrCat(path, ".exactly"), causes);
    return;
  }
  if (first_available->size() > resource::kMaxFirstAvailable) {
    Add(causes, "FieldValueTooMany", absl::StrCat(path, ".firstAvailable"),
        "Too many: must have at most 8 items");
  }
  size_t index = 0;
  for (const Json& sub : *first_available) {
    ValidateExactly(sub, absl::StrCat(path, ".firstAvailable[", index++, "]"), causes);
  }
}

absl::Status CanonicalRequests(Json& spec) {
  if (!At(spec, {"devices", "requests"}).is_array()) return absl::OkStatus();
  size_t index = 0;
  for (Json& request : spec["devices"]["requests"]) {
    const std::string path = absl::StrCat("spec.devices.requests[", index++, "].exactly");
    if (!request.is_object()) return BadRequestError(absl::StrCat(path, " is no object"));
    if (!request.contains("exactly") || !request["exactly"].is_object()) continue;
    Json& exactly = request["exactly"];
    if (!exactly.contains("allocationMode")) exactly["allocationMode"] = "ExactCount";
    if (exactly["allocationMode"] == "ExactCount" && !exactly.contains("count"))
      exactly["count"] = 1;
    if (!At(exactly, {"capacity", "requests"}).is_object()) continue;
    for (auto& [name, value] : exactly["capacity"]["requests"].items()) {
      Json holder = {{"value", value}};
      DRA_RETURN_IF_ERROR(
          CanonicalQuantity(holder, "value", absl::StrCat(path, ".capacity.requests[", name, "]")));
      value = holder["value"];
    }
  }
  return absl::OkStatus();
}

// Gated members of allocation results.
void DropResultFields(const ServerProfile& profile, Json& result) {
  if (!profile.Enabled("DRAConsumableCapacity")) {
    result.erase("shareID");
    result.erase("consumedCapacity");
  }
  if (!profile.Enabled("DRADeviceBindingConditions")) {
    result.erase("bindingConditions");
    result.erase("bindingFailureConditions");
  }
  if (!profile.Enabled("DRAOptionalNodeOperations")) result.erase("skipNodeOperations");
  if (!profile.Enabled("DRADeviceTaints")) result.erase("tolerations");
}

std::set<std::string> AllocatedKeys(const Json& claim) {
  std::set<std::string> keys;
  const Json& results = At(claim, {"status", "allocation", "devices", "results"});
  if (!results.is_array()) return keys;
  for (const Json& result : results) keys.insert(DeviceStatusKey(result));
  return keys;
}

}  // namespace

absl::Status PrepareClaim(const ServerProfile& profile, const Json& before, Json& object) {
  if (object.contains("spec") && object["spec"].is_object())
    DRA_RETURN_IF_ERROR(CanonicalRequests(object["spec"]));
  if (object.contains("status") && !object["status"].is_object())
    return BadRequestError("status is no object");
  const bool new_allocation = At(before, {"status", "allocation"}).is_null();
  if (new_allocation && At(object, {"status", "allocation", "devices", "results"}).is_array()) {
    for (Json& result : object["status"]["allocation"]["devices"]["results"]) {
      if (!result.is_object())
        return BadRequestError("status.allocation.devices.results has an entry that is no object");
      DropResultFields(profile, result);
      if (!result.contains("consumedCapacity") || !result["consumedCapacity"].is_object()) continue;
      for (auto& [name, value] : result["consumedCapacity"].items()) {
        Json holder = {{"value", value}};
        DRA_RETURN_IF_ERROR(
            CanonicalQuantity(holder, "value", absl::StrCat("consumedCapacity[", name, "]")));
        value = holder["value"];
      }
    }
  }
  if (!profile.Enabled("DRAResourceClaimDeviceStatus") && object.contains("status") &&
      At(before, {"status", "devices"}).is_null()) {
    object["status"].erase("devices");
  }
  return absl::OkStatus();
}

Causes ValidateClaim(const ServerProfile&, const Json& before, const Json& object) {
  Causes causes;
  const Json& spec = At(object, {"spec"});
  if (!before.is_null()) {
    // What a test stored directly has no defaults yet; the real server decodes with them.
    Json stored = At(before, {"spec"});
    if (!CanonicalRequests(stored).ok() || stored != spec) {
      Add(causes, "FieldValueInvalid", "spec", "Invalid value: field is immutable");
    }
    return causes;
  }
  const Json& requests = At(spec, {"devices", "requests"});
  if (!requests.is_array()) return causes;  // a claim without requests is legal
  if (requests.size() > resource::kMaxRequestsPerClaim) {
    Add(causes, "FieldValueTooMany", "spec.devices.requests",
        "Too many: must have at most 32 items");
  }
  std::set<std::string> names;
  size_t index = 0;
  for (const Json& request : requests) {
    const std::string path = absl::StrCat("spec.devices.requests[", index++, "]");
    ValidateRequest(request, path, causes);
    if (!names.insert(StringOr(request, "name")).second) {
      Add(causes, "FieldValueDuplicate", absl::StrCat(path, ".name"),
          absl::StrCat("Duplicate value: \"", StringOr(request, "name"), "\""));
    }
  }
  const Json& configs = At(spec, {"devices", "config"});
  index = 0;
  if (!configs.is_array()) return causes;
  for (const Json& config : configs) {
    const std::string path = absl::StrCat("spec.devices.config[", index++, "].opaque");
    const Json& parameters = At(config, {"opaque", "parameters"});
    if (!parameters.is_object()) {
      Add(causes, "FieldValueRequired", absl::StrCat(path, ".parameters"), "Required value");
    } else if (DumpJson(parameters).size() > resource::kMaxOpaqueParametersBytes) {
      Add(causes, "FieldValueTooLong", absl::StrCat(path, ".parameters"),
          "Too long: may not be more than 10240 bytes");
    }
  }
  return causes;
}

void PruneDeviceStatuses(const Json& before, Json& object) {
  if (!At(object, {"status", "devices"}).is_array()) return;
  const std::set<std::string> now = AllocatedKeys(object);
  const std::set<std::string> earlier = AllocatedKeys(before);
  Json kept = Json::array();
  for (const Json& entry : object["status"]["devices"]) {
    const std::string key = DeviceStatusKey(entry);
    // Only what this write deallocates: an entry that was never allocated is an error, found by the validation.
    if (now.count(key) > 0 || earlier.count(key) == 0) kept.push_back(entry);
  }
  if (kept.empty()) {
    object["status"].erase("devices");
  } else {
    object["status"]["devices"] = std::move(kept);
  }
}

Causes ValidateClaimStatus(const ServerProfile&, const Json& before, const Json& object) {
  Causes causes;
  const Json& old_allocation = At(before, {"status", "allocation"});
  const Json& allocation = At(object, {"status", "allocation"});
  if (!old_allocation.is_null() && !allocation.is_null() && old_allocation != allocation) {
    Add(causes, "FieldValueInvalid", "status.allocation", "Invalid value: field is immutable");
  }
  const Json& results = At(allocation, {"devices", "results"});
  if (results.is_array() && results.size() > resource::kMaxAllocationResults) {
    Add(causes, "FieldValueTooMany", "status.allocation.devices.results",
        "Too many: must have at most 32 items");
  }
  const Json& reserved = At(object, {"status", "reservedFor"});
  if (reserved.is_array() && !reserved.empty()) {
    if (allocation.is_null()) {
      Add(causes, "FieldValueForbidden", "status.reservedFor",
          "Forbidden: may not be specified when `allocated` is not set");
    }
    if (reserved.size() > resource::kMaxReservedFor) {
      Add(causes, "FieldValueTooMany", "status.reservedFor",
          "Too many: must have at most 256 items");
    }
    if (At(object, {"metadata", "deletionTimestamp"}).is_string()) {
      const Json& old_reserved = At(before, {"status", "reservedFor"});
      for (const Json& entry : reserved) {
        bool known = false;
        for (const Json& old : old_reserved.is_array() ? old_reserved : Json::array()) {
          known = known || StringOr(old, "uid") == StringOr(entry, "uid");
        }
        if (!known) {
          Add(causes, "FieldValueForbidden", "status.reservedFor",
              "Forbidden: new entries may not be added while `deallocationRequested` or "
              "`deletionTimestamp` are set");
        }
      }
    }
  }
  for (const resource::FieldError& error :
       resource::ValidateDeviceStatuses(At(object, {"status", "devices"}), allocation)) {
    causes.push_back(
        {std::string(resource::FieldReasonName(error.reason)), error.field, error.Detail()});
  }
  return causes;
}

}  // namespace dra::testing
