#pragma once

#include <functional>
#include <string>

#include "nlohmann/json.hpp"

namespace simulator_yaml {

// How a simulator's models are written.
struct YamlForm {
  std::string keys;  // for an error's text: "driver, gpus, ..."
  // Whether the value of this key is text, although it may look like a number: "cuda: 12.10".
  std::function<bool(const std::string& key)> is_text;
  // Any other plain (unquoted) scalar.
  std::function<nlohmann::json(const std::string& text)> scalar;
};

// One YAML mapping as JSON. Throws std::runtime_error if the file cannot be read, std::invalid_argument with line and
// column, or path of the key, for what is no YAML, for a key that stands twice, and for nesting deeper than 16.
nlohmann::json ReadYamlFile(const std::string& path, const YamlForm& form);

}  // namespace simulator_yaml
