#include "dra/driver/config.h"

#include <gtest/gtest.h>

#include <map>

#include "nlohmann/json.hpp"

namespace dra::driver {
namespace {

constexpr char kConfig[] = R"(
nodeName: node1
kubeletRoot: /mnt/k/kubelet
httpAddress: 127.0.0.1:0
log: {level: debug, format: json}
drivers:
- name: gpu.example.com
  backend: fake
  config: {profile: gpu, numDevices: 4}
  discoverInterval: 30s
  orphanCheckInterval: 10m
  orphanGrace: 90s
- name: nic.example.com
  backend: /opt/acme/nic.so
)";

std::string NoEnvironment(const char*) { return ""; }

TEST(ParseDaemonConfig, ReadsEveryDriver) {
  const auto config = ParseDaemonConfig(kConfig, "config.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->node_name, "node1");
  EXPECT_EQ(config->kubelet_root, "/mnt/k/kubelet");
  EXPECT_EQ(config->log_format, LogFormat::kJson);
  ASSERT_EQ(config->drivers.size(), 2u);
  EXPECT_EQ(config->drivers[0].backend_config, Json::parse(R"({"profile":"gpu","numDevices":4})"));
  EXPECT_EQ(config->drivers[0].discover_interval, absl::Seconds(30));
  EXPECT_EQ(config->drivers[0].orphan_check_interval, absl::Minutes(10));
  EXPECT_EQ(config->drivers[0].orphan_grace, absl::Seconds(90));
  EXPECT_EQ(config->drivers[1].orphan_grace, absl::Minutes(5));
  EXPECT_EQ(config->LibraryPath(config->drivers[1]), "/opt/acme/nic.so");
}

TEST(ParseDaemonConfig, ReadsTaintEffectsAndKeepsTheDefaultsOfTheRest) {
  using inventory::TaintEffect;
  using loader::FaultSeverity;
  const auto config = ParseDaemonConfig(R"(
nodeName: n
drivers:
- name: a.example
  backend: fake
  taintEffects:
    bySeverity: {critical: NoExecute, minor: NoSchedule}
    byClass: {ecc-contained: None, "79": NoExecute}
- name: b.example
  backend: fake
)",
                                        "c");
  ASSERT_TRUE(config.ok()) << config.status();
  const inventory::TaintEffects& effects = config->drivers[0].taint_effects;
  EXPECT_EQ(effects.Of("", FaultSeverity::kCritical), TaintEffect::kNoExecute);
  EXPECT_EQ(effects.Of("", FaultSeverity::kMajor), TaintEffect::kNoSchedule);
  EXPECT_EQ(effects.Of("", FaultSeverity::kMinor), TaintEffect::kNoSchedule);
  EXPECT_EQ(effects.Of("ecc-contained", FaultSeverity::kCritical), TaintEffect::kNone);
  EXPECT_EQ(effects.Of("79", FaultSeverity::kMinor), TaintEffect::kNoExecute);
  EXPECT_EQ(config->drivers[1].taint_effects.Of("", FaultSeverity::kMinor), TaintEffect::kNone);
}

TEST(ParseDaemonConfig, RefusesTaintEffectsThatAreNone) {
  const std::pair<const char*, const char*> cases[] = {
      {"{bySeverity: {fatal: NoSchedule}}", "bySeverity.fatal: unknown key; known keys: critical"},
      {"{bySeverity: {minor: none}}", "bySeverity.minor: must be one of None, NoSchedule"},
      {"{bySeverity: NoSchedule}", "taintEffects.bySeverity: must be a mapping"},
      {"{byClass: {ecc: Evict}}", "byClass.ecc: must be one of None, NoSchedule, NoExecute"},
      {"{byClass: {ecc: null}}", "byClass.ecc: must be one of None, NoSchedule, NoExecute"},
      {"{byClass: {ecc: [None]}}", "byClass.ecc: must be one of None, NoSchedule, NoExecute"},
      {"{byClass: {'e c': None}}", "byClass.e c: no fault class is called so"},
      {"{byClass: {'': None}}", "no fault class is called so: is empty"},
      {"{byclass: {ecc: None}}", "taintEffects.byclass: unknown key; did you mean \"byClass\"?"},
  };
  for (const auto& [text, error] : cases) {
    SCOPED_TRACE(text);
    const auto config = ParseDaemonConfig(
        std::string("nodeName: n\ndrivers:\n- name: a.example\n  backend: fake\n  taintEffects: ") +
            text + "\n",
        "c");
    ASSERT_TRUE(absl::IsInvalidArgument(config.status()));
    EXPECT_NE(config.status().message().find(error), absl::string_view::npos) << config.status();
    EXPECT_EQ(config.status().message().find('\n'), absl::string_view::npos) << config.status();
  }
}

TEST(ParseDaemonConfig, AnUnknownKeyNamesItsLine) {
  const auto config = ParseDaemonConfig(
      "nodeName: n\ndrivers:\n- name: a.example\n  backnd: fake\n", "config.yaml");
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.status().message().find(
                "config.yaml:4:3: drivers[0].backnd: unknown key; did you mean \"backend\"?"),
            absl::string_view::npos)
      << config.status();
}

TEST(ApplyOverrides, FlagsWinOverTheFileAndTheEnvironmentOnlyFillsGaps) {
  auto config = ParseDaemonConfig(kConfig, "c");
  ASSERT_TRUE(config.ok());
  const std::map<std::string, std::string> environment = {{"NODE_NAME", "from-env"},
                                                          {"POD_UID", "uid-from-env"}};
  const auto get = [&](const char* name) {
    return environment.count(name) > 0 ? environment.at(name) : "";
  };
  ASSERT_TRUE(ApplyOverrides({}, get, &*config).ok());
  EXPECT_EQ(config->node_name, "node1");
  EXPECT_EQ(config->pod_uid, "uid-from-env");
  Overrides overrides;
  overrides.node_name = "from-flag";
  overrides.log_level = "warn";
  ASSERT_TRUE(ApplyOverrides(overrides, get, &*config).ok());
  EXPECT_EQ(config->node_name, "from-flag");
  EXPECT_EQ(config->log_level, LogLevel::kWarn);
  overrides.log_level = "loud";
  EXPECT_TRUE(absl::IsInvalidArgument(ApplyOverrides(overrides, get, &*config)));
}

// SLC-08: a missing node name is an error at once, never an empty pool name.
TEST(Slc08, AMissingNodeNameIsAnErrorThatNamesTheSetting) {
  auto config = ParseDaemonConfig(kConfig, "c");
  ASSERT_TRUE(config.ok());
  config->node_name = "";
  ASSERT_TRUE(ApplyOverrides({}, NoEnvironment, &*config).ok());
  const absl::Status status = ValidateDaemonConfig(*config);
  ASSERT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_NE(status.message().find("node name"), absl::string_view::npos);
}

TEST(ValidateDaemonConfig, NamesTheSettingThatIsWrong) {
  struct Case {
    const char* name;
    void (*spoil)(DaemonConfig*);
    const char* error;
  };
  const Case cases[] = {
      {"no drivers", [](DaemonConfig* c) { c->drivers.clear(); }, "drivers"},
      {"driver twice", [](DaemonConfig* c) { c->drivers[1].name = c->drivers[0].name; },
       "configured twice"},
      {"bad driver name", [](DaemonConfig* c) { c->drivers[0].name = "GPU_1"; }, "driver name"},
      {"relative root", [](DaemonConfig* c) { c->kubelet_root = "kubelet"; }, "kubeletRoot"},
      {"relative library", [](DaemonConfig* c) { c->drivers[0].backend = "./x.so"; },
       "gpu.example.com"},
      {"bad pod UID", [](DaemonConfig* c) { c->pod_uid = "../x"; }, "pod UID"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    auto config = ParseDaemonConfig(kConfig, "c");
    ASSERT_TRUE(config.ok());
    config->backend_directory = "/usr/lib/dra/backends";
    ASSERT_TRUE(ValidateDaemonConfig(*config).ok()) << ValidateDaemonConfig(*config);
    c.spoil(&*config);
    const absl::Status status = ValidateDaemonConfig(*config);
    ASSERT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_NE(status.message().find(c.error), absl::string_view::npos) << status;
  }
}

}  // namespace
}  // namespace dra::driver
