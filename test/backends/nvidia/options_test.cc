#include "options.h"

#include <fstream>
#include <regex>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nvidia {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAreArray;

std::string Refusal(const dra::Json& config) {
  try {
    ReadOptions(config);
  } catch (const dra::BackendError& error) {
    EXPECT_EQ(error.code(), DRA_INVALID_ARGUMENT);
    return error.what();
  }
  return "accepted";
}

TEST(NvidiaOptions, HaveDefaultsForAPlainHost) {
  const Options options = ReadOptions(dra::Json::object());
  EXPECT_EQ(options.host_root, "/");
  EXPECT_EQ(options.driver_root, "/");
  EXPECT_EQ(options.dev_root, "");
  EXPECT_EQ(options.kernel_root, "/");
  EXPECT_EQ(options.kubelet_root, "/var/lib/kubelet");
  EXPECT_EQ(options.nvml_library, "");
  EXPECT_EQ(options.cdi_spec, "");
  EXPECT_TRUE(options.ignored_xids.empty());
  EXPECT_FALSE(options.allow_device_plugin);
  EXPECT_EQ(options.poll_seconds, 10);
}

TEST(NvidiaOptions, AreRead) {
  const Options options = ReadOptions({{"hostRoot", "/host/"},
                                       {"driverRoot", "//run/./nvidia/driver"},
                                       {"devRoot", "/"},
                                       {"kernelRoot", "/simulated"},
                                       {"kubeletRoot", "/data/kubelet"},
                                       {"nvmlLibrary", "/usr/lib/libnvidia-ml.so.1"},
                                       {"cdiSpec", "/etc/cdi/nvidia.json"},
                                       {"ignoredXids", {94, 13}},
                                       {"allowDevicePlugin", true},
                                       {"pollSeconds", 3600}});
  EXPECT_EQ(options.host_root, "/host");
  EXPECT_EQ(options.driver_root, "/run/nvidia/driver");
  EXPECT_EQ(options.dev_root, "/");
  EXPECT_EQ(options.kernel_root, "/simulated");
  EXPECT_EQ(options.kubelet_root, "/data/kubelet");
  EXPECT_EQ(options.nvml_library, "/usr/lib/libnvidia-ml.so.1");
  EXPECT_EQ(options.cdi_spec, "/etc/cdi/nvidia.json");
  EXPECT_THAT(options.ignored_xids, ElementsAre(13, 94));
  EXPECT_TRUE(options.allow_device_plugin);
  EXPECT_EQ(options.poll_seconds, 3600);
}

TEST(NvidiaOptions, AreThoseOfTheReadme) {
  std::vector<std::string> known, documented;
  const std::string refusal = Refusal({{"no such option", 1}});
  const size_t list = refusal.find("known: ");
  ASSERT_NE(list, std::string::npos) << refusal;
  const std::regex name("[A-Za-z]+");
  for (std::sregex_iterator it(refusal.begin() + static_cast<long>(list) + 7, refusal.end(), name),
       end;
       it != end; ++it)
    known.push_back(it->str());
  std::ifstream readme(NVIDIA_README);
  ASSERT_TRUE(readme) << NVIDIA_README;
  bool configuration = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.rfind("## ", 0) == 0) configuration = line == "## Configuration";
    if (configuration && line.rfind("| `", 0) == 0)
      documented.push_back(line.substr(3, line.find('`', 3) - 3));
  }
  EXPECT_THAT(documented, UnorderedElementsAreArray(known));
}

TEST(NvidiaOptions, RefuseEachWrongValueWithItsPath) {
  const struct {
    const char* name;
    dra::Json config;
    const char* text;
  } cases[] = {
      {"unknown", {{"hostroot", "/"}}, "config.hostroot: unknown field; known: allowDevicePlugin"},
      {"relative host root",
       {{"hostRoot", "host"}},
       "config.hostRoot: \"host\" is not an absolute"},
      {"relative driver root", {{"driverRoot", "run/x"}}, "config.driverRoot: \"run/x\" is not an"},
      {"relative dev root", {{"devRoot", "."}}, "config.devRoot: \".\" is not an absolute path"},
      {"relative library", {{"nvmlLibrary", "x.so"}}, "config.nvmlLibrary: \"x.so\" is not an"},
      {"relative spec", {{"cdiSpec", "x.json"}}, "config.cdiSpec: \"x.json\" is not an absolute"},
      {"dots", {{"driverRoot", "/run/../etc"}}, "config.driverRoot: \"/run/../etc\" must not"},
      {"NUL", {{"driverRoot", std::string("/a\0b", 4)}}, "config.driverRoot: has a NUL byte"},
      {"path's type", {{"hostRoot", 1}}, "config.hostRoot: must be a string, is number"},
      {"xid 0", {{"ignoredXids", {0}}}, "config.ignoredXids: 0 is not in 1..65535"},
      {"xid's type", {{"ignoredXids", {"79"}}}, "config.ignoredXids[0]: must be an integer"},
      {"poll 0", {{"pollSeconds", 0}}, "config.pollSeconds: is not in 1..3600"},
      {"poll 3601", {{"pollSeconds", 3601}}, "config.pollSeconds: is not in 1..3600"},
      {"plugin's type", {{"allowDevicePlugin", "yes"}}, "config.allowDevicePlugin: must be true"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_THAT(Refusal(c.config), HasSubstr(c.text));
  }
}

TEST(NvidiaOptions, HostPathAddsTheHostsRoot) {
  Options options;
  EXPECT_EQ(options.HostPath("/dev/nvidia0"), "/dev/nvidia0");
  options.host_root = "/host";
  EXPECT_EQ(options.HostPath("/dev/nvidia0"), "/host/dev/nvidia0");
  EXPECT_EQ(options.HostPath("/"), "/host");
}

}  // namespace
}  // namespace nvidia
