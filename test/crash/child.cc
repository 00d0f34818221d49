#include "test/crash/child.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace dra::crash {

Child::Child(pid_t pid, UniqueFd in, UniqueFd out)
    : pid_(pid), in_(std::move(in)), out_(std::move(out)) {}

std::unique_ptr<Child> Child::Start(const std::string& program, const std::string& settings,
                                    const std::string& log) {
  int in[2];
  int out[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "pipe2 failed, errno " << errno;
    return nullptr;
  }
  UniqueFd in_read(in[0]), in_write(in[1]), out_read(out[0]), out_write(out[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in_read.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out_write.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
  std::string name = program;
  std::string argument = settings;
  char* argv[] = {name.data(), argument.data(), nullptr};
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    ADD_FAILURE() << "cannot start " << program << ", errno " << failed;
    return nullptr;
  }
  return std::unique_ptr<Child>(new Child(pid, std::move(in_write), std::move(out_read)));
}

Child::~Child() { Kill(); }

std::optional<Json> Child::Ask(const Json& command) {
  const std::string line = DumpJson(command) + "\n";
  if (!in_ || ::write(in_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return std::nullopt;
  for (;;) {
    const size_t end = buffered_.find('\n');
    if (end != std::string::npos) {
      auto answer = ParseJson(buffered_.substr(0, end), "answer of crash_daemon");
      buffered_.erase(0, end + 1);
      if (!answer.ok()) return std::nullopt;
      return *std::move(answer);
    }
    char bytes[65536];
    const ssize_t got = ::read(out_.get(), bytes, sizeof(bytes));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    buffered_.append(bytes, static_cast<size_t>(got));
  }
}

bool Child::Arm() { return Ask({{"do", "arm"}}).has_value(); }

bool Child::ArmToKill(const std::string& label, int occurrence) {
  return Ask({{"do", "arm"}, {"label", label}, {"occurrence", occurrence}}).has_value();
}

std::map<std::string, int> Child::Counts() {
  const std::optional<Json> counts = Ask({{"do", "counts"}});
  return counts.has_value() ? counts->get<std::map<std::string, int>>()
                            : std::map<std::string, int>();
}

bool Child::WaitForEnd(absl::Duration patience) {
  const absl::Time limit = absl::Now() + patience;
  while (!status_.has_value()) {
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) status_ = status;
    if (ended < 0 && errno != EINTR) status_ = -1;
    if (status_.has_value() || absl::Now() >= limit) break;
    ::poll(nullptr, 0, 2);
  }
  return status_.has_value();
}

bool Child::was_killed() const {
  return status_.has_value() && WIFSIGNALED(*status_) && WTERMSIG(*status_) == SIGKILL;
}

void Child::Kill() {
  if (!running()) return;
  ::kill(pid_, SIGKILL);
  WaitForEnd(absl::Seconds(30));
}

bool Child::Stop(absl::Duration patience) {
  in_.Reset();  // the end of its commands
  if (WaitForEnd(patience)) return status_ == 0;
  Kill();
  return false;
}

}  // namespace dra::crash
