#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "dra/base/json.h"
#include "dra/kube/api_client.h"
#include "nlohmann/json.hpp"

namespace dra::testing {

inline Json Slice(const std::string& name, int devices = 1, const std::string& node = "node-a",
                  const std::string& driver = "gpu.example.com") {
  Json list = Json::array();
  for (int i = 0; i < devices; ++i) list.push_back({{"name", absl::StrCat("gpu-", i)}});
  return {{"apiVersion", "resource.k8s.io/v1"},
          {"kind", "ResourceSlice"},
          {"metadata", {{"name", name}}},
          {"spec",
           {{"driver", driver},
            {"nodeName", node},
            {"pool", {{"name", node}, {"generation", 1}, {"resourceSliceCount", 1}}},
            {"devices", list}}}};
}

inline Json Claim(const std::string& name) {
  return {{"apiVersion", "resource.k8s.io/v1"},
          {"kind", "ResourceClaim"},
          {"metadata", {{"name", name}, {"namespace", "default"}}},
          {"spec",
           {{"devices",
             {{"requests",
               {{{"name", "gpu"}, {"exactly", {{"deviceClassName", "gpu.example.com"}}}}}}}}}}};
}

inline Json Result(const std::string& device, const std::string& request = "gpu",
                   const std::string& driver = "gpu.example.com") {
  return {{"request", request}, {"driver", driver}, {"pool", "node-a"}, {"device", device}};
}

// A claim with an allocation of these results, reserved for pod "pod-1".
inline Json AllocatedClaim(const std::string& name, const Json& results,
                           const std::string& pod = "pod-1") {
  Json claim = Claim(name);
  claim["status"] = {
      {"allocation", {{"devices", {{"results", results}}}}},
      {"reservedFor", {{{"resource", "pods"}, {"name", pod}, {"uid", absl::StrCat("uid-", pod)}}}}};
  return claim;
}

inline Json DeviceStatus(const std::string& device, const std::string& driver = "gpu.example.com") {
  return {{"driver", driver}, {"pool", "node-a"}, {"device", device}};
}

// What a driver applies to a claim's status.
inline Json StatusApply(const std::string& name, const Json& devices, const std::string& uid = "") {
  Json body = {{"apiVersion", "resource.k8s.io/v1"},
               {"kind", "ResourceClaim"},
               {"metadata", {{"name", name}, {"namespace", "default"}}},
               {"status", {{"devices", devices}}}};
  if (!uid.empty()) body["metadata"]["uid"] = uid;
  return body;
}

inline kube::ApiError ErrorOf(const absl::Status& status) {
  return kube::ApiErrorOf(status).value_or(kube::ApiError());
}

}  // namespace dra::testing
