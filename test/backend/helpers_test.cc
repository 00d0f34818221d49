// The header-only helpers of an author, against a made-up sysfs.
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "dra/backend/configs.h"
#include "dra/backend/device_node.h"
#include "dra/backend/sysfs.h"
#include "gmock/gmock.h"

namespace dra {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Tree {
 public:
  Tree() {
    char name[] = "/tmp/draXXXXXX";
    root_ = ::mkdtemp(name);
  }
  ~Tree() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  const std::string& root() const { return root_; }
  void File(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text;
  }
  void Link(const std::string& path, const std::string& target) {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    fs::create_symlink(target, root_ + "/" + path);
  }
  // A PCI function below `parents`, as sysfs shows it.
  void PciDevice(const std::string& parents, const std::string& address) {
    fs::create_directories(root_ + "/devices/" + parents + "/" + address);
    Link("bus/pci/devices/" + address, "../../../devices/" + parents + "/" + address);
  }

 private:
  std::string root_;
};

template <typename Function>
std::string ErrorOf(Function&& function) {
  try {
    function();
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), DRA_INVALID_ARGUMENT) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

TEST(PciAddress, IsNormalizedFromWhatVendorToolsPrint) {
  EXPECT_EQ(NormalizePciAddress("0000:41:00.0"), "0000:41:00.0");
  EXPECT_EQ(NormalizePciAddress("00000000:C1:1F.7"), "0000:c1:1f.7");
  for (const char* text :
       {"", "41:00.0", "10000:41:00.0", "0000:41:00", "0000:41:00.8", "0000:41:20.0",
        "0000:41:00.0 ", "000:41:00.0", "0000:4g:00.0", "0000-41-00.0"}) {
    EXPECT_EQ(ParsePciAddress(text), std::nullopt) << text;
  }
}

TEST(Sysfs, PcieRootIsTheComponentBelowDevices) {
  Tree tree;
  tree.PciDevice("pci0000:40/0000:40:01.1", "0000:41:00.0");
  tree.PciDevice("LNXSYSTM:00/vmd", "0000:42:00.0");
  tree.Link("bus/pci/devices/0000:43:00.0", "../../../devices/pci0000:40/0000:44:00.0");
  const Sysfs sysfs(tree.root());
  EXPECT_EQ(sysfs.PcieRoot(*ParsePciAddress("0000:41:00.0")), "pci0000:40");
  EXPECT_EQ(sysfs.PcieRoot(*ParsePciAddress("0000:42:00.0")), std::nullopt) << "no pci root";
  EXPECT_EQ(sysfs.PcieRoot(*ParsePciAddress("0000:43:00.0")), std::nullopt) << "another function";
  EXPECT_EQ(sysfs.PcieRoot(*ParsePciAddress("0000:99:00.0")), std::nullopt) << "not there";
}

// INV-15: only the standard names, and -1 is left out.
TEST(Inv15, NumaNodeOfMinusOneIsOmitted) {
  Tree tree;
  tree.PciDevice("pci0000:40", "0000:41:00.0");
  tree.PciDevice("pci0000:40", "0000:42:00.0");
  tree.File("devices/pci0000:40/0000:41:00.0/numa_node", "-1\n");
  tree.File("devices/pci0000:40/0000:42:00.0/numa_node", "1\n");
  const Sysfs sysfs(tree.root());
  Json without;
  sysfs.AddStandardAttributes(*ParsePciAddress("0000:41:00.0"), without);
  EXPECT_EQ(without, Json::parse(R"({"attributes": {
      "resource.kubernetes.io/pciBusID": {"string": "0000:41:00.0"},
      "resource.kubernetes.io/pcieRoot": {"string": "pci0000:40"}}})"));
  Json with;
  sysfs.AddStandardAttributes(*ParsePciAddress("0000:42:00.0"), with);
  EXPECT_EQ(with["attributes"]["resource.kubernetes.io/numaNode"], Json::parse(R"({"int": 1})"));
}

// INV-10: an empty identity is an error of that device, with the path that was missing.
TEST(Inv10, AnEmptyFileIsMissingAndNamed) {
  Tree tree;
  tree.File("class/fpga/dfl-fme.0/interface_id", "\n");
  const Sysfs sysfs(tree.root());
  EXPECT_EQ(sysfs.Read("class/fpga/dfl-fme.0/interface_id"), std::nullopt);
  try {
    sysfs.Require("class/fpga/dfl-fme.0/interface_id");
    FAIL();
  } catch (const BackendError& error) {
    EXPECT_EQ(error.code(), DRA_NOT_FOUND);
    EXPECT_THAT(error.what(), HasSubstr("dfl-fme.0/interface_id is missing or empty"));
  }
}

TEST(Sysfs, ReadsNumbersAndLinksAndTellsAbsentFromUnreadable) {
  Tree tree;
  tree.File("a/hex", "0x10de\n");
  tree.File("a/words", "12 apples\n");
  tree.Link("a/driver", "../bus/pci/drivers/mlx5_core");
  const Sysfs sysfs(tree.root());
  EXPECT_EQ(sysfs.ReadInteger("a/hex"), 0x10de);
  EXPECT_EQ(sysfs.ReadInteger("a/words"), std::nullopt);
  EXPECT_EQ(sysfs.LinkName("a/driver"), "mlx5_core");
  EXPECT_EQ(sysfs.LinkName("a/hex"), std::nullopt);
  EXPECT_THAT(sysfs.List("a"), ::testing::ElementsAre("driver", "hex", "words"));
  EXPECT_TRUE(sysfs.List("none").empty());
  EXPECT_THROW(sysfs.List("a/hex"), BackendError) << "could not look is not nothing there";
}

// INV-17: a directory does not shadow the library that is looked for.
TEST(Inv17, TheSearchTakesRegularFilesOnly) {
  Tree tree;
  fs::create_directories(tree.root() + "/lib/libfake.so");
  tree.File("lib64/libfake.so.1", "x");
  tree.Link("lib64/libfake.so", "libfake.so.1");
  EXPECT_EQ(FindRegularFile({tree.root() + "/lib", tree.root() + "/lib64"}, "libfake.so"),
            tree.root() + "/lib64/libfake.so");
  EXPECT_EQ(FindRegularFile({tree.root() + "/lib"}, "libfake.so"), std::nullopt);
}

TEST(DeviceNode, NeedsADeviceFileAndLeavesNumbersToTheRuntime) {
  EXPECT_EQ(DeviceNode("/dev/null"), Json::parse(R"({"path": "/dev/null"})"));
  EXPECT_EQ(DeviceNode("/dev/null", {.container_path = "/dev/card0", .permissions = "rw"}),
            Json::parse(R"({"path": "/dev/card0", "hostPath": "/dev/null", "permissions": "rw"})"));
  EXPECT_THAT(ErrorOf([] { DeviceNode("null"); }), HasSubstr("must be absolute"));
  EXPECT_THAT(ErrorOf([] { DeviceNode("/dev/null", {.permissions = "rx"}); }),
              HasSubstr("r, w, m"));
  for (const char* path : {"/dev/no-such-device", "/etc/passwd"}) {
    try {
      DeviceNode(path);
      ADD_FAILURE() << path;
    } catch (const BackendError& error) {
      EXPECT_EQ(error.code(), DRA_NOT_FOUND);
    }
  }
  Json edits;
  AddDeviceNode(edits, "/dev/null");
  AddDeviceNode(edits, "/dev/null");
  EXPECT_EQ(edits["deviceNodes"].size(), 1u);
}

// CFG-01: strict for users; each error has the path.
TEST(Cfg01, AMistypedFieldIsRefusedWithItsPath) {
  const auto read = [](const char* text) {
    return ErrorOf([&] {
      JsonReader::Read(ParseStrictJson(text, "parameters"), "parameters", [](JsonReader& r) {
        r.Optional<std::string>("name");
        r.Optional("count", 1, 8);
        r.OptionalObject("sharing", [](JsonReader& s) {
          s.Enum<int>("mode", {{"TimeSlicing", 1}, {"Exclusive", 2}});
          s.Optional<bool>("fair");
        });
        r.Each("parts", [](JsonReader& p) { p.Required<std::string>("profile"); });
        r.List<int64_t>("ids");
      });
    });
  };
  EXPECT_THAT(read(R"({"sharring": {"mode": "x"}})"),
              HasSubstr("parameters.sharring: unknown field; known: count, ids"));
  EXPECT_THAT(read(R"({"name": "a", "name": "b"})"), HasSubstr("parameters.name: duplicate key"));
  EXPECT_THAT(read(R"({"parts": [{"profile": "a"}, {"x": {"y": 1, "y": 2}}]})"),
              HasSubstr("parameters.parts[1].x.y: duplicate key"));
  EXPECT_THAT(read(R"({"name": 1})"), HasSubstr("parameters.name: must be a string, is number"));
  EXPECT_THAT(read(R"({"count": 9})"), HasSubstr("parameters.count: is not in 1..8"));
  EXPECT_THAT(read(R"({"count": 18446744073709551615})"), HasSubstr("does not fit"));
  EXPECT_THAT(read(R"({"count": 1.5})"), HasSubstr("must be an integer"));
  EXPECT_THAT(read(R"({"sharing": {}})"), HasSubstr("parameters.sharing.mode: is required"));
  EXPECT_THAT(read(R"({"sharing": {"mode": "x"}})"),
              HasSubstr("\"x\" is not one of \"TimeSlicing\", \"Exclusive\""));
  EXPECT_THAT(read(R"({"sharing": {"mode": "Exclusive", "fare": true}})"),
              HasSubstr("parameters.sharing.fare: unknown"));
  EXPECT_THAT(read(R"({"parts": [{}]})"), HasSubstr("parameters.parts[0].profile: is required"));
  EXPECT_THAT(read(R"({"ids": [1, "2"]})"), HasSubstr("parameters.ids[1]: must be an integer"));
  EXPECT_THAT(read("[]"), HasSubstr("parameters: must be an object"));
  EXPECT_THAT(read("{"), HasSubstr("not JSON"));
  EXPECT_THAT(read((std::string(80, '[') + std::string(80, ']')).c_str()),
              HasSubstr("nested deeper"));
}

// CFG-02: the design lets the backend choose; both ways are here.
TEST(Cfg02, ConfigsAreMergedByFieldOrTheHighestCounts) {
  const std::vector<DeviceConfig> configs = {
      {"FromClass", "", Json::parse(R"({"a": 1, "deep": {"x": 1, "y": 1}, "list": [1, 2]})")},
      {"FromClaim", "r0", Json::parse(R"({"b": 2, "deep": {"y": 2}, "list": [3]})")}};
  const std::vector<DeviceConfig> merged = MergeConfigs(configs);
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(merged[0].parameters,
            Json::parse(R"({"a": 1, "b": 2, "deep": {"x": 1, "y": 2}, "list": [3]})"));
  EXPECT_EQ(merged[0].source, "FromClaim");
  EXPECT_EQ(HighestConfig(configs)->parameters.size(), 3u);
  EXPECT_EQ(HighestConfig({}), nullptr);
  EXPECT_TRUE(MergeConfigs({}).empty());
}

TEST(MergeConfigs, KeepsKindsApartWithTheHighestLast) {
  const auto config = [](const char* kind, int value) {
    return DeviceConfig{"FromClaim", "", {{"apiVersion", "x/v1"}, {"kind", kind}, {"v", value}}};
  };
  const auto merged = MergeConfigs({config("A", 1), config("B", 2), config("A", 3)});
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].parameters["kind"], "B");
  EXPECT_EQ(merged[1].parameters["v"], 3);
}

// CFG-05
TEST(Cfg05, AnUnknownVersionIsRefusedWithTheKnownOnes) {
  const ConfigKinds<int64_t> kinds(
      {{"gpu.sdk.test/v1", "Config", [](JsonReader& r) { return r.Required<int64_t>("k"); }},
       {"gpu.sdk.test/v2", "Config", [](JsonReader&) { return int64_t{2}; }}});
  EXPECT_EQ(kinds.Read(
                Json::parse(R"({"apiVersion": "gpu.sdk.test/v1", "kind": "Config", "k": 5})"), "p"),
            5);
  EXPECT_THAT(ErrorOf([&] {
                kinds.Read(Json::parse(R"({"apiVersion": "v1alpha1", "kind": "Config", "k": 1})"),
                           "p");
              }),
              HasSubstr("\"v1alpha1\" with kind \"Config\"; known: gpu.sdk.test/v1 Config, "
                        "gpu.sdk.test/v2 Config"));
  EXPECT_THAT(ErrorOf([&] { kinds.Read(Json::parse(R"({"kind": "Config"})"), "p"); }),
              HasSubstr("p.apiVersion: is required"));
  EXPECT_THAT(ErrorOf([&] { kinds.Read(Json(3), "p"); }), HasSubstr("p: must be an object"));
}

}  // namespace
}  // namespace dra
