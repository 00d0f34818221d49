#include "dra/resource/claim.h"

#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dra::resource {
namespace {

Json ClaimJson() {
  return Json::parse(R"({
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
    "metadata": {"namespace": "ns", "name": "c", "uid": "u1", "resourceVersion": "7", "annotations": {"k": "v"}},
    "status": {
      "allocation": {"devices": {
        "results": [
          {"request": "g", "driver": "gpu.sdk.test", "pool": "n1", "device": "d0", "newMember": 1},
          {"request": "r/s", "driver": "gpu.sdk.test", "pool": "n1", "device": "d1", "adminAccess": true,
           "shareID": "0c1e7c3e-5b1a-4c93-9d0e-3a4b5c6d7e8f", "consumedCapacity": {"memory": "1024Mi"}},
          {"request": "n", "driver": "net.other", "pool": "p", "device": "eth9"}],
        "config": []}},
      "reservedFor": [{"resource": "pods", "name": "p", "uid": "pu"},
                      {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "gu"}],
      "devices": [{"driver": "net.other", "pool": "p", "device": "eth9"}]}})");
}

ResourceClaim Parsed(const Json& object) {
  absl::StatusOr<ResourceClaim> claim = ParseResourceClaim(object);
  EXPECT_TRUE(claim.ok()) << claim.status();
  return claim.ok() ? *std::move(claim) : ResourceClaim();
}

Json Config(const std::string& source, const Json& requests, const std::string& driver,
            const Json& parameters) {
  return {{"source", source},
          {"requests", requests},
          {"opaque", {{"driver", driver}, {"parameters", parameters}}}};
}

TEST(ParseResourceClaim, ReadsWhatADriverNeeds) {
  const ResourceClaim claim = Parsed(ClaimJson());
  EXPECT_EQ(claim.namespace_name, "ns");
  EXPECT_EQ(claim.name, "c");
  EXPECT_EQ(claim.uid, "u1");
  EXPECT_EQ(claim.resource_version, "7");
  EXPECT_EQ(claim.annotations.at("k"), "v");
  EXPECT_TRUE(claim.allocated);
  ASSERT_EQ(claim.results.size(), 3u);
  EXPECT_EQ(claim.results[0].raw.at("newMember"), 1);
  EXPECT_EQ(claim.results[1].BaseRequest(), "r");
  EXPECT_EQ(claim.results[1].id.ToString(),
            "gpu.sdk.test/n1/d1/0c1e7c3e-5b1a-4c93-9d0e-3a4b5c6d7e8f");
  EXPECT_EQ(claim.results[0].id.ToString(), "gpu.sdk.test/n1/d0");
  EXPECT_TRUE(claim.results[1].admin_access);
  EXPECT_FALSE(claim.results[0].admin_access);
  EXPECT_EQ(claim.results[1].consumed_capacity.at("memory"), "1024Mi");
  ASSERT_EQ(claim.reserved_for.size(), 2u);
  EXPECT_EQ(claim.reserved_for[1].api_group, "scheduling.k8s.io");
  EXPECT_EQ(claim.device_statuses.size(), 1u);
}

TEST(ParseResourceClaim, TakesAClaimWithoutAllocation) {
  for (const Json& status : {Json(), Json::object(), Json{{"allocation", nullptr}}}) {
    Json object = ClaimJson();
    object["status"] = status;
    const ResourceClaim claim = Parsed(object);
    EXPECT_FALSE(claim.allocated);
    EXPECT_TRUE(claim.results.empty());
    EXPECT_TRUE(claim.device_statuses.is_array());
  }
}

TEST(ParseResourceClaim, NamesThePathOfWhatIsWrong) {
  const struct {
    const char *pointer, *value, *path;
  } kCases[] = {
      {"/metadata/uid", "\"\"", "metadata.uid: Required value"},
      {"/metadata/uid", "null", "metadata.uid: Required value"},
      {"/metadata/name", "5", "metadata.name: Invalid value: 5"},
      {"/metadata/namespace", "null", "metadata.namespace"},
      {"/status", "[]", "status: Invalid value"},
      {"/status/allocation", "\"x\"", "status.allocation"},
      {"/status/allocation/devices/results", "{}", "status.allocation.devices.results"},
      {"/status/allocation/devices/results/0", "7", "status.allocation.devices.results[0]"},
      {"/status/allocation/devices/results/0/device", "null",
       "status.allocation.devices.results[0].device"},
      {"/status/allocation/devices/results/1/consumedCapacity/memory", "\"x\"",
       "status.allocation.devices.results[1].consumedCapacity[memory]"},
      {"/status/allocation/devices/config", "[7]", "status.allocation.devices.config[0]"},
      {"/status/reservedFor/0/uid", "null", "status.reservedFor[0].uid"},
      {"/kind", "\"Pod\"", "kind: is \"Pod\""},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(std::string(c.pointer) + " " + c.value);
    Json object = ClaimJson();
    object[Json::json_pointer(c.pointer)] = Json::parse(c.value);
    const absl::StatusOr<ResourceClaim> claim = ParseResourceClaim(object);
    ASSERT_EQ(claim.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(claim.status().message()).find(c.path), std::string::npos)
        << claim.status();
  }
  EXPECT_FALSE(ParseResourceClaim(Json::array()).ok());
}

TEST(Cfg02, ClassThenClaimInListOrderForTheRequestsTheyName) {
  Json object = ClaimJson();
  object["status"]["allocation"]["devices"]["config"] = {
      Config("FromClaim", Json::array({"g"}), "gpu.sdk.test", {{"b", 2}}),
      Config("FromClass", Json::array(), "gpu.sdk.test", {{"a", 1}}),
      Config("FromClaim", Json::array({"r"}), "gpu.sdk.test", {{"a", 9}}),
      Config("FromClaim", Json::array(), "other.example", {{"zzz", 1}}),
      Config("FromClaim", Json::array({"r/s"}), "gpu.sdk.test", {{"c", 3}}),
      Config("FromClaim", Json::array({"r/other"}), "gpu.sdk.test", {{"d", 4}})};
  const ResourceClaim claim = Parsed(object);
  // Which objects merge and which win is the backend's choice: the list is complete and ordered.
  const auto for_g = ResolveConfigs(claim, claim.results[0]);
  ASSERT_TRUE(for_g.ok()) << for_g.status();
  ASSERT_EQ(for_g->size(), 2u);
  EXPECT_EQ((*for_g)[0].source, "FromClass");
  EXPECT_EQ((*for_g)[0].request, "");
  EXPECT_EQ((*for_g)[0].parameters, (Json{{"a", 1}}));
  EXPECT_EQ((*for_g)[1].request, "g");
  EXPECT_EQ((*for_g)[1].parameters, (Json{{"b", 2}}));

  const auto for_sub = ResolveConfigs(claim, claim.results[1]);
  ASSERT_TRUE(for_sub.ok());
  ASSERT_EQ(for_sub->size(), 3u);
  EXPECT_EQ((*for_sub)[1].request, "r");
  EXPECT_EQ((*for_sub)[2].request, "r/s");
}

TEST(ResolveConfigs, RefusesUnknownKindsAndSourcesByIndex) {
  Json object = ClaimJson();
  Json& configs = object["status"]["allocation"]["devices"]["config"];
  configs = {Config("FromClass", Json::array(), "gpu.sdk.test", {{"a", 1}}),
             {{"source", "FromClaim"}, {"cel", {}}}};
  ResourceClaim claim = Parsed(object);
  absl::Status status = ResolveConfigs(claim, claim.results[0]).status();
  EXPECT_EQ(
      status.message(),
      "status.allocation.devices.config[1]: only opaque configuration is known to this driver");

  configs = {Config("FromMoon", Json::array(), "gpu.sdk.test", {{"a", 1}})};
  claim = Parsed(object);
  status = ResolveConfigs(claim, claim.results[0]).status();
  EXPECT_NE(status.message().find("config[0]: unknown source \"FromMoon\""),
            absl::string_view::npos)
      << status;
}

TEST(Prp02, AnotherDriversDevicesAndConfigsPlayNoPart) {
  Json object = ClaimJson();
  object["status"]["allocation"]["devices"]["config"] = {
      Config("FromMoon", Json::array(), "net.other", {{"a", 1}})};
  const ResourceClaim claim = Parsed(object);
  EXPECT_TRUE(ResolveConfigs(claim, claim.results[0]).ok());

  const std::string digest = AllocationDigest(claim, "gpu.sdk.test");
  object["status"]["allocation"]["devices"]["results"].erase(2);
  object["status"]["allocation"]["devices"]["config"] = Json::array();
  EXPECT_EQ(AllocationDigest(Parsed(object), "gpu.sdk.test"), digest);
}

TEST(AllocationDigest, IsTheSameForTheSameAllocationOnly) {
  const Json object = ClaimJson();
  const std::string digest = AllocationDigest(Parsed(object), "gpu.sdk.test");
  EXPECT_EQ(digest.size(), 64u);
  const auto changed = [&object](const char* pointer, const Json& value) {
    Json other = object;
    other[Json::json_pointer(pointer)] = value;
    return AllocationDigest(Parsed(other), "gpu.sdk.test");
  };
  const std::string results = "/status/allocation/devices/results";
  EXPECT_EQ(changed((results + "/1/consumedCapacity/memory").c_str(), "1Gi"), digest);
  EXPECT_EQ(changed("/metadata/resourceVersion", "8"), digest);
  EXPECT_EQ(changed((results + "/0/tolerations").c_str(), Json::array()), digest);
  EXPECT_NE(changed((results + "/1/consumedCapacity/memory").c_str(), "2Gi"), digest);
  EXPECT_NE(changed((results + "/0/device").c_str(), "d7"), digest);
  EXPECT_NE(changed("/status/allocation/devices/config/0",
                    Config("FromClass", {}, "gpu.sdk.test", {{"a", 1}})),
            digest);
}

}  // namespace
}  // namespace dra::resource
