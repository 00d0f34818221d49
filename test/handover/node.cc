#include "test/handover/node.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dra/base/ids.h"
#include "dra/base/unique_fd.h"

extern char** environ;

namespace dra::handover {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(10);

// All that a unix socket says to a request.
std::string Ask(const std::string& socket) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  struct sockaddr_un address {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, socket.c_str(), sizeof(address.sun_path) - 1);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return "";
  // A process that is stopped accepts and says nothing.
  struct timeval limit {};
  limit.tv_sec = 5;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  constexpr char kRequest[] = "GET /status HTTP/1.0\r\n\r\n";
  if (::send(fd.get(), kRequest, sizeof(kRequest) - 1, MSG_NOSIGNAL) < 0) return "";
  std::string answer;
  char buffer[16384];
  for (ssize_t got = 0; (got = ::recv(fd.get(), buffer, sizeof(buffer), 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(got));
  }
  return answer;
}

}  // namespace

bool WaitUntil(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + kPatience;
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(kPoll);
  }
  return true;
}

Instance::Instance(const std::string& pod_uid, const testing::TempDirectory& directory)
    : pod_uid_(pod_uid),
      status_socket_(directory.Path(absl::StrCat(pod_uid.substr(0, 8), ".sock"))),
      log_(directory.Path(absl::StrCat("log-", pod_uid.substr(0, 8)))) {
  const std::string config = directory.Path("config.yaml");
  std::vector<std::string> words = {DRA_DRIVER, "--config",        config,        "--pod-uid",
                                    pod_uid_,   "--status-socket", status_socket_};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, log_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  EXPECT_EQ(::posix_spawn(&pid_, DRA_DRIVER, &actions, nullptr, argv.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
}

Instance::~Instance() { Kill(); }

void Instance::Signal(int signal) const {
  if (pid_ > 0) ::kill(pid_, signal);
}

std::optional<int> Instance::Wait() {
  if (pid_ <= 0) return std::nullopt;
  int status = 0;
  if (!WaitUntil([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; })) return std::nullopt;
  pid_ = -1;
  return status;
}

std::optional<int> Instance::Terminate() {
  Signal(SIGTERM);
  return Wait();
}

void Instance::Kill() {
  Signal(SIGKILL);
  (void)Wait();
}

Json Instance::Status() const {
  const std::string answer = Ask(status_socket_);
  const size_t begin = answer.find('{');
  if (begin == std::string::npos) return Json::object();
  const auto document = ParseJsonObject(answer.substr(begin), "status");
  if (!document.ok() || !document->contains("drivers")) return Json::object();
  Json driver = (*document)["drivers"][0];
  driver["ready"] = BoolOr(*document, "ready");
  return driver;
}

bool Instance::WaitForReady() const {
  return WaitUntil([this] { return BoolOr(Status(), "ready"); });
}

bool Instance::IsOwner() const {
  const Json status = Status();
  const Json* publication = Find(status, "publication");
  return publication != nullptr && BoolOr(*publication, "owner");
}

bool Instance::WaitForOwner() const {
  return WaitUntil([this] { return IsOwner(); });
}

std::string Instance::Log() const {
  std::ifstream log(log_);
  return {std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>()};
}

void NodeTest::SetUp() {
  for (const char* name : {"cdi", "state", "kubelet"}) {
    ASSERT_TRUE(MakeDirectories(fs_, directory_.Path(name), 0755).ok());
  }
  auto api = testing::FakeApiServer::Start();
  ASSERT_TRUE(api.ok()) << api.status();
  api_ = *std::move(api);
  api_->store().Put({{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", kNode}}}});
  const std::string kubeconfig = directory_.Path("kubeconfig");
  ASSERT_TRUE(
      WriteFileAtomically(fs_, kubeconfig, api_->KubeConfig(), 0600, Durability::kVolatile).ok());
  testing::KubeletOptions options;
  options.root = directory_.Path("kubelet");
  options.node_name = kNode;
  auto kubelet = testing::FakeKubelet::Start(options, &api_->store());
  ASSERT_TRUE(kubelet.ok()) << kubelet.status();
  kubelet_ = *std::move(kubelet);
  const std::string config = absl::StrCat(
      "nodeName: ", kNode, "\nkubeletRoot: ", options.root,
      "\ncdiDirectory: ", directory_.Path("cdi"), "\nkubeconfig: ", kubeconfig,
      "\nhttpAddress: \"\"\nshutdownGrace: 30s\ndrivers:\n- name: ", kDriver,
      "\n  backend: ", DRA_FAKE_BACKEND,
      "\n  healthInterval: 1s\n  config:\n    numDevices: ", kDevices, "\n    nodeName: ", kNode,
      "\n    stateDirectory: ", directory_.Path("state"), "\n");
  ASSERT_TRUE(
      WriteFileAtomically(fs_, directory_.Path("config.yaml"), config, 0600, Durability::kVolatile)
          .ok());
}

std::unique_ptr<Instance> NodeTest::Start() {
  return std::make_unique<Instance>(
      absl::StrCat(absl::Dec(++started_, absl::kZeroPad8), "-0000-4000-8000-000000000000"),
      directory_);
}

std::unique_ptr<Instance> NodeTest::StartReady() {
  std::unique_ptr<Instance> instance = Start();
  EXPECT_TRUE(instance->WaitForReady()) << DumpJson(instance->Status()) << instance->Log();
  EXPECT_TRUE(WaitUntil([&] {
    for (const testing::KubeletPlugin& plugin : kubelet_->Plugins()) {
      if (plugin.connected && absl::StrContains(plugin.endpoint, instance->pod_uid())) return true;
    }
    return false;
  })) << instance->Log();
  return instance;
}

testing::KubeletClaim NodeTest::MakeClaim(const std::string& device, bool with_config) {
  Json config = Json::array();
  if (with_config) {
    config.push_back(
        {{"source", "FromClaim"},
         {"requests", Json::array({"r0"})},
         {"opaque",
          {{"driver", kDriver},
           {"parameters",
            {{"apiVersion", "gpu.resource.example.com/v1alpha1"},
             {"kind", "GpuConfig"},
             {"sharing",
              {{"strategy", "TimeSlicing"}, {"timeSlicingConfig", {{"interval", "Long"}}}}}}}}}});
  }
  const std::string uid = NewUuid();
  api_->store().Put(
      {{"apiVersion", "resource.k8s.io/v1"},
       {"kind", "ResourceClaim"},
       {"metadata", {{"name", uid}, {"namespace", "ns1"}, {"uid", uid}}},
       {"spec", Json::object()},
       {"status",
        {{"allocation",
          {{"devices",
            {{"results",
              Json::array({Json{
                  {"request", "r0"}, {"driver", kDriver}, {"pool", kNode}, {"device", device}}})},
             {"config", config}}}}},
         {"reservedFor",
          Json::array({Json{{"resource", "pods"}, {"name", "p1"}, {"uid", NewUuid()}}})}}}});
  return {"ns1", uid, uid};
}

void NodeTest::Control(const Json& control) {
  ASSERT_TRUE(WriteFileAtomically(fs_, directory_.Path("state/control.json"), DumpJson(control),
                                  0600, Durability::kVolatile)
                  .ok());
}

std::vector<Json> NodeTest::Slices() const { return api_->store().All(kube::ResourceSlices()); }

size_t NodeTest::PublishedDevices() const {
  size_t devices = 0;
  for (const Json& slice : Slices()) {
    const Json* list = Find(slice.at("spec"), "devices");
    devices += list == nullptr ? 0 : list->size();
  }
  return devices;
}

int NodeTest::SliceWrites() const {
  int writes = 0;
  for (const char* verb : {"create", "update", "patch", "delete"}) {
    testing::RequestMatcher matcher;
    matcher.verb = verb;
    matcher.resource = "resourceslices";
    matcher.include_dry_run = false;
    writes += api_->traffic().Count(matcher);
  }
  return writes;
}

std::vector<Json> NodeTest::Hooks() const {
  std::vector<Json> events;
  std::ifstream log(directory_.Path("state/hooks.jsonl"));
  for (std::string line; std::getline(log, line);) {
    const auto event = ParseJsonObject(line, "hook log");
    if (event.ok()) events.push_back(*event);
  }
  return events;
}

}  // namespace dra::handover
