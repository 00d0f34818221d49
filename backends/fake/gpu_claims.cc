#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "environment.h"
#include "gpu_config.h"
#include "gpu_profile.h"

namespace fake {
namespace {

using dra::BackendError;
using dra::Json;

constexpr char kPriorNote[] = "sharing-before";
constexpr int kUndoFormat = 1;

}  // namespace

std::string GpuProfile::DumpUndo(const std::vector<CardChange>& changes) {
  Json cards = Json::array();
  for (const CardChange& change : changes) {
    cards.push_back({{"card", change.card},
                     {"identity", change.identity},
                     {"prior", change.prior.ToJson()},
                     {"wanted", change.wanted.ToJson()}});
  }
  return Json({{"format", kUndoFormat}, {"cards", std::move(cards)}}).dump();
}

std::vector<GpuProfile::CardChange> GpuProfile::ParseUndo(const std::string& undo) {
  std::vector<CardChange> changes;
  const Json document = Json::parse(undo, nullptr, false);
  if (!document.is_object() || !document.contains("cards") || !document["cards"].is_array())
    return changes;
  for (const Json& entry : document["cards"]) {
    if (!entry.is_object() || !entry.contains("card") || !entry["card"].is_string() ||
        !entry.contains("prior")) {
      continue;
    }
    CardChange change;
    change.card = entry["card"];
    if (entry.contains("identity") && entry["identity"].is_string())
      change.identity = entry["identity"];
    change.prior = CardSetting::FromJson(entry["prior"]);
    change.wanted = CardSetting::FromJson(entry.contains("wanted") ? entry["wanted"] : Json());
    changes.push_back(std::move(change));
  }
  return changes;
}

bool GpuProfile::HeldByOthers(const std::string& card,
                              const std::vector<dra::NeighbourClaim>& others) const {
  return std::any_of(others.begin(), others.end(), [&](const dra::NeighbourClaim& other) {
    return !other.admin_access && CardOf(other.device) == card;
  });
}

std::optional<CardSetting> GpuProfile::NotedPrior(const std::string& identity) const {
  const std::optional<std::string> note = host_.NoteGet(identity, kPriorNote);
  if (!note || note->empty()) return std::nullopt;
  return CardSetting::FromJson(Json::parse(*note, nullptr, false));
}

std::vector<GpuProfile::CardChange> GpuProfile::Plan(
    const ControlState& state, const dra::PrepareRequest& request,
    std::vector<CardSetting>& device_settings) const {
  std::vector<CardChange> plan;
  for (const dra::AllocatedDevice& device : request.devices) {
    const std::string card = UsableCard(state, device);
    const std::optional<CardSetting> wanted =
        ResolveGpuConfigs(device.configs, options_.merge_configs);
    device_settings.push_back(wanted && !device.admin_access() ? *wanted : CardSetting());
    if (!wanted || device.admin_access()) continue;
    if (!ConditionOf(state, card).configurable) {
      throw BackendError(DRA_FAILED_PRECONDITION,
                         "device " + device.name() +
                             " cannot be configured (attribute \"configurable\" is "
                             "false): remove the GpuConfig or ask for another device");
    }
    const auto same = std::find_if(plan.begin(), plan.end(),
                                   [&](const CardChange& change) { return change.card == card; });
    if (same != plan.end()) {
      if (same->wanted == *wanted) continue;
      throw BackendError(DRA_INVALID_ARGUMENT,
                         "device " + device.name() + " asks for " + wanted->ToString() +
                             ", another device of this claim on card " + card + " for " +
                             same->wanted.ToString() + ": one card has one setting");
    }
    CardChange change;
    change.card = card;
    change.identity = PresentIdentity(state, card);
    change.wanted = *wanted;
    const CardSetting present = hardware_.Get(card);
    change.prior = present;
    if (HeldByOthers(card, request.others) && NotedPrior(change.identity) && present != *wanted) {
      throw BackendError(DRA_FAILED_PRECONDITION, "device " + device.name() + " asks for " +
                                                      wanted->ToString() + ", but card " + card +
                                                      " is set to " + present.ToString() +
                                                      " by another claim that uses it");
    }
    plan.push_back(std::move(change));
  }
  // What an earlier attempt of this claim saw is the prior value; what the card is set to now may be its own work.
  for (const CardChange& earlier : ParseUndo(request.saved_undo)) {
    for (CardChange& change : plan) {
      if (change.card == earlier.card && change.identity == earlier.identity)
        change.prior = earlier.prior;
    }
  }
  return plan;
}

void GpuProfile::SetCard(const std::string& card, const CardSetting& setting) {
  hardware_.Set(card, setting);
  log_.Write({{"event", "set"}, {"card", card}, {"to", setting.ToString()}});
}

void GpuProfile::Apply(const ControlState& state, const dra::HookCall& call,
                       const dra::PrepareRequest& request, const std::vector<CardChange>& changes) {
  std::vector<CardChange> done;
  try {
    for (const CardChange& change : changes) {
      call.Check("set card " + change.card);
      done.push_back(change);
      if (!NotedPrior(change.identity)) {
        host_.NotePut(change.identity, kPriorNote, change.prior.ToJson().dump());
      }
      const auto error = state.configure_errors.find(change.card);
      if (error != state.configure_errors.end()) {
        throw BackendError(DRA_INTERNAL, "set card " + change.card + ": " + error->second);
      }
      if (hardware_.Get(change.card) != change.wanted) SetCard(change.card, change.wanted);
      fault_point_("prepare", "configured", request.claim.uid, call);
    }
  } catch (const BackendError& first) {
    // All or nothing: back in reverse order, past further errors; what stays wrong is left in the undo.
    std::vector<CardChange> left;
    std::string leftovers;
    for (auto change = done.rbegin(); change != done.rend(); ++change) {
      if (HeldByOthers(change->card, request.others)) continue;
      try {
        Restore(state, change->card, change->identity, change->prior);
      } catch (const BackendError& error) {
        left.insert(left.begin(), *change);
        leftovers += std::string("; ") + error.what();
      }
    }
    if (state.save_undo) {
      try {
        host_.SaveUndo(call, left.empty() ? "" : DumpUndo(left));
      } catch (const BackendError& error) {
        // The undo that is stored names more than is left: setting back twice does no harm.
        host_.Log(dra::Severity::kWarn,
                  "undo of claim " + request.claim.uid + " not shortened: " + error.what());
      }
    }
    throw BackendError(first.code(), first.what() + leftovers);
  }
}

dra::PrepareReply GpuProfile::Prepare(const dra::HookCall& call,
                                      const dra::PrepareRequest& request) {
  const std::shared_ptr<const ControlState> state = control_.Read();
  const bool admin = HasAdminAccess(request);
  std::vector<CardSetting> settings;
  const std::vector<CardChange> plan = Plan(*state, request, settings);
  dra::PrepareReply reply;
  for (size_t i = 0; i < request.devices.size(); ++i) {
    const dra::AllocatedDevice& device = request.devices[i];
    const std::string card = *CardOf(device.name());
    dra::PreparedDeviceReply prepared;
    prepared.edits = DeviceEdits(device, card, settings[i], request.claim.uid, admin);
    if (options_.device_status) {
      prepared.status = {{"data",
                          {{"uuid", {{"string", PresentIdentity(*state, card)}}},
                           {"model", {{"string", kGpuModel}}},
                           {"driverVersion", {{"version", kGpuDriverVersion}}}}}};
    }
    reply.devices.push_back(std::move(prepared));
  }
  if (!plan.empty()) {
    const std::string undo = DumpUndo(plan);
    if (state->save_undo && undo != request.saved_undo) host_.SaveUndo(call, undo);
    fault_point_("prepare", "undoSaved", request.claim.uid, call);
    Apply(*state, call, request, plan);
  }
  reply.claim_edits = ClaimEdits(call, request);
  return reply;
}

void GpuProfile::Restore(const ControlState& state, const std::string& card,
                         const std::string& identity,
                         const std::optional<CardSetting>& undo_prior) {
  // A card that is gone, or another one in its slot, has nothing to be set back.
  if (identity != PresentIdentity(state, card)) {
    host_.NotePut(identity, kPriorNote, "");
    return;
  }
  std::optional<CardSetting> prior = NotedPrior(identity);
  const bool noted = prior.has_value();
  if (!prior) prior = undo_prior;
  if (!prior) return;
  if (hardware_.Get(card) != *prior) {
    const auto error = state.restore_errors.find(card);
    if (error != state.restore_errors.end()) {
      throw BackendError(DRA_INTERNAL, "set card " + card + " back: " + error->second);
    }
    SetCard(card, *prior);
  }
  if (noted) host_.NotePut(identity, kPriorNote, "");
}

void GpuProfile::Unprepare(const dra::HookCall& call, const dra::UnprepareRequest& request) {
  const std::shared_ptr<const ControlState> state = control_.Read();
  std::vector<CardChange> changes = ParseUndo(request.undo);
  // Cards without undo: the undo may be lost, or this claim is the last of several and another one set the card.
  std::vector<std::pair<std::string, std::optional<CardChange>>> cards;
  for (CardChange& change : changes) cards.emplace_back(change.card, std::move(change));
  for (const dra::AllocatedDevice& device : request.devices) {
    if (device.admin_access()) continue;
    const std::optional<std::string> card = CardOf(device.name());
    if (!card) continue;
    const bool known = std::any_of(cards.begin(), cards.end(),
                                   [&](const auto& entry) { return entry.first == *card; });
    if (!known) cards.emplace_back(*card, std::nullopt);
  }
  std::optional<BackendError> first;
  for (auto entry = cards.rbegin(); entry != cards.rend(); ++entry) {
    const auto& [card, change] = *entry;
    if (HeldByOthers(card, request.others)) continue;
    try {
      const std::string identity =
          change && !change->identity.empty() ? change->identity : PresentIdentity(*state, card);
      if (identity.empty()) continue;
      Restore(*state, card, identity,
              change ? std::optional<CardSetting>(change->prior) : std::nullopt);
    } catch (const BackendError& error) {
      if (!first) first = error;
    }
  }
  fault_point_("unprepare", "configured", request.claim.uid, call);
  if (first) throw *first;
}

}  // namespace fake
