#include "health_book.h"

#include <algorithm>
#include <set>

#include "discovery.h"
#include "mig_instances.h"

namespace nvidia {
namespace {

using dra::Json;

// All that is wrong, the worst first. It ends with what the one that asks for most asks for.
dra::HealthReport Unhealthy(std::vector<FaultClass> faults) {
  std::stable_sort(faults.begin(), faults.end(), IsWorse);
  const FaultClass& worst = faults.front();
  const FaultClass* asking = &worst;
  dra::HealthReport report = {.device = {}, .state = dra::HealthKind::kUnhealthy};
  for (const FaultClass& fault : faults) {
    report.message += (report.message.empty() ? "" : "; ") + fault.message;
    if (AsksForMore(fault, *asking)) asking = &fault;
  }
  report.fault_class = worst.name;
  report.severity = SeverityOf(worst);
  report.remedy = worst.remedy;
  if (asking != &worst) report.remedy += "; then, for " + asking->name + ": " + asking->remedy;
  report.clears_with = asking->clears_with;
  return report;
}

}  // namespace

std::string HealthBook::Note::ToText() const {
  Json json = {{"clearsWith", clears_with}, {"epoch", epoch}};
  if (uncorrected) json["uncorrected"] = *uncorrected;
  if (recovery_action) json["recoveryAction"] = *recovery_action;
  return json.dump();
}

std::optional<HealthBook::Note> HealthBook::Note::FromText(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  Note note;
  if (const auto at = json.find("clearsWith"); at != json.end() && at->is_string()) {
    note.clears_with = at->get<std::string>();
  }
  if (const auto at = json.find("epoch"); at != json.end() && at->is_string()) {
    note.epoch = at->get<std::string>();
  }
  if (const auto at = json.find("uncorrected"); at != json.end() && at->is_number_unsigned()) {
    note.uncorrected = at->get<uint64_t>();
  }
  if (const auto at = json.find("recoveryAction"); at != json.end() && at->is_number_unsigned()) {
    note.recovery_action = at->get<unsigned>();
  }
  return note;
}

std::vector<HealthBook::Device> HealthBook::DevicesOf(const Gpu& gpu) {
  std::vector<Device> devices;
  if (!gpu.mig_enabled) {
    devices.emplace_back();
    devices.back().name = GpuDeviceName(gpu.uuid);
    devices.back().identity = GpuIdentity(gpu.uuid);
    return devices;
  }
  for (const MigInstance& mig : gpu.mig_instances) {
    devices.emplace_back();
    devices.back().name = MigDeviceName(gpu.uuid, mig);
    devices.back().identity = MigIdentity(gpu.uuid, mig);
    devices.back().instance = {mig.gpu_instance, mig.compute_instance};
  }
  return devices;
}

void HealthBook::Take(const NodeHardware& node) {
  std::set<std::string> present, failed;
  bool unnamed = false;
  for (const Gpu& gpu : node.gpus) present.insert(gpu.uuid);
  for (const GpuProblem& problem : node.problems) {
    if (problem.uuid) failed.insert(*problem.uuid);
    unnamed = unnamed || !problem.uuid;
  }
  std::erase_if(cards_, [&](const auto& entry) {
    return !present.contains(entry.first) && !failed.contains(entry.first) && !unnamed;
  });
  for (const Gpu& gpu : node.gpus) {
    Card& card = cards_[gpu.uuid];
    card.uuid = gpu.uuid;
    card.mig = gpu.mig_enabled;
    card.mig_layout = MigLayout(gpu.mig_enabled, gpu.mig_instances);
    card.other_layout.clear();
    std::vector<Device> devices = DevicesOf(gpu);
    for (Device& device : devices) {
      for (Device& known : card.devices) {
        if (known.identity != device.identity) continue;
        // An instance that was made again in its place has other ids.
        known.instance = device.instance;
        device = std::move(known);
        break;
      }
    }
    card.devices = std::move(devices);
  }
}

HealthBook::Question HealthBook::QuestionOf(const Card& card) {
  Question question = {.uuid = card.uuid,
                       .mig = card.mig,
                       .handle = card.handle_dead ? nullptr : card.handle,
                       .unread = {}};
  for (const Device& device : card.devices) {
    if (!device.note_read) question.unread.push_back(device.identity);
  }
  return question;
}

std::vector<HealthBook::Question> HealthBook::ToLookAt() const {
  std::vector<Question> questions;
  for (const auto& [uuid, card] : cards_) questions.push_back(QuestionOf(card));
  return questions;
}

std::vector<HealthBook::Question> HealthBook::ToRegister() const {
  std::vector<Question> questions;
  for (const auto& [uuid, card] : cards_) {
    if (!card.handle_dead && !card.unwatched.empty()) questions.push_back(QuestionOf(card));
  }
  return questions;
}

std::optional<std::string> HealthBook::UuidOf(nvml::Device handle) const {
  for (const auto& [uuid, card] : cards_) {
    if (handle != nullptr && card.handle == handle) return uuid;
  }
  return std::nullopt;
}

nvml::Device HealthBook::HandleOf(const std::string& uuid) const {
  const auto found = cards_.find(uuid);
  if (found == cards_.end() || found->second.handle_dead) return nullptr;
  return found->second.handle;
}

HealthBook::Card* HealthBook::Find(const std::string& uuid) {
  const auto found = cards_.find(uuid);
  return found == cards_.end() ? nullptr : &found->second;
}

void HealthBook::TakeNote(const std::string& identity, const std::string& text) {
  for (auto& [uuid, card] : cards_) {
    for (Device& device : card.devices) {
      if (device.identity != identity || device.note_read) continue;
      device.note_read = true;
      device.note = Note::FromText(text);
      device.written = text;
    }
  }
}

void HealthBook::TakeHandle(const std::string& uuid, nvml::Device handle) {
  Card* const card = Find(uuid);
  if (card == nullptr) return;
  card->handle = handle;
  card->handle_dead = false;
}

bool HealthBook::TakeRegistration(const std::string& uuid, const std::string& reason) {
  bool changed = false;
  for (auto& [name, card] : cards_) {
    if (!uuid.empty() && name != uuid) continue;
    changed = changed || card.unwatched != reason;
    card.unwatched = reason;
  }
  return changed;
}

bool HealthBook::TakeState(const std::string& uuid, const GpuState& state, TimePoint now) {
  Card* const card = Find(uuid);
  if (card == nullptr) return false;
  const std::optional<GpuState> before = std::exchange(card->state, state);
  card->looked = now;
  if (state.lost) {
    card->handle_dead = true;
    card->unwatched = "its events are not watched, since NVML has lost it";
  }
  bool other_layout = false;
  if (state.mig_layout == card->mig_layout) {
    card->other_layout.clear();
  } else if (state.mig_layout) {
    other_layout = std::exchange(card->other_layout, *state.mig_layout) != *state.mig_layout;
  }
  for (const FaultClass& fault : state.faults) {
    const bool stood =
        before && std::count(before->faults.begin(), before->faults.end(), fault) > 0;
    if (stood) continue;
    // Asked for an earlier fault, it says nothing of this one.
    for (Device& device : card->devices) {
      if (device.note) device.note->recovery_action.reset();
    }
  }
  if (!before) return other_layout;
  if (before->reset_required && !state.reset_required && !state.lost && state.unknown.empty()) {
    for (Device& device : card->devices) device.reset_seen = true;
  }
  // What was lost between two counts is kept.
  if (!state.uncorrected) {
    card->state->uncorrected = before->uncorrected;
  } else if (before->uncorrected && *before->uncorrected < *state.uncorrected) {
    const FaultClass fault =
        UncorrectableEcc("uncorrectable ECC errors: " + std::to_string(*state.uncorrected) +
                         " since the GPU was initialised");
    for (Device& device : card->devices) AddEvent(device, fault, now);
  }
  return other_layout;
}

void HealthBook::AddEvent(Device& device, const FaultClass& fault, TimePoint now) {
  device.events[fault.name] = {fault, now + options_.event_shown, false};
  device.reset_seen = false;
  // Of an earlier fault; what the driver asks for since this one is written down once it is known.
  if (device.note) device.note->recovery_action.reset();
}

bool HealthBook::TakeEvent(const nvml::EventData& event, const std::string& uuid,
                           const FaultClass& fault, TimePoint now) {
  Card* const card = Find(uuid);
  if (card == nullptr) return false;
  bool taken = false;
  for (Device& device : card->devices) {
    const bool other = device.instance && event.gpu_instance_id != nvml::kNoInstance &&
                       (event.gpu_instance_id != device.instance->first ||
                        (event.compute_instance_id != nvml::kNoInstance &&
                         event.compute_instance_id != device.instance->second));
    if (other) continue;
    AddEvent(device, fault, now);
    taken = true;
  }
  return taken;
}

void HealthBook::TakeUnplacedEvent(const std::string& text, TimePoint now) {
  unplaced_ = text;
  unplaced_until_ = now + options_.event_shown;
}

void HealthBook::Forget(TimePoint now) {
  for (auto& [uuid, card] : cards_) {
    for (Device& device : card.devices) {
      std::erase_if(device.events, [&](const auto& entry) {
        return entry.second.told && entry.second.until <= now;
      });
    }
  }
  if (unplaced_until_ <= now) unplaced_.clear();
}

std::vector<FaultClass> HealthBook::FaultsOf(const Card& card, const Device& device) {
  std::vector<FaultClass> faults;
  if (card.state) faults = card.state->faults;
  for (const auto& [name, event] : device.events) faults.push_back(event.fault);
  return faults;
}

std::string HealthBook::WhyUnknown(const Card& card, TimePoint now) const {
  if (library_lost_) return *library_lost_;
  if (!card.state) return "its state has not been asked yet";
  if (card.looked + std::max(options_.stale, 3 * options_.poll) <= now) {
    return "NVML has not answered for too long";
  }
  if (!card.state->unknown.empty()) return card.state->unknown;
  if (!card.unwatched.empty()) return card.unwatched;
  return unplaced_;
}

bool HealthBook::IsResetSince(const Card& card, const Device& device) const {
  const std::optional<Note>& note = device.note;
  if (!note || note->clears_with != kClearsWithReset) return false;
  if (!options_.epoch.empty() && !note->epoch.empty() && note->epoch != options_.epoch) return true;
  if (device.reset_seen) return true;
  // The driver asked for a reset while the fault stood, and asks for nothing now: also while this process was stopped.
  if (note->recovery_action && IsReset(*note->recovery_action) && card.state &&
      card.state->recovery_action == nvml::kRecoveryNone) {
    return true;
  }
  return note->uncorrected && card.state && card.state->uncorrected &&
         *card.state->uncorrected < *note->uncorrected;
}

std::vector<dra::HealthReport> HealthBook::Reports(TimePoint now, bool told) {
  Forget(now);
  std::vector<dra::HealthReport> reports;
  for (auto& [uuid, card] : cards_) {
    for (Device& device : card.devices) {
      dra::HealthReport report;
      const std::vector<FaultClass> faults = FaultsOf(card, device);
      if (!faults.empty()) {
        report = Unhealthy(faults);
      } else if (std::string why = WhyUnknown(card, now); !why.empty()) {
        report.message = std::move(why);
      } else {
        report.state = dra::HealthKind::kHealthy;
        if (IsResetSince(card, device)) report.clears_with = kClearsWithReset;
      }
      report.device = device.name;
      reports.push_back(std::move(report));
      if (!told) continue;
      for (auto& [name, event] : device.events) event.told = true;
    }
  }
  return reports;
}

std::map<std::string, std::string> HealthBook::UnwrittenNotes(TimePoint now) {
  Forget(now);
  std::map<std::string, std::string> notes;
  for (auto& [uuid, card] : cards_) {
    for (Device& device : card.devices) {
      if (!device.note_read) continue;  // the one that is there must not be lost before it was read
      const std::vector<FaultClass> faults = FaultsOf(card, device);
      if (!faults.empty()) {
        const std::string clears_with = Unhealthy(faults).clears_with;
        if (!clears_with.empty()) {
          device.note =
              Note{clears_with, options_.epoch, card.state ? card.state->uncorrected : std::nullopt,
                   device.note ? device.note->recovery_action : std::nullopt};
        }
        if (device.note && card.state && card.state->recovery_action.value_or(0) != 0) {
          device.note->recovery_action = card.state->recovery_action;
        }
      }
      if (!device.note) continue;
      if (std::string text = device.note->ToText(); text != device.written) {
        notes[device.identity] = std::move(text);
      }
    }
  }
  return notes;
}

void HealthBook::NoteWritten(const std::string& identity, const std::string& text) {
  for (auto& [uuid, card] : cards_) {
    for (Device& device : card.devices) {
      if (device.identity == identity) device.written = text;
    }
  }
}

}  // namespace nvidia
