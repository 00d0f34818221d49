#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::sandbox {

// What the user applied, by kind. Namespaced objects carry metadata.namespace ("default" when the manifest has none).
struct Manifests {
  std::map<std::string, Json> classes;    // by name
  std::map<std::string, Json> claims;     // by namespace/name
  std::map<std::string, Json> templates;  // by namespace/name
  std::vector<Json> pods;                 // in order of the files
  std::vector<std::string> skipped;       // kinds that mean nothing here, as "Namespace gpu-test"
};

// Adds the documents of one manifest file. Errors: InvalidArgument "<file>: <kind> <name>: <problem>" for a kind or API
// version that the sandbox does not take, an object without a name, or one that is there already.
absl::Status AddManifests(absl::string_view yaml, absl::string_view file, Manifests* manifests);

// "<namespace>/<name>" of a namespaced object.
std::string KeyOf(const Json& object);
std::string NameOf(const Json& object);
std::string NamespaceOf(const Json& object);

// The ResourceClaims that a pod's spec.resourceClaims name, in order: for each the pod claim name and the claim object
// (taken from the manifests, or made from the template with a name "<pod>-<pod claim name>-sandbox" and the annotation
// that the claim controller sets). Errors: NotFound naming pod and claim.
struct PodClaim {
  std::string pod_claim_name;
  std::string namespace_name;
  std::string name;
  bool from_template = false;
  Json object;
};
absl::Status PodClaims(const Json& pod, const Manifests& manifests, std::vector<PodClaim>* claims);

}  // namespace dra::sandbox
