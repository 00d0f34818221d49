#include "test/kube/http_double.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace dra::kube {

bool HttpConnection::Fill() {
  char bytes[65536];
  const ssize_t got = ::recv(fd_, bytes, sizeof(bytes), 0);
  if (got <= 0) return false;
  buffer_.append(bytes, static_cast<size_t>(got));
  return true;
}

bool HttpConnection::ReadSome() { return Fill(); }

std::optional<HttpConnection::Request> HttpConnection::Read() {
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    if (!Fill()) return std::nullopt;
  }
  Request request;
  const std::vector<std::string> lines = absl::StrSplit(buffer_.substr(0, end), "\r\n");
  const std::vector<std::string> first = absl::StrSplit(lines[0], ' ');
  request.method = first[0];
  request.path = first.size() > 1 ? first[1] : "";
  for (size_t i = 1; i < lines.size(); ++i) {
    const size_t colon = lines[i].find(':');
    request.headers[absl::AsciiStrToLower(lines[i].substr(0, colon))] =
        std::string(absl::StripAsciiWhitespace(lines[i].substr(colon + 1)));
  }
  const auto length = request.headers.find("content-length");
  const size_t body = length == request.headers.end() ? 0 : std::stoul(length->second);
  while (buffer_.size() < end + 4 + body) {
    if (!Fill()) return std::nullopt;
  }
  request.body = buffer_.substr(end + 4, body);
  buffer_.erase(0, end + 4 + body);
  return request;
}

void HttpConnection::Write(const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t put = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (put <= 0) return;
    sent += static_cast<size_t>(put);
  }
}

void HttpConnection::Answer(int code, const std::string& body, const std::string& more_headers) {
  Write(absl::StrCat("HTTP/1.1 ", code, " X\r\nContent-Length: ", body.size(), "\r\n", more_headers,
                     "\r\n", body));
}

void HttpConnection::StartStream() {
  Write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
}

void HttpConnection::Chunk(const std::string& bytes) {
  Write(absl::StrCat(absl::Hex(bytes.size()), "\r\n", bytes, "\r\n"));
}

void HttpConnection::WaitForClose() {
  while (Fill()) {
  }
}

HttpDouble::HttpDouble(ConnectionHandler handler)
    : handler_(std::move(handler)), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size);
  ::listen(listener_.get(), 64);
  ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

std::unique_ptr<HttpDouble> HttpDouble::Answering(RequestHandler handler) {
  return std::make_unique<HttpDouble>([handler = std::move(handler)](HttpConnection& connection) {
    while (const auto request = connection.Read()) handler(*request, connection);
  });
}

void HttpDouble::Accept() {
  while (true) {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) {
      ::close(fd);
      return;
    }
    open_.push_back(fd);
    const int number = connections_++;
    threads_.emplace_back([this, fd, number] {
      HttpConnection connection(fd, number);
      handler_(connection);
      const std::lock_guard<std::mutex> inner(mutex_);
      open_.erase(std::find(open_.begin(), open_.end(), fd));
      ::close(fd);
    });
  }
}

HttpDouble::~HttpDouble() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
  }
  ::shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  for (std::thread& thread : threads_) thread.join();
}

std::string HttpDouble::url() const { return absl::StrCat("http://127.0.0.1:", port_); }

void Counter::Add() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++value_;
  changed_.notify_all();
}

bool Counter::WaitFor(int count) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return value_ >= count; });
}

int Counter::value() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return value_;
}

TempDir::TempDir() {
  const std::filesystem::path base = std::filesystem::temp_directory_path() / "dra-kube-XXXXXX";
  std::string pattern = base.string();
  path_ = ::mkdtemp(pattern.data());
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::Write(const std::string& name, const std::string& contents,
                           uint32_t mode) const {
  const std::string path = File(name);
  std::ofstream(path) << contents;
  std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode));
  return path;
}

}  // namespace dra::kube
