#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dra/base/call.h"
#include "dra/base/json.h"
#include "dra/kube/api_client.h"
#include "dra/loader/backend_handle.h"

namespace dra::publisher {

struct ProbeResult {
  loader::ServerFields fields;  // kUnknown where no answer came
  absl::Status error;           // why something is unknown; OK if nothing is
};

// Asks the API server which gated fields of a ResourceSlice it keeps, by dry-run creates whose answers are compared
// with what was sent: one slice with every field of devices, one with shared counters, one with a list attribute
// (which is refused, not dropped, where its gate is off), one with a taint that only informs. If the first is refused as a whole, each field is asked for
// alone. Nothing is stored; needs the permission to create slices. Blocks for up to a few calls; any thread.
// Source: measured on kube-apiserver 1.34.4 and 1.37.2; kubernetes/kubernetes:pkg/registry/resource/resourceslice.
ProbeResult ProbeServerFields(kube::ApiClient& api, absl::string_view driver_name,
                              absl::string_view node_name, const Call& call);

}  // namespace dra::publisher
