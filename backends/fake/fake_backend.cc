#include "fake_backend.h"

#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

#include "cpu_profile.h"
#include "gpu_profile.h"
#include "inventory_file.h"
#include "net_profile.h"

namespace fake {

using dra::BackendError;
using dra::Json;

namespace {

// Why the control or inventory file cannot be read is told by the next hook; the watcher only says that there is
// something new.
constexpr char kUnreadable[] = "unreadable";

Json NamesOf(const std::vector<dra::AllocatedDevice>& devices) {
  Json names = Json::array();
  for (const dra::AllocatedDevice& device : devices) names.push_back(device.name());
  return names;
}

std::string StateFile(const Options& options, const char* name) {
  return options.state_directory.empty() ? "" : options.state_directory + "/" + name;
}

}  // namespace

template <typename Function>
auto FakeBackend::Run(const char* hook, const dra::HookCall& call, const std::string& claim_uid,
                      Json details, Function&& function) {
  details["event"] = "begin";
  details["hook"] = hook;
  if (!claim_uid.empty()) details["claim"] = claim_uid;
  log_.Write(std::move(details));
  const auto ended = [&](dra_code code, const std::string& text) {
    Json event = {{"event", "end"}, {"hook", hook}, {"code", code}};
    if (!claim_uid.empty()) event["claim"] = claim_uid;
    if (!text.empty()) event["text"] = text;
    log_.Write(std::move(event));
  };
  try {
    AtPoint(hook, "begin", claim_uid, call);
    if constexpr (std::is_void_v<decltype(function())>) {
      function();
      AtPoint(hook, "end", claim_uid, call);
      ended(DRA_OK, "");
    } else {
      auto result = function();
      AtPoint(hook, "end", claim_uid, call);
      ended(DRA_OK, "");
      return result;
    }
  } catch (const BackendError& error) {
    ended(error.code(), error.what());
    throw;
  } catch (...) {
    ended(DRA_INTERNAL, "thrown");
    throw;
  }
}

namespace {

dra::BackendManifest PlainManifest() {
  dra::BackendManifest manifest;
  manifest.name = "fake";
  manifest.version = "1.0.0";
  manifest.parallel = true;
  manifest.shared_claims = true;
  manifest.keeps_undo = true;
  return manifest;
}

}  // namespace

dra::BackendManifest FakeBackend::Describe() {
  // Before there is a configuration: what any of the profiles has.
  dra::BackendManifest manifest = PlainManifest();
  DescribeGpu(manifest);
  DescribeNet(manifest);
  DescribeCpu(manifest);
  return manifest;
}

dra::BackendManifest FakeBackend::InstanceManifest() {
  dra::BackendManifest manifest = PlainManifest();
  profile_->Describe(manifest);
  manifest.parallel = options_.parallel.value_or(manifest.parallel);
  manifest.shared_claims = options_.shared_claims.value_or(manifest.shared_claims);
  manifest.never_tainted = options_.never_tainted.value_or(manifest.never_tainted);
  manifest.no_injection = options_.no_injection.value_or(manifest.no_injection);
  manifest.keeps_undo = options_.keeps_undo.value_or(manifest.keeps_undo);
  manifest.hook_limits = options_.hook_limits;
  return manifest;
}

std::unique_ptr<Profile> FakeBackend::MakeProfile() {
  if (!options_.inventory_file.empty()) {
    return std::make_unique<FileInventory>(options_.inventory_file, options_.merge_configs, host_,
                                           control_);
  }
  switch (options_.profile) {
    case ProfileName::kNet:
      return std::make_unique<NetProfile>(options_, control_);
    case ProfileName::kCpu:
      return std::make_unique<CpuProfile>(options_, control_);
    case ProfileName::kGpu:
      break;
  }
  return std::make_unique<GpuProfile>(
      options_, host_, hardware_, control_, log_,
      [this](const char* hook, const char* point, const std::string& claim_uid,
             const dra::HookCall& call) { AtPoint(hook, point, claim_uid, call); });
}

FakeBackend::FakeBackend(dra::Host host, const Json& config)
    : host_(host),
      options_(Options::Parse(config)),
      log_(options_.hook_log),
      control_(options_.control_file, StateFile(options_, "fault-counts.json")),
      hardware_(StateFile(options_, "hardware.json")),
      profile_(MakeProfile()) {
  const dra_call no_call = {.struct_size = sizeof(dra_call),
                            .cancel_fd = -1,
                            .id = 0,
                            .deadline_ns = 0,
                            .ctx = nullptr,
                            .cancelled = nullptr};
  Run("create", dra::HookCall(&no_call), "", Json::object(), [] {});
  if (options_.control_file.empty() && options_.inventory_file.empty()) return;
  Look();  // what is there now is no change
  watcher_.emplace(options_.poll_interval, [this] {
    const std::string inventory = seen_inventory_;
    const std::string health = seen_health_;
    Look();
    if (inventory != seen_inventory_) host_.InventoryChanged();
    if (health != seen_health_) host_.HealthChanged();
  });
}

FakeBackend::~FakeBackend() {
  watcher_.reset();
  std::vector<std::jthread> callbacks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    callbacks.swap(callbacks_);
  }
  callbacks.clear();
  log_.Write({{"event", "end"}, {"hook", "destroy"}, {"code", DRA_OK}});
}

void FakeBackend::Look() noexcept {
  std::string inventory;
  std::string health;
  try {
    const auto state = control_.Read();
    inventory = state->inventory_text;
    health = state->health_text;
  } catch (const std::exception&) {
    inventory = health = kUnreadable;
  }
  try {
    const auto [devices, states] = profile_->Look();
    inventory += devices;
    health += states;
  } catch (const std::exception&) {
    inventory += kUnreadable;
    health += kUnreadable;
  }
  seen_inventory_ = std::move(inventory);
  seen_health_ = std::move(health);
}

void FakeBackend::CallBack(const Callback& callback, uint64_t call_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  callbacks_.emplace_back([this, callback, call_id](const std::stop_token& stop) {
    WaitForStop(stop, std::chrono::milliseconds(callback.delay_ms));
    dra_code code = DRA_OK;
    try {
      // A call that has ended by now, if the delay was long enough: the host must refuse it.
      const dra_call call = {.struct_size = sizeof(dra_call),
                             .cancel_fd = -1,
                             .id = call_id,
                             .deadline_ns = 0,
                             .ctx = nullptr,
                             .cancelled = nullptr};
      if (callback.function == "inventoryChanged") host_.InventoryChanged();
      if (callback.function == "healthChanged") host_.HealthChanged();
      const auto text = [&](const char* own) {
        return callback.text.empty() ? std::string(own) : callback.text;
      };
      if (callback.function == "saveUndo") host_.SaveUndo(dra::HookCall(&call), text("late"));
      if (callback.function == "requestRestart")
        host_.RequestRestart(text("the control file asks for it"));
      if (callback.function == "log")
        host_.Log(dra::Severity::kWarn, text("from a thread of the backend"));
    } catch (const BackendError& error) {
      code = error.code();
    }
    log_.Write({{"event", "callback"}, {"function", callback.function}, {"code", code}});
  });
}

void FakeBackend::AtPoint(const char* hook, const char* point, const std::string& claim_uid,
                          const dra::HookCall& call) {
  const std::optional<Fault> fault = control_.Take(hook, point, claim_uid, false);
  if (!fault) return;
  if (fault->callback) CallBack(*fault->callback, call.id());
  Suffer(*fault, control_, call);
}

void FakeBackend::Discover(const dra::HookCall& call, const dra::DiscoverRequest& request,
                           dra::DiscoverSink& sink) {
  Run("discover", call, "", {{"held", request.held}}, [&] {
    const auto state = control_.Read();
    if (!state->partial.empty()) sink.SetPartial(state->partial);
    profile_->Discover(request, sink);
  });
}

void FakeBackend::ValidateConfig(const dra::HookCall& call, const Json& parameters,
                                 const std::string& source) {
  Run("validate_config", call, "", {{"source", source}},
      [&] { profile_->ValidateConfig(parameters); });
}

dra::PrepareReply FakeBackend::Prepare(const dra::HookCall& call,
                                       const dra::PrepareRequest& request) {
  const Json details = {{"devices", NamesOf(request.devices)},
                        {"undo", request.saved_undo},
                        {"others", request.others.size()},
                        {"reservedFor", request.reserved_for.size()}};
  return Run("prepare", call, request.claim.uid, details,
             [&] { return profile_->Prepare(call, request); });
}

void FakeBackend::Unprepare(const dra::HookCall& call, const dra::UnprepareRequest& request) {
  const Json details = {{"devices", NamesOf(request.devices)},
                        {"undo", request.undo},
                        {"others", request.others.size()}};
  Run("unprepare", call, request.claim.uid, details, [&] { profile_->Unprepare(call, request); });
}

void FakeBackend::ReconcileBegin(const dra::HookCall& call) {
  Run("reconcile_begin", call, "", Json::object(), [&] { profile_->ReconcileBegin(); });
}

dra::ReconcileReply FakeBackend::ReconcileRecord(const dra::HookCall& call,
                                                 const dra::ReconcileRequest& request) {
  const Json details = {{"devices", NamesOf(request.devices)},
                        {"undo", request.undo},
                        {"sameBoot", request.same_boot}};
  return Run("reconcile_record", call, request.claim.uid, details,
             [&] { return profile_->ReconcileRecord(request); });
}

void FakeBackend::ReconcileEnd(const dra::HookCall& call) {
  Run("reconcile_end", call, "", Json::object(), [&] { profile_->ReconcileEnd(); });
}

dra::BusyState FakeBackend::Busy(const dra::HookCall& call, const dra::BusyRequest& request) {
  return Run("busy", call, "", {{"device", request.device}}, [&] {
    const auto state = control_.Read();
    const auto found = state->busy.find(request.device);
    if (found == state->busy.end() || found->second == "idle") return dra::BusyState::kIdle;
    return found->second == "busy" ? dra::BusyState::kBusy : dra::BusyState::kUnknown;
  });
}

std::vector<dra::HealthReport> FakeBackend::Health(const dra::HookCall& call) {
  return Run("health", call, "", Json::object(), [&] {
    const auto state = control_.Read();
    std::vector<dra::HealthReport> reports = profile_->Health();
    for (dra::HealthReport& report : reports) {
      const auto controlled = state->health.find(report.device);
      if (controlled == state->health.end()) continue;
      const ControlledHealth& said = controlled->second;
      report.state = said.state == "healthy"     ? dra::HealthKind::kHealthy
                     : said.state == "unhealthy" ? dra::HealthKind::kUnhealthy
                                                 : dra::HealthKind::kUnknown;
      report.fault_class = said.fault_class;
      report.message = said.message;
      report.remedy = said.remedy;
      report.clears_with = said.clears_with;
      report.severity = said.severity;
    }
    return reports;
  });
}

std::string FakeBackend::TakeJunk(const std::string& hook, const std::string& claim_uid) {
  const std::optional<Fault> fault = control_.Take(hook, "begin", claim_uid, true);
  if (!fault) return "";
  log_.Write({{"event", "junk"}, {"hook", hook}, {"junk", fault->junk}});
  return fault->junk;
}

}  // namespace fake
