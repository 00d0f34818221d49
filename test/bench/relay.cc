#include "test/bench/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "dra/base/status.h"

namespace dra::bench {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

bool SendAll(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

// "GET /apis/resource.k8s.io/v1/resourceslices?watch=1 HTTP/1.1" -> "GET resourceslices"; other paths whole.
std::string CallName(absl::string_view line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (words.size() < 2) return "?";
  const std::string path = words[1].substr(0, words[1].find('?'));
  for (const char* plural : {"resourceslices", "resourceclaims", "nodes", "events", "pods"}) {
    if (path.find(absl::StrCat("/", plural)) != std::string::npos)
      return absl::StrCat(words[0], " ", plural);
  }
  return absl::StrCat(words[0], " ", path);
}

// Finds the requests in what a client sends: heads, and bodies of a stated length.
class RequestFinder {
 public:
  std::vector<std::string> Feed(absl::string_view bytes) {
    std::vector<std::string> calls;
    while (!bytes.empty()) {
      const size_t skipped = std::min(body_left_, bytes.size());
      body_left_ -= skipped;
      bytes.remove_prefix(skipped);
      if (bytes.empty()) break;
      head_.push_back(bytes.front());
      bytes.remove_prefix(1);
      if (head_.size() < 4 || head_.compare(head_.size() - 4, 4, "\r\n\r\n") != 0) continue;
      calls.push_back(CallName(head_.substr(0, head_.find('\r'))));
      const std::string field = "Content-Length: ";
      if (const size_t found = head_.find(field); found != std::string::npos) {
        const size_t begin = found + field.size();
        if (!absl::SimpleAtoi(head_.substr(begin, head_.find('\r', begin) - begin), &body_left_))
          body_left_ = 0;
      }
      head_.clear();
    }
    return calls;
  }

 private:
  std::string head_;
  size_t body_left_ = 0;
};

}  // namespace

int Traffic::Total() const {
  int total = 0;
  for (const auto& [name, count] : calls) total += count;
  return total;
}

absl::StatusOr<std::unique_ptr<Relay>> Relay::Start(int server_port) {
  std::unique_ptr<Relay> relay(new Relay());
  relay->server_port_ = server_port;
  relay->listener_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  constexpr int kBacklog = 64;
  if (!relay->listener_ ||
      ::bind(relay->listener_.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(relay->listener_.get(), kBacklog) != 0 ||
      ::getsockname(relay->listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return ErrnoStatus(errno, "listen for the relay");
  }
  relay->port_ = ntohs(address.sin_port);
  relay->acceptor_ = std::jthread([raw = relay.get()] { raw->Accept(); });
  return relay;
}

Relay::~Relay() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    for (const Connection& connection : connections_) {
      ::shutdown(connection.client.get(), SHUT_RDWR);
      ::shutdown(connection.server.get(), SHUT_RDWR);
    }
  }
  ::shutdown(listener_.get(), SHUT_RDWR);
  if (acceptor_.joinable()) acceptor_.join();
  connections_.clear();
}

Traffic Relay::Take() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(traffic_, {});
}

void Relay::Accept() {
  for (;;) {
    UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = Loopback(server_port_);
    if (!server ||
        ::connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      continue;  // the client sees its connection closed
    const int on = 1;
    ::setsockopt(client.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    ::setsockopt(server.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
    Connection& connection = connections_.emplace_back();
    connection.client = std::move(client);
    connection.server = std::move(server);
    connection.thread = std::jthread([this, &connection] { Pump(&connection); });
  }
}

void Relay::Pump(Connection* connection) {
  RequestFinder finder;
  const int client = connection->client.get();
  const int server = connection->server.get();
  pollfd polled[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
  char buffer[65536];
  for (;;) {
    if (::poll(polled, 2, -1) < 0 && errno != EINTR) break;
    bool open = true;
    for (const pollfd& entry : polled) {
      if (entry.revents == 0) continue;
      const ssize_t got = ::recv(entry.fd, buffer, sizeof(buffer), 0);
      const bool up = entry.fd == client;
      const absl::string_view bytes(buffer, got > 0 ? static_cast<size_t>(got) : 0);
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        (up ? traffic_.bytes_up : traffic_.bytes_down) += static_cast<double>(bytes.size());
        if (up) {
          for (const std::string& call : finder.Feed(bytes)) ++traffic_.calls[call];
        }
      }
      open = open && got > 0 && SendAll(up ? server : client, bytes);
    }
    if (!open) break;
  }
  ::shutdown(client, SHUT_RDWR);
  ::shutdown(server, SHUT_RDWR);
}

}  // namespace dra::bench
