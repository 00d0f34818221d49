#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device_plugin.h"
#include "discovery.h"
#include "dra/backend/backend.h"
#include "driver_watch.h"
#include "edits.h"
#include "health.h"
#include "host_files.h"
#include "options.h"

namespace nvidia {

// NVIDIA GPUs and their MIG instances. README.md is the reference. It starts on a node without NVIDIA's driver, keeps
// looking for it, and takes up another version of it when one is installed underneath: new claims get its files at
// once, those that are held with a restart of this instance.
class NvidiaBackend final : public dra::Backend {
 public:
  static dra::BackendManifest Describe();

  NvidiaBackend(dra::Host host, const dra::Json& config);
  ~NvidiaBackend() override = default;

  void Discover(const dra::HookCall& call, const dra::DiscoverRequest& request,
                dra::DiscoverSink& sink) override;
  void ValidateConfig(const dra::HookCall& call, const dra::Json& parameters,
                      const std::string& source) override;
  dra::PrepareReply Prepare(const dra::HookCall& call, const dra::PrepareRequest& request) override;
  void Unprepare(const dra::HookCall& call, const dra::UnprepareRequest& request) override;
  dra::ReconcileReply ReconcileRecord(const dra::HookCall& call,
                                      const dra::ReconcileRequest& request) override;
  std::vector<dra::HealthReport> Health(const dra::HookCall& call) override;

 private:
  // One open library and who watches its GPUs; hooks that use it keep it open.
  struct Session {
    std::shared_ptr<NvmlLibrary> nvml;
    std::unique_ptr<HealthWatch> health;  // borrows nothing of the backend but host_
  };

  // The open library, opened now if it is not, or if there is another file in its place. Throws DRA_UNAVAILABLE or
  // DRA_FAILED_PRECONDITION with what to do.
  std::shared_ptr<const Session> OpenSession();
  std::shared_ptr<const Session> CurrentSession() const;
  // The device plugin's socket that keeps new claims away; nullopt also where it is allowed beside this driver.
  std::optional<std::string> Rival() const;
  // What a container of a claim with these devices needs, as of now.
  AllEdits EditsOf(const dra::HookCall& call, const std::vector<PresentDevice>& devices,
                   const std::string& driver_version) const;
  // Runs `function` on the open library; an answer that means that the driver has gone or changed closes it.
  template <typename Function>
  auto WithLibrary(Function&& function);
  void Drop(const std::shared_ptr<const Session>& session);

  const dra::Host host_;
  const Options options_;
  const HostFiles files_;
  const dra::Sysfs sysfs_;
  const DevicePlugin device_plugin_;

  mutable std::mutex mutex_;
  std::shared_ptr<const Session> session_;  // under mutex_
  bool opened_ = false;                     // under mutex_: there was a session
  // Under mutex_: what the last discovery found, and why no library that fits the kernel module can be opened.
  std::vector<std::string> found_;
  std::string mismatch_;
  DriverWatch watch_;  // last: looks at everything above
};

}  // namespace nvidia
