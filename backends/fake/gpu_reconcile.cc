// The rest of GpuClaims: what containers see of a claim, and what records say against what the cards are set to.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "dra/backend/device_node.h"
#include "environment.h"
#include "files.h"
#include "gpu_claims.h"

namespace fake {

using dra::Json;

namespace {

constexpr char kContainerDirectory[] = "/run/fake-gpu";

}  // namespace

Json GpuClaims::DeviceEdits(const dra::AllocatedDevice& device, const std::string& card,
                            const CardSetting& setting, const std::string& claim_uid,
                            bool admin) const {
  Json edits = {{"env", DeviceEnvironment(device, setting, claim_uid, admin)}};
  if (!options_.device_nodes) return edits;
  // "gpu-3" is /dev/fake3 in the container. On a real host the null device stands behind it; below a dev root, the
  // file of the same name, as where a vendor's driver container keeps its own /dev.
  const std::string node = "/dev/fake" + card.substr(card.find('-') + 1);
  dra::AddDeviceNode(edits, options_.dev_root.empty() ? "/dev/null" : options_.dev_root + node,
                     {.container_path = node, .permissions = "rw"});
  return edits;
}

Json GpuClaims::ClaimEdits(const dra::HookCall& call, const dra::PrepareRequest& request) const {
  Json edits = {{"env", Json::array({"KUBERNETES_NODE_NAME=" + options_.layout.node_name})}};
  Json names = Json::array();
  for (const dra::AllocatedDevice& device : request.devices) {
    const auto driver = device.result.find("driver");
    if (edits["env"].size() == 1 && driver != device.result.end() && driver->is_string()) {
      edits["env"].push_back("DRA_RESOURCE_DRIVER_NAME=" + driver->get<std::string>());
    }
    names.push_back(device.name());
  }
  if (options_.device_nodes) {
    const std::string directory = host_.ClaimDirectory(call);
    ReplaceFile(directory + "/claim.json", Json({{"claim", request.claim.name},
                                                 {"namespace", request.claim.namespace_name},
                                                 {"devices", names}})
                                                   .dump(2) +
                                               "\n");
    edits["mounts"] =
        Json::array({{{"hostPath", directory},
                      {"containerPath", std::string(kContainerDirectory) + "/" + request.claim.uid},
                      {"options", Json::array({"rbind", "ro", "nosuid", "nodev"})}}});
  }
  return edits;
}

void GpuClaims::ReconcileBegin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  recorded_cards_.clear();
}

dra::ReconcileReply GpuClaims::ReconcileRecord(const dra::ReconcileRequest& request) {
  const std::shared_ptr<const ControlState> state = control_.Read();
  const std::vector<CardChange> changes = ParseUndo(request.undo);
  {
    // Before anything can fail: a card that a record names is never a leftover.
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const CardChange& change : changes) recorded_cards_.insert(change.card);
    for (const dra::AllocatedDevice& device : request.devices) {
      const auto card = CardOfDevice(options_.layout, device.name());
      if (card && !device.admin_access()) recorded_cards_.insert(*card);
    }
  }
  for (const dra::AllocatedDevice& device : request.devices) {
    const auto card = CardOfDevice(options_.layout, device.name());
    const std::string present = card ? PresentIdentity(*state, *card) : "";
    if (present.empty() || (!device.identity.empty() && device.identity.rfind(present, 0) != 0)) {
      return {.verdict = dra::Reconciled::kLost};
    }
  }
  for (const CardChange& change : changes) {
    if (hardware_.Get(change.card) != change.wanted) return {.verdict = dra::Reconciled::kRedo};
  }
  return {.verdict = dra::Reconciled::kTrue};
}

void GpuClaims::ReconcileEnd() {
  const std::shared_ptr<const ControlState> state = control_.Read();
  std::set<std::string> recorded;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    recorded.swap(recorded_cards_);
  }
  for (const auto& [card, setting] : hardware_.All()) {
    if (recorded.count(card) != 0) continue;
    const std::string identity = PresentIdentity(*state, card);
    // Without our note somebody else gave the card its setting: not ours to take back.
    if (identity.empty() || !NotedPrior(identity)) continue;
    Restore(*state, card, identity, std::nullopt);
  }
}

}  // namespace fake
