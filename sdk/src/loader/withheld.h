#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "dra/loader/backend_handle.h"

namespace dra::loader {

// The texts of a claim that must not come back in an error of its backend: errors reach the log, Events, the kubelet and
// the status socket, and a backend easily quotes what it was given. These are the strings of opaque parameters (numbers,
// strings under 8 bytes, apiVersion, kind, and words of letters alone, which are names of modes, are not) and undo data as
// a whole. A backend that takes a secret apart can still show it: docs/writing-a-backend.md. Not thread-safe.
class Withheld {
 public:
  void AddParameters(const Json& parameters);
  void AddDevices(const std::vector<PrepareDevice>& devices);  // their configs
  void AddUndo(absl::string_view undo);

  // `status` with "[withheld]" in place of these texts, and of their beginning where the text ends in the middle of one.
  absl::Status Scrub(const absl::Status& status) const;

 private:
  std::vector<std::string> texts_;
};

}  // namespace dra::loader
