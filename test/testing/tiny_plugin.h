#pragma once

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "k8s/dra/v1/dra.grpc.pb.h"
#include "k8s/dra/v1beta1/dra.grpc.pb.h"
#include "k8s/dra_health/v1/dra_health.grpc.pb.h"
#include "k8s/pluginregistration/v1/registration.grpc.pb.h"

namespace dra::testing {

// The smallest DRA plugin that a kubelet takes: what it answers is set by the test before it starts.
class TinyPlugin {
 public:
  using PrepareRequest = k8s::io::kubelet::pkg::apis::dra::v1::NodePrepareResourcesRequest;
  using PrepareResponse = k8s::io::kubelet::pkg::apis::dra::v1::NodePrepareResourcesResponse;
  using UnprepareResponse = k8s::io::kubelet::pkg::apis::dra::v1::NodeUnprepareResourcesResponse;

  std::string driver = "gpu.example.com";
  std::string type = "DRAPlugin";
  std::vector<std::string> services = {"v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth"};
  std::function<void(const PrepareRequest&, PrepareResponse&)> prepare =
      [](const PrepareRequest& request, PrepareResponse& response) {
        for (const auto& claim : request.claims()) {
          auto* device = (*response.mutable_claims())[claim.uid()].add_devices();
          device->add_request_names("gpu");
          device->set_pool_name("node-a");
          device->set_device_name("gpu-0");
          device->add_cdi_device_ids("k8s.gpu.example.com/claim=" + claim.uid() + "-gpu-0");
        }
      };
  absl::Duration info_delay;  // before GetInfo answers

  // root: the kubelet's. `suffix` makes the socket names of a second instance.
  void Start(const std::string& root, const std::string& suffix = "") {
    registration_socket = root + "/plugins_registry/" + driver + suffix + "-reg.sock";
    endpoint = root + "/plugins/dra" + suffix + ".sock";
    grpc::ServerBuilder service;
    service.AddListeningPort("unix:" + endpoint, grpc::InsecureServerCredentials());
    service.RegisterService(&v1_).RegisterService(&v1beta1_).RegisterService(&health_);
    service_server_ = service.BuildAndStart();
    grpc::ServerBuilder registration;
    registration.AddListeningPort("unix:" + registration_socket, grpc::InsecureServerCredentials());
    registration.RegisterService(&registration_);
    registration_server_ = registration.BuildAndStart();
  }
  void StopService() {
    if (service_server_ == nullptr) return;
    stopping_ = true;
    service_server_->Shutdown(std::chrono::system_clock::now());
    service_server_.reset();
  }
  void Stop() {
    if (registration_server_ != nullptr) {
      unlink(registration_socket.c_str());
      registration_server_->Shutdown(std::chrono::system_clock::now());
      registration_server_.reset();
    }
    StopService();
  }
  ~TinyPlugin() { Stop(); }

  // -1: not told yet, else plugin_registered of the last call.
  int notified() {
    absl::MutexLock lock(&mutex_);
    return notified_;
  }
  bool WaitForNotification() {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(
                                       +[](int* told) { return *told >= 0; }, &notified_),
                                   absl::Seconds(15));
  }
  std::vector<std::string> calls() {
    absl::MutexLock lock(&mutex_);
    return calls_;
  }

  std::string registration_socket;
  std::string endpoint;

 private:
  void Called(const std::string& text) {
    absl::MutexLock lock(&mutex_);
    calls_.push_back(text);
  }

  struct Registration final : pluginregistration::Registration::Service {
    explicit Registration(TinyPlugin* owner) : plugin(owner) {}
    grpc::Status GetInfo(grpc::ServerContext*, const pluginregistration::InfoRequest*,
                         pluginregistration::PluginInfo* info) override {
      absl::SleepFor(plugin->info_delay);
      info->set_type(plugin->type);
      info->set_name(plugin->driver);
      info->set_endpoint(plugin->endpoint);
      for (const std::string& service : plugin->services) info->add_supported_versions(service);
      return grpc::Status::OK;
    }
    grpc::Status NotifyRegistrationStatus(
        grpc::ServerContext*, const pluginregistration::RegistrationStatus* status,
        pluginregistration::RegistrationStatusResponse*) override {
      absl::MutexLock lock(&plugin->mutex_);
      plugin->notified_ = status->plugin_registered() ? 1 : 0;
      return grpc::Status::OK;
    }
    TinyPlugin* const plugin;
  };
  struct V1 final : k8s::io::kubelet::pkg::apis::dra::v1::DRAPlugin::Service {
    explicit V1(TinyPlugin* owner) : plugin(owner) {}
    grpc::Status NodePrepareResources(grpc::ServerContext*, const PrepareRequest* request,
                                      PrepareResponse* response) override {
      for (const auto& claim : request->claims()) plugin->Called("prepare " + claim.uid());
      plugin->prepare(*request, *response);
      return grpc::Status::OK;
    }
    grpc::Status NodeUnprepareResources(
        grpc::ServerContext*,
        const k8s::io::kubelet::pkg::apis::dra::v1::NodeUnprepareResourcesRequest* request,
        UnprepareResponse* response) override {
      for (const auto& claim : request->claims()) {
        plugin->Called("unprepare " + claim.uid());
        (*response->mutable_claims())[claim.uid()];
      }
      return grpc::Status::OK;
    }
    TinyPlugin* const plugin;
  };
  struct V1beta1 final : k8s::io::kubelet::pkg::apis::dra::v1beta1::DRAPlugin::Service {};
  struct HealthService final : v1::DRAResourceHealth::Service {
    explicit HealthService(TinyPlugin* owner) : plugin(owner) {}
    grpc::Status NodeWatchResources(
        grpc::ServerContext* context, const v1::NodeWatchResourcesRequest*,
        grpc::ServerWriter<v1::NodeWatchResourcesResponse>* writer) override {
      v1::NodeWatchResourcesResponse response;
      auto* device = response.add_devices();
      device->mutable_device()->set_pool_name("node-a");
      device->mutable_device()->set_device_name("gpu-0");
      device->set_health(v1::UNHEALTHY);
      device->set_message("too hot");
      writer->Write(response);
      while (!context->IsCancelled() && !plugin->stopping_) absl::SleepFor(absl::Milliseconds(10));
      return grpc::Status::OK;
    }
    TinyPlugin* const plugin;
  };

  absl::Mutex mutex_;
  int notified_ = -1;
  std::vector<std::string> calls_;
  std::atomic<bool> stopping_ = false;
  Registration registration_{this};
  V1 v1_{this};
  V1beta1 v1beta1_;
  HealthService health_{this};
  std::unique_ptr<grpc::Server> registration_server_;
  std::unique_ptr<grpc::Server> service_server_;
};

}  // namespace dra::testing
