#include "resource/field_reader.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dra::resource {

std::string Child(absl::string_view path, absl::string_view name) {
  return path.empty() ? std::string(name) : absl::StrCat(path, ".", name);
}
std::string Index(absl::string_view path, size_t index) {
  return absl::StrCat(path, "[", index, "]");
}
std::string Key(absl::string_view path, absl::string_view key) {
  return absl::StrCat(path, "[", key, "]");
}

const Json* Member(const Json& parent, absl::string_view name) {
  const Json* value = Find(parent, name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

void FieldReader::Add(std::string field, FieldReason reason, Json value, std::string message) {
  errors_.push_back(FieldError{std::move(field), reason, std::move(value), std::move(message)});
}

void FieldReader::Invalid(std::string field, Json value, absl::string_view message) {
  Add(std::move(field), FieldReason::kInvalid, std::move(value), std::string(message));
}
void FieldReader::Required(std::string field, absl::string_view message) {
  Add(std::move(field), FieldReason::kRequired, nullptr, std::string(message));
}
void FieldReader::Duplicate(std::string field, Json value) {
  Add(std::move(field), FieldReason::kDuplicate, std::move(value), "");
}
void FieldReader::TooLong(std::string field, Json value, size_t limit) {
  Add(std::move(field), FieldReason::kTooLong, std::move(value),
      absl::StrCat("may not be more than ", limit, " bytes"));
}
void FieldReader::TooMany(std::string field, size_t count, size_t limit) {
  Add(std::move(field), FieldReason::kTooMany, count,
      absl::StrCat("must have at most ", limit, " items"));
}
void FieldReader::Forbidden(std::string field, absl::string_view message) {
  Add(std::move(field), FieldReason::kForbidden, nullptr, std::string(message));
}
void FieldReader::NotSupported(std::string field, Json value,
                               const std::vector<absl::string_view>& supported) {
  Add(std::move(field), FieldReason::kNotSupported, std::move(value),
      absl::StrCat("supported values: ",
                   absl::StrJoin(supported, ", ", [](std::string* out, absl::string_view text) {
                     absl::StrAppend(out, "\"", text, "\"");
                   })));
}

void FieldReader::WrongType(std::string field, const Json& value, absl::string_view wanted) {
  Add(std::move(field), FieldReason::kTypeInvalid, value,
      absl::StrCat("must be ", wanted, ", is ", value.type_name()));
}

const Json* FieldReader::Typed(const Json& parent, absl::string_view path, absl::string_view name,
                               Json::value_t type, absl::string_view type_text) {
  const Json* value = Member(parent, name);
  if (value == nullptr || value->type() == type) return value;
  WrongType(Child(path, name), *value, type_text);
  return nullptr;
}

const Json* FieldReader::Object(const Json& parent, absl::string_view path,
                                absl::string_view name) {
  return Typed(parent, path, name, Json::value_t::object, "an object");
}
const Json* FieldReader::Array(const Json& parent, absl::string_view path, absl::string_view name) {
  return Typed(parent, path, name, Json::value_t::array, "an array");
}
const std::string* FieldReader::String(const Json& parent, absl::string_view path,
                                       absl::string_view name) {
  const Json* value = Typed(parent, path, name, Json::value_t::string, "a string");
  return value == nullptr ? nullptr : value->get_ptr<const std::string*>();
}
std::optional<bool> FieldReader::Bool(const Json& parent, absl::string_view path,
                                      absl::string_view name) {
  const Json* value = Typed(parent, path, name, Json::value_t::boolean, "a boolean");
  if (value == nullptr) return std::nullopt;
  return value->get<bool>();
}
std::optional<int64_t> FieldReader::Int(const Json& parent, absl::string_view path,
                                        absl::string_view name) {
  const Json* value = Member(parent, name);
  if (value == nullptr) return std::nullopt;
  const bool fits =
      value->is_number_integer() &&
      (!value->is_number_unsigned() ||
       value->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
  if (fits) return value->get<int64_t>();
  WrongType(Child(path, name), *value, "a 64-bit signed integer");
  return std::nullopt;
}
std::optional<Quantity> FieldReader::QuantityAt(const Json& parent, absl::string_view path,
                                                absl::string_view name) {
  const Json* value = Member(parent, name);
  if (value == nullptr) return std::nullopt;
  return AsQuantity(*value, Child(path, name));
}

const std::string* FieldReader::AsString(const Json& value, absl::string_view path) {
  if (value.is_string()) return value.get_ptr<const std::string*>();
  WrongType(std::string(path), value, "a string");
  return nullptr;
}
std::optional<Quantity> FieldReader::AsQuantity(const Json& value, absl::string_view path) {
  absl::StatusOr<Quantity> quantity = Quantity::FromJson(value);
  if (quantity.ok()) return *quantity;
  Invalid(std::string(path), value, std::string(quantity.status().message()));
  return std::nullopt;
}
bool FieldReader::IsObject(const Json& value, absl::string_view path) {
  if (value.is_object()) return true;
  WrongType(std::string(path), value, "an object");
  return false;
}

void FieldReader::CheckName(const std::string& text, std::string path, const absl::Status& status) {
  if (text.empty()) {
    Required(std::move(path), "");
  } else if (!status.ok()) {
    Invalid(std::move(path), text, status.message());
  }
}

const std::string* FieldReader::Name(const Json& parent, absl::string_view path,
                                     absl::string_view name,
                                     absl::Status (*check)(absl::string_view)) {
  if (Member(parent, name) == nullptr) {
    Required(Child(path, name), "");
    return nullptr;
  }
  const std::string* text = String(parent, path, name);
  if (text != nullptr) CheckName(*text, Child(path, name), check(*text));
  return text;
}

std::set<std::string> FieldReader::NameSet(const Json& parent, absl::string_view path,
                                           absl::string_view name, size_t limit,
                                           absl::Status (*check)(absl::string_view)) {
  std::set<std::string> names;
  const Json* list = Array(parent, path, name);
  if (list == nullptr) return names;
  const std::string list_path = Child(path, name);
  if (list->size() > limit) TooMany(list_path, list->size(), limit);
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string item_path = Index(list_path, i);
    const std::string* text = AsString((*list)[i], item_path);
    if (text == nullptr) continue;
    CheckName(*text, item_path, check(*text));
    if (!names.insert(*text).second) Duplicate(item_path, *text);
  }
  return names;
}

}  // namespace dra::resource
