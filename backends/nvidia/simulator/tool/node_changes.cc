#include <algorithm>
#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cards.h"
#include "changes.h"
#include "files.h"
#include "kit.h"

namespace nvidia_simulator {
namespace {

constexpr unsigned kHopper = 9;

// What becomes of the cards when the module goes and comes: instances are gone, and from Hopper on MIG mode is too,
// since only Ampere keeps it in the card. Source: NVIDIA MIG User Guide, "Enable MIG Mode".
void ReloadCards(State& state) {
  for (Gpu& gpu : state.gpus) {
    if (gpu.architecture >= kHopper) gpu.mig_mode_pending = false;
    ResetGpu(gpu);
    gpu.compute_mode = 0;
    gpu.persistence_mode = false;
  }
}

void RequireUnused(const State& state, const std::string& option) {
  for (size_t i = 0; i < state.gpus.size(); ++i) {
    const std::string holders = Holders(state.gpus[i]);
    if (holders.empty()) continue;
    throw std::runtime_error(option + ": module nvidia is in use: " + holders + " holds GPU " +
                             std::to_string(i) + "; --gpu all --release first");
  }
}

void Upgrade(const NodeChanges& changes, State& state) {
  const std::string& version = changes.driver_upgrade;
  if (version.find_first_not_of("0123456789.") != std::string::npos || version.front() == '.' ||
      version.back() == '.' || version.find('.') == std::string::npos) {
    throw std::invalid_argument("--driver-upgrade: \"" + version +
                                "\" is no driver's version such as 580.126.20");
  }
  Driver& driver = state.driver;
  if (!changes.only_kernel) {
    driver.version = version;
    if (!changes.cuda.empty()) driver.cuda = changes.cuda;
    driver.nvml = driver.cuda.substr(0, driver.cuda.find('.')) + "." + version;
  }
  if (changes.only_library) return;
  RequireUnused(state, "--driver-upgrade");
  driver.kernel_module = version;
  ReloadCards(state);
}

void Reboot(Layout& layout, State& state) {
  ++layout.boots;
  state.driver.loaded = true;
  state.driver.kernel_module = state.driver.version;
  state.events.clear();
  for (Gpu& gpu : state.gpus) {
    gpu.processes.clear();
    gpu.lost = false;
    if (gpu.recovery_action) gpu.recovery_action = 0;
  }
  ReloadCards(state);
}

void SetMajor(Layout& layout, const std::string& text) {
  const auto [name, number] = SplitPair(text, '=', "nvidia-uvm=511");
  if (layout.majors.count(name) == 0) {
    std::string known;
    for (const auto& [each, major] : layout.majors) known += (known.empty() ? "" : ", ") + each;
    throw std::invalid_argument("--major: \"" + name + "\" is not one of " + known);
  }
  const uint64_t major = ToNumber(number, "--major " + name);
  if (major < 1 || major > 511)
    throw std::invalid_argument("--major " + name + ": " + number + " is not in 1..511");
  layout.majors[name] = static_cast<unsigned>(major);
}

// A card in the first slot that is free; a GPU that was removed comes back as it was. NVML counts by bus id.
void AddGpu(const std::string& model, const std::string& node, State& state) {
  for (unsigned index = 0;; ++index) {
    const Gpu card = MakeCard(model, index, node);
    const bool taken = std::any_of(state.gpus.begin(), state.gpus.end(), [&](const Gpu& other) {
      return other.uuid == card.uuid || other.minor == card.minor ||
             other.pci.bus_id == card.pci.bus_id;
    });
    if (taken) continue;
    const auto behind = std::find_if(state.gpus.begin(), state.gpus.end(), [&](const Gpu& other) {
      return other.pci.bus_id > card.pci.bus_id;
    });
    state.gpus.insert(behind, card);
    return;
  }
}

void SetMinors(const std::string& text, State& state) {
  std::vector<unsigned> minors;
  if (text == "reversed" || text == "REVERSED") {
    for (const Gpu& gpu : state.gpus) minors.insert(minors.begin(), gpu.minor);
  } else {
    size_t begin = 0;
    while (begin <= text.size()) {
      const size_t comma = std::min(text.find(',', begin), text.size());
      minors.push_back(
          static_cast<unsigned>(ToNumber(text.substr(begin, comma - begin), "--minors")));
      begin = comma + 1;
    }
  }
  const std::set<unsigned> different(minors.begin(), minors.end());
  if (minors.size() != state.gpus.size() || different.size() != minors.size()) {
    throw std::invalid_argument("--minors: \"" + text + "\" does not name " +
                                std::to_string(state.gpus.size()) +
                                " different numbers, one for each GPU; or \"reversed\"");
  }
  for (size_t i = 0; i < minors.size(); ++i) state.gpus[i].minor = minors[i];
}

// Faults of a function that the library does not have would never strike.
void RequireFunction(const std::string& function, const Layout& layout) {
  if (function == "*") return;
  std::string_view library = NvmlLibraryBytes();
  std::string own;
  if (!layout.nvml_library.empty()) {
    own = ReadFile(layout.nvml_library).value_or("");
    library = own;
  }
  const std::string name = std::string(1, '\0') + function + std::string(1, '\0');
  if (function.rfind("nvml", 0) != 0 || library.find(name) == std::string_view::npos)
    throw std::invalid_argument("the simulated library has no function \"" + function +
                                "\"; \"*\" is all of them");
}

// "VALUE" or "VALUE:TIMES".
std::string TakeTimes(const std::string& text, Fault& fault) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return text;
  fault.times = static_cast<unsigned>(ToNumber(text.substr(colon + 1), "how often"));
  return text.substr(0, colon);
}

void AddFaults(const std::string& text, bool hang, const std::vector<std::string>& gpus,
               const Layout& layout, State& state) {
  Fault fault;
  const auto [function, rest] =
      SplitPair(text, '=', hang ? "FUNCTION=SECONDS[:TIMES]" : "FUNCTION=RETURN[:TIMES]");
  RequireFunction(function, layout);
  fault.function = function;
  const std::string value = TakeTimes(rest, fault);
  if (hang) {
    char* end = nullptr;
    fault.hang_seconds = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !(fault.hang_seconds > 0))
      throw std::invalid_argument("--hang " + text + ": \"" + value + "\" is no number of seconds");
  } else {
    fault.result = value.find_first_not_of("0123456789") == std::string::npos
                       ? static_cast<int>(ToNumber(value, "--fault"))
                       : ReturnCode(value);
    if (!fault.result) {
      throw std::invalid_argument("--fault " + text + ": \"" + value +
                                  "\" is no return code: a number, or a name such as GPU_IS_LOST");
    }
  }
  if (gpus.empty()) AddFault(state, fault);
  for (const std::string& uuid : gpus) {
    fault.gpu = uuid;
    AddFault(state, fault);
  }
}

void ClearFaults(const std::vector<std::string>& gpus, State& state) {
  std::erase_if(state.faults, [&](const Fault& fault) {
    return gpus.empty() || std::any_of(gpus.begin(), gpus.end(), [&](const std::string& uuid) {
             return state.FindGpu(fault.gpu) == state.FindGpu(uuid);
           });
  });
}

}  // namespace

void ApplyToNode(const NodeChanges& changes, const std::vector<std::string>& gpus, Layout& layout,
                 State& state) {
  if (changes.install) layout.installed = true;
  if (changes.uninstall) {
    RequireUnused(state, "--uninstall");
    layout.installed = false;
    state.driver.loaded = false;
  }
  if (!changes.driver_upgrade.empty()) Upgrade(changes, state);
  if (changes.unload_driver || changes.reload_driver) {
    RequireUnused(state, changes.unload_driver ? "--unload-driver" : "--reload-driver");
    ReloadCards(state);
  }
  if (changes.unload_driver) state.driver.loaded = false;
  if (changes.load_driver || changes.reload_driver || changes.install) {
    state.driver.loaded = true;
    state.driver.kernel_module = state.driver.version;
  }
  if (changes.reboot) Reboot(layout, state);
  for (const std::string& text : changes.majors) SetMajor(layout, text);
  for (const std::string& model : changes.add_gpus) AddGpu(model, layout.node, state);
  if (!changes.minors.empty()) SetMinors(changes.minors, state);
  if (changes.clear_faults) ClearFaults(gpus, state);
  for (const std::string& text : changes.faults) AddFaults(text, false, gpus, layout, state);
  for (const std::string& text : changes.hangs) AddFaults(text, true, gpus, layout, state);
}

}  // namespace nvidia_simulator
