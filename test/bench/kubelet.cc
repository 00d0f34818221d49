#include "test/bench/kubelet.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "k8s/dra/v1/dra.grpc.pb.h"
#include "k8s/pluginregistration/v1/registration.grpc.pb.h"

namespace dra::bench {
namespace {

namespace api = ::k8s::io::kubelet::pkg::apis::dra::v1;
using Clock = std::chrono::steady_clock;

constexpr absl::Duration kCallTimeout = absl::Seconds(45);  // as the kubelet's
constexpr absl::Duration kSocketPoll = absl::Microseconds(500);

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::chrono::system_clock::time_point DeadlineIn(absl::Duration timeout) {
  return absl::ToChronoTime(absl::Now() + timeout);
}

// One call on its way.
template <typename Response>
struct Flight {
  size_t index = 0;
  Clock::time_point start;
  grpc::ClientContext context;
  grpc::Status status;
  Response response;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;
};

// Runs `count` calls, `parallel` at once. send(flight, queue) starts one; verdict(flight) looks at its answer.
template <typename Response>
absl::StatusOr<Load> RunFlights(
    size_t count, int parallel,
    const std::function<void(Flight<Response>&, grpc::CompletionQueue&)>& send,
    const std::function<absl::Status(const Flight<Response>&)>& verdict) {
  grpc::CompletionQueue queue;
  Load load;
  load.milliseconds.resize(count);
  size_t sent = 0;
  size_t running = 0;
  absl::Status failed;
  const auto launch = [&] {
    auto flight = std::make_unique<Flight<Response>>();
    flight->index = sent++;
    flight->context.set_deadline(DeadlineIn(kCallTimeout));
    flight->start = Clock::now();
    send(*flight, queue);
    flight->reader->StartCall();
    Flight<Response>* const raw = flight.release();
    raw->reader->Finish(&raw->response, &raw->status, raw);
    ++running;
  };
  const Clock::time_point start = Clock::now();
  while (sent < count && running < static_cast<size_t>(std::max(parallel, 1))) launch();
  while (running > 0) {
    void* tag = nullptr;
    bool ok = false;
    if (!queue.Next(&tag, &ok)) break;
    const std::unique_ptr<Flight<Response>> flight(static_cast<Flight<Response>*>(tag));
    --running;
    load.milliseconds[flight->index] = MillisecondsSince(flight->start);
    if (sent < count && failed.ok()) launch();
    if (!flight->status.ok()) {
      failed = absl::Status(static_cast<absl::StatusCode>(flight->status.error_code()),
                            flight->status.error_message());
    } else if (const absl::Status judged = verdict(*flight); !judged.ok()) {
      failed = judged;
    }
  }
  load.seconds = MillisecondsSince(start) / 1000;
  queue.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) {
  }
  if (!failed.ok()) return failed;
  return load;
}

template <typename Request>
Request RequestOf(const Claim& claim) {
  Request request;
  auto* entry = request.add_claims();
  entry->set_namespace_(claim.namespace_name);
  entry->set_name(claim.name);
  entry->set_uid(claim.uid);
  return request;
}

template <typename Response>
absl::Status Judge(const Claim& claim, const Response& response) {
  const auto entry = response.claims().find(claim.uid);
  if (entry == response.claims().end())
    return absl::InternalError(absl::StrCat("claim ", claim.name, " got no answer"));
  if (!entry->second.error().empty())
    return absl::InternalError(absl::StrCat("claim ", claim.name, ": ", entry->second.error()));
  return absl::OkStatus();
}

}  // namespace

struct KubeletConnection::Impl {
  std::string socket;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<api::DRAPlugin::Stub> plugin;
  std::unique_ptr<pluginregistration::Registration::Stub> registration;
};

KubeletConnection::KubeletConnection(const std::string& socket) : impl_(new Impl()) {
  impl_->socket = socket;
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  constexpr int kReconnectMs = 100;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMs);
  impl_->channel = grpc::CreateCustomChannel(absl::StrCat("unix:", socket),
                                             grpc::InsecureChannelCredentials(), arguments);
  impl_->plugin = api::DRAPlugin::NewStub(impl_->channel);
  impl_->registration = pluginregistration::Registration::NewStub(impl_->channel);
}

KubeletConnection::~KubeletConnection() = default;

absl::Status KubeletConnection::Connect(absl::Duration patience) {
  const absl::Time limit = absl::Now() + patience;
  while (::access(impl_->socket.c_str(), F_OK) != 0) {
    if (absl::Now() > limit)
      return absl::DeadlineExceededError(absl::StrCat(impl_->socket, " did not appear"));
    absl::SleepFor(kSocketPoll);
  }
  if (!impl_->channel->WaitForConnected(absl::ToChronoTime(limit)))
    return absl::DeadlineExceededError(absl::StrCat(impl_->socket, " takes no connection"));
  return absl::OkStatus();
}

absl::StatusOr<double> KubeletConnection::GetInfo() {
  const absl::StatusOr<Load> load = GetInfoLoad(1, 1);
  if (!load.ok()) return load.status();
  return load->milliseconds.front();
}

absl::StatusOr<Load> KubeletConnection::GetInfoLoad(int count, int parallel) {
  using Response = pluginregistration::PluginInfo;
  return RunFlights<Response>(
      static_cast<size_t>(count), parallel,
      [this](Flight<Response>& flight, grpc::CompletionQueue& queue) {
        flight.reader = impl_->registration->PrepareAsyncGetInfo(
            &flight.context, pluginregistration::InfoRequest(), &queue);
      },
      [](const Flight<Response>&) { return absl::OkStatus(); });
}

absl::StatusOr<Load> KubeletConnection::Run(Verb verb, const std::vector<Claim>& claims,
                                            int parallel) {
  if (verb == Verb::kPrepare) {
    using Response = api::NodePrepareResourcesResponse;
    return RunFlights<Response>(
        claims.size(), parallel,
        [&](Flight<Response>& flight, grpc::CompletionQueue& queue) {
          flight.reader = impl_->plugin->PrepareAsyncNodePrepareResources(
              &flight.context, RequestOf<api::NodePrepareResourcesRequest>(claims[flight.index]),
              &queue);
        },
        [&](const Flight<Response>& flight) {
          return Judge(claims[flight.index], flight.response);
        });
  }
  using Response = api::NodeUnprepareResourcesResponse;
  return RunFlights<Response>(
      claims.size(), parallel,
      [&](Flight<Response>& flight, grpc::CompletionQueue& queue) {
        flight.reader = impl_->plugin->PrepareAsyncNodeUnprepareResources(
            &flight.context, RequestOf<api::NodeUnprepareResourcesRequest>(claims[flight.index]),
            &queue);
      },
      [&](const Flight<Response>& flight) { return Judge(claims[flight.index], flight.response); });
}

}  // namespace dra::bench
