#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cards.h"
#include "control.h"
#include "dra/backend/backend.h"
#include "options.h"
#include "profile.h"

namespace fake {

// Devices that are cards in slots: what the control file does to a card, and what that means to discovery, health,
// claims and records, whatever kind of card it is.
class CardProfile : public Profile {
 public:
  // kind: "gpu", "net", "cpu". prefix: of the cards' names, "nic-" with `slots` 2 for nic-0 and nic-1. The references
  // outlive this.
  CardProfile(std::string kind, std::string prefix, int64_t slots, const Options& options,
              Control& control)
      : options_(options),
        control_(control),
        kind_(std::move(kind)),
        prefix_(std::move(prefix)),
        slots_(slots) {}

  void Discover(const dra::DiscoverRequest& request, dra::DiscoverSink& sink) override;
  std::vector<dra::HealthReport> Health() override;
  // Lost if a card of the record is gone or another one is in its slot, else true: nothing is set that could differ.
  dra::ReconcileReply ReconcileRecord(const dra::ReconcileRequest& request) override;

 protected:
  // Adds the devices of a card that is there, and their counter sets if there are any. What leans on a field that the
  // server is not known to keep is left out.
  virtual void AddCard(int64_t slot, const CardDevice& card, const CardCondition& condition,
                       const dra::DiscoverRequest& request, CardInventory& inventory) const = 0;
  // "gpu-3" of "gpu-3-partition-0"; nullopt for a name that this profile never publishes. A name is a function of the
  // slot alone: no card's name changes when another comes or goes.
  virtual std::optional<std::string> CardOf(const std::string& device) const;
  // What there is, for who asked for something else: "2 cards, nic-0 and up".
  virtual std::string Contents() const;

  static const CardCondition& ConditionOf(const ControlState& state, const std::string& card);
  // "" if there is no card that answers.
  std::string PresentIdentity(const ControlState& state, const std::string& card) const;
  // Whether the device of a record is not there any more.
  bool IsLost(const ControlState& state, const dra::AllocatedDevice& device) const;
  // The card of an allocated device that can be prepared now. Throws.
  std::string UsableCard(const ControlState& state, const dra::AllocatedDevice& device) const;

  const Options& options_;
  Control& control_;

 private:
  CardInventory Enumerate(const ControlState& state, const dra::DiscoverRequest& request) const;
  std::string Uuid(const std::string& card, int64_t replaced) const;

  const std::string kind_;
  const std::string prefix_;
  const int64_t slots_;
};

}  // namespace fake
