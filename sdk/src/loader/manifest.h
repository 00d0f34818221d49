#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/backend/abi.h"
#include "dra/loader/backend_handle.h"

namespace dra::loader {

// Reads what `describe` gave (abi.h, dra_describe_args). Errors: InvalidArgument naming the member. Unknown members are
// ignored; a manifest that needs a newer host is FailedPrecondition.
absl::StatusOr<Manifest> ParseManifest(absl::string_view json_text);

}  // namespace dra::loader
