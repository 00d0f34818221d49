#include <algorithm>

#include "json_object.h"
#include "state.h"

namespace nvidia_simulator {
namespace {

// A PCI id, "0x233010de" or a number.
void GetId(JsonObject& object, const char* name, uint32_t& value) {
  const Json* member = object.Find(name);
  if (member == nullptr) return;
  if (!member->is_string()) return object.Get(name, value);
  const std::string text = member->get<std::string>();
  size_t used = 0;
  unsigned long long number = 0;
  try {
    number = std::stoull(text, &used, 0);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used != text.size() || text.empty() || number > 0xffffffffu) {
    object.Fail(name, "\"" + text + "\" is no 32-bit number");
  }
  value = static_cast<uint32_t>(number);
}

Pci ReadPci(JsonObject& object) {
  Pci pci;
  object.Get("bus_id", pci.bus_id);
  GetId(object, "device_id", pci.device_id);
  GetId(object, "subsystem_id", pci.subsystem_id);
  const std::string& id = pci.bus_id;  // "00000000:65:00.0"
  const bool good = id.size() == 16 && id[8] == ':' && id[11] == ':' && id[14] == '.' &&
                    std::all_of(id.begin(), id.end(), [](char c) {
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') ||
                             (c >= 'A' && c <= 'F') || c == ':' || c == '.';
                    });
  if (!good) object.Fail("bus_id", "\"" + id + "\" is not such as \"00000000:65:00.0\"");
  return pci;
}

MigProfile ReadProfile(const Json& json, const std::string& path) {
  JsonObject object(json, path);
  MigProfile profile;
  object.Get("enum", profile.profile_enum);
  object.Get("id", profile.id);
  object.Get("name", profile.name);
  object.Get("slices", profile.slices);
  object.Get("instances", profile.instances);
  object.Get("memoryMiB", profile.memory_mib);
  object.Get("multiprocessors", profile.multiprocessors);
  object.Get("copyEngines", profile.copy_engines);
  object.Get("decoders", profile.decoders);
  object.Get("encoders", profile.encoders);
  object.Get("jpegs", profile.jpegs);
  object.Get("ofas", profile.ofas);
  object.Get("p2p", profile.p2p);
  object.Each("placements", [&](const Json& entry, const std::string& at) {
    JsonObject placement(entry, at);
    Placement value;
    placement.Get("start", value.start);
    placement.Get("size", value.size);
    placement.Done();
    if (value.size == 0) placement.Fail("size", "must not be 0");
    profile.placements.push_back(value);
  });
  object.Get("verified", profile.verified);
  object.Get("unverified", profile.unverified);
  object.Done();
  if (profile.name.empty()) object.Fail("name", "is missing");
  if (profile.placements.empty()) object.Fail("placements", "must not be empty");
  return profile;
}

// of_its_own: the object is the compute instance's alone, and `start` is of it.
void ReadCompute(Gpu& gpu, unsigned gi, JsonObject& object, unsigned default_slices,
                 bool of_its_own) {
  MigInstance& instance = *gpu.InstanceWithId(gi);
  unsigned slices = default_slices;
  object.Get("slices", slices);
  if (slices != 7 && (slices == 0 || slices > 4)) {
    object.Fail("slices", "must be 1, 2, 3, 4 or 7, not " + std::to_string(slices));
  }
  unsigned id = 0;
  if (CreateComputeInstance(gpu, instance, slices, &id) != 0) {
    object.Fail("slices",
                std::to_string(slices) + " do not fit GPU instance " + std::to_string(gi));
  }
  ComputeInstance made = instance.compute.back();
  instance.compute.pop_back();
  if (of_its_own) object.Get("start", made.start);
  object.Get("ci", made.ci);
  for (const ComputeInstance& other : instance.compute) {
    if (made.start < other.start + other.slices && other.start < made.start + made.slices) {
      object.Fail("start", "overlaps compute instance " + std::to_string(other.ci));
    }
    if (made.ci == other.ci) object.Fail("ci", std::to_string(made.ci) + " is there twice");
  }
  if (made.ci >= kComputeInstanceIds) {
    object.Fail("ci", "must be below " + std::to_string(kComputeInstanceIds));
  }
  if (made.start + made.slices > gpu.ProfileNamed(instance.profile)->slices) {
    object.Fail("start", "is beyond the GPU instance");
  }
  made.uuid = MigUuid(gpu.uuid, gi, made.ci);
  object.Get("uuid", made.uuid);
  instance.compute.push_back(made);
}

void ReadInstance(Gpu& gpu, const Json& json, const std::string& path) {
  JsonObject object(json, path);
  std::string name;
  object.Get("profile", name);
  const MigProfile* profile = gpu.ProfileNamed(name);
  if (profile == nullptr) {
    std::string known;
    for (const MigProfile& other : gpu.mig_profiles) known += " " + other.name;
    object.Fail("profile", "\"" + name + "\" is none of the card's:" + known);
  }
  std::optional<unsigned> start;
  object.Get("start", start);
  unsigned gi = 0;
  if (CreateGpuInstance(gpu, *profile, start, &gi) != 0) {
    object.Fail("start", name + " has no free placement" +
                             (start.has_value() ? " at " + std::to_string(*start) : "") +
                             (gpu.mig_mode ? "" : ": migMode is false"));
  }
  unsigned wanted = gi;
  object.Get("gi", wanted);
  if (wanted != gi && gpu.InstanceWithId(wanted) != nullptr) {
    object.Fail("gi", std::to_string(wanted) + " is there twice");
  }
  if (wanted >= kGpuInstanceIds) {
    object.Fail("gi", "must be below " + std::to_string(kGpuInstanceIds));
  }
  gpu.mig.back().gi = wanted;
  if (object.Find("compute") == nullptr) {
    ReadCompute(gpu, wanted, object, profile->slices, false);
  } else {
    object.Each("compute", [&](const Json& entry, const std::string& at) {
      JsonObject compute(entry, at);
      ReadCompute(gpu, wanted, compute, 1, true);
      compute.Done();
    });
  }
  object.Done();
}

Process ReadProcess(const Json& json, const std::string& path) {
  Process process;
  if (json.is_string()) {
    process.name = json.get<std::string>();
    return process;
  }
  const Json members = json.is_object() ? json : Json{{"pid", json}};
  JsonObject object(members, path);
  object.Get("pid", process.pid);
  object.Get("name", process.name);
  object.Get("gi", process.gi);
  object.Get("ci", process.ci);
  object.Get("usedBytes", process.used_bytes);
  object.Done();
  return process;
}

void ReadHealth(JsonObject& object, Gpu& gpu) {
  object.Object("fabric", [&](JsonObject& fabric) {
    fabric.Get("state", gpu.fabric.state);
    fabric.Get("clusterUuid", gpu.fabric.cluster_uuid);
    fabric.Get("cliqueId", gpu.fabric.clique_id);
    fabric.Get("status", gpu.fabric.status);
    fabric.Get("healthMask", gpu.fabric.health_mask);
    fabric.Get("healthSummary", gpu.fabric.health_summary);
    if (gpu.fabric.state > 3) fabric.Fail("state", "must be 0 to 3");
    if (gpu.fabric.health_summary > 3) fabric.Fail("healthSummary", "must be 0 to 3");
  });
  object.Object("ecc", [&](JsonObject& ecc) {
    ecc.Get("supported", gpu.ecc.supported);
    ecc.Get("enabled", gpu.ecc.enabled);
    ecc.Get("volatileCorrected", gpu.ecc.volatile_corrected);
    ecc.Get("volatileUncorrected", gpu.ecc.volatile_uncorrected);
    ecc.Get("aggregateCorrected", gpu.ecc.aggregate_corrected);
    ecc.Get("aggregateUncorrected", gpu.ecc.aggregate_uncorrected);
  });
  object.Object("remappedRows", [&](JsonObject& rows) {
    rows.Get("supported", gpu.remapped_rows.supported);
    rows.Get("corrected", gpu.remapped_rows.corrected);
    rows.Get("uncorrected", gpu.remapped_rows.uncorrected);
    rows.Get("pending", gpu.remapped_rows.pending);
    rows.Get("failed", gpu.remapped_rows.failed);
  });
  object.Get("retiredPagesSupported", gpu.retired_pages_supported);
  object.Get("retiredPagesPending", gpu.retired_pages_pending);
  object.Get("lost", gpu.lost);
  const Json* action = object.Find("recoveryAction");
  if (action != nullptr && action->is_string()) {
    gpu.recovery_action = RecoveryAction(action->get<std::string>());
    if (!gpu.recovery_action.has_value()) {
      object.Fail("recoveryAction", "\"" + action->get<std::string>() + "\" is none of " +
                                        RecoveryActionNames() + ", and no number");
    }
  } else {
    object.Get("recoveryAction", gpu.recovery_action);
  }
}

Fault ReadFault(const Json& json, const std::string& path) {
  JsonObject object(json, path);
  Fault fault;
  object.Get("id", fault.id);
  object.Get("function", fault.function);
  if (fault.function != "*" && fault.function.rfind("nvml", 0) != 0) {
    object.Fail("function", "\"" + fault.function + "\" is neither a function of NVML nor \"*\"");
  }
  const Json* gpu = object.Find("gpu");
  if (gpu != nullptr && gpu->is_number_integer()) {
    fault.gpu = std::to_string(gpu->get<unsigned>());
  } else {
    object.Get("gpu", fault.gpu);
  }
  const Json* result = object.Find("return");
  if (result != nullptr && result->is_string()) {
    fault.result = ReturnCode(result->get<std::string>());
    if (!fault.result.has_value()) {
      object.Fail("return", "\"" + result->get<std::string>() + "\" is no return code of NVML");
    }
  } else {
    object.Get("return", fault.result);
  }
  object.Get("hangSeconds", fault.hang_seconds);
  object.Get("times", fault.times);
  object.Done();
  if (fault.hang_seconds < 0) object.Fail("hangSeconds", "must not be negative");
  if (!fault.result.has_value() && fault.hang_seconds == 0) {
    object.Fail("return", "or hangSeconds must be given");
  }
  return fault;
}

Event ReadEvent(const Json& json, const std::string& path) {
  JsonObject object(json, path);
  Event event;
  object.Get("id", event.id);
  object.Get("gpu", event.gpu);
  const Json* type = object.Find("type");
  if (type != nullptr && type->is_string()) {
    const auto known = EventType(type->get<std::string>());
    if (!known) object.Fail("type", "\"" + type->get<std::string>() + "\" is no type of event");
    event.type = *known;
  } else {
    object.Get("type", event.type);
  }
  object.Get("value", event.value);
  object.Get("gi", event.gi);
  object.Get("ci", event.ci);
  object.Done();
  return event;
}

void CheckUnique(const State& state) {
  for (size_t i = 0; i < state.gpus.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const std::string path = "gpus[" + std::to_string(i) + "]";
      const std::string twice = " is that of gpus[" + std::to_string(j) + "] too";
      const Gpu &a = state.gpus[i], &b = state.gpus[j];
      if (a.uuid == b.uuid) throw std::invalid_argument(path + ".uuid: " + a.uuid + twice);
      if (a.minor == b.minor) {
        throw std::invalid_argument(path + ".minor: " + std::to_string(a.minor) + twice);
      }
      if (a.pci.bus_id == b.pci.bus_id) {
        throw std::invalid_argument(path + ".pci.bus_id: " + a.pci.bus_id + twice);
      }
    }
  }
}

}  // namespace

Gpu GpuFromJson(const Json& json, const std::string& path) {
  JsonObject object(json, path);
  Gpu gpu;
  object.Get("model", gpu.model);
  object.Get("uuid", gpu.uuid);
  if (gpu.uuid.empty()) object.Fail("uuid", "is missing");
  object.Get("minor", gpu.minor);
  object.Get("serial", gpu.serial);
  object.Get("name", gpu.name);
  object.Get("brand", gpu.brand);
  object.Get("architecture", gpu.architecture);
  object.Get("computeCapability", gpu.compute_capability);
  object.Get("memoryBytes", gpu.memory_bytes);
  object.Get("memoryReservedBytes", gpu.memory_reserved_bytes);
  object.Get("memoryUsedBytes", gpu.memory_used_bytes);
  object.Object("pci", [&](JsonObject& pci) { gpu.pci = ReadPci(pci); });
  object.Get("numaNode", gpu.numa_node);
  object.Get("memoryNumaNode", gpu.memory_numa_node);
  object.Get("pcieRoot", gpu.pcie_root);
  object.Get("moduleId", gpu.module_id);
  object.Get("addressingMode", gpu.addressing_mode);
  object.Get("virtualizationMode", gpu.virtualization_mode);
  object.Get("migCapable", gpu.mig_capable);
  object.Get("migMode", gpu.mig_mode);
  gpu.mig_mode_pending = gpu.mig_mode;
  object.Get("migModePending", gpu.mig_mode_pending);
  if (!gpu.mig_capable && (gpu.mig_mode || gpu.mig_mode_pending)) {
    object.Fail("migMode", "the card is not MIG capable");
  }
  object.Get("minorAfterMigToggle", gpu.minor_after_mig_toggle);
  object.Get("attachment", gpu.attachment);
  object.Each("migProfiles", [&](const Json& entry, const std::string& at) {
    gpu.mig_profiles.push_back(ReadProfile(entry, at));
  });
  object.Each("mig",
              [&](const Json& entry, const std::string& at) { ReadInstance(gpu, entry, at); });
  ReadHealth(object, gpu);
  object.Get("persistenceMode", gpu.persistence_mode);
  object.Get("computeMode", gpu.compute_mode);
  object.Each("processes", [&](const Json& entry, const std::string& at) {
    gpu.processes.push_back(ReadProcess(entry, at));
  });
  object.Get("unverified", gpu.unverified);
  object.Done();
  return gpu;
}

State StateFromJson(const Json& json) {
  JsonObject object(json, "");
  State state;
  object.Object("driver", [&](JsonObject& driver) {
    driver.Get("version", state.driver.version);
    driver.Get("cuda", state.driver.cuda);
    driver.Get("nvml", state.driver.nvml);
    driver.Get("kernelModule", state.driver.kernel_module);
    driver.Get("loaded", state.driver.loaded);
  });
  Driver& driver = state.driver;
  if (driver.kernel_module.empty()) driver.kernel_module = driver.version;
  if (driver.nvml.empty()) {
    driver.nvml = driver.cuda.substr(0, driver.cuda.find('.')) + "." + driver.version;
  }
  object.Each("gpus", [&](const Json& entry, const std::string& at) {
    state.gpus.push_back(GpuFromJson(entry, at));
  });
  CheckUnique(state);
  object.Get("nextFault", state.next_fault);
  object.Each("faults", [&](const Json& entry, const std::string& at) {
    Fault fault = ReadFault(entry, at);
    if (fault.id == 0) fault.id = state.next_fault;
    state.next_fault = std::max(state.next_fault, fault.id + 1);
    state.faults.push_back(std::move(fault));
  });
  object.Get("nextEvent", state.next_event);
  object.Each("events", [&](const Json& entry, const std::string& at) {
    Event event = ReadEvent(entry, at);
    if (event.id == 0) event.id = state.next_event;
    state.next_event = std::max(state.next_event, event.id + 1);
    state.events.push_back(std::move(event));
  });
  object.Get("visibility", state.visibility);
  if (state.visibility != "auto" && state.visibility != "all" && state.visibility != "nodes") {
    object.Fail("visibility", "\"" + state.visibility + "\" is none of auto, all, nodes");
  }
  object.Get("hostDevRoot", state.host_dev_root);
  const Json* cap_minors = object.Find("capMinors");
  if (cap_minors != nullptr) {
    JsonObject minors(*cap_minors, "capMinors");
    for (const auto& [name, unused] : cap_minors->items())
      minors.Get(name.c_str(), state.cap_minors[name]);
  }
  object.Done();
  return state;
}

}  // namespace nvidia_simulator
