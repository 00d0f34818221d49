#include "kubelet/grpc_server.h"

#include <utility>

namespace dra::kubelet {

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Create(
    const std::vector<grpc::Service*>& services) {
  auto server = std::unique_ptr<GrpcServer>(new GrpcServer());
  grpc::ServerBuilder builder;
  for (grpc::Service* service : services) builder.RegisterService(service);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  // No idle or age limit is set, and a client may ping as often as it likes: a kubelet's connection is for life.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  server->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return absl::InternalError("gRPC server did not start");
  return server;
}

GrpcServer::~GrpcServer() { Shutdown(absl::ZeroDuration()); }

void GrpcServer::Serve(UniqueFd connection, int listening_fd) {
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listening_fd;
  parameters.fd = connection.Release();  // gRPC closes it, also when the peer is gone already
  acceptor_->HandleNewConnection(&parameters);
}

void GrpcServer::Shutdown(absl::Duration bound) {
  if (server_ == nullptr) return;
  server_->Shutdown(absl::ToChronoTime(absl::Now() + bound));
  server_.reset();
}

}  // namespace dra::kubelet
