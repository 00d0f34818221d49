#include "dra/resource/names.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace dra::resource {
namespace {

struct Rule {
  const char* name;
  absl::Status (*check)(absl::string_view);
  std::vector<std::string> good;
  std::vector<std::string> bad;
};

std::string Times(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(Names, FollowTheRulesOfKubernetes) {
  const std::string a63(63, 'a'), a64(64, 'a'), a32(32, 'a'), a33(33, 'a');
  const std::string uuid = "0c1e7c3e-5b1a-4c93-9d0e-3a4b5c6d7e8f";
  const std::vector<Rule> rules = {
      {"DnsLabel",
       CheckDnsLabel,
       {"a", "gpu-0", "0a", a63},
       {"", "-a", "a-", "A", "a.b", "a_b", a64, "ä"}},
      {"DnsSubdomain",
       CheckDnsSubdomain,
       {"a.b-c.d", "node-1", Times("a.", 126) + "a"},
       {"", "a..b", ".a", "a.", "A.b", "a_b", Times("a.", 127) + "a"}},
      {"Identifier",
       CheckIdentifier,
       {"a", "_x9", "driverVersion", a32},
       {"", "9a", "numa-1", "a.b", a33}},
      {"QualifiedName",
       CheckQualifiedName,
       {"model", "gpu.sdk.test/model", "A.b/x"},
       {"", "/x", "a/", "a/b/c", "a b/x", a64 + "/x", "gpu.sdk.test/numa-1"}},
      {"FullyQualifiedName",
       CheckFullyQualifiedName,
       {"gpu.sdk.test/model"},
       {"model", "", "a/b/c", "A.b/x"}},
      {"PoolName",
       CheckPoolName,
       {"node-1", "node-1/a.b/c", Times("a/", 126) + "a"},
       {"", "/", "a/", "/a", "a//b", "A", Times("a/", 127) + "a"}},
      {"DriverName",
       CheckDriverName,
       {"gpu.sdk.test", "0.test", a63},
       {"", "GPU.sdk.test", "a_b", a64}},
      {"DriverNameAsServer", CheckDriverNameAsServer, {"GPU.sdk.test"}, {"", "a_b", a64}},
      {"DriverNameForCdi", CheckDriverNameForCdi, {"gpu.sdk.test"}, {"0.test", "A.test"}},
      {"LabelName",
       CheckLabelName,
       {"a", "A_b.c-d", "gpu.sdk.test/unhealthy", a63},
       {"", "-a", "a-", "/a", "a/", "a/b/c", "A.b/c", a64, "a b"}},
      {"LabelValue", CheckLabelValue, {"", "a", "A_b.c", a63}, {"-a", "a b", a64, "a/b"}},
      {"ShareId",
       CheckShareId,
       {uuid},
       {"", "0C1E7C3E-5b1a-4c93-9d0e-3a4b5c6d7e8f", uuid + "0", "x" + uuid.substr(1)}},
      {"RequestReference", CheckRequestReference, {"r", "r/s"}, {"", "r/", "/s", "r/s/t", "R"}},
  };
  for (const Rule& rule : rules) {
    for (const std::string& name : rule.good)
      EXPECT_TRUE(rule.check(name).ok()) << rule.name << " " << rule.check(name);
    for (const std::string& name : rule.bad) {
      const absl::Status status = rule.check(name);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
          << rule.name << " \"" << name << "\"";
      EXPECT_NE(status.message().find(name), absl::string_view::npos) << rule.name << " " << status;
    }
  }
}

TEST(Names, SayTheLimitThatIsBroken) {
  EXPECT_EQ(CheckDnsLabel(std::string(64, 'a')).message(),
            "\"" + std::string(64, 'a') + "\": must be at most 63 bytes, has 64");
}

TEST(Inv09, ARefusedKeyNamesTheRule) {
  EXPECT_EQ(
      CheckQualifiedName("numa-1").message(),
      "\"numa-1\": must be a C identifier: letters, digits and '_', not starting with a digit");
}

}  // namespace
}  // namespace dra::resource
