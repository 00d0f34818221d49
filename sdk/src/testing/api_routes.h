#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "dra/kube/api_client.h"
#include "dra/testing/server_profile.h"

namespace dra::testing {

// Where a URL path points.
struct ApiRoute {
  const kube::Resource* resource = nullptr;
  std::string namespace_name;
  std::string name;
  std::string subresource;
};

// nullopt: no object path (discovery, or nothing we serve).
std::optional<ApiRoute> ParseRoute(absl::string_view path);

// The document at a discovery path, or nullopt.
std::optional<Json> DiscoveryDocument(absl::string_view path, const ServerProfile& profile);

}  // namespace dra::testing
