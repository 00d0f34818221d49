#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/backend/abi.h"
#include "dra/loader/loader.h"

namespace dra::loader {

// A library whose table was checked: all of abi.h's 1.0 fields may be read, the required functions are there.
struct Library {
  std::string path;
  FileIdentity file;
  const dra_backend_api* api = nullptr;  // valid while the process lives
};

// Opens and checks; the library is never closed. Errors: see LoadBackend.
absl::StatusOr<Library> OpenLibrary(absl::string_view path);

// The checks of the table alone.
absl::Status CheckTable(const dra_backend_api* api, absl::string_view path);

}  // namespace dra::loader
