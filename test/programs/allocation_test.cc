#include "allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dra/driver/yaml.h"
#include "manifests.h"

namespace dra::sandbox {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json Yaml(const char* text) { return (*driver::YamlToJson(text, "test"))[0]; }

Json Slice(const Json& devices) {
  return {{"metadata", {{"name", "00000-d"}}},
          {"spec", {{"driver", "gpu.sdk.test"}, {"pool", {{"name", "n1"}}}, {"devices", devices}}}};
}

std::map<std::string, Json> Classes() { return {{"gpu", Yaml("{spec: {}}")}}; }

Json Claim(const char* request) {
  Json claim = Yaml("{spec: {devices: {requests: []}}}");
  claim["spec"]["devices"]["requests"].push_back(Yaml(request));
  return claim;
}

std::vector<std::string> Devices(const Json& allocation) {
  std::vector<std::string> names;
  for (const Json& result : allocation["devices"]["results"])
    names.push_back(StringOr(result, "device"));
  return names;
}

TEST(Allocator, TakesTheFirstFreeDevicesInOrder) {
  Allocator allocator({Slice(Yaml("[{name: d0}, {name: d1}, {name: d2}]"))}, Classes(), "n1");
  const auto first =
      allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: gpu, count: 2}}"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(Devices(*first), ElementsAre("d0", "d1"));
  const auto second = allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: gpu}}"));
  ASSERT_TRUE(second.ok());
  EXPECT_THAT(Devices(*second), ElementsAre("d2"));
  const auto third = allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: gpu}}"));
  EXPECT_TRUE(absl::IsResourceExhausted(third.status()));
  EXPECT_THAT(std::string(third.status().message()), HasSubstr("d0: in use"));
  allocator.Release(*first);
  EXPECT_TRUE(
      allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: gpu, count: 2}}")).ok());
}

TEST(Allocator, GivesNothingWhenOneRequestDoesNotFit) {
  Allocator allocator({Slice(Yaml("[{name: d0}, {name: d1}]"))}, Classes(), "n1");
  Json claim = Claim("{name: a, exactly: {deviceClassName: gpu}}");
  claim["spec"]["devices"]["requests"].push_back(
      Yaml("{name: b, exactly: {deviceClassName: gpu, count: 2}}"));
  EXPECT_FALSE(allocator.Allocate(claim).ok());
  EXPECT_TRUE(
      allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: gpu, count: 2}}")).ok());
}

TEST(Allocator, RefusesSelectorsAndConstraintsByName) {
  Allocator allocator({Slice(Yaml("[{name: d0}]"))}, Classes(), "n1");
  const auto selector =
      allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: gpu, selectors: [{cel: "
                               "{expression: 'device.x == 1'}}]}}"));
  EXPECT_THAT(std::string(selector.status().message()),
              HasSubstr("spec.devices.requests[0].selectors[0]"));
  Json constrained = Claim("{name: r, exactly: {deviceClassName: gpu}}");
  constrained["spec"]["devices"]["constraints"].push_back(Yaml("{matchAttribute: a.b/c}"));
  EXPECT_THAT(std::string(allocator.Allocate(constrained).status().message()),
              HasSubstr("spec.devices.constraints[0]"));
}

TEST(Allocator, TakesTheSelectorThatNamesADriver) {
  Allocator allocator(
      {Slice(Yaml("[{name: d0}]"))},
      {{"mine",
        Yaml("{spec: {selectors: [{cel: {expression: \"device.driver == 'gpu.sdk.test'\"}}]}}")},
       {"other", Yaml("{spec: {selectors: [{cel: {expression: \"device.driver == 'x.y'\"}}]}}")}},
      "n1");
  EXPECT_FALSE(allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: other}}")).ok());
  EXPECT_TRUE(allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: mine}}")).ok());
}

TEST(Allocator, FallsBackToTheNextAlternative) {
  Allocator allocator({Slice(Yaml("[{name: d0}]"))}, Classes(), "n1");
  const auto allocation =
      allocator.Allocate(Claim("{name: r, firstAvailable: [{name: two, deviceClassName: gpu, "
                               "count: 2}, {name: one, deviceClassName: gpu}]}"));
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  EXPECT_EQ((*allocation)["devices"]["results"][0]["request"], "r/one");
}

TEST(Allocator, LeavesTaintedDevicesUnlessTolerated) {
  Allocator allocator({Slice(Yaml("[{name: d0, taints: [{key: k, effect: NoSchedule}]}]"))},
                      Classes(), "n1");
  EXPECT_FALSE(allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: gpu}}")).ok());
  EXPECT_TRUE(allocator
                  .Allocate(Claim("{name: r, exactly: {deviceClassName: gpu, tolerations: [{key: "
                                  "k, operator: Exists}]}}"))
                  .ok());
}

TEST(Allocator, GivesSharesUntilTheCapacityIsUsedUp) {
  Allocator allocator(
      {Slice(Yaml("[{name: d0, allowMultipleAllocations: true, capacity: {memory: {value: 10Gi, "
                  "requestPolicy: {default: 5Gi, validRange: {min: 1Gi, step: 1Gi}}}}}]"))},
      Classes(), "n1");
  const auto first = allocator.Allocate(
      Claim("{name: r, exactly: {deviceClassName: gpu, capacity: {requests: {memory: 2500Mi}}}}"));
  ASSERT_TRUE(first.ok()) << first.status();
  const Json& result = (*first)["devices"]["results"][0];
  EXPECT_EQ(result["consumedCapacity"]["memory"], "3Gi");
  EXPECT_EQ(result["shareID"].get<std::string>().size(), 36u);
  EXPECT_TRUE(allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: gpu}}")).ok());
  EXPECT_FALSE(allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: gpu}}")).ok());
}

TEST(Allocator, CountsSharedCounters) {
  Json slice =
      Slice(Yaml("[{name: whole, consumesCounters: [{counterSet: c, counters: {m: {value: 8}}}]}, "
                 "{name: half, consumesCounters: [{counterSet: c, counters: {m: {value: 4}}}]}]"));
  Json counters = slice;
  counters["spec"].erase("devices");
  counters["spec"]["sharedCounters"] = Yaml("[{name: c, counters: {m: {value: 8}}}]");
  Allocator allocator({slice, counters}, Classes(), "n1");
  const auto whole = allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: gpu}}"));
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto half = allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: gpu}}"));
  EXPECT_THAT(std::string(half.status().message()), HasSubstr("half: counter m is used up"));
  allocator.Release(*whole);
  EXPECT_TRUE(
      allocator.Allocate(Claim("{name: r, exactly: {deviceClassName: gpu, allocationMode: All}}"))
          .ok());
}

TEST(Allocator, AssemblesConfigsAsTheSchedulerDoes) {
  Allocator allocator(
      {Slice(Yaml("[{name: d0}, {name: d1}]"))},
      {{"gpu", Yaml("{spec: {config: [{opaque: {driver: gpu.sdk.test, parameters: {a: 1}}}]}}")}},
      "n1");
  Json claim = Claim("{name: r, exactly: {deviceClassName: gpu}}");
  claim["spec"]["devices"]["config"] = Yaml(
      "[{requests: [r], opaque: {driver: gpu.sdk.test, parameters: {b: 2}}}, "
      "{requests: [zzz], opaque: {driver: gpu.sdk.test, parameters: {c: 3}}}]");
  const auto allocation = allocator.Allocate(claim);
  ASSERT_TRUE(allocation.ok()) << allocation.status();
  const Json& config = (*allocation)["devices"]["config"];
  ASSERT_EQ(config.size(), 2u);
  EXPECT_EQ(config[0]["source"], "FromClass");
  EXPECT_EQ(config[1]["source"], "FromClaim");
}

TEST(AddManifests, NamesTheKindItDoesNotTake) {
  Manifests manifests;
  const absl::Status status = AddManifests(
      "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n", "f.yaml", &manifests);
  EXPECT_THAT(std::string(status.message()), HasSubstr("f.yaml: Deployment x"));
  const absl::Status old =
      AddManifests("apiVersion: resource.k8s.io/v1beta1\nkind: DeviceClass\nmetadata: {name: x}\n",
                   "f.yaml", &manifests);
  EXPECT_THAT(std::string(old.message()), HasSubstr("must be resource.k8s.io/v1"));
}

TEST(PodClaims, MakesAClaimFromATemplateWithTheControllersAnnotation) {
  Manifests manifests;
  ASSERT_TRUE(AddManifests(R"(
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: t}
spec: {metadata: {labels: {a: b}}, spec: {devices: {requests: [{name: r}]}}}
)",
                           "f", &manifests)
                  .ok());
  const Json pod = Yaml(
      "{metadata: {name: p, namespace: default}, spec: {resourceClaims: [{name: c, "
      "resourceClaimTemplateName: t}]}}");
  std::vector<PodClaim> claims;
  ASSERT_TRUE(PodClaims(pod, manifests, &claims).ok());
  ASSERT_EQ(claims.size(), 1u);
  EXPECT_EQ(claims[0].object["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"],
            "c");
  EXPECT_EQ(claims[0].object["metadata"]["labels"]["a"], "b");
  manifests.templates.clear();
  EXPECT_TRUE(absl::IsNotFound(PodClaims(pod, manifests, &claims)));
}

}  // namespace
}  // namespace dra::sandbox
