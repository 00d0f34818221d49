#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dra::kubelet {

// protobuf strings must be UTF-8: the kubelet throws away a whole response with one bad byte in it.
// Each byte that is not part of valid UTF-8 becomes '?'; the text is cut to `max_bytes` between characters.
std::string WireText(absl::string_view text, size_t max_bytes);

// What the kubelet is told of a failure: never empty, at most 4 KiB.
std::string WireError(const absl::Status& status);

}  // namespace dra::kubelet
