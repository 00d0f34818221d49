// dra-driver as a process: stopped and continued, and without descriptors.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "test/driver/node_fixture.h"

extern char** environ;

namespace dra::driver {
namespace {

using ::testing::HasSubstr;

class Process : public NodeFixture {
 protected:
  ~Process() override {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGCONT);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  void Launch() {
    StartApi();
    StartKubelet();
    const DaemonConfig config = Config();
    // JSON is YAML.
    const Json file = {{"nodeName", kNode},
                       {"kubeletRoot", config.kubelet_root},
                       {"cdiDirectory", config.cdi_directory},
                       {"kubeconfig", config.kubeconfig},
                       {"httpAddress", ""},
                       {"statusSocket", config.status_socket},
                       {"drivers",
                        {{{"name", kDriver},
                          {"backend", DRA_FAKE_BACKEND},
                          {"config", config.drivers[0].backend_config}}}}};
    const std::string path = directory_.Path("config.yaml");
    ASSERT_TRUE(WriteFileAtomically(fs_, path, DumpJson(file), 0600, Durability::kVolatile).ok());
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 2, directory_.Path("log").c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    std::string program = DRA_DRIVER;
    std::string flag = "--config";
    std::string value = path;
    char* arguments[] = {program.data(), flag.data(), value.data(), nullptr};
    const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ);
    ::posix_spawn_file_actions_destroy(&actions);
    ASSERT_EQ(error, 0);
    ASSERT_TRUE(kubelet_->WaitForPlugin(kDriver, kPatience)) << Log();
    ASSERT_TRUE(WaitForDevices([](const auto& devices) { return devices.size() == 4; })) << Log();
  }

  std::string Log() const {
    std::ifstream file(directory_.Path("log"));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::string Prepare(const testing::KubeletClaim& claim) {
    return ErrorOf(kubelet_->PrepareResources(kDriver, {claim}));
  }
  std::string Unprepare(const testing::KubeletClaim& claim) {
    return ErrorOf(kubelet_->UnprepareResources(kDriver, {claim}));
  }
  static std::string ErrorOf(const testing::KubeletReply& reply) {
    std::string text(reply.verdict.message());
    for (const auto& [uid, error] : reply.errors) absl::StrAppend(&text, " ", error);
    return text;
  }
  bool Alive() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }
  // Waits until the kernel says that it is stopped.
  void Stop() {
    ASSERT_EQ(::kill(pid_, SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  // The number that the next descriptor gets: a limit there forbids new ones and leaves those that are open.
  rlim_t NextDescriptor() {
    const auto open = fs_.List(absl::StrCat("/proc/", pid_, "/fd"));
    rlim_t next = 0;
    while (open.ok() && std::find(open->begin(), open->end(), absl::StrCat(next)) != open->end())
      ++next;
    return next;
  }
  void LimitDescriptors(rlim_t soft) const {
    rlimit limit{};
    ASSERT_EQ(::prlimit(pid_, RLIMIT_NOFILE, nullptr, &limit), 0);
    limit.rlim_cur = soft == 0 ? limit.rlim_max : soft;
    ASSERT_EQ(::prlimit(pid_, RLIMIT_NOFILE, &limit, nullptr), 0);
  }

  pid_t pid_ = 0;
};

TEST_F(Process, AStoppedDriverAnswersWhatCameMeanwhileOnceItGoesOn) {
  Launch();
  const auto held = MakeClaim("held", {"gpu-0"});
  ASSERT_EQ(Prepare(held), "");
  Stop();
  const auto claim = MakeClaim("c1", {"gpu-1"});
  std::future<std::string> prepared =
      std::async(std::launch::async, [&] { return Prepare(claim); });
  std::future<std::string> unprepared =
      std::async(std::launch::async, [&] { return Unprepare(held); });
  // The API server gives up on the watches of a client that reads nothing, and the slices go meanwhile.
  api_->CutConnections();
  for (const Json& slice : Slices()) {
    api_->store().Erase(kube::ResourceSlices(), "", StringOr(slice["metadata"], "name"));
  }
  EXPECT_EQ(prepared.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  ASSERT_EQ(::kill(pid_, SIGCONT), 0);
  EXPECT_EQ(prepared.get(), "");
  EXPECT_EQ(unprepared.get(), "");
  EXPECT_TRUE(WaitForDevices([](const auto& devices) { return devices.size() == 4; }));
  EXPECT_EQ(Unprepare(claim), "");
  EXPECT_TRUE(Alive()) << Log();
}

TEST_F(Process, WithoutADescriptorLeftItAnswersErrorsAndLivesOn) {
  Launch();
  const auto held = MakeClaim("held", {"gpu-0"});
  ASSERT_EQ(Prepare(held), "");
  // The kubelet's connection is open and stays usable.
  LimitDescriptors(NextDescriptor());
  const auto claim = MakeClaim("c1", {"gpu-1"});
  EXPECT_THAT(Prepare(claim), HasSubstr("Too many open files"));
  EXPECT_NE(Unprepare(held), "") << "never an OK that is not true";
  EXPECT_TRUE(Alive()) << Log();
  LimitDescriptors(0);
  EXPECT_EQ(Prepare(claim), "");
  EXPECT_EQ(Unprepare(held), "");
  EXPECT_EQ(Unprepare(claim), "");
  EXPECT_TRUE(CdiFiles().empty());
  EXPECT_TRUE(Alive()) << Log();
}

TEST_F(Process, EndsOrderlyOnSigtermAndLeavesRecordsAndNoSocket) {
  Launch();
  const auto held = MakeClaim("held", {"gpu-0"});
  ASSERT_EQ(Prepare(held), "");
  ASSERT_EQ(::kill(pid_, SIGTERM), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(pid_, &status, 0), pid_);
  pid_ = 0;
  EXPECT_TRUE(WIFEXITED(status)) << Log();
  EXPECT_EQ(WEXITSTATUS(status), 0) << Log();
  EXPECT_EQ(CdiFiles().size(), 1u);
  EXPECT_EQ(fs_.List(directory_.Path("kubelet/plugins_registry"))->size(), 0u);
}

}  // namespace
}  // namespace dra::driver
