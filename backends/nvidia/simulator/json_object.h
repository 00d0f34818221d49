#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "state.h"

namespace nvidia_simulator {

// One JSON object, read strictly: members of a wrong kind and members that nobody asked for are refused by path with
// std::invalid_argument.
class JsonObject {
 public:
  JsonObject(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
    if (!json.is_object()) Fail("", "must be an object");
  }

  // nullptr where the member is absent or null.
  const Json* Find(const char* name) {
    known_.insert(name);
    const auto at = json_.find(name);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }

  // Leaves `value` as it is where the member is absent.
  template <typename T>
  void Get(const char* name, T& value) {
    const Json* member = Find(name);
    if (member != nullptr) value = As<T>(*member, name);
  }
  template <typename T>
  void Get(const char* name, std::optional<T>& value) {
    const Json* member = Find(name);
    if (member != nullptr) value = As<T>(*member, name);
  }
  void Get(const char* name, std::vector<std::string>& value) {
    if (Find(name) == nullptr) return;
    value.clear();
    Each(name, [&](const Json& entry, const std::string&) {
      value.push_back(As<std::string>(entry, name));
    });
  }
  void Object(const char* name, const std::function<void(JsonObject&)>& read) {
    const Json* member = Find(name);
    if (member == nullptr) return;
    JsonObject object(*member, Path(name));
    read(object);
    object.Done();
  }
  void Each(const char* name,
            const std::function<void(const Json&, const std::string& path)>& read) {
    const Json* member = Find(name);
    if (member == nullptr) return;
    if (!member->is_array()) Fail(name, "must be a list");
    for (size_t i = 0; i < member->size(); ++i) {
      read((*member)[i], Path(name) + "[" + std::to_string(i) + "]");
    }
  }

  // To be called last.
  void Done() const {
    for (const auto& [name, unused] : json_.items()) {
      if (known_.count(name) == 0) Fail(name.c_str(), "no such member");
    }
  }

  std::string Path(const char* name) const {
    if (*name == '\0') return path_.empty() ? "state" : path_;
    return path_.empty() ? name : path_ + "." + name;
  }
  [[noreturn]] void Fail(const char* name, const std::string& what) const {
    throw std::invalid_argument(Path(name) + ": " + what);
  }

 private:
  template <typename T>
  T As(const Json& json, const char* name) const {
    if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_string()) Fail(name, "must be text");
      return json.get<std::string>();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) Fail(name, "must be true or false");
      return json.get<bool>();
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!json.is_number()) Fail(name, "must be a number");
      return json.get<T>();
    } else {
      if (!json.is_number_integer()) Fail(name, "must be a whole number");
      const bool negative = !json.is_number_unsigned() && json.get<int64_t>() < 0;
      using Limits = std::numeric_limits<T>;
      const bool fits = negative
                            ? std::is_signed_v<T> && json.get<int64_t>() >= int64_t{Limits::min()}
                            : json.get<uint64_t>() <= uint64_t{Limits::max()};
      if (!fits) Fail(name, json.dump() + " is out of range");
      return json.get<T>();
    }
  }

  const Json& json_;
  const std::string path_;
  std::set<std::string> known_;
};

}  // namespace nvidia_simulator
