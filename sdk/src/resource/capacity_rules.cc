#include <set>

#include "absl/strings/str_cat.h"
#include "dra/resource/limits.h"
#include "resource/device_rules.h"

namespace dra::resource {
namespace {

// The integer arithmetic of servers without fractional ranges rounds up; where a part is fractional, 1.37 counts in
// thousandths and wants each part to be exact there.
bool IsFractional(const std::optional<Quantity>& quantity) {
  return quantity.has_value() && !quantity->IsInteger();
}

struct Range {
  std::optional<Quantity> min, max, step, fallback;
};

void CheckMilli(FieldReader& reader, const std::optional<Quantity>& quantity,
                const std::string& path) {
  if (quantity.has_value() && !quantity->IsWholeMilli()) {
    reader.Invalid(path, quantity->ToString(), "must be a whole number of thousandths (\"m\")");
  }
}

void CheckStep(FieldReader& reader, const Range& range, const std::string& path,
               const std::string& default_path, const Quantity& total) {
  const Quantity& step = *range.step;
  const std::string step_path = Child(path, "step");
  if (step.Sign() <= 0) {
    reader.Invalid(step_path, step.ToString(), "must be greater than zero");
    return;
  }
  if (!range.min.has_value()) return;
  if (*range.min + step > total) {
    reader.Invalid(
        step_path, step.ToString(),
        absl::StrCat("one step above min must be at most the capacity value ", total.ToString()));
  }
  if (range.max.has_value() && !(*range.max - *range.min).IsMultipleOf(step)) {
    reader.Invalid(Child(path, "max"), range.max->ToString(),
                   absl::StrCat("max - min must be a multiple of step ", step.ToString()));
  }
  if (range.fallback.has_value() && !(*range.fallback - *range.min).IsMultipleOf(step)) {
    reader.Invalid(default_path, range.fallback->ToString(),
                   absl::StrCat("default - min must be a multiple of step ", step.ToString()));
  }
}

void CheckRange(FieldReader& reader, const Json& object, const std::string& path,
                const std::optional<Quantity>& fallback, const std::string& default_path,
                const Quantity& total) {
  Range range{reader.QuantityAt(object, path, "min"), reader.QuantityAt(object, path, "max"),
              reader.QuantityAt(object, path, "step"), fallback};
  if (Member(object, "min") == nullptr)
    reader.Required(Child(path, "min"), "required when validRange is specified");
  if (range.min.has_value()) {
    if (range.min->Sign() < 0)
      reader.Invalid(Child(path, "min"), range.min->ToString(), "must not be negative");
    if (*range.min > total) {
      reader.Invalid(Child(path, "min"), range.min->ToString(),
                     absl::StrCat("must be at most the capacity value ", total.ToString()));
    }
    if (fallback.has_value() && *fallback < *range.min) {
      reader.Invalid(default_path, fallback->ToString(),
                     absl::StrCat("must be at least min ", range.min->ToString()));
    }
    if (range.max.has_value() && *range.max < *range.min) {
      reader.Invalid(Child(path, "max"), range.max->ToString(),
                     absl::StrCat("must be at least min ", range.min->ToString()));
    }
  }
  if (range.max.has_value()) {
    if (*range.max > total) {
      reader.Invalid(Child(path, "max"), range.max->ToString(),
                     absl::StrCat("must be at most the capacity value ", total.ToString()));
    }
    if (fallback.has_value() && *fallback > *range.max) {
      reader.Invalid(default_path, fallback->ToString(),
                     absl::StrCat("must be at most max ", range.max->ToString()));
    }
  }
  if (IsFractional(range.min) || IsFractional(range.max) || IsFractional(range.step) ||
      IsFractional(range.fallback)) {
    CheckMilli(reader, range.min, Child(path, "min"));
    CheckMilli(reader, range.max, Child(path, "max"));
    CheckMilli(reader, range.step, Child(path, "step"));
    CheckMilli(reader, range.fallback, default_path);
  }
  if (range.step.has_value()) CheckStep(reader, range, path, default_path, total);
}

void CheckValidValues(FieldReader& reader, const Json& values, const std::string& path,
                      const std::optional<Quantity>& fallback, const std::string& default_path,
                      const Quantity& total) {
  if (values.size() > kMaxValidValues) reader.TooMany(path, values.size(), kMaxValidValues);
  std::optional<Quantity> last;
  bool has_default = false;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string item_path = Index(path, i);
    const std::optional<Quantity> value = reader.AsQuantity(values[i], item_path);
    if (!value.has_value()) {
      has_default = true;  // it may be this one: the text is named already
      continue;
    }
    if (*value > total) {
      reader.Invalid(item_path, values[i],
                     absl::StrCat("must be at most the capacity value ", total.ToString()));
    }
    if (last.has_value() && *value == *last) {
      reader.Duplicate(item_path, values[i]);
    } else if (last.has_value() && *value < *last) {
      reader.Invalid(item_path, values[i], "values must be in ascending order");
    }
    has_default |= fallback.has_value() && *value == *fallback;
    last = value;
  }
  if (fallback.has_value() && !has_default) {
    reader.Invalid(default_path, fallback->ToString(), "must be one of validValues");
  }
}

}  // namespace

void CheckRequestPolicy(FieldReader& reader, const Json& policy, const std::string& path,
                        const Quantity& total) {
  const std::string default_path = Child(path, "default");
  const std::optional<Quantity> fallback = reader.QuantityAt(policy, path, "default");
  const Json* values = reader.Array(policy, path, "validValues");
  if (values != nullptr && values->empty()) values = nullptr;
  const Json* range = reader.Object(policy, path, "validRange");
  if (values != nullptr && range != nullptr) {
    reader.Invalid(path, policy, "at most one of `validValues` and `validRange` may be set");
    return;
  }
  if (Member(policy, "default") == nullptr && (values != nullptr || range != nullptr)) {
    reader.Required(default_path, "required when validValues or validRange is specified");
  }
  if (fallback.has_value() && *fallback > total) {
    reader.Invalid(default_path, fallback->ToString(),
                   absl::StrCat("must be at most the capacity value ", total.ToString()));
  }
  if (values != nullptr)
    CheckValidValues(reader, *values, Child(path, "validValues"), fallback, default_path, total);
  if (range != nullptr)
    CheckRange(reader, *range, Child(path, "validRange"), fallback, default_path, total);
}

void CheckCapacity(FieldReader& reader, const Json& capacity, const std::string& path,
                   bool shared) {
  if (!reader.IsObject(capacity, path)) return;
  if (Member(capacity, "value") == nullptr) reader.Required(Child(path, "value"), "");
  const std::optional<Quantity> value = reader.QuantityAt(capacity, path, "value");
  const Json* policy = reader.Object(capacity, path, "requestPolicy");
  if (policy == nullptr) return;
  if (!shared) {
    reader.Forbidden(Child(path, "requestPolicy"),
                     "only allowed when allowMultipleAllocations is true");
    return;
  }
  if (value.has_value()) CheckRequestPolicy(reader, *policy, Child(path, "requestPolicy"), *value);
}

}  // namespace dra::resource
