#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dra/backend/error.h"
#include "nlohmann/json.hpp"

namespace dra {

using Json = nlohmann::json;

// Parses one JSON document. Throws DRA_INVALID_ARGUMENT with the path for a duplicate key, for
// nesting deeper than 64 and for text that is not JSON. `what` begins the path: "parameters" gives
// "parameters.sharing.mode: ...".
inline Json ParseStrictJson(std::string_view text, const std::string& what) {
  constexpr size_t kMaxDepth = 64;
  struct Level {
    bool is_array;
    std::set<std::string> keys;
    std::string key;
    size_t index = 0;
  };
  std::vector<Level> levels;
  const auto path = [&] {
    std::string result = what;
    for (const Level& level : levels) {
      result += level.is_array ? "[" + std::to_string(level.index) + "]" : "." + level.key;
    }
    return result;
  };
  const auto done = [&] {  // a value of the innermost array is complete
    if (!levels.empty() && levels.back().is_array) ++levels.back().index;
  };
  using Event = Json::parse_event_t;
  const auto on_event = [&](int, Event event, Json& parsed) {
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        if (levels.size() >= kMaxDepth) {
          throw BackendError(DRA_INVALID_ARGUMENT, path() + ": nested deeper than " +
                                                       std::to_string(kMaxDepth) + " levels");
        }
        levels.push_back(Level{event == Event::array_start, {}, {}});
        break;
      case Event::object_end:
      case Event::array_end:
        levels.pop_back();
        done();
        break;
      case Event::key: {
        levels.back().key = parsed.get<std::string>();
        if (!levels.back().keys.insert(levels.back().key).second) {
          throw BackendError(DRA_INVALID_ARGUMENT, path() + ": duplicate key: give it once");
        }
        break;
      }
      case Event::value:
        done();
        break;
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), on_event);
  } catch (const Json::exception& error) {
    // The library goes on with what it read last: that may be a secret.
    std::string problem = error.what();
    problem = problem.substr(0, problem.find("; last read: "));
    throw BackendError(DRA_INVALID_ARGUMENT, what + ": not JSON: " + problem);
  }
}

// Reads an object that a user wrote, strictly: wrong types, missing and unknown keys are refused
// with their path.
//
//   JsonReader::Read(parameters, "parameters", [&](JsonReader& r) {
//     config.profile = r.Required<std::string>("profile");
//     config.slices = r.Optional<int64_t>("slices", 1, 8).value_or(1);
//     r.OptionalObject("sharing", [&](JsonReader& s) { config.mode = s.Enum<Mode>("mode", {{"Time",
//     Mode::kTime}}); });
//   });
//
// Every error is a BackendError with DRA_INVALID_ARGUMENT. It names paths and the words of an Enum, never another
// value: errors reach logs and Events, and parameters may hold secrets.
// Types: std::string, bool, int64_t,
// double, Json (any). null counts as absent. Keys that were asked for are known; the rest is
// refused when Read or ...Object returns.
class JsonReader {
 public:
  template <typename Function>
  static void Read(const Json& value, const std::string& path, Function&& function) {
    JsonReader reader(value, path);
    function(reader);
    reader.Finish();
  }

  const std::string& path() const { return path_; }
  bool Has(const std::string& key) { return Look(key) != nullptr; }

  template <typename T>
  T Required(const std::string& key) {
    const Json* value = Look(key);
    if (value == nullptr) Refuse(key, "is required");
    return Convert<T>(*value, Path(key));
  }
  template <typename T>
  std::optional<T> Optional(const std::string& key) {
    const Json* value = Look(key);
    if (value == nullptr) return std::nullopt;
    return Convert<T>(*value, Path(key));
  }
  // With limits, both inclusive.
  int64_t Required(const std::string& key, int64_t minimum, int64_t maximum) {
    return Limit(key, Required<int64_t>(key), minimum, maximum);
  }
  std::optional<int64_t> Optional(const std::string& key, int64_t minimum, int64_t maximum) {
    const std::optional<int64_t> value = Optional<int64_t>(key);
    if (value) Limit(key, *value, minimum, maximum);
    return value;
  }

  // One of a list of words.
  template <typename T>
  T Enum(const std::string& key, std::initializer_list<std::pair<const char*, T>> words) {
    const std::string text = Required<std::string>(key);
    std::string known;
    for (const auto& [word, value] : words) {
      if (text == word) return value;
      known += (known.empty() ? "\"" : ", \"") + std::string(word) + "\"";
    }
    Refuse(key, "\"" + text + "\" is not one of " + known);
  }
  template <typename T>
  std::optional<T> OptionalEnum(const std::string& key,
                                std::initializer_list<std::pair<const char*, T>> words) {
    if (!Has(key)) return std::nullopt;
    return Enum<T>(key, words);
  }

  // An object, read by `function(JsonReader&)`.
  template <typename Function>
  void Object(const std::string& key, Function&& function) {
    Read(Required<Json>(key), Path(key), std::forward<Function>(function));
  }
  template <typename Function>
  bool OptionalObject(const std::string& key, Function&& function) {
    if (!Has(key)) return false;
    Object(key, std::forward<Function>(function));
    return true;
  }

  // An array; empty if absent.
  template <typename T>
  std::vector<T> List(const std::string& key) {
    std::vector<T> result;
    Elements(key, [&](const Json& value, const std::string& path) {
      result.push_back(Convert<T>(value, path));
    });
    return result;
  }
  // An array of objects, each read by `function(JsonReader&)`; nothing if absent.
  template <typename Function>
  void Each(const std::string& key, Function&& function) {
    Elements(key, [&](const Json& value, const std::string& path) { Read(value, path, function); });
  }

  // Throws DRA_INVALID_ARGUMENT "<path>.<key>: <problem>".
  [[noreturn]] void Refuse(const std::string& key, const std::string& problem) const {
    throw BackendError(DRA_INVALID_ARGUMENT, Path(key) + ": " + problem);
  }

 private:
  JsonReader(const Json& value, std::string path) : value_(value), path_(std::move(path)) {
    if (!value_.is_object()) Wrong(path_, "an object", value_);
  }

  std::string Path(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }

  const Json* Look(const std::string& key) {
    known_.insert(key);
    const auto found = value_.find(key);
    return found == value_.end() || found->is_null() ? nullptr : &*found;
  }

  int64_t Limit(const std::string& key, int64_t value, int64_t minimum, int64_t maximum) const {
    if (value < minimum || value > maximum) {
      Refuse(key, "is not in " + std::to_string(minimum) + ".." + std::to_string(maximum));
    }
    return value;
  }

  template <typename Function>
  void Elements(const std::string& key, Function&& function) {
    const Json* value = Look(key);
    if (value == nullptr) return;
    if (!value->is_array()) Wrong(Path(key), "an array", *value);
    for (size_t i = 0; i < value->size(); ++i) {
      function((*value)[i], Path(key) + "[" + std::to_string(i) + "]");
    }
  }

  [[noreturn]] static void Wrong(const std::string& path, const char* wanted, const Json& value) {
    throw BackendError(DRA_INVALID_ARGUMENT,
                       path + ": must be " + wanted + ", is " + std::string(value.type_name()));
  }

  template <typename T>
  static T Convert(const Json& value, const std::string& path) {
    if constexpr (std::is_same_v<T, Json>) {
      return value;
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!value.is_string()) Wrong(path, "a string", value);
      return value.get<std::string>();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!value.is_boolean()) Wrong(path, "true or false", value);
      return value.get<bool>();
    } else if constexpr (std::is_same_v<T, int64_t>) {
      if (!value.is_number_integer()) Wrong(path, "an integer", value);
      if (value.is_number_unsigned() &&
          value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        throw BackendError(DRA_INVALID_ARGUMENT, path + ": does not fit into 64 bits with sign");
      }
      return value.get<int64_t>();
    } else {
      static_assert(std::is_same_v<T, double>, "std::string, bool, int64_t, double or Json");
      if (!value.is_number()) Wrong(path, "a number", value);
      return value.get<double>();
    }
  }

  void Finish() const {
    for (const auto& [key, value] : value_.items()) {
      if (known_.count(key) != 0) continue;
      std::string known;
      for (const std::string& name : known_) known += (known.empty() ? "" : ", ") + name;
      Refuse(key, "unknown field; known: " + (known.empty() ? "none" : known));
    }
  }

  const Json& value_;
  std::string path_;
  std::set<std::string> known_;
};

}  // namespace dra
