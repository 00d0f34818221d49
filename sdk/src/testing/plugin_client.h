#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dra/testing/kubelet_double.h"

namespace grpc {
class Channel;
}

namespace dra::testing {

struct PluginInfo {
  std::string type;
  std::string name;
  std::string endpoint;
  std::vector<std::string> supported_versions;
};

struct ReportedHealth {
  std::string pool;
  std::string device;
  KubeletHealth health = KubeletHealth::kUnknown;
  std::string message;
  absl::Duration timeout;
};

// A gRPC connection to one unix socket, with the calls a kubelet makes. Any thread.
class PluginClient {
 public:
  explicit PluginClient(const std::string& socket);
  ~PluginClient();

  // True once connected; false after `patience` or when `stop` is requested.
  bool Connect(absl::Duration patience, const std::stop_token& stop);
  // Blocks until the state may have changed, at most `patience`; asks gRPC to connect. The state then.
  bool PollConnected(absl::Duration patience);

  absl::StatusOr<PluginInfo> GetInfo(absl::Duration timeout);
  absl::Status NotifyRegistrationStatus(bool registered, const std::string& error,
                                        absl::Duration timeout);

  // service: "v1.DRAPlugin" or "v1beta1.DRAPlugin". Only the transport and the raw entries; no judgement.
  absl::StatusOr<KubeletReply> Prepare(const std::string& service,
                                       const std::vector<KubeletClaim>& claims,
                                       absl::Duration timeout);
  absl::StatusOr<KubeletReply> Unprepare(const std::string& service,
                                         const std::vector<KubeletClaim>& claims,
                                         absl::Duration timeout);

  // Ends the Prepare and Unprepare calls under way with Cancelled, as a client does that closes its connection.
  void BreakCalls() { broken_.request_stop(); }

  // Reads the health stream of "v1.DRAResourceHealth" or "v1alpha1.DRAResourceHealth" to its end.
  absl::Status WatchHealth(const std::string& service,
                           const std::function<void(const std::vector<ReportedHealth>&)>& on_report,
                           const std::stop_token& stop);

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::stop_source broken_;
};

}  // namespace dra::testing
