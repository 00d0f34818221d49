#include <functional>
#include <string>

#include "driver_tree.h"
#include "edits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nvidia {
namespace {

using dra::Json;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kPath[] = "/etc/cdi/nvidia.json";
constexpr char kSpec[] = R"({
  "cdiVersion": "0.5.0",
  "kind": "nvidia.com/gpu",
  "devices": [
    {"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/other"}]}},
    {"name": "GPU-a", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/run/dev/nvidia0"}]}},
    {"name": "MIG-b", "containerEdits": {"deviceNodes": [
      {"path": "/dev/nvidia-caps/nvidia-cap21", "type": "c", "major": 236, "minor": 21}]}}
  ],
  "containerEdits": {
    "env": ["NVIDIA_CTK_LIBCUDA_DIR=/usr/lib64"],
    "mounts": [{"hostPath": "/usr/lib64/libcuda.so.1", "containerPath": "/usr/lib64/libcuda.so.1", "options": ["ro"]}],
    "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-cdi-hook", "args": ["nvidia-cdi-hook"]}]
  }
})";

class NvidiaToolkitSpec : public testing::Test {
 protected:
  NvidiaToolkitSpec() {
    for (const char* path :
         {"/run/dev/nvidia0", "/usr/lib64/libcuda.so.1", "/usr/bin/nvidia-cdi-hook"})
      tree_.File(path);
  }

  AllEdits Read(const std::vector<std::string>& gpus, const std::vector<std::string>& migs = {}) {
    std::vector<PresentDevice> devices;
    for (const std::string& uuid : gpus) {
      devices.emplace_back();
      devices.back().uuid = uuid;
    }
    for (const std::string& uuid : migs) {
      devices.emplace_back();
      devices.back().uuid = "GPU-parent";
      devices.back().mig = MigInstance();
      devices.back().mig->uuid = uuid;
    }
    return FromToolkitSpec(HostFiles(tree_.ToOptions()), kPath, devices);
  }

  std::string Refusal(const std::vector<std::string>& gpus = {"GPU-a"}) {
    try {
      Read(gpus);
    } catch (const dra::BackendError& error) {
      EXPECT_EQ(error.code(), DRA_FAILED_PRECONDITION);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("cdiSpec /etc/cdi/nvidia.json: "),
                                      HasSubstr("run `nvidia-ctk cdi generate --format=json")));
      return error.what();
    }
    return "accepted";
  }

  DriverTree tree_;
};

TEST_F(NvidiaToolkitSpec, GivesEachDevicesEditsByUuidAndTheCommonOnes) {
  tree_.File(kPath, kSpec);
  const Json spec = Json::parse(kSpec);
  // The runtime's own hook is kept away from the container; the rest is the toolkit's.
  Json common = spec["containerEdits"];
  common["env"].push_back("NVIDIA_VISIBLE_DEVICES=void");
  const AllEdits edits = Read({"GPU-a"}, {"MIG-b"});
  EXPECT_EQ(edits.common, common);
  ASSERT_EQ(edits.devices.size(), 2u);
  EXPECT_EQ(edits.devices[0], spec["devices"][1]["containerEdits"]);
  EXPECT_EQ(edits.devices[1], spec["devices"][2]["containerEdits"]);
}

TEST_F(NvidiaToolkitSpec, KeepsItsOwnGuard) {
  Json spec = Json::parse(kSpec);
  spec["containerEdits"]["env"] = {"NVIDIA_VISIBLE_DEVICES=void"};
  tree_.File(kPath, spec.dump());
  EXPECT_EQ(Read({"GPU-a"}).common["env"], Json::array({"NVIDIA_VISIBLE_DEVICES=void"}));
}

TEST_F(NvidiaToolkitSpec, IsRefusedWithWhatToRun) {
  EXPECT_THAT(Refusal(), HasSubstr("cannot be read as " + tree_.Path(kPath)));
  tree_.File(kPath, "cdiVersion: 0.5.0\ndevices: []\n");
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("not JSON"), HasSubstr("YAML is not read")));
  tree_.File(kPath, "{}");
  EXPECT_THAT(Refusal(), HasSubstr("is no CDI spec with a list of devices"));
  tree_.File(kPath, R"({"devices": [{"name": 0}]})");
  EXPECT_THAT(Refusal(), HasSubstr("has a device without a name"));
  tree_.File(kPath, R"({"devices": [{"name": "GPU-a", "containerEdits": {}}]})");
  EXPECT_THAT(Refusal(), HasSubstr("has no edits for device GPU-a"));
  tree_.File(kPath, R"({"devices": [{"name": "GPU-a", "containerEdits": {"mounts": [1]}}]})");
  EXPECT_THAT(Refusal(), HasSubstr("device GPU-a: containerEdits.mounts has an entry that is no"));
  tree_.File(kPath, R"({"devices": [{"name": "GPU-a", "containerEdits": {"mounts": [{}]}}]})");
  EXPECT_THAT(Refusal(), HasSubstr("has an entry without hostPath"));
}

TEST_F(NvidiaToolkitSpec, OfOtherDevicesIsRefusedWithThoseItHas) {
  tree_.File(kPath, kSpec);
  EXPECT_THAT(Refusal({"GPU-c"}), HasSubstr("has no device GPU-c (it has: 0, GPU-a, MIG-b)"));
}

TEST_F(NvidiaToolkitSpec, OlderThanTheDriverIsRefused) {
  const struct {
    const char* file;
    const char* text;
  } cases[] = {
      {"/usr/lib64/libcuda.so.1", "containerEdits.mounts names /usr/lib64/libcuda.so.1"},
      {"/usr/bin/nvidia-cdi-hook", "containerEdits.hooks names /usr/bin/nvidia-cdi-hook"},
      {"/run/dev/nvidia0", "device GPU-a: containerEdits.deviceNodes names /run/dev/nvidia0"},
  };
  tree_.File(kPath, kSpec);
  for (const auto& c : cases) {
    unlink(tree_.Path(c.file).c_str());
    EXPECT_THAT(Refusal(), AllOf(HasSubstr(c.text), HasSubstr("older than the driver")));
    tree_.File(c.file);
  }
  EXPECT_EQ(Refusal(), "accepted");
}

}  // namespace
}  // namespace nvidia
