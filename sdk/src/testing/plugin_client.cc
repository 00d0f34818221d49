#include "testing/plugin_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "k8s/dra/v1/dra.grpc.pb.h"
#include "k8s/dra/v1beta1/dra.grpc.pb.h"
#include "k8s/dra_health/v1/dra_health.grpc.pb.h"
#include "k8s/dra_health/v1alpha1/dra_health.grpc.pb.h"
#include "k8s/pluginregistration/v1/registration.grpc.pb.h"

namespace dra::testing {
namespace {

namespace dra_v1 = ::k8s::io::kubelet::pkg::apis::dra::v1;
namespace dra_v1beta1 = ::k8s::io::kubelet::pkg::apis::dra::v1beta1;

std::chrono::system_clock::time_point DeadlineIn(absl::Duration timeout) {
  return absl::ToChronoTime(absl::Now() + timeout);
}

absl::Status ToStatus(const grpc::Status& status, absl::string_view what) {
  if (status.ok()) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      absl::StrCat(std::string(what), ": ", status.error_message()));
}

template <typename Request>
void FillClaims(const std::vector<KubeletClaim>& claims, Request& request) {
  for (const KubeletClaim& claim : claims) {
    auto* entry = request.add_claims();
    entry->set_namespace_(claim.namespace_name);
    entry->set_name(claim.name);
    entry->set_uid(claim.uid);
  }
}

std::optional<std::string> ShareIdOf(const dra_v1::Device& device) {
  if (!device.has_share_id()) return std::nullopt;
  return device.share_id();
}
std::optional<std::string> ShareIdOf(const dra_v1beta1::Device&) { return std::nullopt; }

template <typename Api, typename Request, typename Response>
absl::StatusOr<KubeletReply> CallPrepare(const std::shared_ptr<grpc::Channel>& channel,
                                         const std::vector<KubeletClaim>& claims,
                                         absl::Duration timeout, const std::stop_token& broken) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(timeout));
  const std::stop_callback cancel(broken, [&context] { context.TryCancel(); });
  Request request;
  FillClaims(claims, request);
  Response response;
  const grpc::Status status =
      Api::NewStub(channel)->NodePrepareResources(&context, request, &response);
  if (!status.ok()) return ToStatus(status, "NodePrepareResources");
  KubeletReply reply;
  for (const auto& [uid, entry] : response.claims()) {
    if (!entry.error().empty()) {
      reply.errors[uid] = entry.error();
      continue;
    }
    std::vector<KubeletDevice>& devices = reply.devices[uid];
    for (const auto& device : entry.devices()) {
      devices.push_back({{device.request_names().begin(), device.request_names().end()},
                         device.pool_name(),
                         device.device_name(),
                         {device.cdi_device_ids().begin(), device.cdi_device_ids().end()},
                         ShareIdOf(device)});
    }
  }
  return reply;
}

template <typename Api, typename Request, typename Response>
absl::StatusOr<KubeletReply> CallUnprepare(const std::shared_ptr<grpc::Channel>& channel,
                                           const std::vector<KubeletClaim>& claims,
                                           absl::Duration timeout, const std::stop_token& broken) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(timeout));
  const std::stop_callback cancel(broken, [&context] { context.TryCancel(); });
  Request request;
  FillClaims(claims, request);
  Response response;
  const grpc::Status status =
      Api::NewStub(channel)->NodeUnprepareResources(&context, request, &response);
  if (!status.ok()) return ToStatus(status, "NodeUnprepareResources");
  KubeletReply reply;
  for (const auto& [uid, entry] : response.claims()) {
    if (entry.error().empty()) {
      reply.devices[uid];
    } else {
      reply.errors[uid] = entry.error();
    }
  }
  return reply;
}

template <typename Api, typename Request, typename Response>
absl::Status ReadHealth(const std::shared_ptr<grpc::Channel>& channel,
                        const std::function<void(const std::vector<ReportedHealth>&)>& on_report,
                        const std::stop_token& stop) {
  grpc::ClientContext context;
  std::stop_callback cancel(stop, [&] { context.TryCancel(); });
  auto reader = Api::NewStub(channel)->NodeWatchResources(&context, Request());
  Response response;
  while (reader->Read(&response)) {
    std::vector<ReportedHealth> report;
    for (const auto& device : response.devices()) {
      ReportedHealth health;
      health.pool = device.device().pool_name();
      health.device = device.device().device_name();
      health.message = device.message();
      const int value = static_cast<int>(device.health());
      health.health = value == 1   ? KubeletHealth::kHealthy
                      : value == 2 ? KubeletHealth::kUnhealthy
                                   : KubeletHealth::kUnknown;
      constexpr int64_t kDefaultSeconds = 30;
      const int64_t seconds = device.health_check_timeout_seconds();
      health.timeout = absl::Seconds(seconds > 0 ? seconds : kDefaultSeconds);
      report.push_back(std::move(health));
    }
    on_report(report);
  }
  return ToStatus(reader->Finish(), "NodeWatchResources");
}

}  // namespace

PluginClient::PluginClient(const std::string& socket) {
  grpc::ChannelArguments arguments;
  // gRPC core would send the percent-encoded socket path, which strict servers refuse.
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  // A channel to the same path after a re-bind must not share the old one's connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  channel_ = grpc::CreateCustomChannel(absl::StrCat("unix:", socket),
                                       grpc::InsecureChannelCredentials(), arguments);
}

PluginClient::~PluginClient() = default;

bool PluginClient::PollConnected(absl::Duration patience) {
  const grpc_connectivity_state state = channel_->GetState(true);
  channel_->WaitForStateChange(state, DeadlineIn(patience));
  return channel_->GetState(true) == GRPC_CHANNEL_READY;
}

bool PluginClient::Connect(absl::Duration patience, const std::stop_token& stop) {
  const absl::Time until = absl::Now() + patience;
  while (!stop.stop_requested() && absl::Now() < until) {
    if (channel_->GetState(true) == GRPC_CHANNEL_READY || PollConnected(absl::Milliseconds(50)))
      return true;
  }
  return false;
}

absl::StatusOr<PluginInfo> PluginClient::GetInfo(absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(timeout));
  pluginregistration::PluginInfo info;
  const grpc::Status status = pluginregistration::Registration::NewStub(channel_)->GetInfo(
      &context, pluginregistration::InfoRequest(), &info);
  if (!status.ok()) return ToStatus(status, "GetInfo");
  return PluginInfo{info.type(),
                    info.name(),
                    info.endpoint(),
                    {info.supported_versions().begin(), info.supported_versions().end()}};
}

absl::Status PluginClient::NotifyRegistrationStatus(bool registered, const std::string& error,
                                                    absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(timeout));
  pluginregistration::RegistrationStatus status;
  status.set_plugin_registered(registered);
  status.set_error(error);
  pluginregistration::RegistrationStatusResponse response;
  return ToStatus(pluginregistration::Registration::NewStub(channel_)->NotifyRegistrationStatus(
                      &context, status, &response),
                  "NotifyRegistrationStatus");
}

absl::StatusOr<KubeletReply> PluginClient::Prepare(const std::string& service,
                                                   const std::vector<KubeletClaim>& claims,
                                                   absl::Duration timeout) {
  if (service == "v1.DRAPlugin") {
    return CallPrepare<dra_v1::DRAPlugin, dra_v1::NodePrepareResourcesRequest,
                       dra_v1::NodePrepareResourcesResponse>(channel_, claims, timeout,
                                                             broken_.get_token());
  }
  return CallPrepare<dra_v1beta1::DRAPlugin, dra_v1beta1::NodePrepareResourcesRequest,
                     dra_v1beta1::NodePrepareResourcesResponse>(channel_, claims, timeout,
                                                                broken_.get_token());
}

absl::StatusOr<KubeletReply> PluginClient::Unprepare(const std::string& service,
                                                     const std::vector<KubeletClaim>& claims,
                                                     absl::Duration timeout) {
  if (service == "v1.DRAPlugin") {
    return CallUnprepare<dra_v1::DRAPlugin, dra_v1::NodeUnprepareResourcesRequest,
                         dra_v1::NodeUnprepareResourcesResponse>(channel_, claims, timeout,
                                                                 broken_.get_token());
  }
  return CallUnprepare<dra_v1beta1::DRAPlugin, dra_v1beta1::NodeUnprepareResourcesRequest,
                       dra_v1beta1::NodeUnprepareResourcesResponse>(channel_, claims, timeout,
                                                                    broken_.get_token());
}

absl::Status PluginClient::WatchHealth(
    const std::string& service,
    const std::function<void(const std::vector<ReportedHealth>&)>& on_report,
    const std::stop_token& stop) {
  if (service == "v1.DRAResourceHealth") {
    return ReadHealth<::v1::DRAResourceHealth, ::v1::NodeWatchResourcesRequest,
                      ::v1::NodeWatchResourcesResponse>(channel_, on_report, stop);
  }
  return ReadHealth<::v1alpha1::DRAResourceHealth, ::v1alpha1::NodeWatchResourcesRequest,
                    ::v1alpha1::NodeWatchResourcesResponse>(channel_, on_report, stop);
}

}  // namespace dra::testing
