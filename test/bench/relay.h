#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "dra/base/unique_fd.h"

namespace dra::bench {

// What went through a relay since it was last asked.
struct Traffic {
  std::map<std::string, int>
      calls;            // "PUT resourceslices" -> how many; a watch counts when it is opened
  double bytes_up = 0;  // to the API server, heads and bodies
  double bytes_down = 0;
  int Total() const;
};

// Stands between the driver and a plain-HTTP API server on 127.0.0.1 and counts. Only where traffic is the figure: it
// costs a hop.
class Relay {
 public:
  static absl::StatusOr<std::unique_ptr<Relay>> Start(int server_port);
  ~Relay();

  int port() const { return port_; }
  // Starts anew at zero.
  Traffic Take();

 private:
  struct Connection {
    UniqueFd client;
    UniqueFd server;
    std::jthread thread;
  };
  Relay() = default;
  void Accept();
  void Pump(Connection* connection);

  int server_port_ = 0;
  int port_ = 0;
  UniqueFd listener_;
  std::mutex mutex_;
  bool stopping_ = false;
  Traffic traffic_;
  std::list<Connection> connections_;
  std::jthread acceptor_;
};

}  // namespace dra::bench
