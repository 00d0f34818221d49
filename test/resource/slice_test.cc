#include "dra/resource/slice.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dra::resource {
namespace {

Json Slice() {
  static const Json slice = Json::parse(R"({
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "n1-gpu-0"},
    "spec": {"driver": "gpu.sdk.test", "nodeName": "n1", "newMember": {"x": 1},
             "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
             "devices": [{
               "name": "d0", "newMember": 1, "allowMultipleAllocations": true,
               "attributes": {"model": {"string": "M"}, "driver": {"version": "1.2.3"}, "n": {"int": -1},
                              "b": {"bool": false}, "l": {"strings": ["a", "b"]}, "dom.ain/x": {"ints": [1]}},
               "capacity": {"memory": {"value": "80Gi", "requestPolicy": {
                 "default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}},
                 "slots": {"value": "4", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}}},
               "consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": "1"}}, "compatibilityGroups": ["g"]}],
               "taints": [{"key": "gpu.sdk.test/x", "value": "y", "effect": "NoSchedule",
                           "timeAdded": "2026-01-01T00:00:00Z"}],
               "bindsToNode": true, "bindingConditions": ["gpu.sdk.test/a"], "bindingFailureConditions": ["b"],
               "nodeAllocatableResources": {
                 "memory": {"mapping": {"capacityKey": "memory", "capacityMultiplier": "1"},
                            "overhead": {"perPod": "0"}},
                 "hugepages-2Mi": {"mapping": {"deviceMultiplier": "2"}}}}]}})");
  return slice;
}

Json CounterSlice() {
  Json slice = Slice();
  slice["spec"].erase("devices");
  slice["spec"]["sharedCounters"] =
      Json::parse(R"([{"name": "c", "counters": {"m": {"value": "40Gi"}}}])");
  return slice;
}

std::vector<std::string> Shown(const Json& slice) {
  std::vector<std::string> all;
  for (const FieldError& error : ValidateResourceSlice(slice)) {
    all.push_back(error.field + " " + std::string(FieldReasonName(error.reason)).substr(10));
  }
  return all;
}

TEST(ValidateResourceSlice, TakesEveryFieldThatItKnowsAndThoseItDoesNot) {
  EXPECT_EQ(JoinFieldErrors(ValidateResourceSlice(Slice())), "");
  EXPECT_EQ(JoinFieldErrors(ValidateResourceSlice(CounterSlice())), "");
}

TEST(ValidateResourceSlice, TakesAnEmptySliceAndNullAsAbsent) {
  Json slice = Slice();
  slice["spec"]["devices"] = nullptr;
  slice["spec"]["allNodes"] = nullptr;
  EXPECT_EQ(JoinFieldErrors(ValidateResourceSlice(slice)), "");
  slice["spec"]["devices"] =
      Json::array({{{"name", "d"}, {"attributes", nullptr}, {"taints", nullptr}}});
  EXPECT_EQ(JoinFieldErrors(ValidateResourceSlice(slice)), "");
}

// One change of a good slice: the field and reason of the single error it must give.
TEST(ValidateResourceSlice, NamesTheFieldAsTheServerDoes) {
  const struct {
    const char *pointer, *value, *error;
  } kCases[] = {
      {"/metadata/name", R"("A")", "metadata.name Invalid"},
      {"/metadata", "null", "metadata.name Required"},
      {"/spec", "null", "spec Required"},
      {"/spec/driver", "null", "spec.driver Required"},
      {"/spec/driver", R"("a_b")", "spec.driver Invalid"},
      {"/spec/pool/name", R"("a//b")", "spec.pool.name Invalid"},
      {"/spec/pool/generation", "-1", "spec.pool.generation Invalid"},
      {"/spec/pool/resourceSliceCount", "0", "spec.pool.resourceSliceCount Invalid"},
      {"/spec/nodeName", "null", "spec Required"},
      {"/spec/nodeName", R"("")", "spec.nodeName Invalid"},
      {"/spec/nodeName", R"("A")", "spec.nodeName Invalid"},
      {"/spec/allNodes", "true", "spec Invalid"},
      {"/spec/sharedCounters", R"([{"name":"c","counters":{"m":{"value":"1"}}}])", "spec Invalid"},
      {"/spec/skipNodeOperations", R"(["NodePrepareResources"])",
       "spec.skipNodeOperations Invalid"},
      {"/spec/skipNodeOperations", R"(["x"])", "spec.skipNodeOperations[0] NotSupported"},
      {"/spec/skipNodeOperations", R"(["*","*"])", "spec.skipNodeOperations[1] Duplicate"},
      {"/spec/partitionTypeAttribute", R"("model")", "spec.partitionTypeAttribute Invalid"},
      {"/spec/partitionTypeAttribute", R"("gpu.sdk.test/n")",
       "spec.devices[0].attributes[gpu.sdk.test/n] Required"},
      {"/spec/devices", R"("x")", "spec.devices TypeInvalid"},
      {"/spec/devices/0", "7", "spec.devices[0] TypeInvalid"},
      {"/spec/devices/0/name", "null", "spec.devices[0].name Required"},
      {"/spec/devices/0/name", R"("D0")", "spec.devices[0].name Invalid"},
      {"/spec/devices/0/attributes/model", "{}", "spec.devices[0].attributes[model] Required"},
      {"/spec/devices/0/attributes/model", R"({"int":1,"bool":true})",
       "spec.devices[0].attributes[model] Invalid"},
      {"/spec/devices/0/attributes/model/string",
       R"("0123456789012345678901234567890123456789012345678901234567890123x")",
       "spec.devices[0].attributes[model].string TooLong"},
      {"/spec/devices/0/attributes/driver/version", R"("6.19.14.31400000")",
       "spec.devices[0].attributes[driver].version Invalid"},
      {"/spec/devices/0/attributes/n/int", "1.5", "spec.devices[0].attributes[n].int TypeInvalid"},
      {"/spec/devices/0/attributes/n/int", "9223372036854775808",
       "spec.devices[0].attributes[n].int TypeInvalid"},
      {"/spec/devices/0/attributes/l/strings", "[]",
       "spec.devices[0].attributes[l].strings Required"},
      {"/spec/devices/0/attributes/numa-1", R"({"int":3})",
       "spec.devices[0].attributes[numa-1] Invalid"},
      {"/spec/devices/0/capacity/memory/value", R"("x")",
       "spec.devices[0].capacity[memory].value Invalid"},
      {"/spec/devices/0/capacity/slots/value", "null",
       "spec.devices[0].capacity[slots].value Required"},
      {"/spec/devices/0/capacity/slots/requestPolicy/default", R"("3")",
       "spec.devices[0].capacity[slots].requestPolicy.default Invalid"},
      {"/spec/devices/0/capacity/slots/requestPolicy/default", "null",
       "spec.devices[0].capacity[slots].requestPolicy.default Required"},
      {"/spec/devices/0/capacity/slots/requestPolicy/validRange", R"({"min":"1"})",
       "spec.devices[0].capacity[slots].requestPolicy Invalid"},
      {"/spec/devices/0/capacity/slots/requestPolicy/validValues", R"(["1","1000m"])",
       "spec.devices[0].capacity[slots].requestPolicy.validValues[1] Duplicate"},
      {"/spec/devices/0/capacity/slots/requestPolicy/validValues", R"(["1","5"])",
       "spec.devices[0].capacity[slots].requestPolicy.validValues[1] Invalid"},
      {"/spec/devices/0/capacity/slots/requestPolicy/validValues", R"(["2","1"])",
       "spec.devices[0].capacity[slots].requestPolicy.validValues[1] Invalid"},
      {"/spec/devices/0/capacity/memory/requestPolicy/validRange/step", R"("0")",
       "spec.devices[0].capacity[memory].requestPolicy.validRange.step Invalid"},
      {"/spec/devices/0/capacity/memory/requestPolicy/validRange/max", R"("81Gi")",
       "spec.devices[0].capacity[memory].requestPolicy.validRange.max Invalid"},
      {"/spec/devices/0/capacity/memory/requestPolicy/validRange/max", R"("1500Mi")",
       "spec.devices[0].capacity[memory].requestPolicy.validRange.max Invalid"},
      {"/spec/devices/0/capacity/memory/requestPolicy/validRange/min", "null",
       "spec.devices[0].capacity[memory].requestPolicy.validRange.min Required"},
      {"/spec/devices/0/capacity/memory/requestPolicy/default", R"("9Gi")",
       "spec.devices[0].capacity[memory].requestPolicy.default Invalid"},
      {"/spec/devices/0/consumesCounters/0/counterSet", R"("C")",
       "spec.devices[0].consumesCounters[0].counterSet Invalid"},
      {"/spec/devices/0/consumesCounters/0/counters", "{}",
       "spec.devices[0].consumesCounters[0].counters Required"},
      {"/spec/devices/0/consumesCounters/0/counters/M_", R"({"value":"1"})",
       "spec.devices[0].consumesCounters[0].counters[M_] Invalid"},
      {"/spec/devices/0/consumesCounters/0/compatibilityGroups", R"(["a","b","c"])",
       "spec.devices[0].consumesCounters[0].compatibilityGroups TooMany"},
      {"/spec/devices/0/nodeName", R"("n1")", "spec.devices[0].nodeName Forbidden"},
      {"/spec/devices/0/taints/0/key", "null", "spec.devices[0].taints[0].key Required"},
      {"/spec/devices/0/taints/0/value", R"("a b")", "spec.devices[0].taints[0].value Invalid"},
      {"/spec/devices/0/taints/0/effect", R"("")", "spec.devices[0].taints[0].effect Required"},
      {"/spec/devices/0/taints/0/effect", R"("Evict")",
       "spec.devices[0].taints[0].effect NotSupported"},
      {"/spec/devices/0/consumesCounters/0/compatibilityGroups", R"(["a_b"])",
       "spec.devices[0].consumesCounters[0].compatibilityGroups[0] Invalid"},
      {"/spec/devices/0/nodeAllocatableResources/ephemeral-storage",
       R"({"overhead":{"perPod":"1"}})",
       "spec.devices[0].nodeAllocatableResources[ephemeral-storage] Invalid"},
      {"/spec/devices/0/taints/0/timeAdded", R"("infinite-future")",
       "spec.devices[0].taints[0].timeAdded Invalid"},
      {"/spec/devices/0/taints/0/timeAdded", R"("2026-01-02T03:04:60Z")",
       "spec.devices[0].taints[0].timeAdded Invalid"},
      {"/spec/devices/0/taints/0/timeAdded", R"("now")",
       "spec.devices[0].taints[0].timeAdded Invalid"},
      {"/spec/devices/0/bindingFailureConditions", "null",
       "spec.devices[0].bindingFailureConditions Invalid"},
      {"/spec/devices/0/bindingConditions", "[]", "spec.devices[0].bindingConditions Invalid"},
      {"/spec/devices/0/bindingFailureConditions", R"(["gpu.sdk.test/a"])",
       "spec.devices[0].bindingFailureConditions Invalid"},
      {"/spec/devices/0/bindingConditions", R"(["a","a"])",
       "spec.devices[0].bindingConditions[1] Duplicate"},
      {"/spec/devices/0/bindingConditions", R"(["a","c","d","e","f"])",
       "spec.devices[0].bindingConditions TooMany"},
      {"/spec/devices/0/nodeAllocatableResources/gpu", R"({"overhead":{"perPod":"1"}})",
       "spec.devices[0].nodeAllocatableResources[gpu] Invalid"},
      {"/spec/devices/0/nodeAllocatableResources/cpu", "{}",
       "spec.devices[0].nodeAllocatableResources[cpu] Required"},
      {"/spec/devices/0/nodeAllocatableResources/memory/mapping/capacityKey", R"("other")",
       "spec.devices[0].nodeAllocatableResources[memory].mapping.capacityKey Invalid"},
      {"/spec/devices/0/nodeAllocatableResources/memory/mapping/deviceMultiplier", R"("1")",
       "spec.devices[0].nodeAllocatableResources[memory].mapping Invalid"},
      {"/spec/devices/0/nodeAllocatableResources/memory/overhead", "{}",
       "spec.devices[0].nodeAllocatableResources[memory].overhead Required"},
      {"/spec/devices/0/nodeAllocatableResources/memory/overhead/perPod", R"("-1")",
       "spec.devices[0].nodeAllocatableResources[memory].overhead.perPod Invalid"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(std::string(c.pointer) + " " + c.value);
    Json slice = Slice();
    slice[Json::json_pointer(c.pointer)] = Json::parse(c.value);
    EXPECT_EQ(Shown(slice), std::vector<std::string>{c.error});
  }
}

TEST(ValidateResourceSlice, ChecksSharedCounters) {
  Json slice = CounterSlice();
  const Json set = slice["spec"]["sharedCounters"][0];
  slice["spec"]["sharedCounters"].push_back(set);
  EXPECT_EQ(Shown(slice), std::vector<std::string>{"spec.sharedCounters[1].name Duplicate"});
  slice = CounterSlice();
  for (int i = 0; i < 8; ++i) {
    slice["spec"]["sharedCounters"].push_back(set);
    slice["spec"]["sharedCounters"].back()["name"] = "c" + std::to_string(i);
  }
  EXPECT_EQ(Shown(slice), std::vector<std::string>{"spec.sharedCounters TooMany"});
  slice = CounterSlice();
  for (int i = 0; i < 32; ++i)
    slice["spec"]["sharedCounters"][0]["counters"]["x" + std::to_string(i)] = {{"value", "1"}};
  EXPECT_EQ(Shown(slice), std::vector<std::string>{"spec.sharedCounters[0].counters TooMany"});
}

TEST(ValidateResourceSlice, ChecksNodeSelection) {
  const struct {
    const char* selector;
    std::vector<std::string> errors;
  } kCases[] = {
      {R"({"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}]})",
       {}},
      {R"({"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Gt","values":["many"]}]}]})",
       {}},
      {R"({"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}]})",
       {}},
      {R"({"nodeSelectorTerms":[]})", {"spec.nodeSelector.nodeSelectorTerms Required"}},
      {R"({"nodeSelectorTerms":[{},{}]})", {"spec.nodeSelector.nodeSelectorTerms Invalid"}},
      {R"({"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Is"}]}]})",
       {"spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].operator Invalid"}},
      {R"({"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In"}]}]})",
       {"spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values Required"}},
      {R"({"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"In","values":["b","c d"]}]}]})",
       {"spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values[1] Invalid"}},
      {R"({"nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Lt","values":["1","2"]}]}]})",
       {"spec.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values Required"}},
      {R"({"nodeSelectorTerms":[{"matchFields":[{"key":"a","operator":"Exists"}]}]})",
       {"spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].key Invalid",
        "spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].operator Invalid"}},
      {R"({"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["a","b"]}]}]})",
       {"spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].values Required"}},
      {R"({"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":["A"]}]}]})",
       {"spec.nodeSelector.nodeSelectorTerms[0].matchFields[0].values[0] Invalid"}},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.selector);
    Json slice = Slice();
    slice["spec"].erase("nodeName");
    slice["spec"]["nodeSelector"] = Json::parse(c.selector);
    EXPECT_EQ(Shown(slice), c.errors);
  }
  Json slice = Slice();
  slice["spec"].erase("nodeName");
  slice["spec"]["allNodes"] = false;
  EXPECT_EQ(Shown(slice), std::vector<std::string>{"spec.allNodes Invalid"});
  slice["spec"].erase("allNodes");
  slice["spec"]["perDeviceNodeSelection"] = true;
  EXPECT_EQ(Shown(slice), std::vector<std::string>{"spec.devices[0] Required"});
  slice["spec"]["devices"][0]["nodeName"] = "n1";
  EXPECT_EQ(Shown(slice), std::vector<std::string>{});
  slice["spec"]["devices"][0]["allNodes"] = true;
  EXPECT_EQ(Shown(slice), std::vector<std::string>{"spec.devices[0] Invalid"});
}

TEST(Slc03, SixtyFourDevicesWhereOneIsTaintedElse128) {
  const auto with = [](size_t count, const Json& last) {
    Json slice = Slice();
    Json& devices = slice["spec"]["devices"];
    devices = Json::array();
    for (size_t i = 0; i + 1 < count; ++i) devices.push_back({{"name", "d" + std::to_string(i)}});
    devices.push_back(last);
    devices.back()["name"] = "last";
    return Shown(slice);
  };
  const std::vector<std::string> none, too_many = {"spec.devices TooMany"};
  EXPECT_EQ(with(128, Json::object()), none);
  EXPECT_EQ(with(129, Json::object()), too_many);
  for (const char* text :
       {R"({"taints":[{"key":"k","effect":"None"}]})", R"({"attributes":{"l":{"ints":[1]}}})",
        R"({"consumesCounters":[{"counterSet":"c","counters":{"m":{"value":"1"}}}]})"}) {
    EXPECT_EQ(with(64, Json::parse(text)), none) << text;
    EXPECT_EQ(with(65, Json::parse(text)), too_many) << text;
  }
}

TEST(ValidateResourceSlice, CountsAttributesCapacitiesAndValues) {
  Json slice = Slice();
  Json& device = slice["spec"]["devices"][0];
  device = {{"name", "d"}};
  for (int i = 0; i < 31; ++i) device["attributes"]["a" + std::to_string(i)] = {{"int", i}};
  device["capacity"]["c"] = {{"value", "1"}};
  EXPECT_EQ(Shown(slice), std::vector<std::string>{});
  device["capacity"]["d"] = {{"value", "1"}};
  EXPECT_EQ(Shown(slice), std::vector<std::string>{"spec.devices[0] Invalid"});
  device["capacity"].erase("d");
  device["attributes"]["a0"] = {{"ints", std::vector<int>(19, 1)}};
  EXPECT_EQ(Shown(slice), std::vector<std::string>{"spec.devices[0] Invalid"});
}

TEST(ValidateResourceSlice, ReadsAnAbsentPoolAsOneWithoutMembers) {
  Json slice = Slice();
  slice["spec"].erase("pool");
  EXPECT_EQ(Shown(slice), (std::vector<std::string>{"spec.pool.name Required",
                                                    "spec.pool.resourceSliceCount Invalid"}));
}

TEST(ValidateResourceSlice, RefusesDevicesBesideSharedCountersEvenWhenBothAreEmpty) {
  Json slice = Slice();
  slice["spec"]["devices"] = slice["spec"]["sharedCounters"] = Json::array();
  EXPECT_EQ(Shown(slice), std::vector<std::string>{"spec Invalid"});
}

TEST(ValidateResourceSlice, ChecksTheStartOfAGeneratedName) {
  Json slice = Slice();
  slice["metadata"] = {{"generateName", "n1-gpu-"}};
  EXPECT_EQ(Shown(slice), std::vector<std::string>{});
  slice["metadata"] = {{"generateName", "n1/gpu-"}};
  EXPECT_EQ(Shown(slice), std::vector<std::string>{"metadata.generateName Invalid"});
}

TEST(ValidateResourceSlice, LetsADeviceHaveSeveralNodeSelectorTerms) {
  Json slice = Slice();
  slice["spec"].erase("nodeName");
  slice["spec"]["perDeviceNodeSelection"] = true;
  slice["spec"]["devices"][0]["nodeSelector"] = Json::parse(R"({"nodeSelectorTerms":[{},{}]})");
  EXPECT_EQ(Shown(slice), std::vector<std::string>{});
}

TEST(ValidateResourceSlice, WantsThousandthsInARangeWithoutStepsToo) {
  Json slice = Slice();
  Json& policy = slice["spec"]["devices"][0]["capacity"]["memory"]["requestPolicy"];
  policy = Json::parse(R"({"default": "1", "validRange": {"min": "1u"}})");
  EXPECT_EQ(Shown(slice),
            std::vector<std::string>{
                "spec.devices[0].capacity[memory].requestPolicy.validRange.min Invalid"});
  policy["validRange"]["min"] = "1m";
  EXPECT_EQ(Shown(slice), std::vector<std::string>{});
}

TEST(ValidateResourceSlice, AllowsHalfStepsOnlyInThousandths) {
  Json slice = Slice();
  Json& policy = slice["spec"]["devices"][0]["capacity"]["memory"]["requestPolicy"];
  policy =
      Json::parse(R"({"default": "1", "validRange": {"min": "500m", "max": "2", "step": "500m"}})");
  EXPECT_EQ(Shown(slice), std::vector<std::string>{});
  policy["validRange"]["step"] = "500u";
  EXPECT_EQ(Shown(slice),
            std::vector<std::string>{
                "spec.devices[0].capacity[memory].requestPolicy.validRange.step Invalid"});
}

TEST(ValidateResourceSlice, RefusesPoliciesOfUnsharedDevicesAndDuplicateNames) {
  Json slice = Slice();
  slice["spec"]["devices"][0]["allowMultipleAllocations"] = false;
  EXPECT_EQ(Shown(slice),
            (std::vector<std::string>{"spec.devices[0].capacity[memory].requestPolicy Forbidden",
                                      "spec.devices[0].capacity[slots].requestPolicy Forbidden"}));
  slice = Slice();
  slice["spec"]["devices"].push_back({{"name", "d0"}});
  EXPECT_EQ(Shown(slice), std::vector<std::string>{"spec.devices[1].name Duplicate"});
}

TEST(FieldErrors, AreWordedAsTheServerWordsThem) {
  Json slice = Slice();
  slice["spec"]["devices"][0]["attributes"]["driver"]["version"] = "1.2";
  ASSERT_EQ(ValidateResourceSlice(slice).size(), 1u);
  EXPECT_EQ(ValidateResourceSlice(slice)[0].ToString(),
            "spec.devices[0].attributes[driver].version: Invalid value: \"1.2\": must be a string "
            "compatible with "
            "semver.org spec 2.0.0");
  EXPECT_EQ((FieldError{"f", FieldReason::kTooMany, 40, "must have at most 32 items"}).ToString(),
            "f: Too many: 40: must have at most 32 items");
  EXPECT_EQ((FieldError{"f", FieldReason::kDuplicate, "d", ""}).ToString(),
            "f: Duplicate value: \"d\"");
  EXPECT_EQ((FieldError{"f", FieldReason::kRequired, nullptr, ""}).ToString(), "f: Required value");
}

TEST(ValidateResourceSlice, SurvivesAnyTypeAnywhere) {
  // Each value of the good slice is replaced by each type in turn; nothing may crash.
  const Json flat = Slice().flatten();
  const std::vector<Json> junk = {
      nullptr, true, 1, -1.5, "x", Json::array({1}), Json::array({nullptr}), {{"x", 1}}};
  for (const auto& [pointer, value] : flat.items()) {
    Json::json_pointer at(pointer);
    for (; !at.empty(); at = at.parent_pointer()) {
      for (const Json& replacement : junk) {
        Json slice = Slice();
        slice[at] = replacement;
        ValidateResourceSlice(slice);
      }
    }
  }
  for (const Json& replacement : junk) EXPECT_FALSE(ValidateResourceSlice(replacement).empty());
}

TEST(ValidateResourceSliceUpdate, KeepsDriverPoolAndNode) {
  Json changed = Slice();
  EXPECT_TRUE(ValidateResourceSliceUpdate(changed, Slice()).empty());
  changed["spec"]["pool"]["generation"] = 0;
  changed["spec"]["devices"] = Json::array();
  EXPECT_TRUE(ValidateResourceSliceUpdate(changed, Slice()).empty());
  changed["spec"]["driver"] = "x.test";
  changed["spec"]["nodeName"] = "n2";
  changed["spec"]["pool"]["name"] = "p";
  const std::vector<FieldError> errors = ValidateResourceSliceUpdate(changed, Slice());
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0].ToString(), "spec.driver: Invalid value: \"x.test\": field is immutable");
}

TEST(ValidatePool, FindsDuplicatesAndMissingCounters) {
  const Json a = {{"name", "a"}};
  const Json user = Json::parse(R"({"name": "u", "consumesCounters": [
      {"counterSet": "c", "counters": {"m": {"value": "1"}}}, {"counterSet": "gone", "counters": {"m": {"value": "1"}}}]})");
  const Json set = Json::parse(R"({"name": "c", "counters": {"m": {"value": "1"}}})");
  const Json other = Json::parse(R"({"name": "c", "counters": {"x": {"value": "1"}}})");
  EXPECT_EQ(JoinFieldErrors(ValidatePool({&a}, {&set})), "");
  EXPECT_EQ(ValidatePool({&a, &a}, {})[0].field, "devices[1].name");
  EXPECT_EQ(ValidatePool({}, {&set, &other})[0].field, "sharedCounters[1].name");
  const std::vector<FieldError> missing = ValidatePool({&user}, {&set});
  ASSERT_EQ(missing.size(), 1u);
  EXPECT_EQ(missing[0].field, "devices[0].consumesCounters[1].counterSet");
  EXPECT_EQ(ValidatePool({&user}, {&other})[0].field, "devices[0].consumesCounters[0].counters[m]");
}

}  // namespace
}  // namespace dra::resource
