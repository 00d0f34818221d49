#include "test/driver/node_fixture.h"

#include <fstream>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "dra/base/ids.h"

namespace dra::driver {

NodeFixture::NodeFixture() {
  for (const char* name : {"cdi", "state", "kubelet"}) {
    EXPECT_TRUE(MakeDirectories(fs_, directory_.Path(name), 0755).ok());
  }
}

NodeFixture::~NodeFixture() { StopDaemon(); }

void NodeFixture::StartApi(testing::ServerProfile profile) {
  testing::ApiServerOptions options;
  options.profile = std::move(profile);
  auto api = testing::FakeApiServer::Start(options);
  ASSERT_TRUE(api.ok()) << api.status();
  api_ = *std::move(api);
  api_->store().Put({{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", kNode}}}});
  ASSERT_TRUE(WriteFileAtomically(fs_, directory_.Path("kubeconfig"), api_->KubeConfig(), 0600,
                                  Durability::kVolatile)
                  .ok());
}

void NodeFixture::StartKubelet(int minor) {
  if (api_ == nullptr) StartApi();
  testing::KubeletOptions options;
  options.root = directory_.Path("kubelet");
  options.node_name = kNode;
  options.minor = minor;
  auto kubelet = testing::FakeKubelet::Start(options, &api_->store());
  ASSERT_TRUE(kubelet.ok()) << kubelet.status();
  kubelet_ = *std::move(kubelet);
}

DaemonConfig NodeFixture::Config(Json backend_config) const {
  DaemonConfig config;
  config.node_name = kNode;
  config.installation = "test";
  config.kubelet_root = directory_.Path("kubelet");
  config.cdi_directory = directory_.Path("cdi");
  config.kubeconfig = directory_.Path("kubeconfig");
  config.http_address =
      "";  // the HTTP library takes two seconds to stop; tests that want it set it
  config.status_socket = directory_.Path("status.sock");
  config.shutdown_grace = absl::Seconds(10);
  DriverConfig driver;
  driver.name = kDriver;
  driver.backend = DRA_FAKE_BACKEND;
  driver.backend_config = {
      {"numDevices", 4}, {"nodeName", kNode}, {"stateDirectory", directory_.Path("state")}};
  driver.backend_config.update(backend_config);
  driver.health_interval = absl::Seconds(1);
  config.drivers.push_back(driver);
  return config;
}

void NodeFixture::StartDaemonWith(DaemonConfig config) {
  ASSERT_EQ(daemon_, nullptr);
  ASSERT_TRUE(ValidateDaemonConfig(config).ok()) << ValidateDaemonConfig(config);
  auto daemon = Daemon::Create(std::move(config), &fs_, &clock_, Logger());
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  daemon_ = *std::move(daemon);
  const absl::Status started = daemon_->Start();
  ASSERT_TRUE(started.ok()) << started;
}

void NodeFixture::StartDaemon(Json backend_config) {
  StartDaemonWith(Config(std::move(backend_config)));
}

void NodeFixture::StopDaemon() {
  if (daemon_ != nullptr) daemon_->Stop();
  daemon_ = nullptr;
}

void NodeFixture::StartNode(Json backend_config) {
  if (api_ == nullptr) StartApi();
  if (kubelet_ == nullptr) StartKubelet();
  StartDaemon(std::move(backend_config));
  ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience));
  ASSERT_TRUE(WaitForReady(true)) << DumpJson(daemon_->Status());
}

testing::KubeletClaim NodeFixture::MakeClaim(const std::string& name, const Json& results,
                                             const Json& config) {
  Json full = Json::array();
  for (size_t i = 0; i < results.size(); ++i) {
    Json result = {{"request", absl::StrCat("r", i)}, {"driver", kDriver}, {"pool", kNode}};
    result.update(results[i].is_string() ? Json{{"device", results[i]}} : results[i]);
    full.push_back(std::move(result));
  }
  const Json stored = api_->store().Put(
      {{"apiVersion", "resource.k8s.io/v1"},
       {"kind", "ResourceClaim"},
       {"metadata", {{"name", name}, {"namespace", "ns1"}, {"uid", NewUuid()}}},
       {"spec", Json::object()},
       {"status",
        {{"allocation", {{"devices", {{"results", full}, {"config", config}}}}},
         {"reservedFor",
          Json::array({Json{{"resource", "pods"}, {"name", "p1"}, {"uid", NewUuid()}}})}}}});
  return {"ns1", name, StringOr(stored["metadata"], "uid")};
}

std::vector<Json> NodeFixture::Slices() const { return api_->store().All(kube::ResourceSlices()); }

std::map<std::string, Json> NodeFixture::Devices() const {
  std::map<std::string, Json> devices;
  for (const Json& slice : Slices()) {
    const Json* list = Find(slice["spec"], "devices");
    if (list == nullptr) continue;
    for (const Json& device : *list) devices[StringOr(device, "name")] = device;
  }
  return devices;
}

bool NodeFixture::WaitForDevices(
    const std::function<bool(const std::map<std::string, Json>&)>& wanted) const {
  return api_->store().WaitFor([&](const testing::ObjectStore&) { return wanted(Devices()); },
                               kPatience);
}

bool NodeFixture::WaitUntil(const std::function<bool()>& condition) const {
  const absl::Time limit = absl::Now() + kPatience;
  while (!condition()) {
    if (absl::Now() > limit) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
  return true;
}

bool NodeFixture::WaitForReady(bool ready) const {
  return WaitUntil([&] { return BoolOr(daemon_->Status(), "ready") == ready; });
}

void NodeFixture::Control(const Json& control) {
  ASSERT_TRUE(WriteFileAtomically(fs_, directory_.Path("state/control.json"), DumpJson(control),
                                  0600, Durability::kVolatile)
                  .ok());
}

int NodeFixture::HookCalls(const std::string& hook, const std::string& event) const {
  std::ifstream log(directory_.Path("state/hooks.jsonl"));
  int calls = 0;
  for (std::string line; std::getline(log, line);) {
    const auto entry = ParseJsonObject(line, "hook log");
    if (entry.ok() && StringOr(*entry, "event") == event && StringOr(*entry, "hook") == hook)
      ++calls;
  }
  return calls;
}

std::vector<std::string> NodeFixture::CdiFiles() const {
  PosixFileSystem fs;
  return fs.List(directory_.Path("cdi")).value_or(std::vector<std::string>{"unreadable"});
}

std::vector<std::string> NodeFixture::Records() const {
  PosixFileSystem fs;
  return fs.List(directory_.Path(absl::StrCat("kubelet/plugins/", kDriver, "/claims")))
      .value_or(std::vector<std::string>{"unreadable"});
}

}  // namespace dra::driver
