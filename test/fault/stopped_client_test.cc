// A kubelet that is stopped (SIGSTOP) in the middle: the driver goes on for everybody else, keeps no more for it than one
// report, and answers once it goes on.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "dra/base/unique_fd.h"
#include "test/driver/node_fixture.h"

extern char** environ;

namespace dra::driver {
namespace {

// The program kubelet_client.
class Client {
 public:
  Client(const std::string& socket, const std::string& device) {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) return;
    const UniqueFd in_read(in[0]);
    const UniqueFd out_write(out[1]);
    in_ = UniqueFd(in[1]);
    out_ = UniqueFd(out[0]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in_read.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out_write.get(), STDOUT_FILENO);
    std::string program = DRA_KUBELET_CLIENT;
    std::string first = socket;
    std::string second = device;
    char* arguments[] = {program.data(), first.data(), second.data(), nullptr};
    if (::posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ) != 0) pid_ = 0;
    ::posix_spawn_file_actions_destroy(&actions);
  }
  ~Client() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  bool Stop() const {
    int status = 0;
    return ::kill(pid_, SIGSTOP) == 0 && ::waitpid(pid_, &status, WUNTRACED) == pid_ &&
           WIFSTOPPED(status);
  }
  bool Continue() const { return ::kill(pid_, SIGCONT) == 0; }
  bool Prepare(const testing::KubeletClaim& claim) {
    const std::string line =
        absl::StrCat(claim.namespace_name, " ", claim.name, " ", claim.uid, "\n");
    return ::write(in_.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
  }
  // Reads until the line has come; false if it has not after 30 s without any.
  bool WaitForLine(const std::string& wanted) {
    for (;;) {
      for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n')) {
        const std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        if (line == wanted) return true;
        seen_ += line + "\n";
      }
      pollfd ready = {out_.get(), POLLIN, 0};
      char buffer[4096];
      if (::poll(&ready, 1, 30'000) <= 0) return false;
      const ssize_t got = ::read(out_.get(), buffer, sizeof(buffer));
      if (got <= 0) return false;
      text_.append(buffer, static_cast<size_t>(got));
    }
  }
  // Lines that were read and not the wanted ones.
  const std::string& seen() const { return seen_; }

 private:
  pid_t pid_ = 0;
  UniqueFd in_;
  UniqueFd out_;
  std::string text_;
  std::string seen_;
};

class StoppedClient : public NodeFixture {
 protected:
  void Say(const std::string& message) {
    control_["health"] = {{"gpu-3",
                           {{"state", "unhealthy"},
                            {"faultClass", "ecc"},
                            {"message", message},
                            {"remedy", "reset"}}}};
    Control(control_);
  }
  bool WaitForMessage(const std::string& message) {
    return WaitUntil([&] { return kubelet_->Health(kDriver, kNode, "gpu-3").message == message; });
  }
  Json control_ = Json::object();
};

TEST_F(StoppedClient, CostsNobodyElseAnythingAndIsAnsweredOnceItGoesOn) {
  StartNode();
  Say("0");
  ASSERT_TRUE(WaitForMessage("0"));
  Client client(kubelet_->Plugins().at(0).endpoint, "gpu-3");
  ASSERT_TRUE(client.WaitForLine("health 0")) << client.seen();

  const auto asked = MakeClaim("asked", {"gpu-0"});
  control_["hooks"] = {{"prepare", {{"claim", asked.uid}, {"hang", "untilRemoved"}}}};
  Say("1");
  ASSERT_TRUE(client.WaitForLine("health 1")) << client.seen();
  ASSERT_TRUE(client.Prepare(asked));
  ASSERT_TRUE(WaitUntil([&] { return HookCalls("prepare") == 1; }));
  ASSERT_TRUE(client.Stop());
  control_.erase("hooks");

  // The other kubelet connection has its reports and its answers; the claim of the stopped one gets ready.
  constexpr int kReports = 20;
  for (int i = 2; i < kReports; ++i) {
    Say(absl::StrCat(i));
    ASSERT_TRUE(WaitForMessage(absl::StrCat(i))) << i;
  }
  const auto other = MakeClaim("other", {"gpu-1"});
  EXPECT_TRUE(kubelet_->PrepareResources(kDriver, {other}).verdict.ok());
  EXPECT_TRUE(kubelet_->UnprepareResources(kDriver, {other}).verdict.ok());
  EXPECT_TRUE(WaitUntil([&] { return CdiFiles().size() == 1; }));

  ASSERT_TRUE(client.Continue());
  EXPECT_TRUE(client.WaitForLine(absl::StrCat("health ", kReports - 1))) << client.seen();
  if (client.seen().find("prepared") == std::string::npos) {
    EXPECT_TRUE(client.WaitForLine("prepared")) << client.seen();
  }
  EXPECT_TRUE(kubelet_->UnprepareResources(kDriver, {asked}).verdict.ok());
  EXPECT_TRUE(CdiFiles().empty());
}

}  // namespace
}  // namespace dra::driver
