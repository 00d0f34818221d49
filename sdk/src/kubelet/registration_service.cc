#include "kubelet/registration_service.h"

#include <utility>

#include "absl/strings/match.h"

namespace dra::kubelet {
namespace {

grpc::ServerUnaryReactor* Answered(grpc::CallbackServerContext* context) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace

RegistrationService::RegistrationService(std::string driver, std::string endpoint, Clock* clock,
                                         Logger logger, std::function<void()> on_status)
    : clock_(clock), logger_(std::move(logger)), on_status_(std::move(on_status)) {
  info_.set_type("DRAPlugin");
  info_.set_name(std::move(driver));
  info_.set_endpoint(std::move(endpoint));
}

void RegistrationService::SetVersions(std::vector<std::string> supported_versions) {
  absl::MutexLock lock(&mutex_);
  info_.clear_supported_versions();
  for (std::string& version : supported_versions) info_.add_supported_versions(std::move(version));
}

void RegistrationService::Forget() {
  absl::MutexLock lock(&mutex_);
  facts_.registered = false;
  facts_.refused = false;
}

RegistrationFacts RegistrationService::Facts() const {
  absl::MutexLock lock(&mutex_);
  return facts_;
}

grpc::ServerUnaryReactor* RegistrationService::GetInfo(grpc::CallbackServerContext* context,
                                                       const pluginregistration::InfoRequest*,
                                                       pluginregistration::PluginInfo* response) {
  {
    absl::MutexLock lock(&mutex_);
    facts_.last_get_info = clock_->Now();
    *response = info_;
  }
  return Answered(context);
}

grpc::ServerUnaryReactor* RegistrationService::NotifyRegistrationStatus(
    grpc::CallbackServerContext* context, const pluginregistration::RegistrationStatus* request,
    pluginregistration::RegistrationStatusResponse*) {
  const bool registered = request->plugin_registered();
  std::string error;
  if (!registered) error = request->error().empty() ? "refused without a reason" : request->error();
  bool changed = false;
  {
    absl::MutexLock lock(&mutex_);
    changed = facts_.error != error;
    facts_.registered = registered;
    facts_.refused = !registered;
    facts_.error = error;
    if (registered) ++facts_.registrations;
  }
  if (registered) {
    logger_.Info("registered with the kubelet");
  } else if (changed) {
    logger_.Error(absl::StrContains(error, "no handler registered")
                      ? "the kubelet refused the registration: it runs with dynamic resource "
                        "allocation switched off (feature gate DynamicResourceAllocation)"
                      : "the kubelet refused the registration; it is tried again",
                  {{"error", error}});
  }
  on_status_();
  return Answered(context);
}

}  // namespace dra::kubelet
