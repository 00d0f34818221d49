#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "dra/base/unique_fd.h"

namespace dra::kubelet {

// A gRPC server that listens at nothing: connections are handed to it. Any thread.
class GrpcServer {
 public:
  // services outlive this. Callback services only: they share the process's two gRPC threads. A sync service would add
  // threads that poll the same sockets and hand what they read over to those: a switch more in every call.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Create(
      const std::vector<grpc::Service*>& services);
  ~GrpcServer();

  // Not after Shutdown.
  void Serve(UniqueFd connection, int listening_fd);

  // Forgets connections that have ended. How many have not.
  size_t CountPeers();
  // Waits until every peer has closed its connection. False if one has not within `bound`.
  bool WaitUntilLeft(absl::Duration bound);

  // Waits for running calls at most `bound`, then cancels them. Returns when all reactors are done.
  void Shutdown(absl::Duration bound);

 private:
  GrpcServer() = default;

  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  std::unique_ptr<grpc::Server> server_;

  absl::Mutex mutex_;
  // Second descriptors of the connections, since gRPC does not tell when one ends.
  std::vector<UniqueFd> peers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::kubelet
