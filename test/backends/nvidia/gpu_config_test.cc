#include "gpu_config.h"

#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nvidia {
namespace {

using dra::Json;
using testing::AllOf;
using testing::HasSubstr;

std::string ConfigRefusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const dra::BackendError& error) {
    EXPECT_EQ(error.code(), DRA_INVALID_ARGUMENT);
    return error.what();
  }
  return "accepted";
}

Json Config(const std::string& kind, Json more = Json::object()) {
  more["apiVersion"] = "resource.nvidia.com/v1beta1";
  more["kind"] = kind;
  return more;
}

TEST(NvidiaConfig, MayBeEmpty) {
  ValidateConfig(Config("GpuConfig"));
  ValidateConfig(Config("MigDeviceConfig"));
  ValidateConfig(Config("GpuConfig", {{"sharing", nullptr}}));
}

TEST(NvidiaConfig, IsReadStrictly) {
  const struct {
    const char* name;
    Json config;
    const char* text;
  } cases[] = {
      {"no object", "GpuConfig", "parameters: must be an object"},
      {"no kind", {{"apiVersion", kConfigApiVersion}}, "parameters.kind: is required"},
      {"no version", {{"kind", "GpuConfig"}}, "parameters.apiVersion: is required"},
      {"other version",
       {{"apiVersion", "resource.nvidia.com/v1"}, {"kind", "GpuConfig"}},
       "known: resource.nvidia.com/v1beta1 GpuConfig, resource.nvidia.com/v1beta1 MigDeviceConfig"},
      {"unknown kind", Config("GPUConfig"), "with kind \"GPUConfig\"; known:"},
      {"unknown field", Config("GpuConfig", {{"sharring", Json::object()}}),
       "parameters.sharring: unknown field; known: apiVersion, kind, sharing"},
      {"sharing's type", Config("GpuConfig", {{"sharing", "MPS"}}),
       "parameters.sharing: must be an"},
      {"no strategy", Config("GpuConfig", {{"sharing", Json::object()}}),
       "parameters.sharing.strategy: is required"},
      {"unknown strategy", Config("GpuConfig", {{"sharing", {{"strategy", "Time"}}}}),
       "parameters.sharing.strategy: \"Time\" is not one of \"TimeSlicing\", \"MPS\""},
      {"unknown interval",
       Config("GpuConfig",
              {{"sharing",
                {{"strategy", "TimeSlicing"}, {"timeSlicingConfig", {{"interval", "Shorter"}}}}}}),
       "parameters.sharing.timeSlicingConfig.interval: \"Shorter\" is not one of"},
      {"MPS above 100",
       Config("GpuConfig",
              {{"sharing",
                {{"strategy", "MPS"}, {"mpsConfig", {{"defaultActiveThreadPercentage", 101}}}}}}),
       "parameters.sharing.mpsConfig.defaultActiveThreadPercentage: is not in 0..100"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_THAT(ConfigRefusal([&] { ValidateConfig(c.config); }), HasSubstr(c.text));
  }
}

TEST(NvidiaConfig, RefusesWhatThePublicDriverHasAndThisOneDoesNotByName) {
  EXPECT_THAT(
      ConfigRefusal([] {
        ValidateConfig(Config("GpuConfig", {{"sharing",
                                             {{"strategy", "TimeSlicing"},
                                              {"timeSlicingConfig", {{"interval", "Short"}}}}}}));
      }),
      HasSubstr("parameters.sharing.strategy: TimeSlicing: not supported by this version"));
  EXPECT_THAT(ConfigRefusal([] {
                ValidateConfig(Config("MigDeviceConfig", {{"sharing", {{"strategy", "MPS"}}}}));
              }),
              AllOf(HasSubstr("parameters.sharing.strategy: MPS: not supported by this version"),
                    HasSubstr("MIG instance")));
  for (const char* kind :
       {"VfioDeviceConfig", "ComputeDomainChannelConfig", "ComputeDomainDaemonConfig"}) {
    EXPECT_THAT(ConfigRefusal([&] { ValidateConfig(Config(kind)); }),
                AllOf(HasSubstr(std::string("parameters.kind: ") + kind +
                                ": not supported by this version"),
                      HasSubstr("known: GpuConfig, MigDeviceConfig")));
  }
}

// As much of JSON schema as the manifest's schemas use.
bool Allows(const Json& schema, const Json& value) {
  for (const auto& [word, wanted] : schema.items()) {
    if (word == "const" && value != wanted) return false;
    if (word == "type" && wanted != value.type_name()) return false;
    if (word == "required") {
      for (const Json& key : wanted) {
        if (!value.contains(key.get<std::string>())) return false;
      }
    }
    if (word == "properties") {
      for (const auto& [key, member] : value.items()) {
        if (!wanted.contains(key)) {
          EXPECT_EQ(schema["additionalProperties"], false);
          return false;
        }
        if (!Allows(wanted[key], member)) return false;
      }
    }
  }
  return true;
}

TEST(NvidiaConfig, HasASchemaForEachKindThatAgreesWithTheReader) {
  const auto kinds = ConfigKinds();
  ASSERT_EQ(kinds.size(), 2u);
  for (const auto& kind : kinds) EXPECT_EQ(kind.api_version, "resource.nvidia.com/v1beta1");
  EXPECT_EQ(kinds[0].kind, "GpuConfig");
  EXPECT_EQ(kinds[1].kind, "MigDeviceConfig");
  int accepted = 0;
  for (const char* kind : {"GpuConfig", "MigDeviceConfig", "gpuConfig", "VfioDeviceConfig"}) {
    for (const char* more :
         {R"({})", R"({"sharing": null})", R"({"sharing": {}})", R"({"sharing": []})",
          R"({"sharing": "MPS"})", R"({"sharing": {"strategy": "MPS"}})",
          R"({"sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Short"}}})",
          R"({"sharring": null})", R"({"metadata": {}})", R"({"": 1})"}) {
      const Json config = Config(kind, Json::parse(more));
      Json no_kind = config, no_version = config, null_kind = config, other_version = config;
      no_kind.erase("kind");
      no_version.erase("apiVersion");
      null_kind["kind"] = nullptr;
      other_version["apiVersion"] = "resource.nvidia.com/v1";
      for (const Json& tried : {config, no_kind, no_version, null_kind, other_version}) {
        SCOPED_TRACE(tried.dump());
        const bool reads = ConfigRefusal([&] { ValidateConfig(tried); }) == "accepted";
        EXPECT_EQ(reads, Allows(kinds[0].schema, tried) || Allows(kinds[1].schema, tried));
        accepted += reads;
      }
    }
  }
  EXPECT_EQ(accepted, 4);  // each kind as it is, and with "sharing": null
}

dra::AllocatedDevice Device(std::vector<dra::DeviceConfig> configs) {
  dra::AllocatedDevice device;
  device.result = {{"device", "gpu-1"}, {"request", "one"}};
  device.configs = std::move(configs);
  return device;
}

TEST(NvidiaConfigOfDevice, IsOptional) {
  CheckConfigOf(Device({}), false);
  CheckConfigOf(Device({}), true);
}

TEST(NvidiaConfigOfDevice, OfTheOtherKindIsPassedOverWhenForAllRequests) {
  CheckConfigOf(Device({{"FromClaim", "", Config("MigDeviceConfig")}}), false);
  CheckConfigOf(Device({{"FromClaim", "", Config("GpuConfig")}}), true);
}

TEST(NvidiaConfigOfDevice, OfTheOtherKindIsRefusedWhenItNamesTheRequest) {
  EXPECT_THAT(ConfigRefusal([] {
                CheckConfigOf(Device({{"FromClaim", "one", Config("MigDeviceConfig")}}), false);
              }),
              AllOf(HasSubstr("configuration FromClaim of request one: parameters.kind: is "
                              "MigDeviceConfig, but device gpu-1 of this request is a whole GPU"),
                    HasSubstr("use GpuConfig")));
  EXPECT_THAT(ConfigRefusal([] {
                CheckConfigOf(Device({{"FromClass", "one", Config("GpuConfig")}}), true);
              }),
              HasSubstr("is a MIG instance: use MigDeviceConfig"));
  // One that is higher and for all requests does not hide it.
  EXPECT_THAT(ConfigRefusal([] {
                CheckConfigOf(Device({{"FromClass", "one", Config("GpuConfig")},
                                      {"FromClaim", "", Config("GpuConfig")}}),
                              true);
              }),
              HasSubstr("configuration FromClass of request one"));
}

TEST(NvidiaConfigOfDevice, TheHighestThatFitsOutranksTheRest) {
  CheckConfigOf(Device({{"FromClass", "one", Config("MigDeviceConfig")},
                        {"FromClaim", "one", Config("GpuConfig")}}),
                false);
}

TEST(NvidiaConfigOfDevice, IsReadAlsoWhereItIsOutranked) {
  EXPECT_THAT(ConfigRefusal([] {
                CheckConfigOf(Device({{"FromClass", "one", Config("GpuConfig", {{"x", 1}})},
                                      {"FromClaim", "one", Config("GpuConfig")}}),
                              false);
              }),
              HasSubstr("configuration FromClass of request one: parameters.x: unknown field"));
}

}  // namespace
}  // namespace nvidia
