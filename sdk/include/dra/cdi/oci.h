#pragma once

#include "absl/status/status.h"
#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "dra/cdi/spec.h"
#include "nlohmann/json.hpp"

namespace dra::cdi {

// Applies edits to an OCI runtime config.json as container runtimes do (CDI library after 1.1.0): env, device nodes,
// net devices, mounts, hooks, intelRdt, additional gids, in this order; missing objects are made.
// For several devices call Append first and this once, because mounts are sorted over all of them.
// `fs` answers the lstat of device nodes. Errors: InvalidArgument for edits that ValidateEdits refuses, and for a config
// that is no object or has other types where edits go; FailedPrecondition "failed to stat CDI host device ..." and the like. `oci` is untouched on error.
absl::Status ApplyEdits(Json& oci, const ContainerEdits& edits, FileSystem& fs);

}  // namespace dra::cdi
