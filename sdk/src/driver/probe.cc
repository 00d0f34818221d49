#include "dra/driver/probe.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "dra/base/call.h"
#include "dra/base/json.h"
#include "dra/base/status.h"
#include "dra/base/unique_fd.h"
#include "nlohmann/json.hpp"

namespace dra::driver {
namespace {

absl::StatusOr<UniqueFd> Connect(const std::string& path, const Call& call) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("the path has ", path.size(), " bytes, at most ",
                                                   sizeof(address.sun_path) - 1, " are possible"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return ErrnoStatus(errno, "make a socket");
  // A listener whose queue is full makes connect wait; this ends the wait.
  const timeval limit = absl::ToTimeval(call.Remaining());
  if (::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) != 0)
    return ErrnoStatus(errno, "limit the time of a socket");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0)
    return fd;
  if (errno == EAGAIN) return absl::DeadlineExceededError("connect: nobody takes the connection");
  if (errno == ECONNREFUSED)
    return absl::UnavailableError("connect: nobody listens; the instance that made it has gone");
  return ErrnoStatus(errno, "connect");
}

absl::StatusOr<std::string> ReadAll(int fd, const Call& call) {
  std::string text;
  for (;;) {
    pollfd readable{fd, POLLIN, 0};
    // Up by a millisecond, so that it never spins at the end.
    const int wait_ms = static_cast<int>(absl::ToInt64Milliseconds(call.Remaining())) + 1;
    const int ready = ::poll(&readable, 1, wait_ms);
    if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "wait for the answer");
    if (ready > 0) {
      char buffer[64 << 10];
      const ssize_t got = ::recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT);
      if (got == 0) return text;
      if (got < 0 && errno != EINTR && errno != EAGAIN) return ErrnoStatus(errno, "read");
      if (got > 0) text.append(buffer, static_cast<size_t>(got));
    }
    if (text.size() > kMaxProbeBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the answer has more than ", kMaxProbeBytes, " bytes"));
    }
    if (call.Remaining() <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat("no whole answer in time, ", text.size(), " bytes came"));
    }
  }
}

absl::StatusOr<Json> AskForStatus(const ProbeCommand& command) {
  const Call call = Call::WithTimeout(command.timeout);
  DRA_ASSIGN_OR_RETURN(const UniqueFd fd, Connect(command.status_socket, call));
  // A line that is no HTTP request gets the bare document at once. A failure to send shows when it is read.
  (void)::send(fd.get(), "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  DRA_ASSIGN_OR_RETURN(const std::string text, ReadAll(fd.get(), call));
  DRA_ASSIGN_OR_RETURN(Json document, ParseJsonObject(text, "the answer"));
  const Json* pod_uid = Find(document, "podUID");
  const Json* ready = Find(document, "ready");
  if (pod_uid == nullptr || !pod_uid->is_string() || ready == nullptr || !ready->is_boolean()) {
    return absl::InvalidArgumentError(
        "the answer is no status document: it lacks a string \"podUID\" or a boolean \"ready\"");
  }
  return document;
}

void PrintFailing(const Json& document, std::ostream& out) {
  const Json* conditions = Find(document, "conditions");
  if (conditions == nullptr || !conditions->is_array()) return;
  for (const Json& condition : *conditions) {
    if (BoolOr(condition, "ok")) continue;
    const std::string message =
        absl::StrReplaceAll(StringOr(condition, "message"), {{"\n", " "}, {"\r", " "}});
    out << StringOr(condition, "driver") << ": " << StringOr(condition, "name") << ": " << message
        << "\n";
  }
}

}  // namespace

std::optional<ProbeQuestion> ParseProbeQuestion(absl::string_view text) {
  if (text == "live") return ProbeQuestion::kLive;
  if (text == "ready") return ProbeQuestion::kReady;
  return std::nullopt;
}

int RunProbe(const ProbeCommand& command, std::ostream& out, std::ostream& error) {
  const absl::StatusOr<Json> document = AskForStatus(command);
  if (!document.ok()) {
    error << "could not look: status socket " << command.status_socket << ": "
          << std::string(document.status().message()) << "\n";
    return kProbeUnknown;
  }
  const std::string pod_uid = StringOr(*document, "podUID");
  if (pod_uid != command.pod_uid) {
    out << "status socket " << command.status_socket << ": the instance of pod UID \"" << pod_uid
        << "\" answers, not that of \"" << command.pod_uid << "\"\n";
    return kProbeNo;
  }
  if (command.question == ProbeQuestion::kLive) {
    out << "live\n";
    return kProbeYes;
  }
  if (BoolOr(*document, "ready")) {
    out << "ready\n";
    return kProbeYes;
  }
  out << "not ready\n";
  PrintFailing(*document, out);
  return kProbeNo;
}

}  // namespace dra::driver
