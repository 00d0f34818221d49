#include "dra/testing/cdi_runtime.h"

#include "absl/strings/match.h"
#include "dra/testing/temp_directory.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dra::testing {
namespace {

Json Spec(const std::string& device, const std::string& value) {
  return {{"cdiVersion", "0.5.0"},
          {"kind", "k8s.gpu.example.com/claim"},
          {"containerEdits", {{"env", {"COMMON=1"}}}},
          {"devices",
           {{{"name", device},
             {"containerEdits",
              {{"env", {"GPU=" + value}},
               {"mounts",
                {{{"hostPath", "/opt/gpu"},
                  {"containerPath", "/opt/gpu"},
                  {"options", {"ro", "bind"}}}}}}}}}}};
}

class Cdi : public ::testing::Test {
 protected:
  Cdi() {
    EXPECT_TRUE(fs_.MakeDirectory(low_, 0755).ok());
    EXPECT_TRUE(fs_.MakeDirectory(high_, 0755).ok());
  }
  void Write(const std::string& directory, const std::string& name, const std::string& text) {
    EXPECT_TRUE(fs_.CreateFile(JoinPath(directory, name), text, 0644, false).ok());
  }

  TempDirectory directory_;
  PosixFileSystem fs_;
  const std::string low_ = directory_.Path("etc");
  const std::string high_ = directory_.Path("run");
  CdiRuntime runtime_{&fs_, {low_, high_, directory_.Path("missing")}};
  const std::string id_ = "k8s.gpu.example.com/claim=u1-gpu-0";
};

TEST_F(Cdi, AppliesTheEditsOfAFileAndItsDevice) {
  Write(high_, "a.json", Spec("u1-gpu-0", "0").dump());
  const absl::StatusOr<Json> injected = runtime_.Inject(CdiRuntime::EmptyConfig(), {id_});
  ASSERT_TRUE(injected.ok()) << injected.status();
  const ContainerView view = CdiRuntime::View(*injected);
  EXPECT_EQ(view.env, (std::vector<std::string>{"COMMON=1", "GPU=0"}));
  EXPECT_EQ(view.mounts, std::vector<std::string>{"/opt/gpu -> /opt/gpu (ro,bind)"});
  EXPECT_TRUE(absl::StrContains(view.ToText(), "environment:\n  COMMON=1\n"));
}

TEST_F(Cdi, AppliesNothingIfOneIdDoesNotResolveAndNamesIt) {
  Write(high_, "a.json", Spec("u1-gpu-0", "0").dump());
  Write(high_, "b.json", "{");
  const absl::Status status =
      runtime_.Inject(CdiRuntime::EmptyConfig(), {id_, "k8s.gpu.example.com/claim=gone"}).status();
  EXPECT_TRUE(absl::StartsWith(status.message(),
                               "unresolvable CDI devices k8s.gpu.example.com/claim=gone;"))
      << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "b.json")) << status;
}

TEST_F(Cdi, ABadFileOnlyAffectsItself) {
  Write(high_, "a.json", Spec("u1-gpu-0", "0").dump());
  Json empty = Spec("u2-gpu-0", "0");
  empty["devices"][0]["containerEdits"] = Json::object();
  Write(high_, "b.json", empty.dump());
  const CdiRuntime::Registry registry = runtime_.Scan();
  EXPECT_EQ(registry.devices, std::vector<std::string>{id_});
  EXPECT_EQ(registry.errors.count(JoinPath(high_, "b.json")), 1u);
}

TEST_F(Cdi, TheLaterDirectoryWins) {
  Write(low_, "a.json", Spec("u1-gpu-0", "low").dump());
  Write(high_, "b.json", Spec("u1-gpu-0", "high").dump());
  const ContainerView view = CdiRuntime::View(*runtime_.Inject(CdiRuntime::EmptyConfig(), {id_}));
  EXPECT_EQ(view.env.back(), "GPU=high");
}

TEST_F(Cdi, ADeviceInTwoFilesOfOneDirectoryIsNobodys) {
  Write(high_, "a.json", Spec("u1-gpu-0", "0").dump());
  Write(high_, "b.json", Spec("u1-gpu-0", "1").dump());
  const CdiRuntime::Registry registry = runtime_.Scan();
  EXPECT_TRUE(registry.devices.empty());
  EXPECT_EQ(registry.errors.size(), 2u);
}

TEST_F(Cdi, IgnoresOtherNames) {
  Write(high_, ".a.json.123.tmp", "{");
  Write(high_, "a.yml", "{");
  EXPECT_TRUE(runtime_.Scan().errors.empty());
}

TEST_F(Cdi, ShowsDeviceNodesWithTheirAccess) {
  Json spec = Spec("u1-gpu-0", "0");
  spec["devices"][0]["containerEdits"]["deviceNodes"] = {{{"path", "/dev/dra-no-such-node"},
                                                          {"type", "c"},
                                                          {"major", 195},
                                                          {"minor", 3},
                                                          {"permissions", "rw"}}};
  Write(high_, "a.json", spec.dump());
  const absl::StatusOr<Json> injected = runtime_.Inject(CdiRuntime::EmptyConfig(), {id_});
  ASSERT_TRUE(injected.ok()) << injected.status();
  EXPECT_EQ(CdiRuntime::View(*injected).device_nodes,
            std::vector<std::string>{"/dev/dra-no-such-node c 195:3 rw"});
}

}  // namespace
}  // namespace dra::testing
