#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace dra::testing {

// A fresh directory under /tmp, removed with all that is in it. Its path is short (under 20 bytes),
// so that unix sockets of realistic names below it stay under the 107 bytes of sun_path whatever
// TMPDIR says.
class TempDirectory {
 public:
  // Aborts the process if /tmp cannot be written: no test can go on then.
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;

  const std::string& path() const { return path_; }
  // "<path>/<name>"
  std::string Path(absl::string_view name) const;

 private:
  std::string path_;
};

}  // namespace dra::testing
