#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace dra::kubelet {

// What the kubelet is told of a failure: never empty, at most 4 KiB.
std::string WireError(const absl::Status& status);

}  // namespace dra::kubelet
