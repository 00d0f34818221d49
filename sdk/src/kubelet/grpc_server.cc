#include "kubelet/grpc_server.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace dra::kubelet {
namespace {

constexpr absl::Duration kPeerPoll = absl::Milliseconds(10);

bool HasEnded(int connection) {
  struct pollfd polled {};
  polled.fd = connection;
  polled.events = POLLRDHUP;
  return ::poll(&polled, 1, 0) > 0 &&
         (polled.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Create(
    const std::vector<grpc::Service*>& services) {
  auto server = std::unique_ptr<GrpcServer>(new GrpcServer());
  grpc::ServerBuilder builder;
  for (grpc::Service* service : services) builder.RegisterService(service);
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
  // Without a descriptor left the peer is not counted, and a shutdown does not wait for it.
  UniqueFd peer(::fcntl(connection.get(), F_DUPFD_CLOEXEC, 0));
  if (peer) {
    absl::MutexLock lock(&mutex_);
    peers_.push_back(std::move(peer));
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listening_fd;
  parameters.fd = connection.Release();  // gRPC closes it, also when the peer is gone already
  acceptor_->HandleNewConnection(&parameters);
}

size_t GrpcServer::CountPeers() {
  absl::MutexLock lock(&mutex_);
  peers_.erase(std::remove_if(peers_.begin(), peers_.end(),
                              [](const UniqueFd& peer) { return HasEnded(peer.get()); }),
               peers_.end());
  return peers_.size();
}

bool GrpcServer::WaitUntilLeft(absl::Duration bound) {
  const absl::Time end = absl::Now() + bound;
  while (CountPeers() > 0) {
    if (absl::Now() >= end) return false;
    absl::SleepFor(kPeerPoll);
  }
  return true;
}

void GrpcServer::Shutdown(absl::Duration bound) {
  if (server_ == nullptr) return;
  server_->Shutdown(absl::ToChronoTime(absl::Now() + bound));
  server_.reset();
}

}  // namespace dra::kubelet
