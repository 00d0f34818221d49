#pragma once

#include <grpcpp/grpcpp.h>
#include <stdlib.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "dra/base/file_system.h"
#include "dra/kubelet/plugin_server.h"
#include "dra/kubelet/sockets.h"
#include "gtest/gtest.h"
#include "k8s/dra/v1/dra.grpc.pb.h"
#include "k8s/dra/v1beta1/dra.grpc.pb.h"
#include "k8s/dra_health/v1/dra_health.grpc.pb.h"
#include "k8s/dra_health/v1alpha1/dra_health.grpc.pb.h"
#include "k8s/pluginregistration/v1/registration.grpc.pb.h"

namespace dra::kubelet {

namespace wire = k8s::io::kubelet::pkg::apis::dra::v1;
namespace wire_beta = k8s::io::kubelet::pkg::apis::dra::v1beta1;

inline constexpr char kDriver[] = "gpu.sdk.test";
inline constexpr char kPodA[] = "aaaaaaaa-0000-4000-8000-000000000001";
inline constexpr char kPodB[] = "bbbbbbbb-0000-4000-8000-000000000002";

// Until the condition holds, at most ten seconds.
inline bool Eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return condition();
}

// A kubelet root of its own under a short path, removed at the end.
class KubeletRoot {
 public:
  KubeletRoot() {
    char pattern[] = "/tmp/kr-XXXXXX";
    path_ = ::mkdtemp(pattern);
    PosixFileSystem fs;
    EXPECT_TRUE(fs.MakeDirectory(registry(), 0755).ok());
  }
  ~KubeletRoot() {
    PosixFileSystem fs;
    (void)RemoveTree(fs, path_);
  }
  const std::string& path() const { return path_; }
  std::string registry() const { return path_ + "/plugins_registry"; }
  std::string plugin() const { return path_ + "/plugins/" + kDriver; }

 private:
  std::string path_;
};

// Answers what the test says, on the calling thread unless it keeps the callback.
class ScriptedHandler final : public ClaimHandler {
 public:
  using Prepare = std::function<void(const ClaimRef&, const Call&, PrepareDone)>;
  using Unprepare = std::function<void(const ClaimRef&, const Call&, UnprepareDone)>;

  void PrepareClaim(const ClaimRef& claim, const Call& call, PrepareDone done) override {
    Note(claim);
    prepare(claim, call, std::move(done));
  }
  void UnprepareClaim(const ClaimRef& claim, const Call& call, UnprepareDone done) override {
    Note(claim);
    unprepare(claim, call, std::move(done));
  }
  std::vector<std::string> Seen() {
    absl::MutexLock lock(&mutex_);
    return seen_;
  }

  Prepare prepare = [](const ClaimRef& claim, const Call&, PrepareDone done) {
    done(std::vector<PreparedDevice>{
        {{"gpu"}, "node-1", "gpu-0", {"k8s.gpu.sdk.test/claim=" + claim.uid + "-gpu-0"}, {}}});
  };
  Unprepare unprepare = [](const ClaimRef&, const Call&, UnprepareDone done) {
    done(absl::OkStatus());
  };

 private:
  void Note(const ClaimRef& claim) {
    absl::MutexLock lock(&mutex_);
    seen_.push_back(claim.uid);
  }
  absl::Mutex mutex_;
  std::vector<std::string> seen_;
};

inline std::shared_ptr<grpc::Channel> Dial(const std::string& socket,
                                           const std::string& authority = "localhost") {
  grpc::ChannelArguments arguments;
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, authority);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

inline void SetDeadline(grpc::ClientContext& context, int milliseconds = 10000) {
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(milliseconds));
  context.set_wait_for_ready(true);
}

class PluginServerTest : public testing::Test {
 protected:
  Options BaseOptions() const {
    Options options;
    options.driver_name = kDriver;
    options.kubelet_root = root_.path();
    options.poll_interval = absl::Milliseconds(20);
    return options;
  }
  std::unique_ptr<PluginServer> Started(Options options) {
    absl::StatusOr<std::unique_ptr<PluginServer>> server =
        PluginServer::Create(std::move(options), &handler_, &clock_, nullptr, logger_);
    EXPECT_TRUE(server.ok()) << server.status();
    const absl::Status started = (*server)->Start();
    EXPECT_TRUE(started.ok()) << started;
    return *std::move(server);
  }
  std::unique_ptr<PluginServer> Started() { return Started(BaseOptions()); }

  static grpc::Status GetInfo(const std::string& socket, pluginregistration::PluginInfo* info,
                              int milliseconds = 10000,
                              const std::string& authority = "localhost") {
    grpc::ClientContext context;
    SetDeadline(context, milliseconds);
    return pluginregistration::Registration::NewStub(Dial(socket, authority))
        ->GetInfo(&context, {}, info);
  }
  static void Notify(const std::string& socket, bool registered, const std::string& error = "") {
    pluginregistration::RegistrationStatus status;
    status.set_plugin_registered(registered);
    status.set_error(error);
    grpc::ClientContext context;
    SetDeadline(context);
    pluginregistration::RegistrationStatusResponse response;
    const grpc::Status sent = pluginregistration::Registration::NewStub(Dial(socket))
                                  ->NotifyRegistrationStatus(&context, status, &response);
    EXPECT_TRUE(sent.ok()) << sent.error_message();
  }
  static wire::NodePrepareResourcesRequest Ask(const std::vector<std::string>& uids) {
    wire::NodePrepareResourcesRequest request;
    for (const std::string& uid : uids) {
      auto* claim = request.add_claims();
      claim->set_namespace_("default");
      claim->set_name("claim-" + uid);
      claim->set_uid(uid);
    }
    return request;
  }
  static grpc::Status Prepare(const std::string& socket,
                              const wire::NodePrepareResourcesRequest& request,
                              wire::NodePrepareResourcesResponse* response,
                              int milliseconds = 10000) {
    grpc::ClientContext context;
    SetDeadline(context, milliseconds);
    return wire::DRAPlugin::NewStub(Dial(socket))
        ->NodePrepareResources(&context, request, response);
  }

  KubeletRoot root_;
  ScriptedHandler handler_;
  SystemClock clock_;
  Logger logger_;
};

}  // namespace dra::kubelet
