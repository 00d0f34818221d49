// The rest of GpuProfile: what records say against what the cards are set to.

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "gpu_profile.h"

namespace fake {

void GpuProfile::ReconcileBegin() {
  const std::lock_guard<std::mutex> lock(mutex_);
  recorded_cards_.clear();
}

dra::ReconcileReply GpuProfile::ReconcileRecord(const dra::ReconcileRequest& request) {
  const std::shared_ptr<const ControlState> state = control_.Read();
  const std::vector<CardChange> changes = ParseUndo(request.undo);
  {
    // Before anything can fail: a card that a record names is never a leftover.
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const CardChange& change : changes) recorded_cards_.insert(change.card);
    for (const dra::AllocatedDevice& device : request.devices) {
      const auto card = CardOf(device.name());
      if (card && !device.admin_access()) recorded_cards_.insert(*card);
    }
  }
  for (const dra::AllocatedDevice& device : request.devices) {
    if (IsLost(*state, device)) return {.verdict = dra::Reconciled::kLost};
  }
  for (const CardChange& change : changes) {
    if (hardware_.Get(change.card) != change.wanted) return {.verdict = dra::Reconciled::kRedo};
  }
  return {.verdict = dra::Reconciled::kTrue};
}

void GpuProfile::ReconcileEnd() {
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
