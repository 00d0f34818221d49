#include "dra/resource/semantic_equal.h"

#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dra::resource {
namespace {

const struct {
  const char* name;
  bool equal;
  const char *a, *b;
} kSemanticCases[] = {
    {"quantity notation", true, R"({"capacity":{"m":{"value":"1024Mi"}}})",
     R"({"capacity":{"m":{"value":"1Gi"}}})"},
    {"quantity number", false, R"({"capacity":{"m":{"value":"1025Mi"}}})",
     R"({"capacity":{"m":{"value":"1Gi"}}})"},
    {"policy", true,
     R"({"capacity":{"m":{"value":"1","requestPolicy":{"default":"1","validValues":["1000m"],"validRange":{"min":"1"}}}}})",
     R"({"capacity":{"m":{"value":1,"requestPolicy":{"default":"1000m","validValues":["1"],"validRange":{"min":"1000m"}}}}})"},
    {"counters", true, R"({"consumesCounters":[{"counters":{"m":{"value":"1k"}}}]})",
     R"({"consumesCounters":[{"counters":{"m":{"value":"1000"}}}]})"},
    {"a counter called attributes", true, R"({"counters":{"attributes":{"value":"1k"}}})",
     R"({"counters":{"attributes":{"value":"1000"}}})"},
    {"consumed capacity", true, R"({"consumedCapacity":{"m":"1k"}})",
     R"({"consumedCapacity":{"m":"1000"}})"},
    {"node allocatable", true,
     R"({"nodeAllocatableResources":{"cpu":{"mapping":{"deviceMultiplier":"2"},"overhead":{"perPod":"1k"}}}})",
     R"({"nodeAllocatableResources":{"cpu":{"mapping":{"deviceMultiplier":"2000m"},"overhead":{"perPod":"1000"}}}})"},
    {"attribute text is no quantity", false, R"({"attributes":{"capacity":{"string":"1k"}}})",
     R"({"attributes":{"capacity":{"string":"1000"}}})"},
    {"taint value is no quantity", false, R"({"taints":[{"key":"k","value":"1k"}]})",
     R"({"taints":[{"key":"k","value":"1000"}]})"},
    {"absent, null, empty", true, R"({"taints":null,"attributes":{}})",
     R"({"consumesCounters":[]})"},
    {"empty against filled", false, R"({"taints":[]})", R"({"taints":[{"key":"k"}]})"},
    {"filled against absent", false, R"({"name":"d"})", R"({})"},
    {"unset taint value", true, R"({"taints":[{"key":"k","value":""}]})",
     R"({"taints":[{"key":"k"}]})"},
    {"no time added", true, R"({"taints":[{"key":"k"}]})",
     R"({"taints":[{"key":"k","timeAdded":"2026-01-01T00:00:00Z"}]})"},
    {"time within a second", true, R"({"taints":[{"key":"k","timeAdded":"2026-01-01T00:00:01Z"}]})",
     R"({"taints":[{"key":"k","timeAdded":"2026-01-01T01:00:00+01:00"}]})"},
    {"time two seconds off", false,
     R"({"taints":[{"key":"k","timeAdded":"2026-01-01T00:00:02Z"}]})",
     R"({"taints":[{"key":"k","timeAdded":"2026-01-01T00:00:00Z"}]})"},
    {"order of devices", false, R"({"devices":[{"name":"a"},{"name":"b"}]})",
     R"({"devices":[{"name":"b"},{"name":"a"}]})"},
    {"order of members", true, R"({"name":"a","x":1})", R"({"x":1,"name":"a"})"},
    {"false is not absent", false, R"({"allowMultipleAllocations":false})", R"({})"},
    {"unknown member", false, R"({"new":{"value":"1k"}})", R"({"new":{"value":"1000"}})"},
    {"types", false, R"({"x":"1"})", R"({"x":1})"},
    {"bad quantity", false, R"({"capacity":{"m":{"value":"x"}}})",
     R"({"capacity":{"m":{"value":"y"}}})"},
};

TEST(SemanticallyEqual, ComparesAsKubernetesDoes) {
  for (const auto& c : kSemanticCases) {
    SCOPED_TRACE(c.name);
    const Json a = Json::parse(c.a), b = Json::parse(c.b);
    EXPECT_EQ(SemanticallyEqual(a, b), c.equal);
    EXPECT_EQ(SemanticallyEqual(b, a), c.equal);
    EXPECT_TRUE(SemanticallyEqual(a, a));
    EXPECT_EQ(SemanticallyEqual({{"devices", {a}}}, {{"devices", {b}}}), c.equal);
  }
}

TEST(Canonical, GivesEqualTextsForEqualObjects) {
  for (const auto& c : kSemanticCases) {
    const std::string name = c.name;
    if (name == "no time added" || name == "time within a second") continue;
    SCOPED_TRACE(name);
    EXPECT_EQ(Canonical(Json::parse(c.a)) == Canonical(Json::parse(c.b)), c.equal);
  }
}

}  // namespace
}  // namespace dra::resource
