#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dra/base/call.h"
#include "dra/kube/api_client.h"

namespace dra::kube {

// OK if the API server serves group/version. FailedPrecondition "needs <group>/<version>, the API server serves ..." if
// it does not (an absent group too); any other error means: could not look. One GET of /apis/<group>.
absl::Status CheckServesVersion(ApiClient& api, absl::string_view group, absl::string_view version,
                                const Call& call);

// CheckServesVersion for resource.k8s.io/v1, which Kubernetes 1.34 and later serve.
absl::Status CheckServesResourceApi(ApiClient& api, const Call& call);

}  // namespace dra::kube
