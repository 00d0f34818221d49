#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "dra/base/call.h"
#include "dra/base/unique_fd.h"

namespace dra::kube {

// One accepted connection of a HttpDouble, for a test that decides byte by byte.
class HttpConnection {
 public:
  struct Request {
    std::string method;
    std::string path;                            // with query
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;
  };

  HttpConnection(int fd, int number) : fd_(fd), number_(number) {}
  // The next request with its body; nullopt once the client has closed.
  std::optional<Request> Read();
  // Waits for one byte at least of the next request and leaves the rest unread.
  bool ReadSome();
  void Write(const std::string& bytes);
  void Answer(int code, const std::string& body, const std::string& more_headers = "");
  // The head of a chunked answer, then one chunk, then the end.
  void StartStream();
  void Chunk(const std::string& bytes);
  void EndStream() { Write("0\r\n\r\n"); }
  // Blocks until the client closes.
  void WaitForClose();
  int number() const { return number_; }  // 0, 1, ... in order of acceptance
  int fd() const { return fd_; }

 private:
  bool Fill();
  const int fd_;
  const int number_;
  std::string buffer_;
};

// A server on a free loopback port, one thread a connection, whose behaviour is the test's.
class HttpDouble {
 public:
  using ConnectionHandler = std::function<void(HttpConnection&)>;
  using RequestHandler = std::function<void(const HttpConnection::Request&, HttpConnection&)>;

  explicit HttpDouble(ConnectionHandler handler);
  // Keeps connections: `handler` answers one request after the other.
  static std::unique_ptr<HttpDouble> Answering(RequestHandler handler);
  // Closes all connections and joins.
  ~HttpDouble();

  std::string url() const;
  int connections() const { return connections_; }

 private:
  void Accept();
  const ConnectionHandler handler_;
  UniqueFd listener_;
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  std::mutex mutex_;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

// Counts, and lets a test wait for a count, at most ten seconds.
class Counter {
 public:
  void Add();
  bool WaitFor(int count);
  int value() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int value_ = 0;
};

// A directory of its own, removed at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& contents,
                    uint32_t mode = 0644) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Long enough for a loaded machine, so that a test that fails ends.
inline Call Bounded() { return Call::WithTimeout(absl::Seconds(20)); }

}  // namespace dra::kube
