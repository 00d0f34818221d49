#include "kube/exec_credential.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dra/base/json.h"
#include "dra/base/status.h"
#include "dra/base/unique_fd.h"
#include "nlohmann/json.hpp"

extern char** environ;

namespace dra::kube {
namespace {

constexpr size_t kMaxStdoutBytes = 1u << 20;
constexpr size_t kMaxStderrBytes = 4096;
constexpr size_t kShownStderrBytes = 300;
constexpr int kReapPollMs = 5;
constexpr int kPollMs = 50;  // how soon a stop request is seen; plugins run rarely

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe");
  Pipe pipe;
  pipe.read = UniqueFd(fds[0]);
  pipe.write = UniqueFd(fds[1]);
  return pipe;
}

std::vector<std::string> Environment(const ExecPlugin& plugin) {
  const std::string info =
      absl::StrCat("KUBERNETES_EXEC_INFO={\"apiVersion\":\"", plugin.api_version,
                   "\",\"kind\":\"ExecCredential\",\"spec\":{\"interactive\":false}}");
  std::vector<std::string> own;
  for (const auto& [name, value] : plugin.env) own.push_back(absl::StrCat(name, "=", value));
  own.push_back(info);
  std::vector<std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const absl::string_view text(*entry);
    const absl::string_view key = text.substr(0, text.find('=') + 1);
    const bool replaced = std::any_of(own.begin(), own.end(), [&](const std::string& variable) {
      return absl::StartsWith(variable, key);
    });
    if (!replaced) all.emplace_back(text);
  }
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

absl::StatusOr<pid_t> Spawn(const ExecPlugin& plugin, int out_fd, int error_fd) {
  std::vector<std::string> arguments = {plugin.command};
  arguments.insert(arguments.end(), plugin.args.begin(), plugin.args.end());
  std::vector<std::string> environment = Environment(plugin);
  std::vector<char*> argv;
  std::vector<char*> envp;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  for (std::string& variable : environment) envp.push_back(variable.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const absl::Cleanup destroy_actions = [&] { posix_spawn_file_actions_destroy(&actions); };
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, error_fd, STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const absl::Cleanup destroy_attributes = [&] { posix_spawnattr_destroy(&attributes); };
  sigset_t none;
  sigset_t defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  sigaddset(&defaults, SIGTERM);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, plugin.command.c_str(), &actions, &attributes, argv.data(), envp.data());
  if (error != 0) return ErrnoStatus(error, "start");
  return pid;
}

// Appends what can be read; false at the end of the stream.
bool Drain(int fd, size_t limit, std::string& into) {
  char buffer[16384];
  const ssize_t got = ::read(fd, buffer, sizeof(buffer));
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  into.append(buffer, std::min(static_cast<size_t>(got), limit - std::min(limit, into.size())));
  return true;
}

// Both streams until they end. A plugin that leaves a child behind with the streams open counts as still running.
absl::Status ReadStreams(int out_fd, int error_fd, const Call& call, std::string& out,
                         std::string& errors) {
  bool out_open = true;
  bool error_open = true;
  while (out_open || error_open) {
    DRA_RETURN_IF_ERROR(call.Check("wait for it"));
    pollfd fds[2] = {{out_open ? out_fd : -1, POLLIN, 0}, {error_open ? error_fd : -1, POLLIN, 0}};
    if (::poll(fds, 2, kPollMs) < 0 && errno != EINTR) return ErrnoStatus(errno, "poll");
    if (fds[0].revents != 0) out_open = Drain(out_fd, kMaxStdoutBytes, out);
    if (fds[1].revents != 0) error_open = Drain(error_fd, kMaxStderrBytes, errors);
  }
  return absl::OkStatus();
}

// Waits for the end of the process; kills its group when the call ends first or `ended` already tells so.
absl::Status Reap(pid_t pid, absl::Status ended, const Call& call, int& exit_status) {
  bool killed = false;
  while (true) {
    if (ended.ok()) ended = call.Check("wait for it");
    if (!ended.ok() && !killed) killed = ::kill(-pid, SIGKILL) == 0;
    const pid_t reaped = ::waitpid(pid, &exit_status, killed ? 0 : WNOHANG);
    if (reaped == pid) return ended;
    if (reaped < 0 && errno != EINTR) return ErrnoStatus(errno, "wait for it");
    if (reaped == 0) ::poll(nullptr, 0, kReapPollMs);
  }
}

absl::StatusOr<ExecCredential> Run(const ExecPlugin& plugin, const Call& call) {
  DRA_ASSIGN_OR_RETURN(Pipe out, MakePipe());
  DRA_ASSIGN_OR_RETURN(Pipe errors, MakePipe());
  absl::StatusOr<pid_t> pid = Spawn(plugin, out.write.get(), errors.write.get());
  if (!pid.ok()) {
    if (!absl::IsNotFound(pid.status()) || plugin.install_hint.empty()) return pid.status();
    return absl::NotFoundError(absl::StrCat(pid.status().message(), "; ", plugin.install_hint));
  }
  out.write.Reset();
  errors.write.Reset();
  std::string text;
  std::string error_text;
  const absl::Status read = ReadStreams(out.read.get(), errors.read.get(), call, text, error_text);
  int exit_status = 0;
  DRA_RETURN_IF_ERROR(Reap(*pid, read, call, exit_status));
  if (!WIFEXITED(exit_status) || WEXITSTATUS(exit_status) != 0) {
    absl::string_view shown = error_text;
    if (shown.size() > kShownStderrBytes) shown.remove_prefix(shown.size() - kShownStderrBytes);
    return absl::FailedPreconditionError(absl::StrCat(
        WIFEXITED(exit_status) ? absl::StrCat("exit code ", WEXITSTATUS(exit_status))
                               : absl::StrCat("killed by signal ", WTERMSIG(exit_status)),
        shown.empty() ? "" : ": ", absl::StripSuffix(shown, "\n")));
  }
  return ParseExecCredential(text, plugin.api_version);
}

}  // namespace

absl::StatusOr<ExecCredential> ParseExecCredential(absl::string_view text,
                                                   absl::string_view api_version) {
  absl::StatusOr<Json> parsed = ParseJsonObject(text, "ExecCredential");
  // The parser's text quotes what it met, which may be a secret.
  if (!parsed.ok()) return absl::InvalidArgumentError("its output is not a JSON object");
  if (StringOr(*parsed, "kind") != "ExecCredential" ||
      StringOr(*parsed, "apiVersion") != std::string(api_version)) {
    return absl::InvalidArgumentError(
        absl::StrCat("its output is not an ExecCredential of ", api_version));
  }
  const Json* status = Find(*parsed, "status");
  if (status == nullptr || !status->is_object())
    return absl::InvalidArgumentError("its ExecCredential has no status");
  ExecCredential credential;
  credential.token = StringOr(*status, "token");
  credential.client_certificate = StringOr(*status, "clientCertificateData");
  credential.client_key = StringOr(*status, "clientKeyData");
  if (credential.client_certificate.empty() != credential.client_key.empty()) {
    return absl::InvalidArgumentError("its ExecCredential has half a client certificate");
  }
  if (credential.token.empty() && credential.client_certificate.empty()) {
    return absl::InvalidArgumentError(
        "its ExecCredential has neither token nor client certificate");
  }
  for (const char c : credential.token) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return absl::InvalidArgumentError("the token in its ExecCredential has a control character");
    }
  }
  if (const std::string expiry = StringOr(*status, "expirationTimestamp"); !expiry.empty()) {
    absl::Time time;
    std::string error;
    if (!absl::ParseTime(absl::RFC3339_full, expiry, &time, &error)) {
      return absl::InvalidArgumentError(
          absl::StrCat("its expirationTimestamp '", expiry, "' is not RFC 3339"));
    }
    credential.expiry = time;
  }
  return credential;
}

absl::StatusOr<ExecCredential> RunExecPlugin(const ExecPlugin& plugin, const Call& call) {
  absl::StatusOr<ExecCredential> credential = Run(plugin, call);
  if (credential.ok()) return credential;
  return Annotate(credential.status(), absl::StrCat("exec plugin '", plugin.command, "'"));
}

}  // namespace dra::kube
