#pragma once

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dra::resource {

// An RFC 3339 time as the API server reads it (Go's time package), nullopt if it is none. abseil's own parser also takes
// "infinite-future", surrounding white space and a second of 60, which the server refuses. Pure; any thread.
std::optional<absl::Time> ParseTime(absl::string_view text);

}  // namespace dra::resource
