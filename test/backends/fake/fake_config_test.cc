#include "test/backends/fake/fixture.h"

namespace dra {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using Fixture = FakeBackendFixture;

absl::StatusOr<loader::PrepareResult> PrepareWith(Fixture& fake, const Json& configs) {
  return fake.Prepare(Fixture::Claim("uid-1", {Fixture::Device("gpu-0", configs)}));
}

TEST(Cfg01, AMistypedFieldIsRefusedWithItsPath) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  Json parameters = TimeSlicing("Long");
  parameters["sharring"] = {{"strategy", "TimeSlicing"}};
  const auto result = PrepareWith(fake, Configs({{"FromClaim", parameters}}));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(result.status().ToString(), HasSubstr("sharring"));
  // Another release's field in a record does not keep a claim from ending.
  EXPECT_TRUE(
      fake.Unprepare(Fixture::Claim(
                         "uid-1", {Fixture::Device("gpu-0", Configs({{"FromClaim", parameters}}))}))
          .ok());
}

TEST(Cfg02, TheHighestConfigurationCountsAsAWholeByDefault) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  const auto result = PrepareWith(
      fake, Configs({{"FromClass", TimeSlicing("Short")}, {"FromClaim", TimeSlicing("Long")}}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Environment(result->devices[0].edits),
              Contains("GPU_DEVICE_0_TIMESLICE_INTERVAL=Long"));
}

TEST(Cfg02, IndependentFieldsMergeWhereTheConfigurationSaysSo) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"configPolicy", "merge"}}).ok());
  const auto result = PrepareWith(
      fake, Configs({{"FromClass", GpuConfig({{"timeSlicingConfig", {{"interval", "Medium"}}}})},
                     {"FromClaim", GpuConfig({{"strategy", "TimeSlicing"}})}}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Environment(result->devices[0].edits),
              Contains("GPU_DEVICE_0_TIMESLICE_INTERVAL=Medium"));
}

TEST(Cfg02, AMergedStrategyDropsTheOtherStrategysObjectFromBelow) {
  Fixture fake;
  ASSERT_TRUE(fake.Start({{"configPolicy", "merge"}}).ok());
  const auto result = PrepareWith(
      fake,
      Configs({{"FromClass", TimeSlicing("Medium")},
               {"FromClaim", GpuConfig({{"strategy", "SpacePartitioning"},
                                        {"spacePartitioningConfig", {{"partitionCount", 3}}}})}}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(Environment(result->devices[0].edits), Contains("GPU_DEVICE_0_PARTITION_COUNT=3"));
}

TEST(Cfg05, AnUnknownVersionIsRefusedWithTheKnownOne) {
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  const Json cases[] = {{{"apiVersion", "v1alpha1"}, {"k", 1}},
                        {{"apiVersion", "gpu.resource.example.com/v2"}, {"kind", "GpuConfig"}},
                        {{"kind", "GpuConfig"}}};
  for (const Json& parameters : cases) {
    SCOPED_TRACE(parameters.dump());
    const auto result = PrepareWith(fake, Configs({{"FromClaim", parameters}}));
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(result.status().ToString(),
                HasSubstr("gpu.resource.example.com/v1alpha1 GpuConfig"));
    EXPECT_EQ(fake.backend().ValidateConfig(parameters, "FromClaim", Fixture::Limit()).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(FakeGpuConfig, DefaultsAreThoseOfTheExampleDriver) {
  const std::pair<Json, std::string> cases[] = {
      {{{"apiVersion", "gpu.resource.example.com/v1alpha1"}, {"kind", "GpuConfig"}},
       "GPU_DEVICE_0_TIMESLICE_INTERVAL=Default"},
      {GpuConfig({{"strategy", "TimeSlicing"}}), "GPU_DEVICE_0_TIMESLICE_INTERVAL=Default"},
      {GpuConfig({{"strategy", "SpacePartitioning"}}), "GPU_DEVICE_0_PARTITION_COUNT=1"},
  };
  for (const auto& [parameters, expected] : cases) {
    SCOPED_TRACE(parameters.dump());
    Fixture fake;
    ASSERT_TRUE(fake.Start().ok());
    const auto result = PrepareWith(fake, Configs({{"FromClaim", parameters}}));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_THAT(Environment(result->devices[0].edits), Contains(expected));
  }
}

TEST(FakeGpuConfig, WrongValuesAreRefusedWithTheirPath) {
  const std::pair<Json, std::string> cases[] = {
      {GpuConfig({{"strategy", "Both"}}), "sharing.strategy"},
      {TimeSlicing("Forever"), "sharing.timeSlicingConfig.interval"},
      {GpuConfig({{"strategy", "TimeSlicing"}, {"timeSlicingConfig", Json::object()}}),
       "sharing.timeSlicingConfig.interval"},
      {GpuConfig({{"strategy", "SpacePartitioning"},
                  {"spacePartitioningConfig", {{"partitionCount", -1}}}}),
       "sharing.spacePartitioningConfig.partitionCount"},
      {GpuConfig({{"strategy", "TimeSlicing"}, {"spacePartitioningConfig", Json::object()}}),
       "sharing.spacePartitioningConfig"},
  };
  Fixture fake;
  ASSERT_TRUE(fake.Start().ok());
  for (const auto& [parameters, path] : cases) {
    SCOPED_TRACE(path);
    const absl::Status status =
        fake.backend().ValidateConfig(parameters, "FromClaim", Fixture::Limit());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.ToString(), HasSubstr(path));
  }
}

}  // namespace
}  // namespace dra
