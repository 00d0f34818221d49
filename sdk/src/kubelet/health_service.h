#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "dra/base/utf8.h"
#include "k8s/dra_health/v1/dra_health.grpc.pb.h"
#include "k8s/dra_health/v1alpha1/dra_health.grpc.pb.h"
#include "kubelet/dra_service.h"
#include "kubelet/health_hub.h"

namespace dra::kubelet {

inline constexpr size_t kMaxHealthMessage = 1024;  // the kubelet's limit

struct HealthV1 {
  using Service = ::v1::DRAResourceHealth;
  using Request = ::v1::NodeWatchResourcesRequest;
  using Response = ::v1::NodeWatchResourcesResponse;
  using Status = ::v1::HealthStatus;
};

struct HealthV1alpha1 {
  using Service = ::v1alpha1::DRAResourceHealth;
  using Request = ::v1alpha1::NodeWatchResourcesRequest;
  using Response = ::v1alpha1::NodeWatchResourcesResponse;
  using Status = ::v1alpha1::HealthStatus;
};

// One stream of one version. At any time one party may act on the gRPC side: the one that set `busy_` (it starts a
// write) or `ended_` (it finishes). So neither needs the lock while it does.
template <typename Api>
class GrpcHealthStream final : public grpc::ServerWriteReactor<typename Api::Response>,
                               public HealthStream,
                               public std::enable_shared_from_this<GrpcHealthStream<Api>> {
 public:
  GrpcHealthStream(HealthHub* hub, int64_t timeout_seconds)
      : hub_(hub), timeout_seconds_(timeout_seconds) {}

  void Begin() {
    self_ = this->shared_from_this();
    hub_->Open(self_);
  }

  void Offer(HealthList list) override {
    {
      absl::MutexLock lock(&mutex_);
      if (ended_ || end_.has_value()) return;
      if (busy_) {
        waiting_ = std::move(list);
        return;
      }
      busy_ = true;
    }
    Send(*list);
  }

  void Withhold() override {
    HealthList forgotten;  // destroyed after the lock
    absl::MutexLock lock(&mutex_);
    forgotten.swap(waiting_);
  }

  void End(absl::Status status) override {
    {
      absl::MutexLock lock(&mutex_);
      if (ended_ || end_.has_value()) return;
      if (busy_) {
        end_ = std::move(status);  // OnWriteDone finishes
        return;
      }
      ended_ = true;
    }
    this->Finish(ToGrpc(status));
  }

 private:
  void OnWriteDone(bool ok) override {
    absl::Status end;
    HealthList next;
    {
      absl::MutexLock lock(&mutex_);
      if (ok && !end_.has_value()) {
        next = std::exchange(waiting_, nullptr);
        if (next == nullptr) {
          busy_ = false;
          return;
        }
      } else {
        end = end_.value_or(absl::CancelledError("the stream is gone"));
        busy_ = false;
        ended_ = true;
      }
    }
    if (next != nullptr) return Send(*next);
    this->Finish(ToGrpc(end));
  }

  // gRPC fails a write that is under way, so OnWriteDone comes.
  void OnCancel() override { End(absl::CancelledError("the stream was cancelled")); }

  // gRPC calls this after every other callback has returned. The lock shows that order to
  // ThreadSanitizer too, which cannot see gRPC's own.
  void OnDone() override {
    { absl::MutexLock lock(&mutex_); }
    hub_->Closed(this);
    const std::shared_ptr<GrpcHealthStream> last = std::move(self_);
  }

  void Send(const std::vector<DeviceHealth>& devices) {
    message_.Clear();
    for (const DeviceHealth& device : devices) {
      auto& out = *message_.add_devices();
      out.mutable_device()->set_pool_name(ValidUtf8Prefix(device.pool, kMaxWireString));
      out.mutable_device()->set_device_name(ValidUtf8Prefix(device.device, kMaxWireString));
      out.set_health(static_cast<typename Api::Status>(device.health));
      const bool known = device.last_updated != absl::InfinitePast() &&
                         device.last_updated != absl::InfiniteFuture();
      out.set_last_updated_time(known ? absl::ToUnixSeconds(device.last_updated) : 0);
      out.set_health_check_timeout_seconds(timeout_seconds_);
      out.set_message(ValidUtf8Prefix(device.message, kMaxHealthMessage));
    }
    this->StartWrite(&message_);
  }

  HealthHub* const hub_;
  const int64_t timeout_seconds_;
  std::shared_ptr<GrpcHealthStream> self_;  // until OnDone
  typename Api::Response message_;          // of the write under way

  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  HealthList waiting_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
};

// One version of the health service.
template <typename Api>
class HealthService final : public Api::Service::CallbackService {
 public:
  HealthService(HealthHub* hub, int64_t timeout_seconds)
      : hub_(hub), timeout_seconds_(timeout_seconds) {}

  grpc::ServerWriteReactor<typename Api::Response>* NodeWatchResources(
      grpc::CallbackServerContext*, const typename Api::Request*) override {
    auto stream = std::make_shared<GrpcHealthStream<Api>>(hub_, timeout_seconds_);
    stream->Begin();
    return stream.get();  // it holds itself until OnDone
  }

 private:
  HealthHub* const hub_;
  const int64_t timeout_seconds_;
};

}  // namespace dra::kubelet
