#include "test/bench/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dra/base/status.h"

namespace dra::bench {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(5);

// "Rss:   1234 kB" lines of smaps_rollup, in 10^6 bytes.
double Megabytes(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(key, 0) == 0) return std::stod(line.substr(key.size())) * 1024 / 1e6;
  }
  return 0;
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

int CountEntries(const std::string& directory) {
  std::error_code error;
  int count = 0;
  for (auto it = std::filesystem::directory_iterator(directory, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace

absl::StatusOr<Process> Process::Start(const Options& options) {
  Process process;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  UniqueFd their_input;
  UniqueFd their_output;
  if (options.pipes) {
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
    their_input = UniqueFd(in[0]);
    process.input_ = UniqueFd(in[1]);
    if (::pipe2(out, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
    process.output_ = UniqueFd(out[0]);
    their_output = UniqueFd(out[1]);
    posix_spawn_file_actions_adddup2(&actions, their_input.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, their_output.get(), STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  if (!options.error_file.empty()) {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, options.error_file.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
  }
  std::vector<std::string> words = options.command;
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const int error = ::posix_spawnp(&process.pid_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return process;
  process.pid_ = -1;
  return ErrnoStatus(error, absl::StrCat("start ", words.front()));
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(input_, other.input_);
  std::swap(output_, other.output_);
  return *this;
}

Process::~Process() {
  if (!Running()) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

absl::StatusOr<std::string> Process::ReadAll() {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(output_.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, "read the output of a program");
    if (got == 0) return text;
    text.append(buffer, static_cast<size_t>(got));
  }
}

bool Process::Running() {
  if (pid_ <= 0) return false;
  if (::waitpid(pid_, nullptr, WNOHANG) != pid_) return true;
  pid_ = -1;
  return false;
}

absl::Status Process::Stop(int signal, absl::Duration patience) {
  if (!Running()) return absl::OkStatus();
  ::kill(pid_, signal);
  const absl::Time limit = absl::Now() + patience;
  while (Running()) {
    if (absl::Now() > limit) {
      ::kill(pid_, SIGKILL);
      ::waitpid(std::exchange(pid_, -1), nullptr, 0);
      return absl::DeadlineExceededError(absl::StrCat("a program had not ended ",
                                                      absl::FormatDuration(patience),
                                                      " after signal ", signal, " and was killed"));
    }
    absl::SleepFor(kPoll);
  }
  return absl::OkStatus();
}

absl::StatusOr<ProcessUse> ReadUse(pid_t pid) {
  const std::string directory = absl::StrCat("/proc/", pid, "/");
  const std::string maps = ReadText(directory + "smaps_rollup");
  if (maps.empty())
    return absl::UnavailableError(absl::StrCat(directory, "smaps_rollup cannot be read"));
  ProcessUse use;
  use.rss_mb = Megabytes(maps, "Rss:");
  use.anonymous_mb = Megabytes(maps, "Anonymous:");
  use.threads = CountEntries(directory + "task");
  use.open_files = CountEntries(directory + "fd");
  return use;
}

absl::Duration CpuTime(pid_t pid) {
  clockid_t clock;
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0)
    return absl::ZeroDuration();
  return absl::DurationFromTimespec(time);
}

}  // namespace dra::bench
