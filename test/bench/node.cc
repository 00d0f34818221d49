#include "test/bench/node.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dra/base/status.h"

namespace dra::bench {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(10);
constexpr absl::Duration kStopPatience = absl::Seconds(30);

std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

int PublishedDevices(const std::vector<Json>& slices) {
  std::map<std::string, std::pair<int64_t, int64_t>> pools;  // name -> seen, wanted
  int devices = 0;
  for (const Json& slice : slices) {
    const Json* spec = Find(slice, "spec");
    const Json* pool = spec == nullptr ? nullptr : Find(*spec, "pool");
    if (pool == nullptr) return -1;
    auto& [seen, wanted] = pools[StringOr(*pool, "name")];
    ++seen;
    wanted = IntOr(*pool, "resourceSliceCount");
    if (const Json* list = Find(*spec, "devices")) devices += static_cast<int>(list->size());
  }
  for (const auto& [name, count] : pools) {
    if (count.first != count.second) return -1;
  }
  return devices;
}

absl::StatusOr<std::unique_ptr<Node>> Node::Start(NodeOptions options) {
  std::unique_ptr<Node> node(new Node(std::move(options)));
  const NodeOptions& given = node->options_;
  PosixFileSystem fs;
  node->cdi_directory_ =
      given.cdi_parent.empty()
          ? JoinPath(given.directory, "cdi")
          : JoinPath(given.cdi_parent, absl::StrCat("cdi-", BaseName(given.directory)));
  DRA_RETURN_IF_ERROR(MakeDirectories(fs, node->cdi_directory_, 0755));
  const std::string kubelet = JoinPath(given.directory, "kubelet");
  DRA_RETURN_IF_ERROR(MakeDirectories(fs, JoinPath(kubelet, "plugins_registry"), 0755));
  const Json driver = {
      {"name", given.driver_name}, {"backend", given.library}, {"config", given.backend_config}};
  // JSON is YAML. Whatever has a default keeps it: that is what runs on nodes.
  const Json config = {{"nodeName", given.node_name},          {"kubeletRoot", kubelet},
                       {"cdiDirectory", node->cdi_directory_}, {"kubeconfig", given.kubeconfig},
                       {"httpAddress", "127.0.0.1:0"},         {"drivers", Json::array({driver})}};
  const std::string config_file = JoinPath(given.directory, "config.yaml");
  DRA_RETURN_IF_ERROR(fs.CreateFile(config_file, DumpJsonPretty(config), 0600, false));
  const std::string plugins = JoinPath(kubelet, "plugins");
  node->registration_ = std::make_unique<KubeletConnection>(
      JoinPath(kubelet, absl::StrCat("plugins_registry/", given.driver_name, "-reg.sock")));
  node->service_ = std::make_unique<KubeletConnection>(
      JoinPath(plugins, absl::StrCat(given.driver_name, "/dra.sock")));

  Process::Options start;
  start.command = given.prefix;
  for (const std::string& word : {given.driver_program, std::string("--config"), config_file})
    start.command.push_back(word);
  start.error_file = JoinPath(given.directory, "log");
  DRA_ASSIGN_OR_RETURN(node->process_, Process::Start(start));
  return node;
}

Node::~Node() {
  (void)Stop();
  std::error_code error;
  std::filesystem::remove_all(options_.directory, error);
  std::filesystem::remove_all(cdi_directory_, error);
}

absl::Status Node::Stop() { return process_.Stop(SIGTERM, kStopPatience); }

std::string Node::data_directory() const {
  return JoinPath(options_.directory, absl::StrCat("kubelet/plugins/", options_.driver_name));
}

std::string Node::LogTail() const {
  constexpr size_t kTail = 2000;
  const std::string text = ReadText(JoinPath(options_.directory, "log"));
  return text.size() > kTail ? text.substr(text.size() - kTail) : text;
}

absl::Status Node::WaitUntilReady(Api& api, int devices, absl::Duration patience) {
  const absl::Time limit = absl::Now() + patience;
  const auto explain = [this](const absl::Status& status) {
    return Annotate(status, absl::StrCat("dra-driver; its log ends with:\n", LogTail(), "\n"));
  };
  absl::Status status = registration_->Connect(limit - absl::Now());
  if (status.ok()) status = service_->Connect(limit - absl::Now());
  if (!status.ok()) return explain(status);
  for (;;) {
    DRA_ASSIGN_OR_RETURN(const std::vector<Json> slices, api.Slices(options_.driver_name));
    if (PublishedDevices(slices) == devices) return absl::OkStatus();
    if (!process_.Running()) return explain(absl::FailedPreconditionError("the process has ended"));
    if (absl::Now() > limit) {
      return explain(absl::DeadlineExceededError(
          absl::StrCat("published ", PublishedDevices(slices), " devices of ", devices)));
    }
    absl::SleepFor(kPoll);
  }
}

size_t Node::RecordBytes() const {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(JoinPath(data_directory(), "claims"), error)) {
    if (entry.is_regular_file(error)) return static_cast<size_t>(entry.file_size(error));
  }
  return 0;
}

}  // namespace dra::bench
