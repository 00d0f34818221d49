#include "manifests.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "dra/driver/yaml.h"

namespace dra::sandbox {
namespace {

// Kinds that people keep in the same file and that change nothing here.
const std::set<std::string>& SkippedKinds() {
  static const std::set<std::string> kinds = {"Namespace", "ServiceAccount", "ConfigMap"};
  return kinds;
}

absl::Status AddObject(Json object, absl::string_view file, Manifests* manifests) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": a document is not an object"));
  }
  const std::string api_version = StringOr(object, "apiVersion");
  const std::string kind = StringOr(object, "kind");
  const Json* metadata = Find(object, "metadata");
  const std::string name = metadata == nullptr ? "" : StringOr(*metadata, "name");
  const std::string what = absl::StrCat(file, ": ", kind.empty() ? "object" : kind, " ", name);
  if (kind.empty() || name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": apiVersion, kind and metadata.name are needed"));
  }
  if (SkippedKinds().count(kind) > 0) {
    manifests->skipped.push_back(absl::StrCat(kind, " ", name));
    return absl::OkStatus();
  }
  const bool resource_kind =
      kind == "DeviceClass" || kind == "ResourceClaim" || kind == "ResourceClaimTemplate";
  const std::string wanted = resource_kind ? "resource.k8s.io/v1" : kind == "Pod" ? "v1" : "";
  if (wanted.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, ": the sandbox takes DeviceClass, ResourceClaim, ResourceClaimTemplate and Pod, not ",
        kind));
  }
  if (api_version != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": apiVersion is \"", api_version, "\", must be ", wanted));
  }
  if (kind != "DeviceClass" && NamespaceOf(object).empty())
    object["metadata"]["namespace"] = "default";
  if (kind == "Pod") {
    for (const Json& pod : manifests->pods) {
      if (KeyOf(pod) == KeyOf(object))
        return absl::InvalidArgumentError(absl::StrCat(what, ": is there twice"));
    }
    manifests->pods.push_back(std::move(object));
    return absl::OkStatus();
  }
  std::map<std::string, Json>& objects = kind == "DeviceClass"     ? manifests->classes
                                         : kind == "ResourceClaim" ? manifests->claims
                                                                   : manifests->templates;
  const std::string key = kind == "DeviceClass" ? name : KeyOf(object);
  if (!objects.emplace(key, std::move(object)).second) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": is there twice"));
  }
  return absl::OkStatus();
}

Json FromTemplate(const Json& pod, const std::string& pod_claim_name, const Json& from) {
  const Json* spec = Find(from, "spec");
  const Json* inner = spec == nullptr ? nullptr : Find(*spec, "spec");
  const Json* metadata = spec == nullptr ? nullptr : Find(*spec, "metadata");
  Json claim = {{"apiVersion", "resource.k8s.io/v1"}, {"kind", "ResourceClaim"}};
  claim["metadata"] = metadata != nullptr && metadata->is_object() ? *metadata : Json::object();
  claim["metadata"]["name"] = absl::StrCat(NameOf(pod), "-", pod_claim_name, "-sandbox");
  claim["metadata"]["namespace"] = NamespaceOf(pod);
  claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] = pod_claim_name;
  claim["spec"] = inner == nullptr ? Json::object() : *inner;
  return claim;
}

}  // namespace

std::string NameOf(const Json& object) {
  const Json* metadata = Find(object, "metadata");
  return metadata == nullptr ? "" : StringOr(*metadata, "name");
}

std::string NamespaceOf(const Json& object) {
  const Json* metadata = Find(object, "metadata");
  return metadata == nullptr ? "" : StringOr(*metadata, "namespace");
}

std::string KeyOf(const Json& object) {
  return absl::StrCat(NamespaceOf(object), "/", NameOf(object));
}

absl::Status AddManifests(absl::string_view yaml, absl::string_view file, Manifests* manifests) {
  DRA_ASSIGN_OR_RETURN(std::vector<Json> documents, driver::YamlToJson(yaml, file));
  for (Json& document : documents)
    DRA_RETURN_IF_ERROR(AddObject(std::move(document), file, manifests));
  return absl::OkStatus();
}

absl::Status PodClaims(const Json& pod, const Manifests& manifests, std::vector<PodClaim>* claims) {
  const Json* spec = Find(pod, "spec");
  const Json* entries = spec == nullptr ? nullptr : Find(*spec, "resourceClaims");
  if (entries == nullptr || !entries->is_array()) return absl::OkStatus();
  for (const Json& entry : *entries) {
    PodClaim claim;
    claim.pod_claim_name = StringOr(entry, "name");
    claim.namespace_name = NamespaceOf(pod);
    const std::string by_name = StringOr(entry, "resourceClaimName");
    const std::string by_template = StringOr(entry, "resourceClaimTemplateName");
    if (by_name.empty() == by_template.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("Pod ", KeyOf(pod), ": resourceClaims \"", claim.pod_claim_name,
                       "\" must name a claim or a template, not both"));
    }
    const std::map<std::string, Json>& objects =
        by_name.empty() ? manifests.templates : manifests.claims;
    const std::string key =
        absl::StrCat(claim.namespace_name, "/", by_name.empty() ? by_template : by_name);
    const auto found = objects.find(key);
    if (found == objects.end()) {
      return absl::NotFoundError(
          absl::StrCat("Pod ", KeyOf(pod), " needs ",
                       by_name.empty() ? "ResourceClaimTemplate " : "ResourceClaim ", key,
                       ", which is in none of the applied files"));
    }
    claim.from_template = by_name.empty();
    claim.object = claim.from_template ? FromTemplate(pod, claim.pod_claim_name, found->second)
                                       : found->second;
    claim.name = NameOf(claim.object);
    claims->push_back(std::move(claim));
  }
  return absl::OkStatus();
}

}  // namespace dra::sandbox
