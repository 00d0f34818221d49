#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "dra/base/logger.h"
#include "dra/observe/metrics.h"

namespace dra::observe {

// One condition of readiness. `name` as it is shown: "registered", "published", "backend".
struct Condition {
  std::string driver;
  std::string name;
  bool ok = false;
  std::string message;  // why not
};

struct EndpointOptions {
  std::string address;  // "0.0.0.0:8080"; port 0 takes a free one
};

// HTTP: /metrics, /healthz (200 while this process can answer; depends on nothing else), /readyz (200 or 503, one line
// a condition). A port that is taken is retried in the background (an older instance may hold it): Start succeeds and
// bound_port() is 0 until then.
class HttpEndpoint {
 public:
  using ReadyFunction = std::function<std::vector<Condition>()>;

  // metrics outlives this. `ready` is called for each request, any thread, and must not block.
  HttpEndpoint(EndpointOptions options, const Metrics* metrics, ReadyFunction ready, Logger logger);
  ~HttpEndpoint();

  // InvalidArgument for an address that is none.
  absl::Status Start();
  int bound_port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A read-only unix socket that answers every connection with one JSON document and closes it: HTTP GET /status as well
// as a client that only reads ("socat - UNIX-CONNECT:...") get it. Mode 0600.
class StatusSocket {
 public:
  using StatusFunction = std::function<std::string()>;

  StatusSocket(std::string path, StatusFunction status, Logger logger);
  // Removes the socket file if it is still this one's.
  ~StatusSocket();

  // Takes over a path that nobody listens at. AlreadyExists if somebody does.
  absl::Status Start();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Removes the files "status*.sock" of `directory` at which nobody listens: what instances that were killed left. Younger
// ones stay, since one that is being bound refuses for a moment as well.
void RemoveDeadStatusSockets(const std::string& directory, absl::Time made_before);

}  // namespace dra::observe
