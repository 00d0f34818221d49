#include <unistd.h>

#include <cstdlib>

#include "test/backends/fake/fixture.h"

namespace dra {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Fixture = FakeBackendFixture;

TEST(FakeOptions, AnUnknownOptionIsRefusedWithTheKnownOnes) {
  Fixture fake;
  const absl::Status status = fake.Start({{"numDevice", 4}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("config.numDevice"), HasSubstr("numDevices")));
}

TEST(FakeOptions, ValuesThatCannotWorkAreRefusedWithTheirPath) {
  const std::pair<Json, std::string> cases[] = {
      {{{"numDevices", -1}}, "config.numDevices"},
      {{{"profile", "fpga"}}, "config.profile"},
      {{{"shared", true}, {"partitions", 3}}, "config.partitions"},
      {{{"devRoot", "relative"}}, "config.devRoot"},
      {{{"manifest", {{"hookLimits", {{"prepare", 0}}}}}}, "config.manifest.hookLimits.prepare"},
      {{{"profile", "net"}, {"numDevices", 65537}}, "config.numDevices"},
      {{{"profile", "cpu"}, {"numaNodes", -1}}, "config.numaNodes"},
      {{{"profile", "cpu"}, {"cpusPerNUMANode", 0}}, "config.cpusPerNUMANode"},
      {{{"profile", "cpu"}, {"driverName", "Cpu.example.com"}}, "config.driverName"},
      {{{"profile", "cpu"}, {"driverName", "cpu..com"}}, "config.driverName"},
      {{{"profile", "cpu"}, {"driverName", "cpu.com-"}}, "config.driverName"},
      {{{"profile", "cpu"}, {"driverName", ""}}, "config.driverName"},
  };
  for (const auto& [config, path] : cases) {
    SCOPED_TRACE(config.dump());
    Fixture fake;
    const absl::Status status = fake.Start(config);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.ToString(), HasSubstr(path));
  }
}

TEST(FakeOptions, AnOptionOfAnotherProfileIsRefusedWithItsOwner) {
  const struct {
    const char* profile;
    const char* option;
    Json value;
    const char* owner;
  } cases[] = {
      {"gpu", "numaNodes", 1, R"(profile "cpu")"},
      {"gpu", "cpusPerNUMANode", 1, R"(profile "cpu")"},
      {"gpu", "driverName", "gpu.example.com", R"(profile "cpu")"},
      {"net", "partitions", 0, R"(profile "gpu")"},
      {"net", "shared", true, R"(profile "gpu")"},
      {"net", "deviceNodes", false, R"(profile "gpu")"},
      {"net", "devRoot", "/root", R"(profile "gpu")"},
      {"net", "deviceStatus", false, R"(profile "gpu")"},
      {"net", "numaNodes", 1, R"(profile "cpu")"},
      {"cpu", "numDevices", 1, R"(profile "gpu" and "net")"},
      {"cpu", "shared", true, R"(profile "gpu")"},
      {"cpu", "configPolicy", "merge", R"(profile "gpu" and "net")"},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(std::string(test.profile) + " " + test.option);
    Fixture fake;
    const absl::Status status = fake.Start({{"profile", test.profile}, {test.option, test.value}});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.ToString(),
                AllOf(HasSubstr(std::string("config.") + test.option), HasSubstr(test.owner),
                      HasSubstr(std::string("this is profile \"") + test.profile + "\"")));
  }
}

TEST(FakeOptions, AnUnknownOptionIsNotHelpedWithThoseOfAnotherProfile) {
  Fixture fake;
  EXPECT_THAT(fake.Start({{"profile", "net"}, {"numaNode", 1}}).ToString(),
              AllOf(HasSubstr("config.numaNode"), ::testing::Not(HasSubstr("numaNodes"))));
}

TEST(FakeOptions, TheNodesNameIsThatOfThePodsEnvironmentWithoutTheOption) {
  const auto node_name = [] {
    Fixture fake;
    EXPECT_TRUE(fake.Start({{"nodeName", nullptr}}).ok());
    const auto result = fake.Prepare(Fixture::Claim("uid-1", {Fixture::Device("gpu-0")}));
    return result.ok() ? Environment(result->claim_edits).at(0) : result.status().ToString();
  };
  ASSERT_EQ(setenv("NODE_NAME", "node-9", 1), 0);
  EXPECT_EQ(node_name(), "KUBERNETES_NODE_NAME=node-9");
  ASSERT_EQ(unsetenv("NODE_NAME"), 0);
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof(host) - 1), 0);
  EXPECT_EQ(node_name(), std::string("KUBERNETES_NODE_NAME=") + host);
}

TEST(FakeOptions, EachProfileDeclaresItsOwnAttributesAndConfigurations) {
  const std::pair<const char*, std::pair<const char*, size_t>> cases[] = {
      {"gpu", {"configurable", 1}}, {"net", {"uuid", 1}}, {"cpu", {"numaNodeID", 0}}};
  for (const auto& [profile, expected] : cases) {
    SCOPED_TRACE(profile);
    Fixture fake;
    ASSERT_TRUE(fake.Start({{"profile", profile}}).ok());
    const auto manifest = fake.backend().GetManifest();
    ASSERT_TRUE(manifest.ok()) << manifest.status();
    EXPECT_THAT((*manifest)->attributes, ::testing::Contains(::testing::Field(
                                             &loader::Manifest::Attribute::name, expected.first)));
    EXPECT_EQ((*manifest)->config_kinds.size(), expected.second);
  }
}

}  // namespace
}  // namespace dra
