#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dra/backend/error.h"
#include "dra/backend/json_reader.h"
#include "dra/backend/types.h"

// Opaque configurations of a device: several may apply, lowest precedence first (class before
// claim, later before earlier counts more). A backend chooses, and says so in its README:
//   MergeConfigs   independent fields of several objects all count; per field the highest wins
//   HighestConfig  the one highest object counts as a whole, as in most drivers
// Then ConfigKinds reads the object strictly.

namespace dra {

// The configuration with the highest precedence, or nullptr if there is none.
inline const DeviceConfig* HighestConfig(const std::vector<DeviceConfig>& configs) {
  return configs.empty() ? nullptr : &configs.back();
}

// Puts `over` on `base`: objects are merged member by member, everything else (lists too, and null)
// replaces.
inline void MergeJson(Json& base, const Json& over) {
  if (!base.is_object() || !over.is_object()) {
    base = over;
    return;
  }
  for (const auto& [key, value] : over.items()) {
    const auto found = base.find(key);
    if (found == base.end()) {
      base[key] = value;
    } else {
      MergeJson(*found, value);
    }
  }
}

// One configuration for each apiVersion and kind: the fields of all of them, per field the highest.
// `source` is that of the highest contributor: read privileged fields, which only an administrator
// may set, from the configs themselves. Order: a kind stands where its highest contributor stood,
// so the last entry is of the highest one's kind.
inline std::vector<DeviceConfig> MergeConfigs(const std::vector<DeviceConfig>& configs) {
  const auto field = [](const DeviceConfig& config, const char* key) {
    if (!config.parameters.is_object()) return std::string();
    const auto found = config.parameters.find(key);
    return found != config.parameters.end() && found->is_string() ? found->get<std::string>()
                                                                  : std::string();
  };
  const auto same_kind = [&](const DeviceConfig& a, const DeviceConfig& b) {
    return field(a, "apiVersion") == field(b, "apiVersion") && field(a, "kind") == field(b, "kind");
  };
  std::vector<DeviceConfig> result;
  for (const DeviceConfig& config : configs) {
    DeviceConfig merged = config;
    for (auto it = result.begin(); it != result.end(); ++it) {
      if (!same_kind(*it, config)) continue;
      merged.parameters = std::move(it->parameters);
      MergeJson(merged.parameters, config.parameters);
      result.erase(it);
      break;
    }
    result.push_back(std::move(merged));
  }
  return result;
}

// Reads parameters by their apiVersion and kind. Both are required; the version is group-qualified
// ("group/v1").
//
//   const dra::ConfigKinds<GpuConfig> kinds({{"gpu.example.com/v1", "GpuConfig", ReadGpuConfig}});
//   GpuConfig config = kinds.Read(parameters, "parameters");     // ReadGpuConfig(JsonReader&) ->
//   GpuConfig
//
// Throws DRA_INVALID_ARGUMENT with the path; for an unknown version or kind the text lists the
// known ones.
template <typename T>
class ConfigKinds {
 public:
  struct Entry {
    std::string api_version;
    std::string kind;
    std::function<T(JsonReader&)> read;
  };
  explicit ConfigKinds(std::vector<Entry> entries) : entries_(std::move(entries)) {}

  T Read(const Json& parameters, const std::string& path) const {
    const std::string api_version = Word(parameters, path, "apiVersion");
    const std::string kind = Word(parameters, path, "kind");
    for (const Entry& entry : entries_) {
      if (entry.api_version != api_version || entry.kind != kind) continue;
      std::vector<T> result;  // T need not have a default
      JsonReader::Read(parameters, path, [&](JsonReader& reader) {
        reader.Required<std::string>("apiVersion");
        reader.Required<std::string>("kind");
        result.push_back(entry.read(reader));
      });
      return std::move(result.front());
    }
    throw BackendError(DRA_INVALID_ARGUMENT, path + ": unknown apiVersion \"" + api_version +
                                                 "\" with kind \"" + kind +
                                                 "\"; known: " + Known());
  }

  // "group/v1 Kind, group/v2 Kind"
  std::string Known() const {
    std::string text;
    for (const Entry& entry : entries_) {
      text += (text.empty() ? "" : ", ") + entry.api_version + " " + entry.kind;
    }
    return text.empty() ? "none" : text;
  }

 private:
  std::string Word(const Json& parameters, const std::string& path, const char* key) const {
    if (!parameters.is_object()) {
      throw BackendError(DRA_INVALID_ARGUMENT,
                         path + ": must be an object, is " + parameters.type_name());
    }
    const auto found = parameters.find(key);
    if (found == parameters.end() || !found->is_string() ||
        found->get_ref<const std::string&>().empty()) {
      throw BackendError(DRA_INVALID_ARGUMENT,
                         path + "." + key + ": is required; known: " + Known());
    }
    return found->get<std::string>();
  }

  std::vector<Entry> entries_;
};

}  // namespace dra
