#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/testing/api_traffic.h"
#include "dra/testing/object_store.h"

namespace dra::testing {

struct ApiServerOptions {
  ServerProfile profile;
  std::string unix_socket;   // path to listen at; "": a free port of 127.0.0.1
  std::string bearer_token;  // demanded of every request; "": none
  Clock* clock = nullptr;    // for time stamps in objects; null: the system's. Outlives the server
};

// A Kubernetes API server for tests: HTTP/1.1 with kept connections over TCP or a unix socket, no TLS. Serves discovery
// (/version, /api, /apis, ...) and the kinds of ServedResources() from an ObjectStore; Status bodies, chunked watches.
// Faults and the request log are in traffic(). docs/test-doubles.md has the list. Any thread.
class FakeApiServer {
 public:
  static absl::StatusOr<std::unique_ptr<FakeApiServer>> Start(ApiServerOptions options = {});
  // Ends all connections and joins all threads.
  ~FakeApiServer();

  ObjectStore& store();
  ApiTraffic& traffic();

  // "http://127.0.0.1:<port>"; for a unix socket "http://localhost".
  std::string url() const;
  const std::string& unix_socket() const;
  // A kubeconfig that reaches this server with the token in force; TCP only. For --kubeconfig of the programs.
  std::string KubeConfig() const;

  // From the next request on; others get 401.
  void SetBearerToken(absl::string_view token);

  // Cuts every open connection without an answer; new ones are served.
  void CutConnections();
  // The server is away: nobody listens, connections are cut. Nothing is lost.
  void GoAway();
  // Listens again, at the same address.
  absl::Status ComeBack();
  int OpenConnections() const;

 private:
  struct Impl;
  explicit FakeApiServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace dra::testing
