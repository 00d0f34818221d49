#pragma once

#include <httplib.h>

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "dra/base/unique_fd.h"

namespace dra::testing {

// One accepted connection: cpp-httplib reads requests from it and writes answers to it; a handler may cut it.
class Connection final : public httplib::Stream {
 public:
  explicit Connection(UniqueFd fd) : fd_(std::move(fd)) {}

  // Blocks until a byte can be read; false at the end of the connection.
  bool WaitForRequest();
  // No byte more in either direction. Any thread.
  void Cut();
  // True once the peer has closed its side or the connection was cut.
  bool PeerGone() const;

  bool is_readable() const override { return true; }
  bool is_writable() const override { return !PeerGone(); }
  ssize_t read(char* ptr, size_t size) override;
  ssize_t write(const char* ptr, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return fd_.get(); }

 private:
  UniqueFd fd_;
  std::string buffer_;
  size_t taken_ = 0;
};

// Accepts connections and runs each in a thread of its own, so that any number of watches can be open. cpp-httplib
// parses and writes HTTP; accepting is done here because its own server cannot drop a connection without an answer.
class HttpListener final : private httplib::Server {
 public:
  using RequestFunction =
      std::function<void(const httplib::Request&, httplib::Response&, Connection&)>;

  explicit HttpListener(RequestFunction on_request);
  ~HttpListener() override;

  // unix_socket "": 127.0.0.1, `port` or with 0 a free one.
  absl::Status Listen(const std::string& unix_socket, int port);
  // Closes the listening socket, cuts the connections and joins their threads.
  void Close();
  void CutConnections();
  int OpenConnections() const;
  int port() const;

 private:
  struct Worker {
    std::shared_ptr<Connection> connection;
    std::thread thread;
    bool done = false;
  };
  void Accept(int listener);
  void Serve(Worker* worker);
  void JoinDone();

  RequestFunction on_request_;
  mutable absl::Mutex mutex_;
  std::list<Worker> workers_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  int port_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string socket_path_;
  UniqueFd listener_;
  std::thread acceptor_;
};

}  // namespace dra::testing
