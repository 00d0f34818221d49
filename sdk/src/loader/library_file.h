#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/loader/loader.h"

namespace dra::loader {

// Looks at a library before the linker does: absolute path, regular file (links followed), an ELF shared object of this
// machine, not replaceable by everybody. Returns what the file is, to notice a later change. Errors: see LoadBackend.
absl::StatusOr<FileIdentity> InspectLibraryFile(absl::string_view path);

// The identity alone. Errors: of stat.
absl::StatusOr<FileIdentity> ReadFileIdentity(absl::string_view path);

}  // namespace dra::loader
