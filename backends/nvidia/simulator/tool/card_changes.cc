#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

#include "changes.h"

namespace nvidia_simulator {
namespace {

std::string Subject(const State& state, const Gpu& gpu) {
  return "GPU " + std::to_string(&gpu - state.gpus.data()) + " (" + gpu.uuid + ")";
}

void RequireFree(const State& state, const Gpu& gpu, const std::string& what) {
  const std::string holders = Holders(gpu);
  if (!holders.empty()) {
    throw std::runtime_error(what + " of " + Subject(state, gpu) + ": in use by " + holders +
                             "; --release it first");
  }
}

void Remove(State& state, const std::string& uuid) {
  const std::string index = std::to_string(state.FindGpu(uuid) - state.gpus.data());
  std::erase_if(state.events, [&](const Event& event) { return event.gpu == uuid; });
  std::erase_if(state.faults,
                [&](const Fault& fault) { return fault.gpu == uuid || fault.gpu == index; });
  std::erase_if(state.gpus, [&](const Gpu& gpu) { return gpu.uuid == uuid; });
}

void Hold(Gpu& gpu, const std::string& who) {
  Process process;
  if (who.find_first_not_of("0123456789") == std::string::npos) {
    process.pid = static_cast<unsigned>(ToNumber(who, "--hold"));
  } else {
    process.name = who;
  }
  gpu.processes.push_back(process);
}

const MigProfile& Profile(const Gpu& gpu, const std::string& name, const std::string& option) {
  const MigProfile* profile = gpu.ProfileNamed(name);
  if (profile != nullptr) return *profile;
  std::string names;
  for (const MigProfile& known : gpu.mig_profiles)
    names += (names.empty() ? "" : ", ") + known.name;
  throw std::invalid_argument(option + ": a " + gpu.model + " has no MIG profile \"" + name +
                              "\"; it has " + (names.empty() ? "none" : names));
}

void SetMig(const State& state, Gpu& gpu, const std::string& mode) {
  if (!gpu.mig_capable)
    throw std::runtime_error("--mig: " + Subject(state, gpu) + ", a " + gpu.model + ", has no MIG");
  RequireFree(state, gpu, "--mig " + mode);
  gpu.mig_mode_pending = mode == "on";
  ApplyMigMode(gpu);
}

void Create(const State& state, Gpu& gpu, const std::string& text) {
  const size_t colon = text.find(':');
  const MigProfile& profile = Profile(gpu, text.substr(0, colon), "--mig-create");
  std::optional<unsigned> start;
  if (colon != std::string::npos)
    start = static_cast<unsigned>(ToNumber(text.substr(colon + 1), "--mig-create " + text));
  unsigned gi = 0, ci = 0;
  const int made = CreateGpuInstance(gpu, profile, start, &gi);
  if (made != 0) {
    std::string places;
    for (const Placement& place : FreePlacements(gpu, profile))
      places += (places.empty() ? "" : ", ") + std::to_string(place.start);
    throw std::runtime_error(
        "--mig-create " + text + " on " + Subject(state, gpu) + ": " + ReturnName(made) +
        (!gpu.mig_mode ? "; MIG is off there: --mig on"
                       : "; free places for it: " + (places.empty() ? "none" : places)));
  }
  CreateComputeInstance(gpu, *gpu.InstanceWithId(gi), profile.slices, &ci);
}

void Destroy(const State& state, Gpu& gpu, const std::string& text) {
  const auto [name, start_text] = SplitPair(text, ':', "PROFILE:START");
  const MigProfile& profile = Profile(gpu, name, "--mig-destroy");
  const uint64_t start = ToNumber(start_text, "--mig-destroy " + text);
  const auto found = std::find_if(gpu.mig.begin(), gpu.mig.end(), [&](const MigInstance& instance) {
    return instance.profile == profile.name && instance.start == start;
  });
  if (found == gpu.mig.end()) {
    std::string there;
    for (const MigInstance& instance : gpu.mig) {
      there +=
          (there.empty() ? "" : ", ") + instance.profile + ":" + std::to_string(instance.start);
    }
    throw std::runtime_error("--mig-destroy " + text + ": " + Subject(state, gpu) +
                             " has no such instance; it has " + (there.empty() ? "none" : there));
  }
  for (const Process& process : gpu.processes) {
    if (process.gi == found->gi)
      throw std::runtime_error("--mig-destroy " + text + ": in use by " + Holders(gpu) +
                               "; --release it first");
  }
  gpu.mig.erase(found);
}

void Merge(Gpu& gpu, const std::string& text, const std::string& path) {
  const Json over = Json::parse(text, nullptr, false);
  if (!over.is_object()) throw std::invalid_argument("--merge: is not a JSON object: " + text);
  Json json = ToJson(gpu);
  json.merge_patch(over);
  gpu = GpuFromJson(json, path);
}

void Heal(Gpu& gpu) {
  gpu.lost = false;
  gpu.ecc.volatile_corrected = gpu.ecc.volatile_uncorrected = 0;
  gpu.remapped_rows.pending = gpu.remapped_rows.failed = false;
  gpu.retired_pages_pending = false;
  if (gpu.recovery_action) gpu.recovery_action = 0;
}

void Recovery(State& state, Gpu& gpu, const std::string& name) {
  const std::optional<unsigned> action = RecoveryAction(name);
  if (!action) {
    throw std::invalid_argument("--recovery-action: \"" + name + "\" is none of " +
                                RecoveryActionNames());
  }
  SetRecoveryAction(state, gpu, *action);
}

void AddEvents(const CardChanges& changes, State& state, const std::string& uuid) {
  Event event;
  event.gpu = uuid;
  if (!changes.instance.empty()) {
    const size_t colon = changes.instance.find(':');
    event.gi = static_cast<unsigned>(ToNumber(changes.instance.substr(0, colon), "--instance"));
    if (colon != std::string::npos) {
      event.ci = static_cast<unsigned>(ToNumber(changes.instance.substr(colon + 1), "--instance"));
    }
    const MigInstance* instance = state.FindGpu(uuid)->InstanceWithId(*event.gi);
    if (instance == nullptr) {
      throw std::invalid_argument("--instance: GPU " + uuid + " has no GPU instance " +
                                  std::to_string(*event.gi));
    }
  }
  const auto add = [&](const std::string& name, uint64_t value) {
    const std::optional<uint64_t> type = EventType(name);
    if (!type) throw std::invalid_argument("--event: \"" + name + "\" is no type of event");
    event.type = *type;
    event.value = value;
    AddEvent(state, event);
  };
  for (const uint64_t xid : changes.xids) add("xid", xid);
  for (const std::string& text : changes.events) {
    const size_t equals = text.find('=');
    add(text.substr(0, equals),
        equals == std::string::npos ? 0 : ToNumber(text.substr(equals + 1), "--event " + text));
  }
  if (changes.ecc.value_or(0) > 0) add("double-bit-ecc", 0);
}

}  // namespace

void ApplyToCard(const CardChanges& changes, State& state, const std::string& uuid) {
  if (changes.remove) return Remove(state, uuid);
  Gpu& gpu = *state.FindGpu(uuid);
  const std::string path = "gpus[" + std::to_string(&gpu - state.gpus.data()) + "]";
  const Gpu before = gpu;
  if (changes.release) gpu.processes.clear();
  for (const std::string& who : changes.holds) Hold(gpu, who);
  if (changes.reset) {
    RequireFree(state, gpu, "--reset");
    ResetGpu(gpu);
  }
  if (!changes.mig.empty()) SetMig(state, gpu, changes.mig);
  for (const std::string& text : changes.mig_destroys) Destroy(state, gpu, text);
  for (const std::string& text : changes.mig_creates) Create(state, gpu, text);
  if (!changes.merge.empty()) Merge(gpu, changes.merge, path);
  if (changes.heal) Heal(gpu);
  if (changes.lost) gpu.lost = true;
  if (changes.ecc) {
    gpu.ecc.volatile_uncorrected += *changes.ecc;
    gpu.ecc.aggregate_uncorrected += *changes.ecc;
  }
  if (changes.remap_pending) gpu.remapped_rows.pending = true;
  if (changes.remap_failed) gpu.remapped_rows.failed = true;
  if (changes.retired_pages_pending) gpu.retired_pages_pending = true;
  if (!changes.recovery_action.empty()) Recovery(state, gpu, changes.recovery_action);
  AddMigEvent(state, before, gpu);
  AddEvents(changes, state, gpu.uuid);
}

}  // namespace nvidia_simulator
