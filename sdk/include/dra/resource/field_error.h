#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::resource {

// Why a field is refused; the names are those of the API server (metav1.CauseType).
enum class FieldReason {
  kInvalid,
  kRequired,
  kDuplicate,
  kTooLong,
  kTooMany,
  kForbidden,
  kNotSupported,
  kTypeInvalid
};

// "FieldValueInvalid", "FieldValueRequired", ...
absl::string_view FieldReasonName(FieldReason reason);

// One refused field of an object, as the API server names it in `details.causes` of a 422.
struct FieldError {
  std::string field;  // "spec.devices[3].attributes[model].string"
  FieldReason reason = FieldReason::kInvalid;
  Json value;           // what stands there; null where the value plays no part
  std::string message;  // the rule

  // The cause's message as the server words it: "Invalid value: \"x\": must be ...", "Required value: ...".
  std::string Detail() const;
  // "<field>: <Detail()>".
  std::string ToString() const;
};

// All of `errors` in one line, joined by "; ".
std::string JoinFieldErrors(const std::vector<FieldError>& errors);

}  // namespace dra::resource
