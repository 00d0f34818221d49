#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "dra/resource/field_error.h"
#include "dra/resource/quantity.h"

namespace dra::resource {

// Paths as the API server writes them: "a.b", "a[3]", "a[key]".
std::string Child(absl::string_view path, absl::string_view name);
std::string Index(absl::string_view path, size_t index);
std::string Key(absl::string_view path, absl::string_view key);

// Reads members of an object and collects what is wrong. null counts as absent everywhere, as for the server.
class FieldReader {
 public:
  void Invalid(std::string field, Json value, absl::string_view message);
  void Required(std::string field, absl::string_view message);
  void Duplicate(std::string field, Json value);
  void TooLong(std::string field, Json value, size_t limit);
  void TooMany(std::string field, size_t count, size_t limit);
  void Forbidden(std::string field, absl::string_view message);
  void NotSupported(std::string field, Json value, const std::vector<absl::string_view>& supported);

  // The member if it is there and of the type, else null; another type is an error.
  const Json* Object(const Json& parent, absl::string_view path, absl::string_view name);
  const Json* Array(const Json& parent, absl::string_view path, absl::string_view name);
  const std::string* String(const Json& parent, absl::string_view path, absl::string_view name);
  std::optional<bool> Bool(const Json& parent, absl::string_view path, absl::string_view name);
  std::optional<int64_t> Int(const Json& parent, absl::string_view path, absl::string_view name);
  std::optional<Quantity> QuantityAt(const Json& parent, absl::string_view path,
                                     absl::string_view name);

  // The same for a value that is there already.
  const std::string* AsString(const Json& value, absl::string_view path);
  std::optional<Quantity> AsQuantity(const Json& value, absl::string_view path);
  bool IsObject(const Json& value, absl::string_view path);

  // Invalid if `status` is an error, Required if `text` is empty.
  void CheckName(const std::string& text, std::string path, const absl::Status& status);
  // A required string member that `check` accepts.
  const std::string* Name(const Json& parent, absl::string_view path, absl::string_view name,
                          absl::Status (*check)(absl::string_view));
  // A list of unique strings that `check` accepts.
  std::set<std::string> NameSet(const Json& parent, absl::string_view path, absl::string_view name,
                                size_t limit, absl::Status (*check)(absl::string_view));

  size_t count() const { return errors_.size(); }
  std::vector<FieldError> Take() { return std::move(errors_); }

 private:
  const Json* Typed(const Json& parent, absl::string_view path, absl::string_view name,
                    Json::value_t type, absl::string_view type_text);
  void WrongType(std::string field, const Json& value, absl::string_view wanted);
  void Add(std::string field, FieldReason reason, Json value, std::string message);

  std::vector<FieldError> errors_;
};

// The member if it is there and not null.
const Json* Member(const Json& parent, absl::string_view name);

}  // namespace dra::resource
