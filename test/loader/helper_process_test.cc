#include "dra/loader/helper_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "test/loader/support.h"

namespace dra::loader {
namespace {

using ::testing::HasSubstr;

Call Minute() { return Call::WithTimeout(absl::Seconds(60)); }

TEST(RunHelperProcess, GivesExitCodeAndBothStreams) {
  const auto result =
      RunHelperProcess({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, Minute());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->output, "out\nerr\n");
  EXPECT_EQ(RunHelperProcess({"/bin/sh", "-c", "kill -9 $$"}, Minute())->exit_code, 128 + 9);
}

TEST(RunHelperProcess, RefusesWhatItCannotStart) {
  EXPECT_EQ(RunHelperProcess({}, Minute()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunHelperProcess({"sh"}, Minute()).status().code(), absl::StatusCode::kInvalidArgument);
  const absl::Status missing = RunHelperProcess({"/nowhere/tool"}, Minute()).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/nowhere/tool"));
}

TEST(RunHelperProcess, CutsTheOutputWithoutBlockingTheChild) {
  const auto result =
      RunHelperProcess({"/bin/sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x"}, Minute());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 0);
  EXPECT_EQ(result->output.size(), kMaxHelperOutputBytes);
}

TEST(RunHelperProcess, KillsTheWholeGroupAtTheDeadline) {
  const TempDir dir;
  const std::string script = "sh -c 'echo $$ > " + dir.Path("pid.tmp") + "; mv " +
                             dir.Path("pid.tmp") + " " + dir.Path("pid") +
                             "; exec sleep 600' & wait";
  const auto result =
      RunHelperProcess({"/bin/sh", "-c", script}, Call::WithTimeout(absl::Seconds(1)));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
  const std::string pid = dir.WaitFor("pid");
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  // Killed; whoever inherited it may need a moment to reap it.
  const auto alive = [&] {
    std::ifstream stat("/proc/" + std::to_string(std::stoi(pid)) + "/stat");
    const std::string text(std::istreambuf_iterator<char>(stat), {});
    return !text.empty() && text.find(") Z") == std::string::npos;
  };
  while (alive() && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_FALSE(alive());
}

TEST(RunHelperProcess, AHelperThatIsStoppedIsKilledAtTheDeadlineAndGoesOnWhenItMay) {
  const TempDir dir;
  const std::string stops = "echo $$ > " + dir.Path("pid.tmp") + "; mv " + dir.Path("pid.tmp") +
                            " " + dir.Path("pid") + "; kill -STOP $$; echo on";
  const auto killed =
      RunHelperProcess({"/bin/sh", "-c", stops}, Call::WithTimeout(absl::Milliseconds(500)));
  EXPECT_EQ(killed.status().code(), absl::StatusCode::kDeadlineExceeded);
  const pid_t pid = std::stoi(dir.WaitFor("pid"));
  EXPECT_NE(::kill(pid, 0), 0) << "it is gone, and reaped";

  std::filesystem::remove(dir.Path("pid"));
  std::thread wakes([&] {
    const std::string stopped = "/proc/" + dir.WaitFor("pid");
    const auto is_stopped = [&] {
      std::ifstream stat(stopped.substr(0, stopped.find('\n')) + "/stat");
      const std::string text(std::istreambuf_iterator<char>(stat), {});
      return text.find(") T") != std::string::npos;
    };
    while (!is_stopped()) std::this_thread::yield();
    ::kill(std::stoi(stopped.substr(6)), SIGCONT);
  });
  const auto result = RunHelperProcess({"/bin/sh", "-c", stops}, Minute());
  wakes.join();
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->exit_code, 0);
  EXPECT_EQ(result->output, "on\n");
}

TEST(RunHelperProcess, EndsWhenTheCallIsCancelled) {
  const TempDir dir;
  std::stop_source stop;
  std::thread canceller([&] {
    dir.WaitFor("started");
    stop.request_stop();
  });
  const auto result =
      RunHelperProcess({"/bin/sh", "-c", "touch " + dir.Path("started") + "; exec sleep 600"},
                       Call::WithTimeout(absl::Seconds(300), stop.get_token()));
  canceller.join();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
}

TEST(RunHelperProcess, DoesNotWaitForADaemonThatLeftTheGroup) {
  const auto result = RunHelperProcess({"/bin/sh", "-c", "setsid sleep 3 & echo started"},
                                       Call::WithTimeout(absl::Seconds(60)));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->output, "started\n");
}

// API-08: the child gets no descriptor of ours, also one that was opened without close-on-exec.
TEST(Api08, TheChildInheritsNoDescriptor) {
  // A number that the shell does not use for itself.
  const int leaky = ::fcntl(STDERR_FILENO, F_DUPFD, 200);
  ASSERT_GE(leaky, 200);
  const std::string script =
      "test -e /proc/$$/fd/" + std::to_string(leaky) + " && echo inherited; echo done";
  for (int run = 0; run < 20; ++run) {
    const auto result = RunHelperProcess({"/bin/sh", "-c", script}, Minute());
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->output, "done\n") << run;
  }
  ::close(leaky);
}

}  // namespace
}  // namespace dra::loader
