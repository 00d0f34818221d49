#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "dra/loader/backend_handle.h"
#include "test/conformance/memory_host.h"

namespace dra::conformance {

// What is asked of a backend, whatever its devices are. The same suite runs on every backend, in and out of tree.
struct Options {
  std::string library;                          // absolute path
  std::string config_json = "{}";               // what the backend's create gets
  std::string driver_name = "gpu.example.com";  // of the allocation results it is given
  std::string scratch_directory;                // exists, empty; claim directories come here
  size_t max_devices = 64;  // devices that are prepared one by one; the others are only looked at
};

enum class Outcome {
  kPassed,
  kWarning,  // allowed, but operators or users will suffer from it
  kFailed,
  kSkipped,  // the backend does not offer it, or has no device to try it on
};

struct Finding {
  Outcome outcome = Outcome::kPassed;
  std::string check;  // "discover twice is equal"
  std::string text;   // what was found, for all but kPassed
};

// Runs every check; one that fails does not keep the others from running, except that nothing is asked of a backend
// that cannot be loaded and created. The library stays loaded. Blocks up to the backend's own hook limits.
std::vector<Finding> RunSuite(const Options& options);

// True if no finding is kFailed.
bool Passed(const std::vector<Finding>& findings);

// "PASS discover twice is equal" and so on, one line each.
std::string Report(const std::vector<Finding>& findings);

}  // namespace dra::conformance
