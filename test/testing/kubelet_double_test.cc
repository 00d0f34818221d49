#include "dra/testing/kubelet_double.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "dra/base/file_system.h"
#include "dra/base/unique_fd.h"
#include "dra/testing/temp_directory.h"
#include "gtest/gtest.h"
#include "test/testing/test_objects.h"
#include "test/testing/tiny_plugin.h"

namespace dra::testing {
namespace {

constexpr const char* kDriver = "gpu.example.com";

class Kubelet : public ::testing::Test {
 protected:
  Kubelet() {
    options_.root = directory_.path();
    options_.node_name = "node-a";
    options_.registration_retry = absl::Milliseconds(50);
    options_.health_retry = absl::Milliseconds(50);
  }
  void Start() {
    auto started = FakeKubelet::Start(options_, &store_);
    ASSERT_TRUE(started.ok()) << started.status();
    kubelet_ = *std::move(started);
  }
  void StartWithPlugin() {
    Start();
    plugin_.Start(directory_.path());
    ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver));
  }
  // A pod whose containers use the requests of claim "c" as listed ("": the whole claim).
  Json PutPod(const std::string& name, const std::vector<std::string>& requests) {
    Json containers = Json::array();
    for (const std::string& request : requests) {
      Json use = {{"name", "devices"}};
      if (!request.empty()) use["request"] = request;
      containers.push_back({{"name", "c" + std::to_string(containers.size())},
                            {"resources", {{"claims", Json::array({use})}}}});
    }
    return store_.Put(
        {{"apiVersion", "v1"},
         {"kind", "Pod"},
         {"metadata", {{"name", name}, {"namespace", "default"}, {"uid", "uid-" + name}}},
         {"spec",
          {{"resourceClaims", Json::array({{{"name", "devices"}, {"resourceClaimName", "c"}}})},
           {"containers", containers}}}});
  }
  std::string PutClaim() {
    const Json claim = store_.Put(AllocatedClaim("c", Json::array({Result("gpu-0")})));
    return claim["metadata"]["uid"].get<std::string>();
  }

  TempDirectory directory_;
  ObjectStore store_;
  KubeletOptions options_;
  TinyPlugin plugin_;
  std::unique_ptr<FakeKubelet> kubelet_;
};

TEST_F(Kubelet, RegistersASocketThatAppearsAndTellsThePlugin) {
  StartWithPlugin();
  ASSERT_TRUE(plugin_.WaitForNotification());
  EXPECT_EQ(plugin_.notified(), 1);
  EXPECT_EQ(kubelet_->Plugins()[0].endpoint, plugin_.endpoint);
  EXPECT_EQ(kubelet_->Plugins()[0].health_service, "v1.DRAResourceHealth");
}

// Seen with 1.34 and 1.37: after a dead socket the path itself is in disgrace, not what lies there.
TEST_F(Kubelet, WaitsLongerAtAPathThatFailedWhateverComesToLieThere) {
  options_.dial_timeout = absl::Seconds(3);  // enough for the fresh one on a busy machine
  options_.registration_retry = absl::Hours(1);
  Start();
  const std::string path = directory_.Path(absl::StrCat("plugins_registry/", kDriver, "-reg.sock"));
  {
    // A bound socket whose process has ended.
    const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ASSERT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ASSERT_TRUE(kubelet_->WaitForRegistrationError());
  ASSERT_EQ(::unlink(path.c_str()), 0);
  plugin_.Start(directory_.path());
  ASSERT_EQ(plugin_.registration_socket, path);
  EXPECT_FALSE(kubelet_->WaitForPlugin(kDriver, absl::Milliseconds(500)));
  // Under a name that the kubelet has not tried it registers at once.
  plugin_.Stop();
  plugin_.StopService();
  TinyPlugin fresh;
  fresh.Start(directory_.path(), "-fresh");
  EXPECT_TRUE(kubelet_->WaitForPlugin(kDriver));
}

TEST_F(Kubelet, RegistersSocketsThatWereThereBefore) {
  PosixFileSystem fs;
  ASSERT_TRUE(MakeDirectories(fs, directory_.Path("plugins_registry"), 0755).ok());
  ASSERT_TRUE(MakeDirectories(fs, directory_.Path("plugins"), 0755).ok());
  plugin_.Start(directory_.path());
  Start();
  EXPECT_TRUE(kubelet_->WaitForPlugin(kDriver));
}

TEST_F(Kubelet, TakesTheFirstServiceOfThePluginsList) {
  plugin_.services = {"v9.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAPlugin"};
  StartWithPlugin();
  EXPECT_EQ(kubelet_->Plugins()[0].service, "v1beta1.DRAPlugin");
}

TEST_F(Kubelet, RefusesAPluginOfAnotherTypeAndSaysSo) {
  plugin_.type = "CSIPlugin";
  Start();
  plugin_.Start(directory_.path());
  ASSERT_TRUE(kubelet_->WaitForRegistrationError());
  ASSERT_TRUE(plugin_.WaitForNotification());
  EXPECT_EQ(plugin_.notified(), 0);
  EXPECT_TRUE(absl::StrContains(kubelet_->RegistrationErrors()[0], "no handler registered"));
  EXPECT_TRUE(kubelet_->Plugins().empty());
}

TEST_F(Kubelet, RefusesAPluginWithoutACommonService) {
  plugin_.services = {"1.0.0"};
  Start();
  plugin_.Start(directory_.path());
  ASSERT_TRUE(kubelet_->WaitForRegistrationError());
  EXPECT_TRUE(absl::StrContains(kubelet_->RegistrationErrors()[0], "1.0.0"));
}

TEST_F(Kubelet, GivesGetInfoItsTimeOnly) {
  options_.get_info_timeout = absl::Milliseconds(20);
  plugin_.info_delay = absl::Milliseconds(500);
  Start();
  plugin_.Start(directory_.path());
  ASSERT_TRUE(kubelet_->WaitForRegistrationError());
  EXPECT_TRUE(absl::StrContains(kubelet_->RegistrationErrors()[0], "GetInfo"));
}

TEST_F(Kubelet, IgnoresDotFilesAndOtherFiles) {
  Start();
  PosixFileSystem fs;
  ASSERT_TRUE(fs.CreateFile(directory_.Path("plugins_registry/file"), "", 0644, false).ok());
  TinyPlugin hidden;
  hidden.driver = ".hidden";
  hidden.Start(directory_.path(), "h");
  plugin_.Start(directory_.path());
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver));
  EXPECT_EQ(kubelet_->Plugins().size(), 1u);
  EXPECT_EQ(hidden.notified(), -1);
}

TEST_F(Kubelet, RemovalOfTheSocketDeregistersAndACreationRegistersAnew) {
  StartWithPlugin();
  plugin_.Stop();
  ASSERT_TRUE(kubelet_->WaitForPlugins(kDriver, 0));
  TinyPlugin next;
  next.Start(directory_.path());
  EXPECT_TRUE(kubelet_->WaitForPlugin(kDriver));
}

TEST_F(Kubelet, ASocketThatIsRenamedOverAnotherRegistersAnew) {
  StartWithPlugin();
  ASSERT_TRUE(plugin_.WaitForNotification());
  // As a process that was killed leaves its sockets, and the next one puts its own in their place.
  plugin_.StopService();
  TinyPlugin next;
  PosixFileSystem fs;
  ASSERT_TRUE(MakeDirectories(fs, directory_.Path("aside/plugins_registry"), 0755).ok());
  ASSERT_TRUE(MakeDirectories(fs, directory_.Path("aside/plugins"), 0755).ok());
  next.Start(directory_.Path("aside"));
  ASSERT_TRUE(fs.Rename(next.registration_socket, plugin_.registration_socket).ok());
  EXPECT_TRUE(next.WaitForNotification());
  ASSERT_TRUE(kubelet_->WaitForConnected(kDriver, 1));
  EXPECT_EQ(kubelet_->Plugins().size(), 1u);
  EXPECT_EQ(kubelet_->Plugins()[0].endpoint, next.endpoint);
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {{"default", "c", "u1"}}).verdict.ok());
  EXPECT_EQ(next.calls(), std::vector<std::string>{"prepare u1"});
}

TEST_F(Kubelet, CallsTheNewestConnectedEndpoint) {
  StartWithPlugin();
  TinyPlugin newer;
  newer.Start(directory_.path(), "-2");
  ASSERT_TRUE(kubelet_->WaitForConnected(kDriver, 2));
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {{"default", "c", "u1"}}).verdict.ok());
  EXPECT_EQ(newer.calls(), std::vector<std::string>{"prepare u1"});
  EXPECT_TRUE(plugin_.calls().empty());
}

TEST_F(Kubelet, RefusesAnswersForUnknownFailedAndMissingClaims) {
  plugin_.prepare = [](const TinyPlugin::PrepareRequest& request,
                       TinyPlugin::PrepareResponse& response) {
    const std::string& uid = request.claims(0).uid();
    if (uid == "unknown") (*response.mutable_claims())["another"];
    if (uid == "failed") (*response.mutable_claims())[uid].set_error("no such device");
  };
  StartWithPlugin();
  const auto verdict = [&](const std::string& uid) {
    return std::string(
        kubelet_->PrepareResources(kDriver, {{"default", "c", uid}}).verdict.message());
  };
  EXPECT_EQ(verdict("unknown"),
            "NodePrepareResources returned result for unknown claim UID another");
  EXPECT_EQ(verdict("failed"),
            "NodePrepareResources failed for ResourceClaim default/c: no such device");
  EXPECT_EQ(verdict("missing"), "NodePrepareResources skipped 1 ResourceClaims");
}

TEST_F(Kubelet, GivesUpACallAfterItsTime) {
  // The call may begin at the plugin after it was given up here, and after this test.
  const auto release = std::make_shared<absl::Notification>();
  options_.call_timeout = absl::Milliseconds(50);
  plugin_.prepare = [release](const TinyPlugin::PrepareRequest&, TinyPlugin::PrepareResponse&) {
    release->WaitForNotification();
  };
  StartWithPlugin();
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      kubelet_->PrepareResources(kDriver, {{"default", "c", "u1"}}).verdict));
  release->Notify();
}

TEST_F(Kubelet, RefusesADriverThatIsNotRegistered) {
  Start();
  EXPECT_EQ(kubelet_->PrepareResources(kDriver, {}).verdict.message(),
            "DRA driver gpu.example.com is not registered");
}

TEST_F(Kubelet, WipesTheSlicesOfItsNodeAtStartOnly) {
  store_.Put(Slice("mine", 1, "node-a"));
  store_.Put(Slice("other", 1, "node-b"));
  Start();
  EXPECT_FALSE(store_.Find(kube::ResourceSlices(), "", "mine").has_value());
  EXPECT_TRUE(store_.Find(kube::ResourceSlices(), "", "other").has_value());
}

TEST_F(Kubelet, WipesTheDriversSlicesAfterTheLossOfItsConnection) {
  options_.wipe_delay = absl::Milliseconds(50);
  StartWithPlugin();
  store_.Put(Slice("mine", 1, "node-a"));
  store_.Put(Slice("other", 1, "node-a", "other.example.com"));
  plugin_.StopService();
  EXPECT_TRUE(store_.WaitFor([](const ObjectStore& store) {
    return !store.Find(kube::ResourceSlices(), "", "mine").has_value();
  }));
  EXPECT_TRUE(store_.Find(kube::ResourceSlices(), "", "other").has_value());
}

TEST_F(Kubelet, GivesEachContainerTheIdsOfItsRequest) {
  StartWithPlugin();
  const std::string uid = PutClaim();
  PutPod("pod-1", {"gpu", "other", ""});
  const absl::StatusOr<std::vector<KubeletContainer>> containers =
      kubelet_->RunPod("default", "pod-1");
  ASSERT_TRUE(containers.ok()) << containers.status();
  const std::vector<std::string> ids = {"k8s.gpu.example.com/claim=" + uid + "-gpu-0"};
  EXPECT_EQ((*containers)[0].cdi_ids, ids);
  EXPECT_TRUE((*containers)[1].cdi_ids.empty())
      << "a wrong request name costs the devices, silently";
  EXPECT_EQ((*containers)[2].cdi_ids, ids);
}

TEST_F(Kubelet, RefusesAPodWhoseClaimIsNotReservedOrNotAllocated) {
  StartWithPlugin();
  PutClaim();
  PutPod("pod-2", {"gpu"});
  EXPECT_TRUE(absl::StrContains(kubelet_->RunPod("default", "pod-2").status().message(),
                                "not allowed to use"));
  Json claim = *store_.Find(kube::ResourceClaims(), "default", "c");
  claim["status"].erase("allocation");
  store_.Put(claim);
  PutPod("pod-1", {"gpu"});
  EXPECT_TRUE(
      absl::StrContains(kubelet_->RunPod("default", "pod-1").status().message(), "not allocated"));
  EXPECT_TRUE(plugin_.calls().empty()) << "no call before all checks have passed";
}

TEST_F(Kubelet, PreparesASharedClaimOnceAndUnpreparesItWithTheLastPod) {
  StartWithPlugin();
  const std::string uid = PutClaim();
  Json claim = *store_.Find(kube::ResourceClaims(), "default", "c");
  claim["status"]["reservedFor"].push_back(
      {{"resource", "pods"}, {"name", "pod-2"}, {"uid", "uid-pod-2"}});
  store_.Put(claim);
  PutPod("pod-1", {"gpu"});
  PutPod("pod-2", {"gpu"});
  ASSERT_TRUE(kubelet_->RunPod("default", "pod-1").ok());
  ASSERT_TRUE(kubelet_->RunPod("default", "pod-2").ok());
  ASSERT_TRUE(kubelet_->StopPod("default", "pod-1").ok());
  EXPECT_EQ(plugin_.calls(), std::vector<std::string>{"prepare " + uid});
  ASSERT_TRUE(kubelet_->StopPod("default", "pod-2").ok());
  EXPECT_EQ(plugin_.calls(), (std::vector<std::string>{"prepare " + uid, "unprepare " + uid}));
}

TEST_F(Kubelet, UnpreparesEvenAfterAFailedPrepare) {
  plugin_.prepare = [](const TinyPlugin::PrepareRequest&, TinyPlugin::PrepareResponse&) {};
  StartWithPlugin();
  const std::string uid = PutClaim();
  PutPod("pod-1", {"gpu"});
  EXPECT_FALSE(kubelet_->RunPod("default", "pod-1").ok());
  EXPECT_TRUE(kubelet_->StopPod("default", "pod-1").ok());
  EXPECT_EQ(plugin_.calls().back(), "unprepare " + uid);
}

TEST_F(Kubelet, RefusesAClaimOfTheSameNameAndAnotherUid) {
  StartWithPlugin();
  PutClaim();
  PutPod("pod-1", {"gpu"});
  ASSERT_TRUE(kubelet_->RunPod("default", "pod-1").ok());
  store_.Erase(kube::ResourceClaims(), "default", "c");
  PutClaim();
  EXPECT_TRUE(
      absl::StrContains(kubelet_->RunPod("default", "pod-1").status().message(), "different UID"));
}

TEST_F(Kubelet, ARestartWipesSlicesAndForgetsWhatIsPrepared) {
  StartWithPlugin();
  const std::string uid = PutClaim();
  PutPod("pod-1", {"gpu"});
  ASSERT_TRUE(kubelet_->RunPod("default", "pod-1").ok());
  store_.Put(Slice("mine"));
  kubelet_->Restart();
  EXPECT_FALSE(store_.Find(kube::ResourceSlices(), "", "mine").has_value());
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver));
  ASSERT_TRUE(kubelet_->RunPod("default", "pod-1").ok());
  EXPECT_EQ(plugin_.calls(), (std::vector<std::string>{"prepare " + uid, "prepare " + uid}));
}

TEST_F(Kubelet, ARebootEmptiesWhatIsVolatileAndChangesTheBootId) {
  bool emptied = false;
  options_.on_reboot = [&] { emptied = true; };
  options_.boot_id_path = directory_.Path("boot_id");
  StartWithPlugin();
  kubelet_->Reboot();
  EXPECT_TRUE(emptied);
  PosixFileSystem fs;
  const std::string first = *fs.ReadFile(options_.boot_id_path, 100);
  kubelet_->Reboot();
  EXPECT_NE(*fs.ReadFile(options_.boot_id_path, 100), first);
}

TEST_F(Kubelet, KeepsWhatTheHealthStreamReportsAndForgetsItWithTheStream) {
  StartWithPlugin();
  ASSERT_TRUE(kubelet_->WaitForHealth(kDriver, "node-a", "gpu-0", KubeletHealth::kUnhealthy));
  EXPECT_EQ(kubelet_->Health(kDriver, "node-a", "gpu-0").message, "too hot");
  plugin_.StopService();
  EXPECT_TRUE(kubelet_->WaitForHealth(kDriver, "node-a", "gpu-0", KubeletHealth::kUnknown));
  EXPECT_EQ(kubelet_->KnownHealth(kDriver), 0);
}

}  // namespace
}  // namespace dra::testing
