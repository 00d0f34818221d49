#include "dra/resource/names.h"
#include "resource/device_rules.h"

namespace dra::resource {
namespace {

void CheckValues(FieldReader& reader, const Json* values, const std::string& path,
                 absl::Status (*check)(absl::string_view)) {
  for (size_t i = 0; values != nullptr && i < values->size(); ++i) {
    const std::string* text = reader.AsString((*values)[i], Index(path, i));
    if (text == nullptr) continue;
    if (const absl::Status status = check(*text); !status.ok()) {
      reader.Invalid(Index(path, i), *text, status.message());
    }
  }
}

// Source: kubernetes/kubernetes:pkg/apis/core/validation (ValidateNodeSelectorRequirement).
void CheckExpression(FieldReader& reader, const Json& requirement, const std::string& path) {
  reader.Name(requirement, path, "key", CheckLabelName);
  const Json* values = reader.Array(requirement, path, "values");
  const size_t count = values == nullptr ? 0 : values->size();
  const std::string* op = reader.String(requirement, path, "operator");
  const std::string name = op == nullptr ? "" : *op;
  const std::string values_path = Child(path, "values");
  if (name == "In" || name == "NotIn") {
    if (count == 0)
      reader.Required(values_path, "must be specified when `operator` is 'In' or 'NotIn'");
  } else if (name == "Exists" || name == "DoesNotExist") {
    if (count > 0)
      reader.Forbidden(values_path,
                       "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
  } else if (name == "Gt" || name == "Lt") {
    // That it is an integer is not asked; another text matches no node.
    if (count != 1)
      reader.Required(values_path, "must be a single value when `operator` is 'Lt' or 'Gt'");
  } else {
    reader.Invalid(Child(path, "operator"), name, "not a valid selector operator");
  }
  CheckValues(reader, values, values_path, CheckLabelValue);
}

// Source: the same (ValidateNodeFieldSelectorRequirement).
void CheckField(FieldReader& reader, const Json& requirement, const std::string& path) {
  const std::string* key = reader.String(requirement, path, "key");
  const bool is_name = key != nullptr && *key == "metadata.name";
  if (!is_name) {
    reader.Invalid(Child(path, "key"), key == nullptr ? "" : *key, "must be metadata.name");
  }
  const Json* values = reader.Array(requirement, path, "values");
  const std::string values_path = Child(path, "values");
  const std::string* op = reader.String(requirement, path, "operator");
  if (op == nullptr || (*op != "In" && *op != "NotIn")) {
    reader.Invalid(Child(path, "operator"), op == nullptr ? "" : *op,
                   "not a valid selector operator for a field");
  } else if (values == nullptr || values->size() != 1) {
    reader.Required(values_path,
                    "must be only one value when `operator` is 'In' or 'NotIn' for a field");
  }
  if (is_name) CheckValues(reader, values, values_path, CheckDnsSubdomain);
}

void CheckRequirements(FieldReader& reader, const Json& term, const std::string& path,
                       absl::string_view name,
                       void (*check)(FieldReader&, const Json&, const std::string&)) {
  const Json* list = reader.Array(term, path, name);
  for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
    const std::string item_path = Index(Child(path, name), i);
    if (reader.IsObject((*list)[i], item_path)) check(reader, (*list)[i], item_path);
  }
}

}  // namespace

void CheckNodeSelector(FieldReader& reader, const Json& selector, const std::string& path) {
  const std::string terms_path = Child(path, "nodeSelectorTerms");
  const Json* terms = reader.Array(selector, path, "nodeSelectorTerms");
  const size_t count = terms == nullptr ? 0 : terms->size();
  if (count == 0) reader.Required(terms_path, "must have at least one node selector term");
  for (size_t i = 0; i < count; ++i) {
    const std::string term_path = Index(terms_path, i);
    if (!reader.IsObject((*terms)[i], term_path)) continue;
    CheckRequirements(reader, (*terms)[i], term_path, "matchExpressions", CheckExpression);
    CheckRequirements(reader, (*terms)[i], term_path, "matchFields", CheckField);
  }
}

}  // namespace dra::resource
