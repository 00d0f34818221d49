#include "dra/resource/field_error.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dra::resource {
namespace {

// A value in an error text: long ones are cut, the field path is what identifies them.
constexpr size_t kMaxDetailBytes = 256;

std::string ShownInDetail(const Json& value) {
  std::string text = DumpJson(value);
  if (text.size() > kMaxDetailBytes) text = absl::StrCat(text.substr(0, kMaxDetailBytes), "...");
  return text;
}

std::string WithMessage(std::string detail, const std::string& message) {
  return message.empty() ? detail : absl::StrCat(detail, ": ", message);
}

}  // namespace

absl::string_view FieldReasonName(FieldReason reason) {
  switch (reason) {
    case FieldReason::kInvalid:
      return "FieldValueInvalid";
    case FieldReason::kRequired:
      return "FieldValueRequired";
    case FieldReason::kDuplicate:
      return "FieldValueDuplicate";
    case FieldReason::kTooLong:
      return "FieldValueTooLong";
    case FieldReason::kTooMany:
      return "FieldValueTooMany";
    case FieldReason::kForbidden:
      return "FieldValueForbidden";
    case FieldReason::kNotSupported:
      return "FieldValueNotSupported";
    case FieldReason::kTypeInvalid:
      return "FieldValueTypeInvalid";
  }
  return "FieldValueInvalid";
}

std::string FieldError::Detail() const {
  switch (reason) {
    case FieldReason::kRequired:
      return WithMessage("Required value", message);
    case FieldReason::kForbidden:
      return WithMessage("Forbidden", message);
    case FieldReason::kTooLong:
      return WithMessage("Too long", message);
    case FieldReason::kTooMany:
      return WithMessage(absl::StrCat("Too many: ", ShownInDetail(value)), message);
    case FieldReason::kDuplicate:
      return WithMessage(absl::StrCat("Duplicate value: ", ShownInDetail(value)), message);
    case FieldReason::kNotSupported:
      return WithMessage(absl::StrCat("Unsupported value: ", ShownInDetail(value)), message);
    case FieldReason::kInvalid:
    case FieldReason::kTypeInvalid:
      break;
  }
  return WithMessage(absl::StrCat("Invalid value: ", ShownInDetail(value)), message);
}

std::string FieldError::ToString() const { return absl::StrCat(field, ": ", Detail()); }

std::string JoinFieldErrors(const std::vector<FieldError>& errors) {
  return absl::StrJoin(errors, "; ",
                       [](std::string* out, const FieldError& error) { *out += error.ToString(); });
}

}  // namespace dra::resource
