#include "absl/strings/numbers.h"
#include "dra/resource/limits.h"
#include "dra/resource/names.h"
#include "resource/device_rules.h"

namespace dra::resource {
namespace {

// Source: kubernetes/kubernetes:pkg/apis/core/validation (ValidateNodeSelectorRequirement).
void CheckRequirement(FieldReader& reader, const Json& requirement, const std::string& path,
                      bool is_field) {
  if (!reader.IsObject(requirement, path)) return;
  const std::string* key = reader.Name(requirement, path, "key", CheckLabelName);
  if (is_field && key != nullptr && !key->empty() && *key != "metadata.name") {
    reader.Invalid(Child(path, "key"), *key, "must be metadata.name");
  }
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
    int64_t number = 0;
    const bool one = count == 1 && (*values)[0].is_string();
    if (!one || !absl::SimpleAtoi((*values)[0].get_ref<const std::string&>(), &number)) {
      reader.Required(values_path, "must be a single integer when `operator` is 'Lt' or 'Gt'");
    }
  } else {
    reader.Invalid(Child(path, "operator"), name, "not a valid selector operator");
  }
}

void CheckRequirements(FieldReader& reader, const Json& term, const std::string& path,
                       absl::string_view name) {
  const Json* list = reader.Array(term, path, name);
  if (list == nullptr) return;
  for (size_t i = 0; i < list->size(); ++i) {
    CheckRequirement(reader, (*list)[i], Index(Child(path, name), i), name == "matchFields");
  }
}

}  // namespace

void CheckNodeSelector(FieldReader& reader, const Json& selector, const std::string& path) {
  const std::string terms_path = Child(path, "nodeSelectorTerms");
  const Json* terms = reader.Array(selector, path, "nodeSelectorTerms");
  const size_t count = terms == nullptr ? 0 : terms->size();
  if (count != kNodeSelectorTermsPerSlice) {
    reader.Invalid(terms_path, terms == nullptr ? Json::array() : *terms,
                   "must have exactly one node selector term");
  }
  for (size_t i = 0; i < count; ++i) {
    const std::string term_path = Index(terms_path, i);
    if (!reader.IsObject((*terms)[i], term_path)) continue;
    CheckRequirements(reader, (*terms)[i], term_path, "matchExpressions");
    CheckRequirements(reader, (*terms)[i], term_path, "matchFields");
  }
}

}  // namespace dra::resource
