#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// The simulated node as plain values, and the JSON file that the library and the tool share. Members carry the
// names that they have in the file, in snake case ("memoryBytes" is memory_bytes); the file's members are listed
// in README.md.
namespace nvidia_simulator {

using Json = nlohmann::ordered_json;

struct Driver {
  std::string version = "580.126.20";  // of the files: libnvidia-ml.so.<version>
  std::string cuda = "13.0";
  std::string nvml;  // "" in the model: "<major of cuda>.<version>"
  // "" in the model: version. Another one: LIB_RM_VERSION_MISMATCH from init.
  std::string kernel_module;
  bool loaded = true;  // false: DRIVER_NOT_LOADED from init
};

struct Pci {
  std::string bus_id;         // "00000000:65:00.0", domain of 8 digits as NVML writes it
  uint32_t device_id = 0;     // 0x233010de: device, then vendor in the low half
  uint32_t subsystem_id = 0;  // likewise
};

struct Placement {
  unsigned start = 0, size = 0;  // memory slices
};

// A GPU instance profile of a card.
struct MigProfile {
  unsigned profile_enum = 0;  // index into nvmlDeviceGetGpuInstanceProfileInfo; "enum" in the file
  unsigned id = 0;            // what placements and creation take
  std::string name;           // "1g.10gb+me"
  unsigned slices = 0;        // compute slices
  unsigned instances = 0;     // at most so many on one GPU
  uint64_t memory_mib = 0;
  unsigned multiprocessors = 0, copy_engines = 0, decoders = 0, encoders = 0, jpegs = 0, ofas = 0;
  bool p2p = false;
  std::vector<Placement> placements;
  bool verified = true;                 // false: some values are not from NVIDIA's documents
  std::vector<std::string> unverified;  // which, by their names in the file
};

struct ComputeInstance {
  unsigned ci = 0;              // id, from 0 within its GPU instance
  unsigned slices = 0;          // compute slices; = the GPU instance's unless it is split
  unsigned start = 0;           // compute slice
  std::string uuid;             // "MIG-..."
  unsigned profile_id() const;  // 1c 0, 2c 1, 3c 2, 4c 3, 7c 4; the enum is the same
};

// A GPU instance. In the file {profile, start, gi, ci, uuid} where one compute instance fills it; else
// {profile, start, gi, compute: [{ci, slices, start, uuid}]}.
struct MigInstance {
  std::string profile;  // name of one of the card's profiles
  unsigned start = 0;   // of its placement
  unsigned gi = 0;      // id, not the placement
  std::vector<ComputeInstance> compute;
};

struct Fabric {
  unsigned state = 0;        // 0 not supported, 1 not started, 2 in progress, 3 completed
  std::string cluster_uuid;  // "" = zeros
  unsigned clique_id = 0;
  int status = 0;  // a return code, set when state is 3
  unsigned health_mask = 0;
  unsigned health_summary = 0;  // 0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity
};

struct Ecc {
  bool supported = true, enabled = true;
  uint64_t volatile_corrected = 0, volatile_uncorrected = 0;
  uint64_t aggregate_corrected = 0, aggregate_uncorrected = 0;
};

struct RemappedRows {
  bool supported = true;
  unsigned corrected = 0, uncorrected = 0;
  bool pending = false, failed = false;
};

// Something that holds the GPU. In the file a pid, a name, or {pid, name, gi, ci, usedBytes}.
struct Process {
  unsigned pid = 0;  // 0: only a name; such a one is not listed by NVML but holds the GPU
  std::string name;
  std::optional<unsigned> gi, ci;  // of a MIG instance
  uint64_t used_bytes = 0;
};

// GPUs are numbered by their place in the list.
struct Gpu {
  std::string model;  // "H100-80GB"
  std::string uuid;   // "GPU-..."
  unsigned minor = 0;
  std::string serial;  // "" = NOT_SUPPORTED
  std::string name;    // "NVIDIA H100 80GB HBM3"
  unsigned brand = 0;  // NVML's numbers
  unsigned architecture = 0;
  std::string compute_capability;        // "9.0"
  std::optional<uint64_t> memory_bytes;  // absent: NOT_SUPPORTED, as on parts with unified memory
  uint64_t memory_reserved_bytes = 0, memory_used_bytes = 0;
  Pci pci;
  int numa_node = -1;  // of its PCIe slot; -1: none
  // Of its own memory, where that is a NUMA node; absent: NOT_SUPPORTED.
  std::optional<unsigned> memory_numa_node;
  std::string pcie_root;  // "pci0000:64"
  unsigned module_id = 0;
  unsigned addressing_mode = 0;  // 0 none, 1 HMM, 2 ATS
  unsigned virtualization_mode = 0;
  bool mig_capable = false, mig_mode = false, mig_mode_pending = false;
  std::optional<unsigned> minor_after_mig_toggle;  // swaps places with minor at each change of mode
  // Grows with each change of MIG mode and each reset: handles of instances from before are stale.
  unsigned attachment = 0;
  std::vector<MigInstance> mig;
  std::vector<MigProfile> mig_profiles;
  Fabric fabric;
  Ecc ecc;
  RemappedRows remapped_rows;
  bool retired_pages_supported = false, retired_pages_pending = false;
  bool persistence_mode = false;
  unsigned compute_mode = 0;
  bool lost = false;  // fallen off the bus: GPU_IS_LOST
  // What the driver asks for to recover it, NVML's number; in the file its name ("gpu-reset") or the number. Absent:
  // NOT_SUPPORTED, as with drivers that do not know the field.
  std::optional<unsigned> recovery_action;
  std::vector<Process> processes;
  std::vector<std::string> unverified;  // members whose values are not from NVIDIA's documents

  const MigProfile* ProfileNamed(const std::string& name) const;  // nullptr if there is none
  const MigProfile* ProfileWithId(unsigned id) const;
  MigInstance* InstanceWithId(unsigned gi);
  const MigInstance* InstanceWithId(unsigned gi) const;
};

// What a function answers instead of its own answer.
struct Fault {
  unsigned id = 0;       // unique, from 1; given by AddFault or, where absent, by the reader
  std::string function;  // "nvmlDeviceGetUUID"; "*" = all but nvmlErrorString, nvmlShutdown
  std::string gpu;       // a UUID or an index as text; "" = all, and calls that concern no GPU
  // "return" in the file, a number or a name such as "GPU_IS_LOST"; absent: only the hang.
  std::optional<int> result;
  double hang_seconds = 0;        // ends earlier when the fault is taken away
  std::optional<unsigned> times;  // how often it still strikes; absent: until taken away
};

// Delivered once to every event set that the GPU was registered in before the event appeared.
struct Event {
  uint64_t id = 0;    // grows; given by AddEvent
  std::string gpu;    // UUID
  uint64_t type = 0;  // NVML's bit; in the file its name ("xid", "double-bit-ecc", ...) or a number
  uint64_t value = 0;  // of an XID event: the XID
  std::optional<unsigned> gi, ci;
};

struct State {
  Driver driver;
  std::vector<Gpu> gpus;
  std::vector<Fault> faults;
  std::vector<Event> events;
  uint64_t next_event = 1;
  unsigned next_fault = 1;
  // Which GPUs a process sees. "all"; "nodes": those whose device nodes it has; "auto": nodes where /dev/nvidiactl
  // is there and host_dev_root is not (a container), else all.
  std::string visibility = "auto";
  std::string host_dev_root;  // a path that exists on the host only, such as <root>/dev
  // Capability minors that differ from the driver's own numbering: "gpu0/gi1/access" -> 12, as in mig-minors.
  std::map<std::string, unsigned> cap_minors;

  Gpu* FindGpu(const std::string& uuid_or_index);  // nullptr if there is none
  const Gpu* FindGpu(const std::string& uuid_or_index) const;
};

// JSON both ways. Reading is strict: std::invalid_argument names the path ("gpus[2].pci.bus_id: ...") of an
// unknown member, of a value of the wrong kind and of one that cannot be (two GPUs of one UUID, a MIG placement
// that overlaps, ...).
State StateFromJson(const Json& json);
Json ToJson(const State& state);
Gpu GpuFromJson(const Json& json, const std::string& path);
Json ToJson(const Gpu& gpu);

// Reads under a shared lock. All three throw std::runtime_error with the path; std::system_error where the file is
// to blame.
State ReadState(const std::string& path);
// Makes or overwrites the file, in place, under an exclusive lock.
void WriteState(const std::string& path, const State& state);
// Reads, changes and writes under one exclusive lock; a change that throws leaves the file as it was. The file's
// mtime always grows, so that readers notice.
void UpdateState(const std::string& path, const std::function<void(State&)>& change);

// Changes that need more than an assignment.
uint64_t AddEvent(State& state, Event event);  // returns the id; keeps the last 1000
unsigned AddFault(State& state, Fault fault);
// Adds the event of another MIG mode or other instances, where `gpu`, one of the state's, differs so from `before`.
void AddMigEvent(State& state, const Gpu& before, const Gpu& gpu);
// Sets it, and adds the events that the driver gives when it changes: XID 154, and where the card has it the event of
// its own.
void SetRecoveryAction(State& state, Gpu& gpu, unsigned action);
// Makes the pending mode the current one: new attachment, no instances, minor as it says.
void ApplyMigMode(Gpu& gpu);
// ApplyMigMode, volatile errors to zero, pending remaps done, no more recovery asked for unless more than a reset was.
// Does not bring back a lost GPU.
void ResetGpu(Gpu& gpu);

// Makes a GPU instance without compute instances, where it fits (start: where it must be). Returns a return code
// of NVML: 0, INVALID_ARGUMENT (no such placement), INSUFFICIENT_RESOURCES (taken), NOT_SUPPORTED (MIG is off).
int CreateGpuInstance(Gpu& gpu, const MigProfile& profile, std::optional<unsigned> start,
                      unsigned* gi);
int CreateComputeInstance(Gpu& gpu, MigInstance& instance, unsigned slices, unsigned* ci);
// Of a compute instance of so many slices in a GPU instance of the profile: all of them, or so many slices' worth.
unsigned ComputeMultiprocessors(const Gpu& gpu, const MigProfile& profile, unsigned slices);
// Where the profile still fits.
std::vector<Placement> FreePlacements(const Gpu& gpu, const MigProfile& profile);

// The minor of /dev/nvidia-caps/nvidia-cap<minor>, numbered as the driver does (config 1, monitor 2,
// gpu0/gi0/access 3, gpu0/gi0/ci0/access 4, ...) unless the state says otherwise.
unsigned CapMinor(const State& state, unsigned gpu_minor, unsigned gi, std::optional<unsigned> ci);
inline constexpr unsigned kGpuInstanceIds = 15, kComputeInstanceIds = 8;  // ids are below these

// "GPU_IS_LOST" <-> 15. Names are NVML's without NVML_ERROR_ ("SUCCESS" for 0). nullopt: no such name.
std::optional<int> ReturnCode(const std::string& name);
std::string ReturnName(int code);
std::optional<uint64_t> EventType(const std::string& name);
std::string EventName(uint64_t type);
// "gpu-reset" <-> 1; "none" for 0.
std::optional<unsigned> RecoveryAction(const std::string& name);
std::string RecoveryActionName(unsigned action);
// Every name, such as for a message: "none, gpu-reset, ...".
std::string RecoveryActionNames();

// What makes two nodes with the same model differ, and two runs of one node the same.
std::string StableUuid(const std::string& prefix, const std::string& seed);  // "GPU-" + 8-4-4-4-12
std::string MigUuid(const std::string& gpu_uuid, unsigned gi, unsigned ci);

}  // namespace nvidia_simulator
