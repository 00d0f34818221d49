#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "dra/loader/backend_handle.h"

namespace dra::loader {

// The texts of a claim that must not come back in an error or a log line of its backend: these reach the log, Events, the
// kubelet and the status socket, and a backend easily quotes what it was given. These are the strings of opaque parameters (numbers,
// strings under 8 bytes, apiVersion, kind, and words of letters alone, which are names of modes, are not) and undo data as
// a whole. A backend that takes a secret apart can still show it: docs/writing-a-backend.md. Not thread-safe.
class Withheld {
 public:
  void AddParameters(const Json& parameters);
  // The configs of devices as a hook gets them: ClaimTexts::devices.
  void AddDevices(absl::string_view devices_json);
  void AddUndo(absl::string_view undo);

  // `text` with "[withheld]" in place of these texts, and of their beginning where it ends in the middle of one.
  std::string Scrub(std::string text) const;
  absl::Status Scrub(const absl::Status& status) const;

 private:
  std::vector<std::string> texts_;
};

}  // namespace dra::loader
