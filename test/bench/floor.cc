#include "test/bench/floor.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "dra/base/status.h"

namespace dra::bench {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The whole length of the answer that `text` begins with, 0 while its head is not whole.
size_t AnswerLength(const std::string& text) {
  const size_t head = text.find("\r\n\r\n");
  if (head == std::string::npos) return 0;
  const size_t field = text.find("Content-Length: ");
  size_t body = 0;
  if (field != std::string::npos && field < head) {
    constexpr size_t kFieldName = 16;
    const size_t begin = field + kFieldName;
    if (!absl::SimpleAtoi(text.substr(begin, text.find('\r', begin) - begin), &body)) body = 0;
  }
  return head + 4 + body;
}

}  // namespace

absl::StatusOr<BareHttpClient> BareHttpClient::Connect(int port) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return ErrnoStatus(errno, "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    return ErrnoStatus(errno, absl::StrCat("connect to 127.0.0.1:", port));
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return BareHttpClient(std::move(socket));
}

absl::StatusOr<double> BareHttpClient::Get(const std::string& path) {
  const std::string request = absl::StrCat(
      "GET ", path, " HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n");
  const Clock::time_point start = Clock::now();
  if (::send(socket_.get(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size()))
    return ErrnoStatus(errno, "send a bare request");
  std::string answer;
  char buffer[65536];
  for (size_t whole = 0; whole == 0 || answer.size() < whole; whole = AnswerLength(answer)) {
    const ssize_t got = ::recv(socket_.get(), buffer, sizeof(buffer), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return absl::UnavailableError("the API server closed a bare connection");
    answer.append(buffer, static_cast<size_t>(got));
  }
  const double took = MillisecondsSince(start);
  if (!absl::StartsWith(answer, "HTTP/1.1 200"))
    return absl::InternalError(absl::StrCat("GET ", path, ": ", answer.substr(0, 80)));
  return took;
}

absl::StatusOr<double> DurableWrite(const std::string& directory, size_t bytes) {
  const std::string contents(bytes, 'x');
  const std::string temporary = directory + "/bench.tmp";
  const std::string file = directory + "/bench.json";
  const Clock::time_point start = Clock::now();
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd) return ErrnoStatus(errno, temporary);
  if (::write(fd.get(), contents.data(), bytes) != static_cast<ssize_t>(bytes) ||
      ::fsync(fd.get()) != 0 || ::rename(temporary.c_str(), file.c_str()) != 0)
    return ErrnoStatus(errno, temporary);
  fd.Reset();
  const UniqueFd parent(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent || ::fsync(parent.get()) != 0) return ErrnoStatus(errno, directory);
  const double took = MillisecondsSince(start);
  ::unlink(file.c_str());
  return took;
}

}  // namespace dra::bench
