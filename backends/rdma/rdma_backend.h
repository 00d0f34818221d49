#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "attach_reporter.h"
#include "claim_plan.h"
#include "discovery.h"
#include "dra/backend/backend.h"
#include "dra/backend/sysfs.h"
#include "link_watch.h"
#include "options.h"
#include "pci_names.h"
#include "pod/claim_folder.h"

namespace rdma {

// RDMA NICs and other network devices. README.md is the reference. It must run in the host's network namespace.
class RdmaBackend final : public dra::Backend {
 public:
  static dra::BackendManifest Describe();

  RdmaBackend(dra::Host host, const dra::Json& config);
  ~RdmaBackend() override = default;

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
  // What the last look at the node saw.
  struct Picture {
    std::map<std::string, Nic> nics;  // by identity
  };

  NodeNics Look(const dra::HookCall& call, const std::vector<std::string>& held) const;
  std::shared_ptr<const Picture> LastPicture() const;
  void Remember(const NodeNics& node);
  // The devices' NICs as they are now. From the last look where the kernel confirms it, else by one new look for all:
  // what was freed or plugged in a moment ago is found. attached: the claim's pod has them already, so that their notes
  // tell how they were on the host. Throws DRA_NOT_FOUND.
  std::vector<Nic> FindNics(const dra::HookCall& call,
                            const std::vector<dra::AllocatedDevice>& devices, bool attached) const;
  // Tells once why a NIC is not offered, and once that it is.
  void TellNotOffered(const std::map<std::string, std::string>& reasons);
  void Track(const std::string& claim_uid, const std::string& directory, const Plan& plan,
             const std::vector<dra::AllocatedDevice>& devices);

  const dra::Host host_;
  const Options options_;
  const dra::Sysfs sysfs_;
  const PciNames pci_names_;

  mutable std::mutex mutex_;
  std::shared_ptr<const Picture> picture_;          // under mutex_
  std::map<std::string, std::string> not_offered_;  // under mutex_: why, by identity
  AttachReporter reporter_;
  LinkWatch watch_;  // last: calls the host
};

}  // namespace rdma
