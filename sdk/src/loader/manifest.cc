#include "loader/manifest.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "loader/payload.h"
#include "nlohmann/json.hpp"

namespace dra::loader {
namespace {

struct HookDefault {
  absl::string_view name;
  int seconds;
};
constexpr HookDefault kHookDefaults[] = {
    {"create", 30},  {"destroy", 30},         {"describe", 5},          {"discover", 30},
    {"prepare", 40}, {"unprepare", 40},       {"validate_config", 5},   {"busy", 5},
    {"health", 10},  {"reconcile_begin", 60}, {"reconcile_record", 60}, {"reconcile_end", 60},
};
constexpr double kMaxHookSeconds = 3600;

constexpr absl::string_view kAttributeTypes[] = {"string",  "int",  "bool",  "version",
                                                 "strings", "ints", "bools", "versions"};

absl::Status Wrong(absl::string_view member, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("manifest: ", member, ": ", problem));
}

absl::StatusOr<std::string> RequiredString(const Json& object, absl::string_view key,
                                           absl::string_view path) {
  const Json* value = Find(object, key);
  if (value == nullptr || !value->is_string() || value->get_ref<const std::string&>().empty()) {
    return Wrong(absl::StrCat(path, key), "must be a string that is not empty");
  }
  return value->get<std::string>();
}

absl::Status ReadBool(const Json& object, absl::string_view key, bool& into) {
  const Json* value = Find(object, key);
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_boolean()) return Wrong(key, "must be true or false");
  into = value->get<bool>();
  return absl::OkStatus();
}

// Calls `read` with each element of the array at `key`, which may be absent.
template <typename Function>
absl::Status ReadArray(const Json& object, absl::string_view key, Function&& read) {
  const Json* array = Find(object, key);
  if (array == nullptr) return absl::OkStatus();
  if (!array->is_array()) return Wrong(key, "must be an array");
  for (size_t i = 0; i < array->size(); ++i) {
    const std::string path = absl::StrCat(key, "[", i, "]");
    if (!(*array)[i].is_object()) return Wrong(path, "must be an object");
    DRA_RETURN_IF_ERROR(read((*array)[i], absl::StrCat(path, ".")));
  }
  return absl::OkStatus();
}

absl::Status ReadHookLimits(const Json& object, Manifest& manifest) {
  const Json* limits = Find(object, "hook_limits");
  if (limits == nullptr) return absl::OkStatus();
  if (!limits->is_object()) return Wrong("hook_limits", "must be an object");
  for (const auto& [hook, value] : limits->items()) {
    const std::string path = absl::StrCat("hook_limits.", hook);
    const auto known =
        std::find_if(std::begin(kHookDefaults), std::end(kHookDefaults),
                     [&](const HookDefault& entry) { return entry.name == hook.c_str(); });
    if (known == std::end(kHookDefaults)) continue;  // a hook of a newer host
    if (!value.is_number()) return Wrong(path, "must be a number of seconds");
    const double seconds = value.get<double>();
    if (!(seconds > 0) || seconds > kMaxHookSeconds) {
      return Wrong(path, absl::StrCat(seconds, " s is not above 0 and at most ", kMaxHookSeconds));
    }
    manifest.hook_limits[hook] = absl::Seconds(seconds);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Duration Manifest::HookLimit(absl::string_view hook) const {
  const auto own = hook_limits.find(std::string(hook));
  if (own != hook_limits.end()) return own->second;
  for (const HookDefault& entry : kHookDefaults) {
    if (entry.name == hook) return absl::Seconds(entry.seconds);
  }
  return absl::Seconds(30);
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view json_text) {
  DRA_ASSIGN_OR_RETURN(const Json object, CheckedObject({json_text.data(), json_text.size()},
                                                        "manifest", kMaxManifestBytes));
  if (!object.is_object())
    return absl::InvalidArgumentError("manifest: is empty: describe must give a JSON object");
  Manifest manifest;
  DRA_ASSIGN_OR_RETURN(manifest.name, RequiredString(object, "name", ""));
  if (!IsDnsLabel(manifest.name)) {
    return Wrong("name",
                 absl::StrCat("\"", manifest.name, "\" is not a DNS label of at most 63 bytes"));
  }
  DRA_ASSIGN_OR_RETURN(manifest.version, RequiredString(object, "version", ""));
  if (const Json* minor = Find(object, "min_host_minor"); minor != nullptr) {
    if (!minor->is_number_unsigned()) return Wrong("min_host_minor", "must be a whole number");
    if (minor->get<uint64_t>() > DRA_ABI_MINOR) {
      return absl::FailedPreconditionError(
          absl::StrCat("needs backend interface ", DRA_ABI_MAJOR, ".", minor->get<uint64_t>(),
                       " or newer, this dra-driver has ", DRA_ABI_MAJOR, ".", DRA_ABI_MINOR,
                       ": update dra-driver"));
    }
  }
  DRA_RETURN_IF_ERROR(ReadArray(
      object, "attributes", [&](const Json& item, const std::string& path) -> absl::Status {
        Manifest::Attribute attribute;
        DRA_ASSIGN_OR_RETURN(attribute.name, RequiredString(item, "name", path));
        DRA_ASSIGN_OR_RETURN(attribute.type, RequiredString(item, "type", path));
        if (std::find(std::begin(kAttributeTypes), std::end(kAttributeTypes),
                      absl::string_view(attribute.type)) == std::end(kAttributeTypes)) {
          return Wrong(absl::StrCat(path, "type"),
                       absl::StrCat("\"", attribute.type,
                                    "\" is not string, int, bool, version or a plural"));
        }
        attribute.description = StringOr(item, "description");
        attribute.is_volatile = BoolOr(item, "volatile");
        manifest.attributes.push_back(std::move(attribute));
        return absl::OkStatus();
      }));
  DRA_RETURN_IF_ERROR(ReadArray(
      object, "config_kinds", [&](const Json& item, const std::string& path) -> absl::Status {
        Manifest::ConfigKind kind;
        DRA_ASSIGN_OR_RETURN(kind.api_version, RequiredString(item, "apiVersion", path));
        DRA_ASSIGN_OR_RETURN(kind.kind, RequiredString(item, "kind", path));
        const size_t slash = kind.api_version.find('/');
        if (slash == 0 || slash == std::string::npos || slash + 1 == kind.api_version.size()) {
          return Wrong(absl::StrCat(path, "apiVersion"),
                       absl::StrCat("\"", kind.api_version, "\" must be group/version"));
        }
        if (const Json* schema = Find(item, "schema"); schema != nullptr) {
          if (!schema->is_object() && !schema->is_null())
            return Wrong(absl::StrCat(path, "schema"), "must be an object");
          kind.schema = *schema;
        }
        manifest.config_kinds.push_back(std::move(kind));
        return absl::OkStatus();
      }));
  DRA_RETURN_IF_ERROR(ReadHookLimits(object, manifest));
  DRA_RETURN_IF_ERROR(ReadBool(object, "parallel", manifest.parallel));
  DRA_RETURN_IF_ERROR(ReadBool(object, "shared_claims", manifest.shared_claims));
  DRA_RETURN_IF_ERROR(ReadBool(object, "never_tainted", manifest.never_tainted));
  DRA_RETURN_IF_ERROR(ReadBool(object, "no_injection", manifest.no_injection));
  DRA_RETURN_IF_ERROR(ReadBool(object, "keeps_undo", manifest.keeps_undo));
  return manifest;
}

}  // namespace dra::loader
