#include "testing/api_routes.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "dra/testing/object_store.h"
#include "nlohmann/json.hpp"

namespace dra::testing {
namespace {

std::vector<std::string> Segments(absl::string_view path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}

const kube::Resource* Lookup(const std::string& group, const std::string& version,
                             const std::string& plural) {
  for (const kube::Resource& served : ServedResources()) {
    if (served.group == group && served.version == version && served.plural == plural)
      return &served;
  }
  return nullptr;
}

Json GroupDocument(const std::string& group) {
  const Json version = {{"groupVersion", absl::StrCat(group, "/v1")}, {"version", "v1"}};
  return {{"name", group}, {"versions", {version}}, {"preferredVersion", version}};
}

Json ResourceDocument(const std::string& group, const std::string& group_version) {
  Json resources = Json::array();
  for (const kube::Resource& served : ServedResources()) {
    if (served.group != group) continue;
    resources.push_back(
        {{"name", served.plural},
         {"singularName", ""},
         {"namespaced", served.namespaced},
         {"kind", served.kind},
         {"verbs",
          {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}}});
    if (served.plural == "resourceclaims") {
      resources.push_back({{"name", "resourceclaims/status"},
                           {"singularName", ""},
                           {"namespaced", true},
                           {"kind", served.kind},
                           {"verbs", {"get", "patch", "update"}}});
    }
  }
  return {{"kind", "APIResourceList"},
          {"apiVersion", "v1"},
          {"groupVersion", group_version},
          {"resources", resources}};
}

}  // namespace

std::optional<ApiRoute> ParseRoute(absl::string_view path) {
  std::vector<std::string> parts = Segments(path);
  std::string group;
  std::string version;
  size_t next = 0;
  if (parts.size() >= 3 && parts[0] == "api") {
    version = parts[1];
    next = 2;
  } else if (parts.size() >= 4 && parts[0] == "apis") {
    group = parts[1];
    version = parts[2];
    next = 3;
  } else {
    return std::nullopt;
  }
  ApiRoute route;
  // "namespaces/<ns>/<plural>", but "namespaces[/<name>]" is the Namespace itself.
  if (parts[next] == "namespaces" && parts.size() >= next + 3 && parts[next + 2] != "status") {
    route.namespace_name = parts[next + 1];
    next += 2;
  }
  route.resource = Lookup(group, version, parts[next]);
  if (route.resource == nullptr) return std::nullopt;
  if (!route.resource->namespaced && !route.namespace_name.empty()) return std::nullopt;
  if (parts.size() > next + 1) route.name = parts[next + 1];
  if (parts.size() > next + 2) route.subresource = parts[next + 2];
  if (parts.size() > next + 3) return std::nullopt;
  if (!route.name.empty() && route.resource->namespaced && route.namespace_name.empty())
    return std::nullopt;
  return route;
}

std::optional<Json> DiscoveryDocument(absl::string_view path, const ServerProfile& profile) {
  const std::vector<std::string> parts = Segments(path);
  if (parts.size() == 1 && parts[0] == "version") {
    return Json({{"major", "1"},
                 {"minor", absl::StrCat(profile.minor)},
                 {"gitVersion", absl::StrCat("v1.", profile.minor, ".0")},
                 {"platform", "linux/amd64"}});
  }
  if (parts.empty()) return Json({{"paths", {"/api", "/apis", "/version"}}});
  if (parts.size() == 1 && parts[0] == "api")
    return Json({{"kind", "APIVersions"}, {"versions", {"v1"}}});
  if (parts.size() == 2 && parts[0] == "api" && parts[1] == "v1") return ResourceDocument("", "v1");
  if (parts[0] != "apis") return std::nullopt;
  const std::set<std::string> groups = {"resource.k8s.io", "events.k8s.io"};
  if (parts.size() == 1) {
    Json list = {{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", Json::array()}};
    for (const std::string& group : groups) list["groups"].push_back(GroupDocument(group));
    return list;
  }
  if (groups.count(parts[1]) == 0) return std::nullopt;
  if (parts.size() == 2) {
    Json group = GroupDocument(parts[1]);
    group["kind"] = "APIGroup";
    group["apiVersion"] = "v1";
    return group;
  }
  if (parts.size() == 3 && parts[2] == "v1")
    return ResourceDocument(parts[1], absl::StrCat(parts[1], "/v1"));
  return std::nullopt;
}

}  // namespace dra::testing
