#include "yaml_file.h"

#include <yaml-cpp/yaml.h>

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <vector>

namespace simulator_yaml {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 16;

class Reader {
 public:
  explicit Reader(const YamlForm& form) : form_(form) {}

  Json Convert(const YAML::Node& node, const std::string& path, int depth) const {
    if (depth > kMaxDepth) Refuse(path, "nested deeper than " + std::to_string(kMaxDepth));
    if (node.IsScalar()) {
      // yaml-cpp tags a quoted scalar "!" and a plain one "?".
      return node.Tag() == "!" ? Json(node.Scalar()) : form_.scalar(node.Scalar());
    }
    if (node.IsSequence()) {
      Json list = Json::array();
      for (const YAML::Node& item : node)
        list.push_back(Convert(item, path + "[" + std::to_string(list.size()) + "]", depth + 1));
      return list;
    }
    if (!node.IsMap()) return nullptr;
    Json object = Json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        Refuse(path,
               "line " + std::to_string(entry.first.Mark().line + 1) + ": a key must be text");
      }
      const std::string key = entry.first.Scalar();
      const std::string below = path.empty() ? key : path + "." + key;
      if (object.contains(key)) Refuse(below, "stands there twice");
      object[key] = form_.is_text(key) && entry.second.IsScalar()
                        ? Json(entry.second.Scalar())
                        : Convert(entry.second, below, depth + 1);
    }
    return object;
  }

 private:
  [[noreturn]] static void Refuse(const std::string& path, const std::string& problem) {
    throw std::invalid_argument(path + ": " + problem);
  }

  const YamlForm& form_;
};

}  // namespace

Json ReadYamlFile(const std::string& path, const YamlForm& form) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error("cannot read " + path);
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text.str());
    if (documents.size() != 1 || !documents[0].IsMap())
      throw std::invalid_argument("must be one YAML mapping with the keys " + form.keys);
    return Reader(form).Convert(documents[0], "", 0);
  } catch (const YAML::Exception& error) {
    throw std::invalid_argument("line " + std::to_string(error.mark.line + 1) + ", column " +
                                std::to_string(error.mark.column + 1) + ": " + error.msg);
  }
}

}  // namespace simulator_yaml
