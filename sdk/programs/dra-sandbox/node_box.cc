#include "node_box.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/status.h"
#include "dra/base/unique_fd.h"

namespace dra::sandbox {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(20);
constexpr absl::Duration kStopPatience = absl::Seconds(30);

// True if the driver has slices and each of its pools has as many as it says.
bool PoolsComplete(const std::vector<Json>& slices, const std::string& driver) {
  std::map<std::string, std::pair<int64_t, int64_t>> pools;  // name -> seen, wanted
  for (const Json& slice : slices) {
    const Json* spec = Find(slice, "spec");
    if (spec == nullptr || StringOr(*spec, "driver") != driver) continue;
    const Json* pool = Find(*spec, "pool");
    if (pool == nullptr) return false;
    auto& [seen, wanted] = pools[StringOr(*pool, "name")];
    ++seen;
    wanted = IntOr(*pool, "resourceSliceCount");
  }
  if (pools.empty()) return false;
  for (const auto& [name, count] : pools) {
    if (count.first != count.second) return false;
  }
  return true;
}

}  // namespace

std::string NodeBox::DataDirectory() const {
  return directory_.Path(absl::StrCat("kubelet/plugins/", options_.driver_name));
}

absl::StatusOr<std::unique_ptr<NodeBox>> NodeBox::Start(BoxOptions options) {
  std::unique_ptr<NodeBox> box(new NodeBox(std::move(options)));
  DRA_RETURN_IF_ERROR(box->StartDoubles());
  DRA_RETURN_IF_ERROR(box->StartDriver());
  return box;
}

NodeBox::~NodeBox() {
  if (pid_ > 0 && !DriverEnded()) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

absl::Status NodeBox::StartDoubles() {
  PosixFileSystem fs;
  DRA_RETURN_IF_ERROR(MakeDirectories(fs, CdiDirectory(), 0755));
  DRA_ASSIGN_OR_RETURN(api_, testing::FakeApiServer::Start());
  api_->store().Put(
      {{"apiVersion", "v1"}, {"kind", "Node"}, {"metadata", {{"name", options_.node_name}}}});
  testing::KubeletOptions kubelet;
  kubelet.root = directory_.Path("kubelet");
  kubelet.node_name = options_.node_name;
  DRA_ASSIGN_OR_RETURN(kubelet_, testing::FakeKubelet::Start(std::move(kubelet), &api_->store()));
  return absl::OkStatus();
}

absl::Status NodeBox::StartDriver() {
  PosixFileSystem fs;
  // JSON is YAML.
  const Json driver = {{"name", options_.driver_name},
                       {"backend", options_.library},
                       {"config", options_.backend_config}};
  const Json config = {
      {"nodeName", options_.node_name},  {"kubeletRoot", directory_.Path("kubelet")},
      {"cdiDirectory", CdiDirectory()},  {"kubeconfig", directory_.Path("kubeconfig")},
      {"httpAddress", "127.0.0.1:0"},    {"statusSocket", directory_.Path("status.sock")},
      {"shutdownGrace", "5s"},           {"log", {{"level", "debug"}}},
      {"drivers", Json::array({driver})}};
  const std::string config_file = directory_.Path("config.yaml");
  DRA_RETURN_IF_ERROR(fs.CreateFile(config_file, DumpJsonPretty(config), 0600, false));
  DRA_RETURN_IF_ERROR(
      fs.CreateFile(directory_.Path("kubeconfig"), api_->KubeConfig(), 0600, false));

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, LogFile().c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  std::string program = options_.driver_program;
  std::string flag = "--config";
  std::string file = config_file;
  char* argv[] = {program.data(), flag.data(), file.data(), nullptr};
  const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return absl::OkStatus();
  pid_ = -1;
  return ErrnoStatus(error, absl::StrCat("start ", program));
}

bool NodeBox::DriverEnded() {
  if (pid_ <= 0) return true;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  exit_status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  pid_ = -1;
  return true;
}

absl::Status NodeBox::WaitUntilReady(absl::Duration patience) {
  const absl::Time limit = absl::Now() + patience;
  for (;;) {
    if (DriverEnded()) {
      return absl::FailedPreconditionError(
          absl::StrCat("dra-driver ended with status ", exit_status_));
    }
    bool registered = false;
    for (const testing::KubeletPlugin& plugin : kubelet_->Plugins()) {
      registered = registered || plugin.driver == options_.driver_name;
    }
    if (registered &&
        PoolsComplete(api_->store().All(kube::ResourceSlices()), options_.driver_name)) {
      return absl::OkStatus();
    }
    if (absl::Now() > limit) {
      const Json status = Status();
      const Json* conditions = Find(status, "conditions");
      return absl::DeadlineExceededError(absl::StrCat(
          "not ready after ", absl::FormatDuration(patience),
          "; conditions: ", conditions == nullptr ? "unknown" : DumpJson(*conditions)));
    }
    absl::SleepFor(kPoll);
  }
}

Json NodeBox::Status() const {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory_.Path("status.sock");
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  if (!socket ||
      ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return nullptr;
  ::shutdown(socket.get(), SHUT_WR);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(socket.get(), buffer, sizeof(buffer))) > 0;) {
    text.append(buffer, static_cast<size_t>(got));
  }
  const absl::StatusOr<Json> parsed = ParseJsonObject(text, "status");
  return parsed.ok() ? *parsed : Json();
}

absl::StatusOr<int> NodeBox::StopDriver() {
  if (DriverEnded()) return exit_status_;
  ::kill(pid_, SIGTERM);
  const absl::Time limit = absl::Now() + kStopPatience;
  while (!DriverEnded()) {
    if (absl::Now() > limit) {
      return absl::DeadlineExceededError(absl::StrCat(
          "dra-driver has not ended ", absl::FormatDuration(kStopPatience), " after SIGTERM"));
    }
    absl::SleepFor(kPoll);
  }
  return exit_status_;
}

}  // namespace dra::sandbox
