#include "dra/kube/discovery.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"

namespace dra::kube {

absl::Status CheckServesVersion(ApiClient& api, absl::string_view group, absl::string_view version,
                                const Call& call) {
  const absl::StatusOr<Json> found = api.GetRaw(absl::StrCat("/apis/", group), call);
  std::vector<std::string> served;
  if (found.ok()) {
    const Json* versions = Find(*found, "versions");
    if (versions == nullptr || !versions->is_array()) {
      return absl::DataLossError(
          absl::StrCat("discovery of ", group, ": the answer has no versions"));
    }
    for (const Json& entry : *versions) {
      served.push_back(StringOr(entry, "version"));
      if (absl::string_view(served.back()) == version) return absl::OkStatus();
    }
  } else if (!absl::IsNotFound(found.status())) {
    return Annotate(found.status(), absl::StrCat("discovery of ", group));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "needs ", group, "/", version, ", the API server serves ",
      served.empty() ? absl::StrCat("nothing of ", group) : absl::StrJoin(served, ", "),
      group == "resource.k8s.io" ? " (Kubernetes 1.34 or later, API not switched off)" : ""));
}

absl::Status CheckServesResourceApi(ApiClient& api, const Call& call) {
  return CheckServesVersion(api, "resource.k8s.io", "v1", call);
}

}  // namespace dra::kube
