#include "dra/loader/helper_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "dra/base/status.h"
#include "dra/base/unique_fd.h"

extern char** environ;

namespace dra::loader {
namespace {

// How often the child is looked at where the kernel has no pidfd.
constexpr int kPollMs = 20;

struct Child {
  pid_t pid;
  UniqueFd output;
};

absl::StatusOr<Child> Spawn(const std::vector<std::string>& argv) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return ErrnoStatus(errno, absl::StrCat("pipe for helper ", argv[0]));
  UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  if (::fcntl(read_end.get(), F_SETFL, O_NONBLOCK) != 0)
    return ErrnoStatus(errno, "pipe of helper");

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  const absl::Cleanup free_actions = [&] { ::posix_spawn_file_actions_destroy(&actions); };
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  const absl::Cleanup free_attributes = [&] { ::posix_spawnattr_destroy(&attributes); };

  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  // closefrom last: descriptors that others opened without close-on-exec do not get into the child.
  const int prepared[] = {
      ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0),
      ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO),
      ::posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDERR_FILENO),
      ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1),
      ::posix_spawnattr_setflags(
          &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF),
      ::posix_spawnattr_setpgroup(&attributes, 0),
      ::posix_spawnattr_setsigmask(&attributes, &none),
      ::posix_spawnattr_setsigdefault(&attributes, &all),
  };
  for (const int error : prepared) {
    if (error != 0) return ErrnoStatus(error, absl::StrCat("prepare helper ", argv[0]));
  }
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int error =
      ::posix_spawn(&pid, argv[0].c_str(), &actions, &attributes, arguments.data(), environ);
  if (error != 0) return ErrnoStatus(error, absl::StrCat("start helper ", argv[0]));
  return Child{pid, std::move(read_end)};
}

// Reads what is there. False at the end of the stream.
bool Drain(int fd, std::string& output) {
  char buffer[4096];
  for (;;) {
    const ssize_t size = ::read(fd, buffer, sizeof(buffer));
    if (size > 0) {
      const size_t room = kMaxHelperOutputBytes - output.size();
      output.append(buffer, std::min(room, static_cast<size_t>(size)));
      continue;
    }
    if (size < 0 && errno == EINTR) continue;
    return size < 0 && errno == EAGAIN;
  }
}

bool HasEnded(pid_t pid) {
  siginfo_t info = {};
  // WNOWAIT: while it is not reaped, its group id cannot become another's.
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == pid;
}

int PollTimeout(const Call& call, bool has_pidfd) {
  const absl::Duration left = call.Remaining();
  int milliseconds = has_pidfd ? 1000 : kPollMs;
  if (left < absl::Milliseconds(milliseconds)) {
    milliseconds =
        static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))));
  }
  return milliseconds;
}

}  // namespace

absl::StatusOr<HostServices::HelperResult> RunHelperProcess(const std::vector<std::string>& argv,
                                                            const Call& call) {
  if (argv.empty() || argv[0].empty() || argv[0].front() != '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("helper \"", argv.empty() ? "" : argv[0],
                     "\": the first argument must be an absolute path"));
  }
  const std::string what = absl::StrCat("helper ", argv[0]);
  DRA_RETURN_IF_ERROR(call.Check(what));
  const UniqueFd cancelled(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!cancelled) return ErrnoStatus(errno, what);
  const std::stop_callback on_stop(call.stop, [fd = cancelled.get()] {
    const uint64_t one = 1;
    static_cast<void>(!::write(fd, &one, sizeof(one)));
  });
  DRA_ASSIGN_OR_RETURN(const Child child, Spawn(argv));
  // Older kernels have none; the child is looked at now and then instead.
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));

  HostServices::HelperResult result;
  absl::Status ended;
  bool open = true;
  while (!HasEnded(child.pid)) {
    ended = call.Check(what);
    if (!ended.ok()) break;
    pollfd watched[] = {{cancelled.get(), POLLIN, 0},
                        {pidfd ? pidfd.get() : -1, POLLIN, 0},
                        {open ? child.output.get() : -1, POLLIN, 0}};
    ::poll(watched, 3, PollTimeout(call, static_cast<bool>(pidfd)));
    if (open) open = Drain(child.output.get(), result.output);
  }
  ::kill(-child.pid, SIGKILL);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, absl::StrCat("wait for ", what));
  }
  DRA_RETURN_IF_ERROR(ended);
  // The group is dead or has left: what is in the pipe is all, its end may never come.
  if (open) Drain(child.output.get(), result.output);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace dra::loader
