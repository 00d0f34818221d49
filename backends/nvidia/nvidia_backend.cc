#include "nvidia_backend.h"

#include <chrono>
#include <utility>

#include "dra/backend/host_path.h"
#include "driver_epoch.h"
#include "edits.h"
#include "faults.h"
#include "gpu_config.h"

namespace nvidia {

using dra::Json;

namespace {

constexpr char kHealthNote[] = "health";

std::string DriverVersion(const NvmlLibrary& nvml) {
  char version[nvml::kVersionBytes] = {};
  nvml.Check(nvml.nvmlSystemGetDriverVersion(version, sizeof(version)),
             "nvmlSystemGetDriverVersion", "the driver");
  return version;
}

dra::Json StatusOf(const PresentDevice& device, const std::string& driver_version) {
  dra::Json data = {{"uuid", device.mig ? device.mig->uuid : device.uuid},
                    {"driverVersion", driver_version}};
  if (device.mig) {
    data["parentUUID"] = device.uuid;
    data["profile"] = device.mig->profile;
  }
  if (!device.pci_bus_id.empty()) data["pciBusID"] = device.pci_bus_id;
  return {{"data", std::move(data)}};
}

}  // namespace

dra::BackendManifest NvidiaBackend::Describe() {
  return {.name = "nvidia",
          .version = "0.1.0",
          .attributes = DeviceAttributes(),
          .config_kinds = ConfigKinds(),
          .parallel = true,
          .shared_claims = true};
}

NvidiaBackend::NvidiaBackend(dra::Host host, const dra::Json& config)
    : host_(host),
      options_(ReadOptions(config)),
      files_(options_),
      sysfs_(options_.HostPath(dra::PathBelow(options_.kernel_root, "/sys"))),
      device_plugin_(options_.HostPath(dra::PathBelow(options_.kubelet_root, "/device-plugins"))),
      watch_(
          std::chrono::seconds(options_.poll_seconds),
          [this] {
            const std::string plugin = Rival().value_or("");
            const auto session = CurrentSession();
            if (!session) return files_.NvmlLibrary().value_or("") + "\n" + plugin;
            return (session->nvml->Replaced() ? "replaced" : session->nvml->path()) + "\n" + plugin;
          },
          [this] { host_.InventoryChanged(); }) {}

std::shared_ptr<const NvidiaBackend::Session> NvidiaBackend::CurrentSession() const {
  const std::lock_guard lock(mutex_);
  return session_;
}

std::optional<std::string> NvidiaBackend::Rival() const {
  return options_.allow_device_plugin ? std::nullopt : device_plugin_.Serving();
}

void NvidiaBackend::Drop(const std::shared_ptr<const Session>& session) {
  std::shared_ptr<const Session> dropped;  // closed without the lock, by its last user
  const std::lock_guard lock(mutex_);
  if (session_ == session) dropped.swap(session_);
}

std::shared_ptr<const NvidiaBackend::Session> NvidiaBackend::OpenSession() {
  if (auto session = CurrentSession()) {
    std::optional<std::string> lost = session->health->LibraryLost();
    if (!lost && session->nvml->Replaced()) {
      lost = "another file lies in the place of " + session->nvml->path();
    }
    if (!lost) return session;
    host_.Log(dra::Severity::kInfo, "opening libnvidia-ml.so.1 anew: " + *lost);
    Drop(session);
  }
  const std::optional<std::string> library = files_.NvmlLibrary();
  if (!library) {
    throw dra::BackendError(
        DRA_UNAVAILABLE, "no libnvidia-ml.so.1 below the driver's root " + options_.driver_root +
                             " (this process sees the host at " + options_.host_root +
                             "): install NVIDIA's driver on this node, or set driverRoot to where "
                             "its container has put it; it is looked for every " +
                             std::to_string(options_.poll_seconds) + " s");
  }
  auto session = std::make_shared<Session>();
  try {
    session->nvml = NvmlLibrary::Open(files_.Open(*library));
  } catch (const NvmlError& error) {
    const std::string mismatch =
        error.result() == nvml::kLibRmVersionMismatch ? error.what() : std::string();
    bool changed = false;
    {
      const std::lock_guard lock(mutex_);
      changed = std::exchange(mismatch_, mismatch) != mismatch;
    }
    if (changed) host_.HealthChanged();
    throw;
  }
  const dra::Host host = host_;
  HealthOptions health;
  health.ignored_xids = options_.ignored_xids;
  health.poll = std::chrono::seconds(options_.poll_seconds);
  health.epoch = DriverEpoch(options_.HostPath(options_.kernel_root));
  health.read_note = [host](const std::string& identity) {
    return host.NoteGet(identity, kHealthNote);
  };
  health.write_note = [host](const std::string& identity, const std::string& text) {
    host.NotePut(identity, kHealthNote, text);
  };
  health.changed = [host] { host.HealthChanged(); };
  health.inventory_changed = [host] { host.InventoryChanged(); };
  health.log = [host](const std::string& text) { host.Log(dra::Severity::kWarn, text); };
  session->health = std::make_unique<HealthWatch>(session->nvml, std::move(health));
  std::shared_ptr<const Session> opened = std::move(session);
  bool again = false;
  {
    const std::lock_guard lock(mutex_);
    if (session_) return session_;  // another hook was first
    session_ = opened;
    mismatch_.clear();
    again = std::exchange(opened_, true);
  }
  // The host reconciles with each new instance, and only then.
  if (again) {
    host_.RequestRestart(
        "NVIDIA's driver was loaded anew or replaced: claims that are held get its files");
  }
  return opened;
}

template <typename Function>
auto NvidiaBackend::WithLibrary(Function&& function) {
  const std::shared_ptr<const Session> session = OpenSession();
  try {
    return function(*session);
  } catch (const NvmlError& error) {
    if (!IsLibraryLost(error.result())) throw;
    Drop(session);
    host_.InventoryChanged();
    throw dra::BackendError(DRA_UNAVAILABLE,
                            std::string(error.what()) +
                                ": NVIDIA's driver was unloaded or replaced; the library is opened "
                                "anew with the next try");
  }
}

void NvidiaBackend::Discover(const dra::HookCall& call, const dra::DiscoverRequest&,
                             dra::DiscoverSink& sink) {
  const std::optional<std::string> rival = Rival();
  WithLibrary([&](const Session& session) {
    const NodeHardware node = LookAtNode(*session.nvml, [&] { call.Check("discover"); });
    for (const GpuProblem& problem : node.problems) {
      sink.AddError(problem.uuid ? GpuIdentity(*problem.uuid) : problem.subject, DRA_UNAVAILABLE,
                    problem.message);
      // It may be any of those that were there before, or all the instances of one.
      sink.SetPartial("");
    }
    std::vector<std::string> found;
    for (dra::DeviceReport& device : DevicesOf(node, sysfs_)) {
      found.push_back(device.device["name"].get<std::string>());
      // Claims that have their devices go on; nobody new may have one. Also where an instance before this one has
      // published them already: no slice at all would leave that one's in place.
      if (rival) {
        device.device["taints"] =
            Json::array({{{"key", "nvidia.com/device-plugin"}, {"effect", "NoSchedule"}}});
      }
      sink.AddDevice(device);
    }
    if (rival) {
      sink.AddError(
          "device-plugin", DRA_FAILED_PRECONDITION,
          "NVIDIA's device plugin serves this node (it answers at " +
              dra::PathBelow(options_.kubelet_root, "/device-plugins/" + *rival) +
              "), and gives away the same GPUs: no new claim gets one. Take it from this node, for "
              "example with the "
              "label nvidia.com/gpu.deploy.device-plugin=false, or set allowDevicePlugin");
    }
    session.health->Watch(node);
    const std::lock_guard lock(mutex_);
    found_ = std::move(found);
  });
}

void NvidiaBackend::ValidateConfig(const dra::HookCall&, const dra::Json& parameters,
                                   const std::string&) {
  nvidia::ValidateConfig(parameters);
}

AllEdits NvidiaBackend::EditsOf(const dra::HookCall& call,
                                const std::vector<PresentDevice>& devices,
                                const std::string& driver_version) const {
  if (!options_.cdi_spec.empty()) return FromToolkitSpec(files_, options_.cdi_spec, devices);
  const std::string hook_path = host_.SharedFile(call, HookProgram());
  AllEdits edits;
  for (const PresentDevice& device : devices) {
    edits.devices.push_back(DeviceEdits(files_, device, hook_path));
  }
  edits.common = ClaimEdits(files_, driver_version, hook_path);
  return edits;
}

dra::PrepareReply NvidiaBackend::Prepare(const dra::HookCall& call,
                                         const dra::PrepareRequest& request) {
  return WithLibrary([&](const Session& session) {
    std::vector<PresentDevice> devices;
    std::vector<bool> is_mig;
    for (const dra::AllocatedDevice& allocated : request.devices) {
      call.Check("prepare");
      devices.push_back(FindDevice(*session.nvml, allocated.identity));
      is_mig.push_back(devices.back().mig.has_value());
      CheckConfigOf(allocated, is_mig.back());
    }
    CheckConfigsFit(request.devices, is_mig);
    const std::string driver_version = DriverVersion(*session.nvml);
    AllEdits edits = EditsOf(call, devices, driver_version);
    dra::PrepareReply reply;
    for (size_t i = 0; i < devices.size(); ++i) {
      reply.devices.push_back(
          {.edits = std::move(edits.devices[i]), .status = StatusOf(devices[i], driver_version)});
    }
    reply.claim_edits = std::move(edits.common);
    return reply;
  });
}

// Nothing was set on the card, so there is nothing to undo, and nothing to ask of a driver that may have gone.
void NvidiaBackend::Unprepare(const dra::HookCall&, const dra::UnprepareRequest&) {}

dra::ReconcileReply NvidiaBackend::ReconcileRecord(const dra::HookCall& call,
                                                   const dra::ReconcileRequest& request) {
  if (!request.same_boot) return {.verdict = dra::Reconciled::kRedo};
  return WithLibrary([&](const Session& session) -> dra::ReconcileReply {
    for (const dra::AllocatedDevice& device : request.devices) {
      if (!IsPresent(*session.nvml, device.identity)) {
        return {.verdict = dra::Reconciled::kLost};
      }
    }
    // For containers that start from now on: another driver's files may be gone, and after a reload of the driver a
    // minor may be another card's. Mostly nothing has changed, and the host drops what is equal.
    try {
      std::vector<PresentDevice> devices;
      for (const dra::AllocatedDevice& device : request.devices) {
        devices.push_back(FindDevice(*session.nvml, device.identity));
      }
      AllEdits edits = EditsOf(call, devices, DriverVersion(*session.nvml));
      return {.verdict = dra::Reconciled::kTrueWithEdits,
              .device_edits = std::move(edits.devices),
              .claim_edits = std::move(edits.common)};
    } catch (const dra::BackendError& error) {
      const auto* answer = dynamic_cast<const NvmlError*>(&error);
      if (answer != nullptr && IsLibraryLost(answer->result())) throw;
      host_.Log(dra::Severity::kWarn, "claim " + request.claim.namespace_name + "/" +
                                          request.claim.name +
                                          " keeps the CDI edits that it has: " + error.what());
      return {.verdict = dra::Reconciled::kTrue};
    }
  });
}

std::vector<dra::HealthReport> NvidiaBackend::Health(const dra::HookCall&) {
  if (const auto session = CurrentSession()) return session->health->Health();
  std::vector<dra::HealthReport> reports;  // what is not reported is unknown
  const std::lock_guard lock(mutex_);
  if (mismatch_.empty()) return reports;
  const FaultClass fault = DriverMismatch(mismatch_);
  for (const std::string& device : found_) {
    dra::HealthReport report = {.device = device, .state = dra::HealthKind::kUnhealthy};
    report.fault_class = fault.name;
    report.severity = SeverityOf(fault);
    report.message = fault.message;
    report.remedy = fault.remedy;
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace nvidia

DRA_BACKEND(nvidia::NvidiaBackend);
