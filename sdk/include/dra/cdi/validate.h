#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dra/base/file_system.h"
#include "dra/cdi/spec.h"

namespace dra::cdi {

// The rules by which CDI consumers accept a file, in the order of the CDI library (pkg/cdi/spec.go,
// container-edits.go, internal/validation): version, kind, annotations, spec edits, each device, duplicate names, at
// least one device. Use it for files of others. Errors: InvalidArgument, the first rule broken, in the library's words.
absl::Status ValidateSpec(const Spec& spec);
// `path` begins the error text.
absl::Status ValidateEdits(const ContainerEdits& edits, absl::string_view path);

// What this SDK asks of edits that it writes itself, on top of ValidateEdits: absolute paths without "..", no NUL,
// hook timeouts over 0, args[0] given, interface names the kernel takes, no path twice, mounts that a low-level runtime
// can do (bind or rbind and exactly one of ro and rw, unless they have a type of their own).
// Errors: InvalidArgument with the path of the value.
absl::Status ValidateOwnEdits(const ContainerEdits& edits, absl::string_view path);

// Completes each mount without a type, or of type "bind" (docs/cdi-names.md): no options at all become
// ["bind", "ro"]; otherwise "bind" is put first if neither bind nor rbind is there, and "rw", which is what their
// absence means, at the end if neither ro nor rw is there.
void CompleteMountOptions(ContainerEdits& edits);

// Compares explicit device numbers with the host's nodes: one text a mismatch, naming node and both numbers. A node
// that is not on the host is none (MIG capabilities exist only in containers); a node that cannot be looked at is a
// finding of its own.
std::vector<std::string> CompareDeviceNumbers(const ContainerEdits& edits, FileSystem& fs);

}  // namespace dra::cdi
