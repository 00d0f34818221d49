#pragma once

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace dra::cdi {

// Characters of the name part of a Kubernetes annotation key.
inline constexpr size_t kMaxAnnotationName = 63;

inline bool IsAlnum(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

// InvalidArgument "<path>: <problem>".
inline absl::Status Invalid(absl::string_view path, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", problem));
}

}  // namespace dra::cdi
