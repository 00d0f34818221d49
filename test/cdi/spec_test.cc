#include "dra/cdi/spec.h"

#include <functional>

#include "dra/cdi/names.h"
#include "dra/cdi/validate.h"
#include "test/cdi/support.h"

namespace dra::cdi {
namespace {

constexpr char kEverything[] = R"({
  "cdiVersion": "1.1.0", "kind": "vendor.example/net.gpu", "annotations": {"a.example/b": "c"},
  "devices": [{"name": "d0", "annotations": {"x": "y"}, "containerEdits": {
    "env": ["A=b"],
    "deviceNodes": [{"path": "/dev/d", "hostPath": "/h/d", "type": "c", "major": 5, "minor": 6, "fileMode": 432,
                     "permissions": "rw", "uid": 0, "gid": 7}],
    "netDevices": [{"hostInterfaceName": "eth1", "name": "net0"}],
    "hooks": [{"hookName": "prestart", "path": "/h", "args": ["h", "-x"], "env": ["H=1"], "timeout": 3}],
    "mounts": [{"hostPath": "/a", "containerPath": "/b", "options": ["ro", "bind"], "type": "none"}],
    "intelRdt": {"closID": "c", "l3CacheSchema": "l", "memBwSchema": "m", "schemata": ["s"], "enableMonitoring": true},
    "additionalGids": [10, 0]}}],
  "containerEdits": {"env": ["S=1"]}})";

TEST(ParseSpecFile, KeepsEveryFieldThereAndBack) {
  const auto spec = ParseSpecFile(kEverything);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(ToJson(*spec), Json::parse(kEverything));
  EXPECT_TRUE(ValidateSpec(*spec).ok()) << ValidateSpec(*spec);
}

DeviceNode Node(const std::string& path, const std::string& type = "",
                const std::string& permissions = "") {
  DeviceNode node;
  node.path = path;
  node.type = type;
  node.permissions = permissions;
  return node;
}

TEST(ToJson, LeavesZeroValuesOut) {
  Spec spec{"0.3.0", "vendor.example/gpu", {}, {{"d0", {}, {}}}, {}};
  spec.devices[0].edits.device_nodes.push_back(Node("/dev/d"));
  EXPECT_EQ(ToJson(spec), Parsed(R"({"cdiVersion": "0.3.0", "kind": "vendor.example/gpu",
    "devices": [{"name": "d0", "containerEdits": {"deviceNodes": [{"path": "/dev/d"}]}}]})"));
}

TEST(ParseSpecFile, RefusesWhatIsNotStrictlyCdiAndNamesThePath) {
  const auto device = [](const std::string& edits) {
    return R"({"cdiVersion":"0.3.0","kind":"v.example/gpu","devices":[{"name":"d","containerEdits":)" +
           edits + "}]}";
  };
  struct Case {
    std::string text;
    std::string names;
  };
  for (const Case& c : std::vector<Case>{
           {"", "CDI spec"},
           {"[]", "CDI spec"},
           {"{}", "cdiVersion"},
           {R"({"cdiVersion":"0.3.0","kind":"v/c"})", "devices"},
           {R"({"cdiVersion":"0.3.0","Kind":"v/c","devices":[]})", "kind"},
           {R"({"cdiVersion":"0.3.0","kind":"v/c","kind":"v/d","devices":[]})",
            "kind\" is there twice"},
           {R"({"cdiVersion":"0.3.0","kind":"v/c","devices":[],"extra":1})", "extra"},
           {R"({"cdiVersion":"0.3.0","kind":"v/c","devices":[null]})", "devices[0]"},
           {R"({"cdiVersion":"0.3.0","kind":"v/c","devices":[{"name":"d"}]})",
            "devices[0].containerEdits"},
           {R"({"cdiVersion":"0.3.0","kind":"v/c","devices":[{"name":0,"containerEdits":{}}]})",
            "devices[0].name"},
           {device(R"({"env":[1]})"), "devices[0].containerEdits.env[0]"},
           {device(R"({"env":null})"), "containerEdits.env"},
           {device(R"({"deviceNodes":[null]})"), "deviceNodes[0]"},
           {device(R"({"deviceNodes":[{"path":"/d","Path":"/e"}]})"), "deviceNodes[0].Path"},
           {device(R"({"deviceNodes":[{"path":"/d","uid":-1}]})"), "deviceNodes[0].uid"},
           {device(R"({"deviceNodes":[{"path":"/d","gid":4294967296}]})"), "deviceNodes[0].gid"},
           {device(R"({"deviceNodes":[{"path":"/d","fileMode":"0666"}]})"), "fileMode"},
           {device(R"({"deviceNodes":[{"path":"/d","major":1.5}]})"), "major"},
           {device(R"({"deviceNodes":[{"path":"/d","path":"/d"}]})"), "there twice"},
           {device(R"({"mounts":[{"hostPath":"/a"}]})"), "mounts[0].containerPath"},
           {device(R"({"intelRdt":{"enableCMT":true}})"), "intelRdt.enableCMT"},
           {device(R"({"additionalGids":[-1]})"), "additionalGids[0]"},
           {device(R"({"additionalGIDs":[1]})"), "additionalGIDs"}}) {
    SCOPED_TRACE(c.text);
    const auto spec = ParseSpecFile(c.text);
    ASSERT_TRUE(absl::IsInvalidArgument(spec.status())) << spec.status();
    EXPECT_NE(std::string(spec.status().message()).find(c.names), std::string::npos)
        << spec.status();
  }
}

TEST(MinimumVersion, IsTheNewestThatAnyFieldNeeds) {
  struct Case {
    const char* edits;
    const char* version;
  };
  for (const Case& c : std::vector<Case>{
           {R"({"env":["A=b"]})", "0.3.0"},
           {R"({"mounts":[{"hostPath":"/a","containerPath":"/b"}]})", "0.3.0"},
           {R"({"mounts":[{"hostPath":"/a","containerPath":"/b","type":"none"}]})", "0.4.0"},
           {R"({"deviceNodes":[{"path":"/a","hostPath":"/b"}]})", "0.5.0"},
           {R"({"deviceNodes":[{"path":"/a","fileMode":384,"type":"u","permissions":"r"}]})",
            "0.3.0"},
           {R"({"additionalGids":[0]})", "0.7.0"},
           {R"({"intelRdt":{}})", "0.7.0"},
           {R"({"intelRdt":{"schemata":[]}})", "1.1.0"},
           {R"({"intelRdt":{"enableMonitoring":true}})", "1.1.0"},
           {R"({"intelRdt":{"enableMonitoring":false}})", "0.7.0"},
           {R"({"netDevices":[{"hostInterfaceName":"a","name":"b"}]})", "1.1.0"}}) {
    SCOPED_TRACE(c.edits);
    const auto edits = EditsFromJson(Parsed(c.edits));
    ASSERT_TRUE(edits.ok());
    EXPECT_EQ(MinimumVersion(Spec{"", "v.example/gpu", {}, {{"d", {}, *edits}}, {}}), c.version);
    EXPECT_EQ(MinimumVersion(Spec{"", "v.example/gpu", {}, {{"d", {}, {}}}, *edits}), c.version);
  }
  EXPECT_EQ(MinimumVersion(Spec{"", "v.example/gpu", {}, {{"0d", {}, {}}}, {}}), "0.5.0");
  EXPECT_EQ(MinimumVersion(Spec{"", "v.example/gpu.x", {}, {{"d", {}, {}}}, {}}), "0.6.0");
  EXPECT_EQ(MinimumVersion(Spec{"", "v.example/gpu", {{"a", "b"}}, {{"d", {}, {}}}, {}}), "0.6.0");
  EXPECT_EQ(MinimumVersion(Spec{"", "v.example/gpu", {}, {{"d", {{"a", "b"}}, {}}}, {}}), "0.6.0");
}

TEST(ValidateSpec, RefusesEachBrokenRule) {
  Spec good{"0.3.0", "v.example/gpu", {}, {{"d0", {}, {}}}, {}};
  good.devices[0].edits.env = {"A=b"};
  ASSERT_TRUE(ValidateSpec(good).ok());
  const auto refused = [&good](const std::string& text, const std::function<void(Spec&)>& change) {
    SCOPED_TRACE(text);
    Spec spec = good;
    change(spec);
    const absl::Status status = ValidateSpec(spec);
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_NE(std::string(status.message()).find(text), std::string::npos) << status;
  };
  for (const char* version : {"1.0", "0.5.1", "1.0.1", "1.2.0", "", " 0.6.0"}) {
    refused("invalid version", [version](Spec& s) { s.version = version; });
  }
  refused("at least v0.3.0", [](Spec& s) { s.version = "0.2.0"; });
  refused("at least v0.7.0", [](Spec& s) { s.edits.additional_gids = {1}; });
  refused("invalid vendor. empty name", [](Spec& s) { s.kind = "gpu"; });
  refused("invalid vendor", [](Spec& s) { s.kind = "1v/gpu"; });
  refused("two characters", [](Spec& s) { s.kind = "v/gpu"; });
  refused("invalid class", [](Spec& s) { s.kind = "v.example/gpu-"; });
  refused("no devices", [](Spec& s) { s.devices.clear(); });
  refused("empty device edits", [](Spec& s) { s.devices[0].edits = {}; });
  refused("multiple device \"d0\"", [](Spec& s) { s.devices.push_back(s.devices[0]); });
  refused("device name", [](Spec& s) { s.devices[0].name = "a/b"; });
  refused("env[0]: invalid environment variable without a name",
          [](Spec& s) { s.edits.env = {"=x"}; });
  refused("env[0]: invalid environment variable without a '='",
          [](Spec& s) { s.edits.env = {"x"}; });
  refused("invalid (empty) device path", [](Spec& s) { s.edits.device_nodes = {Node("")}; });
  refused("invalid type \"x\"", [](Spec& s) { s.edits.device_nodes = {Node("/d", "x")}; });
  refused("invalid permissions \"rx\"",
          [](Spec& s) { s.edits.device_nodes = {Node("/d", "", "rx")}; });
  refused("empty host path", [](Spec& s) { s.edits.mounts = {{"", "/c", {}, ""}}; });
  refused("empty container path", [](Spec& s) { s.edits.mounts = {{"/h", "", {}, ""}}; });
  refused("invalid hook name", [](Spec& s) { s.edits.hooks = {{"preStart", "/h", {}, {}, {}}}; });
  refused("empty path", [](Spec& s) { s.edits.hooks = {{"prestart", "", {}, {}, {}}}; });
  refused("annotations: invalid key", [](Spec& s) {
    s.version = "0.6.0";
    s.annotations = {{"a b", ""}};
  });
}

TEST(ValidateSpec, AcceptsALeadingVAndAnOverstatedVersion) {
  Spec spec{"v1.1.0", "v.example/gpu", {}, {{"d0", {}, {}}}, {}};
  spec.devices[0].edits.env = {"A="};
  EXPECT_TRUE(ValidateSpec(spec).ok());
}

TEST(ValidateOwnEdits, RefusesWhatCdiAllowsButNoRuntimeCanDo) {
  struct Case {
    const char* edits;
    const char* path;
  };
  for (const Case& c : std::vector<Case>{
           {R"({"env":["A=\u0000"]})", "env[0]"},
           {R"({"deviceNodes":[{"path":"dev/d"}]})", "deviceNodes[0].path"},
           {R"({"deviceNodes":[{"path":"/dev/../d"}]})", "deviceNodes[0].path"},
           {R"({"deviceNodes":[{"path":"/d","hostPath":"d"}]})", "deviceNodes[0].hostPath"},
           {R"({"deviceNodes":[{"path":"/d"},{"path":"/d"}]})", "deviceNodes[1].path"},
           {R"({"mounts":[{"hostPath":"a","containerPath":"/b","options":["bind","ro"]}]})",
            "mounts[0].hostPath"},
           {R"({"mounts":[{"hostPath":"/a","containerPath":"/b","options":["ro"]}]})",
            "mounts[0].options"},
           {R"({"mounts":[{"hostPath":"/a","containerPath":"/b"}]})", "mounts[0].options"},
           {R"({"mounts":[{"hostPath":"/a","containerPath":"/b","options":["bind","ro","rw"]}]})",
            "mounts[0].options"},
           {R"({"hooks":[{"hookName":"prestart","path":"h"}]})", "hooks[0].path"},
           {R"({"hooks":[{"hookName":"prestart","path":"/h","args":[""]}]})", "hooks[0].args[0]"},
           {R"({"hooks":[{"hookName":"prestart","path":"/h","timeout":0}]})", "hooks[0].timeout"},
           {R"({"netDevices":[{"hostInterfaceName":"abcdefghijklmnop","name":"b"}]})",
            "hostInterfaceName"},
           {R"({"netDevices":[{"hostInterfaceName":"a","name":"b:0"}]})", "netDevices[0].name"}}) {
    SCOPED_TRACE(c.edits);
    const auto edits = EditsFromJson(Parsed(c.edits), "edits");
    ASSERT_TRUE(edits.ok()) << edits.status();
    EXPECT_TRUE(ValidateEdits(*edits, "edits").ok());
    const absl::Status status = ValidateOwnEdits(*edits, "edits");
    ASSERT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_NE(std::string(status.message()).find(c.path), std::string::npos) << status;
  }
}

TEST(ParseQualifiedName, SplitsAndValidates) {
  const auto name = ParseQualifiedName("k8s.gpu.example.com/claim=uid-0000:3b:00.0");
  ASSERT_TRUE(name.ok()) << name.status();
  EXPECT_EQ(name->vendor, "k8s.gpu.example.com");
  EXPECT_EQ(name->device_class, "claim");
  EXPECT_EQ(name->name, "uid-0000:3b:00.0");
  EXPECT_EQ(name->ToString(), "k8s.gpu.example.com/claim=uid-0000:3b:00.0");
  for (const char* bad :
       {"", "/dev/x", "vendor=x", "/gpu=x", "vendor/=x", "vendor/gpu", "vendor/gpu="}) {
    EXPECT_TRUE(absl::IsInvalidArgument(SplitQualifiedName(bad).status())) << bad;
  }
  for (const char* malformed :
       {"1vendor/gpu=x", "vendor/gpu=-x", "vendor/gpu=a=b", "vendor/a/b=x"}) {
    EXPECT_TRUE(SplitQualifiedName(malformed).ok()) << malformed;
    EXPECT_TRUE(absl::IsInvalidArgument(ParseQualifiedName(malformed).status())) << malformed;
  }
}

TEST(Cdi10, ALongIdIsSomethingToWarnAboutOnly) {
  EXPECT_TRUE(FitsContainerAnnotation(std::string(20, 'd'), std::string(36, 'u')));
  EXPECT_FALSE(FitsContainerAnnotation(std::string(40, 'd'), std::string(36, 'u')));
}

TEST(Cdi12, ANumberThatIsNotTheHostsIsFound) {
  DeviceHost host;
  host.AddNode("/dev/fake0", FileType::kCharDevice, 511, 4);
  const auto findings = [&host](const char* edits) {
    return CompareDeviceNumbers(*EditsFromJson(Parsed(edits)), host);
  };
  const auto found =
      findings(R"({"deviceNodes":[{"path":"/dev/fake0","type":"c","major":511,"minor":0}]})");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("number mismatch"), std::string::npos);
  EXPECT_NE(found[0].find("511:4"), std::string::npos);
  EXPECT_TRUE(
      findings(R"({"deviceNodes":[{"path":"/dev/fake0","type":"c","major":511,"minor":4}]})")
          .empty());
  EXPECT_TRUE(findings(R"({"deviceNodes":[{"path":"/dev/fake0"}]})").empty());
  EXPECT_TRUE(
      findings(R"({"deviceNodes":[{"path":"/dev/mig-cap","type":"c","major":1,"minor":1}]})")
          .empty());
}

TEST(DocsCdiNames, TheExampleIsAFileTheDriverCouldWrite) {
  PosixFileSystem fs;
  const auto page = fs.ReadFile(DRA_SOURCE_DIR "/docs/cdi-names.md", 1 << 20);
  ASSERT_TRUE(page.ok()) << page.status();
  const size_t begin = page->find("```json\n") + 8;
  const auto spec = ParseSpecFile(page->substr(begin, page->find("```", begin) - begin));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(ValidateSpec(*spec).ok()) << ValidateSpec(*spec);
  EXPECT_EQ(spec->version, MinimumVersion(*spec));
  EXPECT_TRUE(ValidateOwnEdits(spec->edits, "containerEdits").ok());
  EXPECT_TRUE(ValidateOwnEdits(spec->devices[0].edits, "device").ok());
}

}  // namespace
}  // namespace dra::cdi
