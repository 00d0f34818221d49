#include "card_profile.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace fake {

using dra::BackendError;
using dra::Json;

CardInventory CardProfile::Enumerate(const ControlState& state,
                                     const dra::DiscoverRequest& request) const {
  CardInventory inventory;
  for (int64_t slot = 0; slot < slots_; ++slot) {
    const std::string card = prefix_ + std::to_string(slot);
    const CardCondition& condition = ConditionOf(state, card);
    // Without its taint a lost card would look usable.
    if (condition.absent || (condition.lost && request.taints != dra::ServerField::kKept)) continue;
    if (!condition.error.empty()) {
      inventory.errors.emplace_back(card, condition.error);
      continue;
    }
    const size_t first = inventory.devices.size();
    const std::string uuid = Uuid(card, condition.replaced);
    AddCard(slot, {.name = card, .card = card, .uuid = uuid, .identity = uuid}, condition, request,
            inventory);
    if (!condition.lost) continue;
    for (size_t i = first; i < inventory.devices.size(); ++i) {
      inventory.devices[i].device["taints"] =
          Json::array({{{"key", kind_ + ".example.com/lost"}, {"effect", "NoSchedule"}}});
    }
  }
  return inventory;
}

void CardProfile::Discover(const dra::DiscoverRequest& request, dra::DiscoverSink& sink) {
  const CardInventory inventory = Enumerate(*control_.Read(), request);
  for (const CardDevice& device : inventory.devices) {
    dra::DeviceReport report{.device = device.device, .identity = device.identity};
    if (!device.shape.empty()) report.exclusion_keys = {{device.uuid, device.shape}};
    sink.AddDevice(report);
  }
  for (const Json& counter_set : inventory.counter_sets) sink.AddCounterSet("", counter_set);
  for (const auto& [card, error] : inventory.errors) sink.AddError(card, DRA_UNAVAILABLE, error);
}

std::vector<dra::HealthReport> CardProfile::Health() {
  const std::shared_ptr<const ControlState> state = control_.Read();
  constexpr dra::ServerField kKept = dra::ServerField::kKept;
  const dra::DiscoverRequest everything{
      .counters = kKept, .multiple_allocations = kKept, .taints = kKept, .held = {}};
  std::vector<dra::HealthReport> reports;
  for (const CardDevice& device : Enumerate(*state, everything).devices) {
    dra::HealthReport report{.device = device.name, .state = dra::HealthKind::kHealthy};
    if (ConditionOf(*state, device.card).lost) {
      report.state = dra::HealthKind::kUnhealthy;
      report.fault_class = "lost";
      report.message = "card " + device.card + " fell off the bus";
      report.remedy = "reset the card";
      report.clears_with = "reset";
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

dra::ReconcileReply CardProfile::ReconcileRecord(const dra::ReconcileRequest& request) {
  const std::shared_ptr<const ControlState> state = control_.Read();
  const bool lost =
      std::any_of(request.devices.begin(), request.devices.end(),
                  [&](const dra::AllocatedDevice& device) { return IsLost(*state, device); });
  return {.verdict = lost ? dra::Reconciled::kLost : dra::Reconciled::kTrue};
}

std::optional<std::string> CardProfile::CardOf(const std::string& device) const {
  return SlotOf(prefix_, device, slots_) ? std::optional<std::string>(device) : std::nullopt;
}

std::string CardProfile::Contents() const {
  return std::to_string(slots_) + " cards, " + prefix_ + "0 and up";
}

std::string CardProfile::Uuid(const std::string& card, int64_t replaced) const {
  return CardUuid(kind_, options_.node_name, card, replaced);
}

const CardCondition& CardProfile::ConditionOf(const ControlState& state, const std::string& card) {
  static const CardCondition kWell;
  const auto found = state.cards.find(card);
  return found == state.cards.end() ? kWell : found->second;
}

std::string CardProfile::PresentIdentity(const ControlState& state, const std::string& card) const {
  const CardCondition& condition = ConditionOf(state, card);
  if (condition.absent || condition.lost || !condition.error.empty()) return "";
  return Uuid(card, condition.replaced);
}

bool CardProfile::IsLost(const ControlState& state, const dra::AllocatedDevice& device) const {
  const std::optional<std::string> card = CardOf(device.name());
  const std::string present = card ? PresentIdentity(state, *card) : "";
  // The identity of a partition begins with its card's.
  return present.empty() || (!device.identity.empty() && device.identity.rfind(present, 0) != 0);
}

std::string CardProfile::UsableCard(const ControlState& state,
                                    const dra::AllocatedDevice& device) const {
  const std::string name = device.name();
  const std::optional<std::string> card = CardOf(name);
  if (!card) {
    throw BackendError(DRA_NOT_FOUND,
                       "device \"" + name + "\" is none of this node's: it has " + Contents());
  }
  const CardCondition& condition = ConditionOf(state, *card);
  if (condition.absent)
    throw BackendError(DRA_UNAVAILABLE, "card " + *card + " is not in the machine");
  if (condition.lost)
    throw BackendError(DRA_UNAVAILABLE, "card " + *card + " fell off the bus: reset it");
  if (!condition.error.empty())
    throw BackendError(DRA_UNAVAILABLE, "card " + *card + ": " + condition.error);
  if (IsLost(state, device)) {
    throw BackendError(DRA_FAILED_PRECONDITION, "device " + name + " was allocated as " +
                                                    device.identity + ", but its slot holds " +
                                                    Uuid(*card, condition.replaced) +
                                                    " now: delete the claim and make it again");
  }
  return *card;
}

}  // namespace fake
