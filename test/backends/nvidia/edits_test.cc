#include "edits.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <functional>
#include <set>
#include <string>

#include "driver_tree.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nvidia {
namespace {

using dra::Json;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kVersion[] = "580.126.20";
constexpr char kUuid[] = "GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c";
constexpr char kHook[] = "/var/lib/hook";
constexpr char kDevices[] =
    "Character devices:\n195 nvidia\n195 nvidia-modeset\n195 nvidiactl\n236 nvidia-caps\n"
    "510 nvidia-uvm\n\nBlock devices:\n";

PresentDevice Gpu(unsigned minor) {
  PresentDevice device;
  device.uuid = kUuid;
  device.minor = minor;
  device.pci_bus_id = "0000:65:00.0";
  return device;
}
PresentDevice Mig(unsigned minor) {
  PresentDevice device = Gpu(minor);
  device.mig_enabled = true;
  device.mig = MigInstance();
  device.mig->uuid = "MIG-1";
  device.mig->gpu_instance = 5;
  device.mig->compute_instance = 0;
  return device;
}

// A node that is on the host: the runtime reads its numbers.
Json OnHost(const std::string& path, const std::string& root = "") {
  Json node = {{"path", path}, {"permissions", "rw"}};
  if (!root.empty()) node["hostPath"] = root + path;
  return node;
}
// One that only the container will have.
Json Numbered(const std::string& path, unsigned major, unsigned minor, unsigned mode = 438) {
  return {{"path", path},   {"type", "c"},      {"major", major},
          {"minor", minor}, {"fileMode", mode}, {"permissions", "rw"}};
}

std::string Refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const dra::BackendError& error) {
    EXPECT_EQ(error.code(), DRA_UNAVAILABLE);
    return error.what();
  }
  return "accepted";
}

// Each rule in two forms: where this process may make nodes, and where it may not.
class NvidiaEdits : public testing::Test {
 protected:
  NvidiaEdits() : can_make_nodes_(tree_.CanMakeNodes()) { tree_.File("/proc/devices", kDevices); }

  // As the host has it, or as it is written for want of rights to make it.
  Json Made(const std::string& path, unsigned major, unsigned minor,
            const std::string& root = "") const {
    return can_make_nodes_ ? OnHost(path, root) : Numbered(path, major, minor);
  }

  DriverTree tree_;
  const bool can_make_nodes_;
};

TEST_F(NvidiaEdits, OfAGpuAreItsNodeAndItsDrmNodes) {
  tree_.Directory("/dev/dri");
  for (const char* name : {"card1", "renderD129", "controlD65"})
    tree_.Directory(std::string("/sys/bus/pci/devices/0000:65:00.0/drm/") + name);
  Json nodes = Json::array({Made("/dev/nvidia3", 195, 3)});
  // renderD129 is not on the host, and its numbers are nobody's to guess.
  if (tree_.CharacterDevice("/dev/dri/card1", 226, 1)) nodes.push_back(OnHost("/dev/dri/card1"));
  EXPECT_EQ(DeviceEdits(HostFiles(tree_.ToOptions()), Gpu(3), kHook),
            Json({{"deviceNodes", nodes}}));
}

TEST_F(NvidiaEdits, OfAGpuHaveTheLinksToItsDrmNodesThatTheHostHas) {
  if (!can_make_nodes_) GTEST_SKIP() << "this process may not make device nodes";
  const std::string root = "/run/nvidia/driver";
  tree_.Directory(root + "/dev");
  for (const char* name : {"card1", "renderD129"}) {
    tree_.Directory(std::string("/sys/bus/pci/devices/0000:65:00.0/drm/") + name);
    tree_.CharacterDevice(root + "/dev/dri/" + name, 226, name[0] == 'c' ? 1 : 129);
  }
  tree_.CharacterDevice(root + "/dev/dri/card2", 226, 2);
  const std::string links = root + "/dev/dri/by-path/";
  tree_.Link(links + "pci-0000:65:00.0-card", "../card1");
  tree_.Link(links + "pci-0000:65:00.0-render", "../renderD129");
  tree_.Link(links + "pci-0000:65:00.0-other", "../card2");  // not the GPU's, whatever its name
  tree_.Link(links + "pci-0000:66:00.0-card", "../card1");
  tree_.Link(links + "pci-0000:65:00.0-gone", "../card9");
  const Json edits = DeviceEdits(HostFiles(tree_.ToOptions(root)), Gpu(3), kHook);
  EXPECT_EQ(edits["deviceNodes"].size(), 3u);
  EXPECT_EQ(edits["hooks"],
            Json::parse(R"([{"hookName": "createContainer", "path": "/var/lib/hook", "timeout": 120,
              "args": ["dra-nvidia-hook",
                       "--link", "/dev/dri/by-path/pci-0000:65:00.0-card", "../card1",
                       "--link", "/dev/dri/by-path/pci-0000:65:00.0-render", "../renderD129"]}])"));
  EXPECT_FALSE(DeviceEdits(HostFiles(tree_.ToOptions("/")), Gpu(3), kHook).contains("hooks"));
}

TEST_F(NvidiaEdits, AMissingNodeIsMadeOnTheHost) {
  if (!can_make_nodes_) GTEST_SKIP() << "this process may not make device nodes";
  tree_.Directory("/dev");
  const mode_t before = umask(0077);
  DeviceEdits(HostFiles(tree_.ToOptions()), Gpu(3), kHook);
  umask(before);
  struct stat status;
  ASSERT_EQ(stat(tree_.Path("/dev/nvidia3").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode, S_IFCHR | 0666u);
  EXPECT_EQ(status.st_rdev, makedev(195, 3));
}

TEST_F(NvidiaEdits, ANodeThatCannotBeMadeIsWrittenWithItsNumbers) {
  // There is no /dev to make it in.
  EXPECT_EQ(DeviceEdits(HostFiles(tree_.ToOptions()), Gpu(3), kHook),
            Json({{"deviceNodes", Json::array({Numbered("/dev/nvidia3", 195, 3)})}}));
}

TEST_F(NvidiaEdits, ANodeOfADriverThatIsGoneIsWrittenWithTheNumbersOfNow) {  // CDI-12
  if (!can_make_nodes_) GTEST_SKIP() << "this process may not make device nodes";
  tree_.CharacterDevice("/dev/nvidia3", 195, 2);
  EXPECT_EQ(DeviceEdits(HostFiles(tree_.ToOptions()), Gpu(3), kHook),
            Json({{"deviceNodes", Json::array({Numbered("/dev/nvidia3", 195, 3)})}}));
}

TEST_F(NvidiaEdits, WithADevRootNodesAreTheDriversAndKeepTheirPath) {  // CDI-08
  const std::string root = "/run/nvidia/driver";
  tree_.Directory(root + "/dev");
  EXPECT_EQ(
      DeviceEdits(HostFiles(tree_.ToOptions(root)), Gpu(3), kHook),
      Json({{"deviceNodes", Json::array({Made("/dev/nvidia3", 195, 3, "/run/nvidia/driver")})}}));
}

TEST_F(NvidiaEdits, OfAMigInstanceAreTheGpusNodeAndTwoCapabilities) {
  tree_.Directory("/dev");
  tree_.Directory("/sys/bus/pci/devices/0000:65:00.0/drm/card1");
  tree_.CharacterDevice("/dev/dri/card1", 226, 1);  // the whole GPU's, not the instance's
  tree_.File("/proc/driver/nvidia/capabilities/gpu3/mig/gi5/access", "DeviceFileMinor: 21\n");
  tree_.File("/proc/driver/nvidia/capabilities/gpu3/mig/gi5/ci0/access", "DeviceFileMinor: 22\n");
  EXPECT_EQ(DeviceEdits(HostFiles(tree_.ToOptions()), Mig(3), kHook),
            Json({{"deviceNodes",
                   Json::array({Made("/dev/nvidia3", 195, 3),
                                Numbered("/dev/nvidia-caps/nvidia-cap21", 236, 21, 292),
                                Numbered("/dev/nvidia-caps/nvidia-cap22", 236, 22, 292)})}}));
}

TEST_F(NvidiaEdits, OfAMigInstanceThatIsGoneAreRefused) {
  tree_.Directory("/dev");
  const HostFiles files(tree_.ToOptions());
  tree_.File("/proc/driver/nvidia/capabilities/gpu3/mig/gi5/access", "DeviceFileMinor: 21\n");
  EXPECT_THAT(Refusal([&] { DeviceEdits(files, Mig(3), kHook); }),
              AllOf(HasSubstr("GPU instance 5, compute instance 0 of GPU GPU-4cf8db2d"),
                    HasSubstr("(minor 3) has no capability in /proc/driver/nvidia/capabilities")));
  tree_.File("/proc/devices", "Character devices:\n195 nvidia\n");
  EXPECT_THAT(
      Refusal([&] { DeviceEdits(files, Mig(3), kHook); }),
      HasSubstr("GPU instance 5 of GPU GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c (minor 3) has no "
                "capability device: /proc/devices has no nvidia-caps"));
}

TEST_F(NvidiaEdits, OfAClaimAreAllThatItsDevicesShare) {
  tree_.Directory("/dev");
  const std::string cuda = std::string("/usr/lib64/libcuda.so.") + kVersion;
  tree_.Library(cuda, "libcuda.so.1");
  tree_.File("/usr/bin/nvidia-smi");
  tree_.File("/usr/share/vulkan/icd.d/nvidia_icd.json");
  tree_.Socket("/run/nvidia-persistenced/socket");
  tree_.Library("/sbin/ldconfig", "static");

  Json expected = Json::parse(R"({
    "env": ["NVIDIA_VISIBLE_DEVICES=void"],
    "mounts": [
      {"hostPath": "/usr/lib64/libcuda.so.580.126.20", "containerPath": "/usr/lib64/libcuda.so.580.126.20",
       "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"]},
      {"hostPath": "/usr/bin/nvidia-smi", "containerPath": "/usr/bin/nvidia-smi",
       "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"]},
      {"hostPath": "/usr/share/vulkan/icd.d/nvidia_icd.json",
       "containerPath": "/usr/share/vulkan/icd.d/nvidia_icd.json",
       "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"]},
      {"hostPath": "/run/nvidia-persistenced/socket", "containerPath": "/run/nvidia-persistenced/socket",
       "options": ["rw", "nosuid", "nodev", "noexec", "rbind", "rprivate"]}],
    "hooks": [
      {"hookName": "createContainer", "path": "/var/lib/hook", "timeout": 120,
       "args": ["dra-nvidia-hook", "--ldconfig", "/sbin/ldconfig", "--library-directory", "/usr/lib64",
                "--link", "/usr/lib64/libcuda.so.1", "libcuda.so.580.126.20",
                "--link", "/usr/lib64/libcuda.so", "libcuda.so.1"]}]
  })");
  expected["deviceNodes"] =
      Json::array({Made("/dev/nvidiactl", 195, 255), Made("/dev/nvidia-uvm", 510, 0),
                   Made("/dev/nvidia-uvm-tools", 510, 1), Made("/dev/nvidia-modeset", 195, 254)});
  EXPECT_EQ(ClaimEdits(HostFiles(tree_.ToOptions()), kVersion, kHook), expected);
}

TEST_F(NvidiaEdits, OfAClaimLeaveOutWhatTheHostDoesNotHave) {
  tree_.File("/proc/devices", "Character devices:\n195 nvidia\n510 nvidia-uvm\n");
  tree_.Directory("/dev");
  tree_.Library(std::string("/usr/lib64/libcuda.so.") + kVersion, "libcuda.so.1");
  const Json edits = ClaimEdits(HostFiles(tree_.ToOptions()), kVersion, kHook);
  EXPECT_EQ(edits["deviceNodes"],
            Json::array({Made("/dev/nvidiactl", 195, 255), Made("/dev/nvidia-uvm", 510, 0),
                         Made("/dev/nvidia-uvm-tools", 510, 1)}));
  EXPECT_EQ(edits["mounts"].size(), 1u);
  EXPECT_EQ(edits["hooks"][0]["args"][1], "--library-directory");  // there is no ldconfig
}

TEST_F(NvidiaEdits, WithoutTheUvmModuleAreRefusedWithWhatToRun) {
  tree_.File("/proc/devices", "Character devices:\n195 nvidia\n");
  tree_.CharacterDevice("/dev/nvidia-uvm", 510, 0);  // of a module that is not loaded any more
  tree_.Library(std::string("/usr/lib64/libcuda.so.") + kVersion, "libcuda.so.1");
  EXPECT_THAT(Refusal([&] { ClaimEdits(HostFiles(tree_.ToOptions()), kVersion, kHook); }),
              AllOf(HasSubstr("nvidia-uvm is not loaded"), HasSubstr("nvidia-modprobe -u -c 0")));
}

TEST_F(NvidiaEdits, TheUvmNodeOfAnEarlierBootIsNotUsed) {  // CDI-12
  if (!can_make_nodes_) GTEST_SKIP() << "this process may not make device nodes";
  tree_.CharacterDevice("/dev/nvidia-uvm", 507, 0);
  tree_.CharacterDevice("/dev/nvidia-uvm-tools", 510, 1);
  tree_.Library(std::string("/usr/lib64/libcuda.so.") + kVersion, "libcuda.so.1");
  const Json edits = ClaimEdits(HostFiles(tree_.ToOptions()), kVersion, kHook);
  EXPECT_EQ(edits["deviceNodes"][1], Numbered("/dev/nvidia-uvm", 510, 0));
  EXPECT_EQ(edits["deviceNodes"][2], OnHost("/dev/nvidia-uvm-tools"));
}

TEST_F(NvidiaEdits, EveryHostPathIsThere) {
  const std::string root = "/run/nvidia/driver";
  tree_.Directory(root + "/dev");
  tree_.Library(root + "/opt/libcuda.so." + kVersion, "libcuda.so.1");
  tree_.Link(root + "/usr/lib64/libcuda.so." + kVersion,
             std::string("/opt/libcuda.so.") + kVersion);
  tree_.Link(root + "/usr/lib64/libgone.so." + kVersion, "/opt/gone");
  tree_.Link(root + "/usr/bin/nvidia-smi", "/opt/gone");
  const Json edits = ClaimEdits(HostFiles(tree_.ToOptions(root)), kVersion, kHook);
  ASSERT_EQ(edits["mounts"].size(), 1u);
  std::set<std::string> containers;
  for (const Json& mount : edits["mounts"]) {
    EXPECT_TRUE(tree_.Exists(mount["hostPath"])) << mount;
    EXPECT_TRUE(containers.insert(mount["containerPath"]).second) << mount;
  }
  for (const Json& node : edits["deviceNodes"]) {
    EXPECT_TRUE(!node.contains("hostPath") || tree_.Exists(node["hostPath"])) << node;
  }
}

TEST_F(NvidiaEdits, NeverSetALibraryPath) {
  tree_.Library(std::string("/usr/lib64/libcuda.so.") + kVersion, "libcuda.so.1");
  EXPECT_THAT(ClaimEdits(HostFiles(tree_.ToOptions()), kVersion, kHook).dump(),
              testing::Not(HasSubstr("LD_LIBRARY_PATH")));
}

}  // namespace
}  // namespace nvidia
