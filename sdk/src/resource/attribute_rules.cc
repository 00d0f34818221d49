#include <array>

#include "absl/strings/str_cat.h"
#include "dra/resource/limits.h"
#include "dra/resource/semver.h"
#include "resource/device_rules.h"

namespace dra::resource {
namespace {

constexpr std::array<absl::string_view, 4> kScalars = {"int", "bool", "string", "version"};
constexpr std::array<absl::string_view, 4> kLists = {"ints", "bools", "strings", "versions"};

void CheckText(FieldReader& reader, const std::string& text, const std::string& path,
               bool is_version) {
  if (text.size() > kMaxAttributeValueBytes) reader.TooLong(path, text, kMaxAttributeValueBytes);
  if (is_version && !IsSemVer(text)) {
    reader.Invalid(path, text, "must be a string compatible with semver.org spec 2.0.0");
  }
}

void CheckScalar(FieldReader& reader, const Json& attribute, const std::string& path,
                 absl::string_view type) {
  if (type == "int") {
    reader.Int(attribute, path, type);
  } else if (type == "bool") {
    reader.Bool(attribute, path, type);
  } else if (const std::string* text = reader.String(attribute, path, type)) {
    CheckText(reader, *text, Child(path, type), type == "version");
  }
}

void CheckList(FieldReader& reader, const Json& attribute, const std::string& path,
               absl::string_view type) {
  const Json* list = reader.Array(attribute, path, type);
  if (list == nullptr) return;
  const std::string list_path = Child(path, type);
  if (list->empty()) reader.Required(list_path, "must not be empty");
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string item_path = Index(list_path, i);
    const Json& item = (*list)[i];
    if (type == "bools") {
      if (!item.is_boolean()) reader.Invalid(item_path, item, "must be a boolean");
    } else if (type == "ints") {
      const Json holder = {{"value", item}};
      FieldReader scratch;
      if (!scratch.Int(holder, "", "value").has_value()) {
        reader.Invalid(item_path, item, "must be a 64-bit signed integer");
      }
    } else if (const std::string* text = reader.AsString(item, item_path)) {
      CheckText(reader, *text, item_path, type == "versions");
    }
  }
}

}  // namespace

void CheckAttribute(FieldReader& reader, const Json& attribute, const std::string& path) {
  if (!reader.IsObject(attribute, path)) return;
  size_t values = 0;
  for (const absl::string_view type : kScalars) {
    if (Member(attribute, type) == nullptr) continue;
    ++values;
    CheckScalar(reader, attribute, path, type);
  }
  for (const absl::string_view type : kLists) {
    if (Member(attribute, type) == nullptr) continue;
    ++values;
    CheckList(reader, attribute, path, type);
  }
  if (values == 0) reader.Required(path, "exactly one value must be specified");
  if (values > 1) reader.Invalid(path, attribute, "exactly one value must be specified");
}

size_t AttributeValueCount(const Json& attribute) {
  for (const absl::string_view type : kLists) {
    const Json* list = Member(attribute, type);
    if (list != nullptr && list->is_array()) return list->size();
  }
  return 1;
}

}  // namespace dra::resource
