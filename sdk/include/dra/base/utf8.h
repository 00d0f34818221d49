#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace dra {

// Bytes of the UTF-8 character at the start of `text` (not empty), 0 if there is none: RFC 3629, so overlong forms,
// surrogates and what lies beyond U+10FFFF are none.
size_t Utf8CharacterLength(absl::string_view text);

// At most the first `max_bytes` of `text`, cut between characters, with each byte that is not UTF-8 replaced by '?'.
std::string ValidUtf8Prefix(absl::string_view text, size_t max_bytes);

}  // namespace dra
