#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "dra/kube/api_client.h"

namespace dra::kube {

// Percent-encodes everything but RFC 3986's unreserved characters.
std::string PercentEncode(absl::string_view text);

// "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/name/status"; parts that are "" are left out.
std::string ResourcePath(const Resource& resource, absl::string_view namespace_name,
                         absl::string_view name, absl::string_view subresource = "");

// "?a=b&c=d" of the pairs whose value is not ""; "" if none.
std::string QueryString(const std::vector<std::pair<std::string, std::string>>& parameters);

}  // namespace dra::kube
