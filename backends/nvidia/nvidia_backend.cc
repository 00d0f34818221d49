#include "nvidia_backend.h"

#include <chrono>
#include <utility>

#include "edits.h"
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
      sysfs_(options_.HostPath(PathBelow(options_.kernel_root, "/sys"))),
      device_plugin_(options_.HostPath(PathBelow(options_.kubelet_root, "/device-plugins"))),
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
  session->nvml = NvmlLibrary::Open(files_.Open(*library));
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
  health.log = [host](const std::string& text) { host.Log(dra::Severity::kWarn, text); };
  session->health = std::make_unique<HealthWatch>(session->nvml, std::move(health));
  std::shared_ptr<const Session> opened = std::move(session);
  const std::lock_guard lock(mutex_);
  if (!session_) session_ = opened;  // another hook may have been first
  return session_;
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
    for (dra::DeviceReport& device : DevicesOf(node, sysfs_)) {
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
              PathBelow(options_.kubelet_root, "/device-plugins/" + *rival) +
              "), and gives away the same GPUs: no new claim gets one. Take it from this node, for "
              "example with the "
              "label nvidia.com/gpu.deploy.device-plugin=false, or set allowDevicePlugin");
    }
    session.health->Watch(node);
  });
}

void NvidiaBackend::ValidateConfig(const dra::HookCall&, const dra::Json& parameters,
                                   const std::string&) {
  nvidia::ValidateConfig(parameters);
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
    dra::PrepareReply reply;
    if (options_.cdi_spec.empty()) {
      for (const PresentDevice& device : devices) {
        reply.devices.push_back({.edits = DeviceEdits(files_, device)});
      }
      reply.claim_edits = ClaimEdits(files_, driver_version, host_.SharedFile(call, HookProgram()));
    } else {
      ToolkitEdits edits = FromToolkitSpec(files_, options_.cdi_spec, devices);
      for (dra::Json& device : edits.devices) reply.devices.push_back({.edits = std::move(device)});
      reply.claim_edits = std::move(edits.common);
    }
    for (size_t i = 0; i < devices.size(); ++i) {
      reply.devices[i].status = StatusOf(devices[i], driver_version);
    }
    return reply;
  });
}

// Nothing was set on the card, so there is nothing to undo, and nothing to ask of a driver that may have gone.
void NvidiaBackend::Unprepare(const dra::HookCall&, const dra::UnprepareRequest&) {}

dra::ReconcileReply NvidiaBackend::ReconcileRecord(const dra::HookCall&,
                                                   const dra::ReconcileRequest& request) {
  if (!request.same_boot) return {.verdict = dra::Reconciled::kRedo};
  return WithLibrary([&](const Session& session) -> dra::ReconcileReply {
    for (const dra::AllocatedDevice& device : request.devices) {
      if (!IsPresent(*session.nvml, device.identity)) {
        return {.verdict = dra::Reconciled::kLost};
      }
    }
    // The edits stay what the running containers got, also when another driver version was installed since.
    return {.verdict = dra::Reconciled::kTrue};
  });
}

std::vector<dra::HealthReport> NvidiaBackend::Health(const dra::HookCall&) {
  const auto session = CurrentSession();
  if (!session) return {};  // what is not reported is unknown
  return session->health->Health();
}

}  // namespace nvidia

DRA_BACKEND(nvidia::NvidiaBackend);
