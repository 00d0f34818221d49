#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "dra/base/utf8.h"
#include "k8s/dra/v1/dra.grpc.pb.h"
#include "k8s/dra/v1beta1/dra.grpc.pb.h"
#include "kubelet/claim_gateway.h"
#include "kubelet/text.h"

namespace dra::kubelet {

// protobuf strings must be UTF-8: the kubelet throws away a whole response with one bad byte in it. So every text goes
// through ValidUtf8Prefix.
inline constexpr size_t kMaxWireString = 4096;

grpc::Status ToGrpc(const absl::Status& status);

// The reactor of one call. It deletes itself when gRPC is done with it; the batch outlives it as long as the handler
// keeps its callbacks.
class BatchReactor final : public grpc::ServerUnaryReactor {
 public:
  BatchReactor() = default;
  void Begin(ClaimGateway& gateway, std::shared_ptr<ClaimBatch> batch) {
    batch_ = std::move(batch);
    gateway.Run(batch_);
  }

 private:
  void OnCancel() override { batch_->Cancel(); }
  void OnDone() override { delete this; }

  std::shared_ptr<ClaimBatch> batch_;
};

struct DraV1 {
  using Service = k8s::io::kubelet::pkg::apis::dra::v1::DRAPlugin;
  using PrepareRequest = k8s::io::kubelet::pkg::apis::dra::v1::NodePrepareResourcesRequest;
  using PrepareResponse = k8s::io::kubelet::pkg::apis::dra::v1::NodePrepareResourcesResponse;
  using UnprepareRequest = k8s::io::kubelet::pkg::apis::dra::v1::NodeUnprepareResourcesRequest;
  using UnprepareResponse = k8s::io::kubelet::pkg::apis::dra::v1::NodeUnprepareResourcesResponse;
  static constexpr bool kHasShareId = true;
};

struct DraV1beta1 {
  using Service = k8s::io::kubelet::pkg::apis::dra::v1beta1::DRAPlugin;
  using PrepareRequest = k8s::io::kubelet::pkg::apis::dra::v1beta1::NodePrepareResourcesRequest;
  using PrepareResponse = k8s::io::kubelet::pkg::apis::dra::v1beta1::NodePrepareResourcesResponse;
  using UnprepareRequest = k8s::io::kubelet::pkg::apis::dra::v1beta1::NodeUnprepareResourcesRequest;
  using UnprepareResponse =
      k8s::io::kubelet::pkg::apis::dra::v1beta1::NodeUnprepareResourcesResponse;
  static constexpr bool kHasShareId = false;
};

// One version of the DRA service over the gateway; the versions differ in share_id only.
template <typename Api>
class DraService final : public Api::Service::CallbackService {
 public:
  explicit DraService(ClaimGateway* gateway) : gateway_(gateway) {}

  grpc::ServerUnaryReactor* NodePrepareResources(grpc::CallbackServerContext* context,
                                                 const typename Api::PrepareRequest* request,
                                                 typename Api::PrepareResponse* response) override {
    return Start(Method::kPrepare, context, *request, [response](const auto& answers) {
      for (const ClaimAnswer& answer : answers) {
        auto& entry = (*response->mutable_claims())[answer.claim_uid];
        entry.set_error(WireError(answer.status));
        if (!answer.status.ok()) continue;
        for (const PreparedDevice& device : answer.devices) Put(device, *entry.add_devices());
      }
    });
  }

  grpc::ServerUnaryReactor* NodeUnprepareResources(
      grpc::CallbackServerContext* context, const typename Api::UnprepareRequest* request,
      typename Api::UnprepareResponse* response) override {
    return Start(Method::kUnprepare, context, *request, [response](const auto& answers) {
      for (const ClaimAnswer& answer : answers) {
        (*response->mutable_claims())[answer.claim_uid].set_error(WireError(answer.status));
      }
    });
  }

 private:
  template <typename Request, typename Fill>
  grpc::ServerUnaryReactor* Start(Method method, grpc::CallbackServerContext* context,
                                  const Request& request, Fill fill) {
    std::vector<ClaimRef> claims;
    for (const auto& claim : request.claims()) {
      claims.push_back({claim.namespace_(), claim.name(), claim.uid()});
    }
    const absl::Duration time_left =
        absl::FromChrono(context->deadline() - std::chrono::system_clock::now());
    auto* reactor = new BatchReactor();
    // The response is gRPC's and valid until Finish.
    reactor->Begin(*gateway_,
                   gateway_->Prepare(method, std::move(claims), time_left,
                                     [reactor, fill](const absl::Status& rpc,
                                                     const std::vector<ClaimAnswer>& answers) {
                                       if (rpc.ok()) fill(answers);
                                       reactor->Finish(ToGrpc(rpc));
                                     }));
    return reactor;
  }

  template <typename WireDevice>
  static void Put(const PreparedDevice& device, WireDevice& out) {
    for (const std::string& name : device.request_names) {
      out.add_request_names(ValidUtf8Prefix(name, kMaxWireString));
    }
    out.set_pool_name(ValidUtf8Prefix(device.pool, kMaxWireString));
    out.set_device_name(ValidUtf8Prefix(device.device, kMaxWireString));
    for (const std::string& id : device.cdi_ids) {
      out.add_cdi_device_ids(ValidUtf8Prefix(id, kMaxWireString));
    }
    if constexpr (Api::kHasShareId) {
      if (device.share_id.has_value())
        out.set_share_id(ValidUtf8Prefix(*device.share_id, kMaxWireString));
    }
  }

  ClaimGateway* const gateway_;
};

}  // namespace dra::kubelet
