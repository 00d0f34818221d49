#include "testing/http_listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"

namespace dra::testing {
namespace {

// Which connection this thread serves: cpp-httplib's handlers do not get to know it.
thread_local Connection* current_connection = nullptr;

}  // namespace

bool Connection::WaitForRequest() {
  if (taken_ < buffer_.size()) return true;
  char byte;
  for (;;) {
    const ssize_t got = recv(fd_.get(), &byte, 1, MSG_PEEK);
    if (got > 0) return true;
    if (got == 0 || errno != EINTR) return false;
  }
}

void Connection::Cut() { shutdown(fd_.get(), SHUT_RDWR); }

bool Connection::PeerGone() const {
  char byte;
  const ssize_t got = recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

ssize_t Connection::read(char* ptr, size_t size) {
  if (taken_ == buffer_.size()) {
    char chunk[16384];
    ssize_t got;
    do {
      got = recv(fd_.get(), chunk, sizeof(chunk), 0);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) return got;
    buffer_.assign(chunk, static_cast<size_t>(got));
    taken_ = 0;
  }
  const size_t count = std::min(size, buffer_.size() - taken_);
  std::memcpy(ptr, buffer_.data() + taken_, count);
  taken_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t Connection::write(const char* ptr, size_t size) {
  size_t sent = 0;
  while (sent < size) {
    const ssize_t count = send(fd_.get(), ptr + sent, size - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return -1;
    sent += static_cast<size_t>(count);
  }
  return static_cast<ssize_t>(size);
}

void Connection::get_remote_ip_and_port(std::string& ip, int& port) const {
  ip = "127.0.0.1";
  port = 0;
}
void Connection::get_local_ip_and_port(std::string& ip, int& port) const {
  get_remote_ip_and_port(ip, port);
}

HttpListener::HttpListener(RequestFunction on_request) : on_request_(std::move(on_request)) {
  const auto handle = [this](const httplib::Request& request, httplib::Response& response) {
    on_request_(request, response, *current_connection);
  };
  Get(".*", handle);
  Post(".*", handle);
  Put(".*", handle);
  Patch(".*", handle);
  Delete(".*", handle);
  set_keep_alive_max_count(1u << 30);
  set_keep_alive_timeout(3600);
}

HttpListener::~HttpListener() { Close(); }

absl::Status HttpListener::Listen(const std::string& unix_socket, int port) {
  UniqueFd fd(::socket(unix_socket.empty() ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return ErrnoStatus(errno, "socket");
  if (unix_socket.empty()) {
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      return ErrnoStatus(errno, absl::StrCat("bind 127.0.0.1:", port));
    }
    socklen_t length = sizeof(address);
    getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length);
    port = ntohs(address.sin_port);
  } else {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (unix_socket.size() >= sizeof(address.sun_path)) {
      return absl::InvalidArgumentError(absl::StrCat("unix socket path has ", unix_socket.size(),
                                                     " bytes, the limit is 107: ", unix_socket));
    }
    std::memcpy(address.sun_path, unix_socket.data(), unix_socket.size());
    unlink(unix_socket.c_str());
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      return ErrnoStatus(errno, absl::StrCat("bind ", unix_socket));
    }
  }
  constexpr int kBacklog = 512;
  if (::listen(fd.get(), kBacklog) != 0) return ErrnoStatus(errno, "listen");
  {
    absl::MutexLock lock(&mutex_);
    closing_ = false;
    port_ = port;
  }
  socket_path_ = unix_socket;
  listener_ = std::move(fd);
  svr_sock_ = listener_.get();  // cpp-httplib streams chunks only while it believes that it listens
  acceptor_ = std::thread([this, listener = listener_.get()] { Accept(listener); });
  return absl::OkStatus();
}

void HttpListener::Accept(int listener) {
  for (;;) {
    UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;  // Close has shut the socket down
    }
    const int on = 1;
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    JoinDone();
    absl::MutexLock lock(&mutex_);
    if (closing_) return;
    Worker& worker = workers_.emplace_back();
    worker.connection = std::make_shared<Connection>(std::move(fd));
    worker.thread = std::thread([this, &worker] { Serve(&worker); });
  }
}

void HttpListener::Serve(Worker* worker) {
  std::shared_ptr<Connection> connection;
  {
    absl::MutexLock lock(&mutex_);
    connection = worker->connection;
  }
  current_connection = connection.get();
  bool closed = false;
  while (!closed && connection->WaitForRequest()) {
    if (!process_request(*connection, false, closed, nullptr)) break;
  }
  current_connection = nullptr;
  connection->Cut();
  absl::MutexLock lock(&mutex_);
  worker->done = true;
}

void HttpListener::JoinDone() {
  std::list<Worker> finished;
  {
    absl::MutexLock lock(&mutex_);
    for (auto worker = workers_.begin(); worker != workers_.end();) {
      const auto current = worker++;
      if (current->done) finished.splice(finished.end(), workers_, current);
    }
  }
  for (Worker& worker : finished) worker.thread.join();
}

void HttpListener::CutConnections() {
  absl::MutexLock lock(&mutex_);
  for (const Worker& worker : workers_) worker.connection->Cut();
}

void HttpListener::Close() {
  {
    absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  if (listener_) shutdown(listener_.get(), SHUT_RDWR);
  if (acceptor_.joinable()) acceptor_.join();
  svr_sock_ = INVALID_SOCKET;
  listener_.Reset();
  if (!socket_path_.empty()) unlink(socket_path_.c_str());
  CutConnections();
  std::list<Worker> workers;
  {
    // Nobody adds any more; the threads only touch their own entry, which moving a list node does not move.
    absl::MutexLock lock(&mutex_);
    workers.splice(workers.end(), workers_);
  }
  for (Worker& worker : workers) worker.thread.join();
}

int HttpListener::OpenConnections() const {
  absl::MutexLock lock(&mutex_);
  int open = 0;
  for (const Worker& worker : workers_) open += worker.done ? 0 : 1;
  return open;
}

int HttpListener::port() const {
  absl::MutexLock lock(&mutex_);
  return port_;
}

}  // namespace dra::testing
