#pragma once

#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace rdma {

// Reads the members of an object that a program of ours wrote. A member that is not there leaves the value as it is,
// one of another type or out of range throws std::runtime_error with its path, one that is not asked for is passed
// over: a newer version may have written it.
class JsonFields {
 public:
  JsonFields(const nlohmann::json& object, std::string path)
      : object_(object), path_(std::move(path)) {
    if (!object_.is_object()) Wrong(path_, "an object");
  }

  template <typename T>
  void Get(const char* key, T& value) const {
    const auto found = object_.find(key);
    if (found != object_.end()) Read(*found, Path(key), value);
  }
  // A list, each of whose elements is read by `read(JsonFields, element)`.
  template <typename T, typename Function>
  void List(const char* key, std::vector<T>& values, Function&& read) const {
    const auto found = object_.find(key);
    if (found == object_.end()) return;
    if (!found->is_array()) Wrong(Path(key), "an array");
    values.clear();
    for (size_t i = 0; i < found->size(); ++i) {
      const JsonFields fields((*found)[i], Path(key) + "[" + std::to_string(i) + "]");
      read(fields, values.emplace_back());
    }
  }
  template <typename Function>
  void Object(const char* key, Function&& read) const {
    const auto found = object_.find(key);
    if (found != object_.end()) read(JsonFields(*found, Path(key)));
  }
  const nlohmann::json& json() const { return object_; }
  const std::string& path() const { return path_; }

  [[noreturn]] static void Wrong(const std::string& path, const char* wanted) {
    throw std::runtime_error(path + ": must be " + wanted);
  }

 private:
  std::string Path(const char* key) const { return path_.empty() ? key : path_ + "." + key; }

  template <typename T>
  static void Read(const nlohmann::json& json, const std::string& path, T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) Wrong(path, "true or false");
      value = json.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      if (!json.is_number_integer()) Wrong(path, "an integer");
      const bool fits =
          json.is_number_unsigned()
              ? json.get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max())
              : std::is_signed_v<T> &&
                    json.get<int64_t>() >= static_cast<int64_t>(std::numeric_limits<T>::min());
      if (!fits) Wrong(path, "an integer within its limits");
      value = json.get<T>();
    } else {
      static_assert(std::is_same_v<T, std::string>);
      if (!json.is_string()) Wrong(path, "a string");
      value = json.get<std::string>();
    }
  }
  template <typename T>
  static void Read(const nlohmann::json& json, const std::string& path, std::optional<T>& value) {
    Read(json, path, value.emplace());
  }
  template <typename T>
  static void Read(const nlohmann::json& json, const std::string& path, std::vector<T>& values) {
    if (!json.is_array()) Wrong(path, "an array");
    values.clear();
    for (const nlohmann::json& element : json) Read(element, path, values.emplace_back());
  }
  template <typename T>
  static void Read(const nlohmann::json& json, const std::string& path,
                   std::map<std::string, T>& values) {
    if (!json.is_object()) Wrong(path, "an object");
    values.clear();
    for (const auto& [key, element] : json.items()) Read(element, path + "." + key, values[key]);
  }

  const nlohmann::json& object_;
  std::string path_;
};

// Puts a value into an object unless it is what an absent member means.
template <typename T>
void Put(nlohmann::json& object, const char* key, const T& value) {
  if (!(value == T())) object[key] = value;
}
template <typename T>
void Put(nlohmann::json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

}  // namespace rdma
