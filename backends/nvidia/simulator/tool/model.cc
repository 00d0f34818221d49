#include "model.h"

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "cards.h"
#include "yaml_file.h"

namespace nvidia_simulator {
namespace {

constexpr int64_t kMaxCards = 64;

[[noreturn]] void Refuse(const std::string& path, const std::string& problem) {
  throw std::invalid_argument(path + ": " + problem);
}

// Versions, which a plain scalar would make numbers of: "cuda: 12.10".
bool IsVersion(const std::string& key) {
  return key == "version" || key == "cuda" || key == "nvml" || key == "kernelModule" ||
         key == "computeCapability";
}

// A plain (unquoted) scalar: null, boolean, integer (decimal or 0x), floating point number, else text.
Json PlainScalar(const std::string& text) {
  if (text.empty() || text == "~" || text == "null") return nullptr;
  if (text == "true") return true;
  if (text == "false") return false;
  const bool hex = text.rfind("0x", 0) == 0;
  if (text.find_first_not_of("0123456789") == std::string::npos ||
      (hex && text.size() > 2 &&
       text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string::npos)) {
    errno = 0;
    const unsigned long long value = std::strtoull(text.c_str(), nullptr, hex ? 16 : 10);
    if (errno == 0) return static_cast<uint64_t>(value);
  }
  if (text.find_first_of("0123456789") != std::string::npos &&
      text.find_first_not_of("0123456789+-.eE") == std::string::npos) {
    char* end = nullptr;
    const bool integer = text.find_first_of(".eE") == std::string::npos;
    errno = 0;
    const long long whole = std::strtoll(text.c_str(), &end, 10);
    if (integer && *end == '\0' && errno == 0) return static_cast<int64_t>(whole);
    const double number = std::strtod(text.c_str(), &end);
    if (*end == '\0') return number;
  }
  return text;
}

Gpu CardFromModel(const Json& entry, unsigned index, const std::string& node,
                  const std::string& path) {
  if (!entry.is_object()) Refuse(path, "must be a mapping such as {model: H100-80GB, count: 8}");
  if (!entry.contains("model") || !entry["model"].is_string()) {
    std::string names;
    for (const std::string& name : CardNames()) names += (names.empty() ? "" : ", ") + name;
    Refuse(path + ".model", "is required; one of " + names);
  }
  Gpu card;
  try {
    card = MakeCard(entry["model"], index, node);
  } catch (const std::invalid_argument& error) {
    Refuse(path + ".model", error.what());
  }
  Json over = entry;
  over.erase("count");
  // One key for both: a mode that waits for a reset is the exception.
  if (over.contains("migMode") && !over.contains("migModePending"))
    over["migModePending"] = over["migMode"];
  Json json = ToJson(card);
  json.merge_patch(over);  // object by object; null takes a member away
  return GpuFromJson(json, path);
}

// Faults and events name GPUs by UUID or place in the list; one that is not there would never strike.
void CheckNames(Json& model, const char* list, const State& state) {
  if (!model.contains(list)) return;
  for (size_t i = 0; i < model[list].size(); ++i) {
    Json& entry = model[list][i];
    if (!entry.contains("gpu")) continue;
    const std::string name =
        entry["gpu"].is_string() ? entry["gpu"].get<std::string>() : entry["gpu"].dump();
    const Gpu* gpu = state.FindGpu(name);
    if (gpu == nullptr) {
      Refuse(std::string(list) + "[" + std::to_string(i) + "].gpu",
             "there is no GPU \"" + name + "\"; the model has " +
                 std::to_string(state.gpus.size()) + ", named by UUID or from 0 on");
    }
    entry["gpu"] = gpu->uuid;
  }
}

}  // namespace

State ReadModel(const std::string& path, const std::string& node) {
  try {
    Json model = simulator_yaml::ReadYamlFile(
        path, {.keys = "driver, gpus, ...", .is_text = IsVersion, .scalar = PlainScalar});
    Json gpus = model.contains("gpus") ? model["gpus"] : Json::array();
    if (!gpus.is_array()) Refuse("gpus", "must be a list of cards");
    Json expanded = Json::array();
    for (size_t i = 0; i < gpus.size(); ++i) {
      const std::string here = "gpus[" + std::to_string(i) + "]";
      const Json& entry = gpus[i];
      int64_t count = 1;
      if (entry.is_object() && entry.contains("count")) {
        if (!entry["count"].is_number_integer() || entry["count"] < 1 || entry["count"] > kMaxCards)
          Refuse(here + ".count",
                 entry["count"].dump() + " is not in 1.." + std::to_string(kMaxCards));
        count = entry["count"];
      }
      for (int64_t n = 0; n < count; ++n) {
        const Gpu gpu = CardFromModel(entry, static_cast<unsigned>(expanded.size()), node, here);
        expanded.push_back(ToJson(gpu));
      }
    }
    model["gpus"] = expanded;
    Json without = model;
    without.erase("faults");
    without.erase("events");
    const State state = StateFromJson(without);
    CheckNames(model, "faults", state);
    CheckNames(model, "events", state);
    return StateFromJson(model);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(path + ": " + error.what());
  }
}

}  // namespace nvidia_simulator
