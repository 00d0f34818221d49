#include "dra/testing/temp_directory.h"

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "dra/base/file_system.h"

namespace dra::testing {

TempDirectory::TempDirectory() {
  char name[] = "/tmp/dra-XXXXXX";
  if (mkdtemp(name) == nullptr) {
    std::perror("mkdtemp /tmp/dra-XXXXXX");
    abort();
  }
  path_ = name;
}

TempDirectory::~TempDirectory() {
  std::error_code
      ignored;  // a test may have taken away its own rights; the rest of /tmp is not ours
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDirectory::Path(absl::string_view name) const { return JoinPath(path_, name); }

}  // namespace dra::testing
