#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "card_profile.h"
#include "control.h"
#include "dra/backend/backend.h"
#include "hardware.h"
#include "hook_log.h"
#include "options.h"

namespace fake {

// GPUs gpu-0, gpu-1, ..., as profile "gpu" of the public example driver has them. Of claims: which setting the
// configurations ask for, the cards' registers, and the way back.
//
// A card keeps what a claim set until the last claim on it ends; then it gets back what it was set to before the
// first. That value is in two places: in the undo of each claim that set the card, and in the note
// "sharing-before" of the card's identity, because the claim that set it may end while others still use the card.
// No configuration, no write to a card. Admin access never writes either.
class GpuProfile final : public CardProfile {
 public:
  // Called at points where a test may want a fault: ("prepare", "undoSaved", claim UID, call).
  using FaultPoint =
      std::function<void(const char*, const char*, const std::string&, const dra::HookCall&)>;

  // All outlive this.
  GpuProfile(const Options& options, dra::Host host, Hardware& hardware, Control& control,
             HookLog& log, FaultPoint fault_point);

  void Describe(dra::BackendManifest& manifest) override;
  void ValidateConfig(const dra::Json& parameters) override;
  dra::PrepareReply Prepare(const dra::HookCall& call, const dra::PrepareRequest& request) override;
  void Unprepare(const dra::HookCall& call, const dra::UnprepareRequest& request) override;

  void ReconcileBegin() override;
  dra::ReconcileReply ReconcileRecord(const dra::ReconcileRequest& request) override;
  // Sets back cards that a claim set and that no record named.
  void ReconcileEnd() override;

 protected:
  void AddCard(int64_t slot, const CardDevice& card, const CardCondition& condition,
               const dra::DiscoverRequest& request, CardInventory& inventory) const override;
  std::optional<std::string> CardOf(const std::string& device) const override;
  std::string Contents() const override;

 private:
  // One card that a claim set: an entry of the undo.
  struct CardChange {
    std::string card;
    std::string identity;  // uuid of the card that was set
    CardSetting prior;
    CardSetting wanted;
  };

  static std::string DumpUndo(const std::vector<CardChange>& changes);
  // Lenient: undo is our own text, perhaps of another version; what cannot be read is left out.
  static std::vector<CardChange> ParseUndo(const std::string& undo);

  bool HeldByOthers(const std::string& card, const std::vector<dra::NeighbourClaim>& others) const;
  std::optional<CardSetting> NotedPrior(const std::string& identity) const;
  // What the claim asks of its cards, in order, each card once. Throws for contradictions.
  std::vector<CardChange> Plan(const ControlState& state, const dra::PrepareRequest& request,
                               std::vector<CardSetting>& device_settings) const;
  void Apply(const ControlState& state, const dra::HookCall& call,
             const dra::PrepareRequest& request, const std::vector<CardChange>& changes);
  void Restore(const ControlState& state, const std::string& card, const std::string& identity,
               const std::optional<CardSetting>& undo_prior);
  void SetCard(const std::string& card, const CardSetting& setting);
  dra::Json DeviceEdits(const dra::AllocatedDevice& device, const std::string& card,
                        const CardSetting& setting, const std::string& claim_uid, bool admin) const;
  dra::Json ClaimEdits(const dra::HookCall& call, const dra::PrepareRequest& request) const;

  const dra::Host host_;
  Hardware& hardware_;
  HookLog& log_;
  const FaultPoint fault_point_;
  std::mutex mutex_;
  std::set<std::string> recorded_cards_;  // between ReconcileBegin and ReconcileEnd; under mutex_
};

void DescribeGpu(dra::BackendManifest& manifest);

}  // namespace fake
