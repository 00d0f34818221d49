#pragma once

#include <grpcpp/grpcpp.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/logger.h"
#include "k8s/pluginregistration/v1/registration.grpc.pb.h"

namespace dra::kubelet {

// What the kubelet has said of our registration.
struct RegistrationFacts {
  bool registered = false;
  bool refused = false;        // the last word was a refusal
  std::string error;           // the kubelet's text
  uint64_t registrations = 0;  // how often it was accepted
  absl::Time last_get_info = absl::InfinitePast();
};

// The Registration service. It answers from memory under a lock that nothing else is done under. Any thread.
class RegistrationService final : public pluginregistration::Registration::CallbackService {
 public:
  // on_status runs after each NotifyRegistrationStatus; it must return at once. clock outlives this.
  RegistrationService(std::string driver, std::string endpoint, Clock* clock, Logger logger,
                      std::function<void()> on_status);

  void SetVersions(std::vector<std::string> supported_versions);
  // A new socket is about to be shown: what was said of the old one does not count.
  void Forget();
  RegistrationFacts Facts() const;

  grpc::ServerUnaryReactor* GetInfo(grpc::CallbackServerContext* context,
                                    const pluginregistration::InfoRequest* request,
                                    pluginregistration::PluginInfo* response) override;
  // Always OK: an error would not reach anybody.
  grpc::ServerUnaryReactor* NotifyRegistrationStatus(
      grpc::CallbackServerContext* context, const pluginregistration::RegistrationStatus* request,
      pluginregistration::RegistrationStatusResponse* response) override;

 private:
  Clock* const clock_;
  const Logger logger_;
  const std::function<void()> on_status_;

  mutable absl::Mutex mutex_;
  pluginregistration::PluginInfo info_ ABSL_GUARDED_BY(mutex_);
  RegistrationFacts facts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace dra::kubelet
