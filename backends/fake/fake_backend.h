#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "control.h"
#include "dra/backend/backend.h"
#include "hardware.h"
#include "hook_log.h"
#include "options.h"
#include "profile.h"
#include "watcher.h"

namespace fake {

// A backend without hardware: the GPUs, NICs or CPUs of the public example driver, or any devices from a file; and, on
// demand, every fault that a backend can have. README.md is the reference.
class FakeBackend final : public dra::Backend {
 public:
  static dra::BackendManifest Describe();

  FakeBackend(dra::Host host, const dra::Json& config);
  ~FakeBackend() override;

  void Discover(const dra::HookCall& call, const dra::DiscoverRequest& request,
                dra::DiscoverSink& sink) override;
  void ValidateConfig(const dra::HookCall& call, const dra::Json& parameters,
                      const std::string& source) override;
  dra::PrepareReply Prepare(const dra::HookCall& call, const dra::PrepareRequest& request) override;
  void Unprepare(const dra::HookCall& call, const dra::UnprepareRequest& request) override;
  void ReconcileBegin(const dra::HookCall& call) override;
  dra::ReconcileReply ReconcileRecord(const dra::HookCall& call,
                                      const dra::ReconcileRequest& request) override;
  void ReconcileEnd(const dra::HookCall& call) override;
  dra::BusyState Busy(const dra::HookCall& call, const dra::BusyRequest& request) override;
  std::vector<dra::HealthReport> Health(const dra::HookCall& call) override;

  // The manifest with what the configuration says otherwise.
  dra::BackendManifest InstanceManifest();
  // The junk that `hook` shall answer with now, counted as given; "" for none.
  std::string TakeJunk(const std::string& hook, const std::string& claim_uid);

 private:
  // Runs `hook` between two lines of the hook log, with the faults of "begin" and "end".
  template <typename Function>
  auto Run(const char* hook, const dra::HookCall& call, const std::string& claim_uid,
           dra::Json details, Function&& function);
  void AtPoint(const char* hook, const char* point, const std::string& claim_uid,
               const dra::HookCall& call);
  void CallBack(const Callback& callback, uint64_t call_id);
  void Look() noexcept;
  std::unique_ptr<Profile> MakeProfile();

  const dra::Host host_;
  const Options options_;
  HookLog log_;
  Control control_;
  Hardware hardware_;
  const std::unique_ptr<Profile> profile_;  // borrows everything above

  // What the watcher saw last; only its thread and the constructor touch them.
  std::string seen_inventory_;
  std::string seen_health_;

  std::mutex mutex_;
  std::vector<std::jthread> callbacks_;  // under mutex_
  std::optional<Watcher> watcher_;       // last: looks at everything above
};

}  // namespace fake
