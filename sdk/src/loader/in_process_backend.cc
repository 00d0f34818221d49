#include "loader/in_process_backend.h"

#include <exception>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "dra/base/logger.h"
#include "dra/base/status.h"
#include "dra/loader/uncreated_backend.h"
#include "loader/collectors.h"
#include "loader/hook_args.h"
#include "loader/keep_forever.h"
#include "loader/manifest.h"
#include "loader/payload.h"
#include "loader/withheld.h"
#include "nlohmann/json.hpp"

namespace dra::loader {
namespace {

RunningHook::GivenSecrets SecretsOf(const std::shared_ptr<const ClaimTexts>& texts) {
  return [texts](Withheld& withheld) {
    withheld.AddDevices(texts->devices);
    withheld.AddUndo(texts->undo);
  };
}

}  // namespace

InProcessBackend::InProcessBackend(Library library, const LoadOptions& options)
    : library_(std::move(library)),
      options_(options),
      runner_(absl::StrCat("backend ", library_.path), options) {}

InProcessBackend::~InProcessBackend() { Destroy(); }

absl::StatusOr<std::unique_ptr<InProcessBackend>> InProcessBackend::Make(
    Library library, const LoadOptions& options) {
  std::unique_ptr<InProcessBackend> backend(new InProcessBackend(std::move(library), options));
  absl::StatusOr<Manifest> manifest = backend->Describe({}, Call());
  if (!manifest.ok()) {
    return absl::FailedPreconditionError(absl::StrCat("backend ", backend->library_.path, ": ",
                                                      std::string(manifest.status().message())));
  }
  backend->SetManifest(*std::move(manifest));
  return backend;
}

void InProcessBackend::SetManifest(Manifest manifest) {
  runner_.SetParallel(manifest.parallel);
  auto shared = std::make_shared<const Manifest>(std::move(manifest));
  const std::lock_guard lock(mutex_);
  manifest_.swap(shared);
}

BackendDescription InProcessBackend::Description() const {
  return {library_.path, library_.api->abi_minor};
}

absl::StatusOr<std::shared_ptr<const Manifest>> InProcessBackend::GetManifest() const {
  const std::lock_guard lock(mutex_);
  return manifest_;
}

absl::StatusOr<InProcessBackend::Instance> InProcessBackend::CurrentInstance(
    absl::string_view hook) const {
  const std::lock_guard lock(mutex_);
  if (!instance_ || changing_) {
    return MarkUncreated(absl::FailedPreconditionError(
        absl::StrCat("backend ", library_.path, ": hook ", hook, ": the backend is not created")));
  }
  return *instance_;
}

HookSpec InProcessBackend::Spec(absl::string_view hook, HookMode mode, HostTable* host,
                                absl::string_view claim_uid) const {
  HookSpec spec;
  spec.name = std::string(hook);
  spec.mode = mode;
  spec.claim_uid = std::string(claim_uid);
  spec.reserved = hook == "unprepare" || hook == "destroy";
  spec.host = host;
  spec.limit = options_.hook_limit_override;
  if (spec.limit == absl::ZeroDuration()) {
    const std::lock_guard lock(mutex_);
    spec.limit = manifest_->HookLimit(hook);
  }
  return spec;
}

absl::Status InProcessBackend::CallHook(const HookSpec& spec, const Call& call,
                                        std::function<dra_code(const dra_call*, dra_error*)> body) {
  // Shared with the hook's thread: after an overrun it writes here, and nobody reads.
  const auto outcome = std::make_shared<absl::Status>();
  DRA_RETURN_IF_ERROR(runner_.Run(
      spec, call, [body = std::move(body), outcome, name = spec.name](RunningHook& hook) {
        dra_error err = {};
        err.struct_size = sizeof(err);
        // A backend that does not use dra/backend/backend.h may throw all the same.
        try {
          *outcome = ToStatus(body(hook.call(), &err), err, name);
        } catch (const std::exception& error) {
          *outcome = absl::InternalError(
              absl::StrCat("hook ", name, ": threw an exception: ", error.what()));
        } catch (...) {
          *outcome = absl::InternalError(
              absl::StrCat("hook ", name, ": threw a value that is not a std::exception"));
        }
        *outcome = hook.Scrub(*outcome);
      }));
  return *outcome;
}

absl::StatusOr<Manifest> InProcessBackend::Describe(const Instance& instance, const Call& call) {
  const auto collector = std::make_shared<TextCollector>(kMaxManifestBytes);
  DRA_RETURN_IF_ERROR(CallHook(
      Spec("describe", HookMode::kAny, instance.host), call,
      [api = library_.api, self = instance.self, collector](const dra_call* hook, dra_error* err) {
        dra_describe_args args = {};
        args.struct_size = sizeof(args);
        const dra_text_sink sink = collector->Sink();
        return api->describe(self, hook, &args, &sink, err);
      }));
  DRA_ASSIGN_OR_RETURN(const std::string text, collector->Take());
  DRA_ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(text));
  manifest.reports_health = library_.api->health != nullptr;
  return manifest;
}

absl::Status InProcessBackend::Create(absl::string_view config_json, HostServices* host,
                                      const Call& call) {
  {
    const std::lock_guard lock(mutex_);
    if (changing_ || instance_) {
      return absl::FailedPreconditionError(
          absl::StrCat("backend ", library_.path, ": it is ",
                       changing_ ? "being created or destroyed" : "created already"));
    }
    changing_ = true;
  }
  const absl::Cleanup done = [this] {
    const std::lock_guard lock(mutex_);
    changing_ = false;
  };
  return CreateInstance(std::string(config_json), host, call);
}

absl::Status InProcessBackend::CreateInstance(const std::string& config, HostServices* host,
                                              const Call& call) {
  HostTable* const table = HostTable::Make(host);
  absl::Cleanup detach = [table] { table->Detach(); };
  struct Made {
    std::string config;
    dra_backend* self = nullptr;
  };
  const auto made = std::make_shared<Made>(Made{config.empty() ? "{}" : config});
  DRA_RETURN_IF_ERROR(
      CallHook(Spec("create", HookMode::kQuiet, table), call,
               [api = library_.api, table, made](const dra_call* hook, dra_error* err) {
                 dra_create_args args = {};
                 args.struct_size = sizeof(args);
                 args.config_json = View(made->config);
                 return api->create(table->table(), hook, &args, &made->self, err);
               }));
  if (made->self == nullptr) {
    return absl::InternalError("hook create: answered OK without an instance");
  }
  const Instance instance{made->self, table};
  runner_.SetInstance(table);
  // With the instance the manifest may say more: the configuration is known now.
  absl::StatusOr<Manifest> manifest = Describe(instance, call);
  if (!manifest.ok()) {
    runner_.SetInstance(nullptr);
    CallHook(Spec("destroy", HookMode::kQuiet, table), Call(),
             [api = library_.api, instance](const dra_call* hook, dra_error* err) {
               return api->destroy(instance.self, hook, err);
             })
        .IgnoreError();
    return manifest.status();
  }
  SetManifest(*std::move(manifest));
  std::move(detach).Cancel();
  const std::lock_guard lock(mutex_);
  instance_ = instance;
  return absl::OkStatus();
}

void InProcessBackend::Destroy() {
  Instance instance;
  {
    const std::lock_guard lock(mutex_);
    if (changing_ || !instance_) return;
    changing_ = true;
    instance = *instance_;
  }
  runner_.SetInstance(nullptr);
  // If a hook hangs, destroy cannot be called beside it: the instance is left to that hook.
  const absl::Status destroyed =
      CallHook(Spec("destroy", HookMode::kQuiet, instance.host), Call(),
               [api = library_.api, instance](const dra_call* hook, dra_error* err) {
                 return api->destroy(instance.self, hook, err);
               });
  if (!destroyed.ok()) {
    const std::string text =
        absl::StrCat("destroy of the backend: ", std::string(destroyed.message()));
    const dra_host* table = instance.host->table();
    table->log(table->ctx, static_cast<int32_t>(LogLevel::kWarn), View(text));
  }
  // Still reachable: left on purpose, not leaked.
  if (!destroyed.ok()) KeepForever(std::make_unique<Instance>(instance));
  instance.host->Detach();
  const std::lock_guard lock(mutex_);
  instance_.reset();
  changing_ = false;
}

absl::StatusOr<DiscoverResult> InProcessBackend::Discover(
    const ServerFields& fields, const std::vector<std::string>& held_devices, const Call& call) {
  DRA_ASSIGN_OR_RETURN(const Instance instance, CurrentInstance("discover"));
  const auto collector = std::make_shared<DiscoverCollector>();
  DRA_RETURN_IF_ERROR(
      CallHook(Spec("discover", HookMode::kSerial, instance.host), call,
               [api = library_.api, instance, collector, held = DumpJson(Json(held_devices)),
                fields](const dra_call* hook, dra_error* err) {
                 const dra_discover_args args = MakeDiscoverArgs(fields, held);
                 const dra_discover_sink sink = collector->Sink();
                 return api->discover(instance.self, hook, &args, &sink, err);
               }));
  return collector->Take();
}

absl::Status InProcessBackend::ValidateConfig(const Json& parameters, absl::string_view source,
                                              const Call& call) {
  if (library_.api->validate_config == nullptr) {
    DRA_ASSIGN_OR_RETURN(const std::shared_ptr<const Manifest> manifest, GetManifest());
    return CheckConfigKind(*manifest, parameters);
  }
  DRA_ASSIGN_OR_RETURN(const Instance instance, CurrentInstance("validate_config"));
  HookSpec spec = Spec("validate_config", HookMode::kAny, instance.host);
  spec.secrets = [given = std::make_shared<const Json>(parameters)](Withheld& withheld) {
    withheld.AddParameters(*given);
  };
  return CallHook(spec, call,
                  [api = library_.api, instance, text = DumpJson(parameters),
                   from = std::string(source)](const dra_call* hook, dra_error* err) {
                    dra_validate_args args = {};
                    args.struct_size = sizeof(args);
                    args.parameters_json = View(text);
                    args.source = View(from);
                    return api->validate_config(instance.self, hook, &args, err);
                  });
}

absl::StatusOr<PrepareResult> InProcessBackend::Prepare(const PrepareArgs& args, const Call& call) {
  DRA_ASSIGN_OR_RETURN(const Instance instance, CurrentInstance("prepare"));
  const auto collector = std::make_shared<PrepareCollector>(args.devices.size());
  const auto texts =
      std::make_shared<const ClaimTexts>(args.claim, args.devices, args.saved_undo, args.others);
  HookSpec spec = Spec("prepare", HookMode::kClaim, instance.host, args.claim.uid);
  spec.secrets = SecretsOf(texts);
  DRA_RETURN_IF_ERROR(
      CallHook(spec, call,
               [api = library_.api, instance, collector, texts,
                reserved = DumpJson(args.reserved_for)](const dra_call* hook, dra_error* err) {
                 const dra_claim claim = texts->Claim();
                 dra_prepare_args c_args = {};
                 c_args.struct_size = sizeof(c_args);
                 c_args.claim = &claim;
                 c_args.reserved_for_json = View(reserved);
                 c_args.devices_json = View(texts->devices);
                 c_args.saved_undo = View(texts->undo);
                 c_args.others_json = View(texts->others);
                 const dra_prepare_sink sink = collector->Sink();
                 return api->prepare(instance.self, hook, &c_args, &sink, err);
               }));
  absl::StatusOr<PrepareResult> result = collector->Take();
  if (!result.ok()) return Annotate(result.status(), "hook prepare");
  return result;
}

absl::Status InProcessBackend::Unprepare(const UnprepareArgs& args, const Call& call) {
  DRA_ASSIGN_OR_RETURN(const Instance instance, CurrentInstance("unprepare"));
  const auto texts =
      std::make_shared<const ClaimTexts>(args.claim, args.devices, args.undo, args.others);
  HookSpec spec = Spec("unprepare", HookMode::kClaim, instance.host, args.claim.uid);
  spec.secrets = SecretsOf(texts);
  return CallHook(spec, call,
                  [api = library_.api, instance, texts](const dra_call* hook, dra_error* err) {
                    const dra_claim claim = texts->Claim();
                    dra_unprepare_args c_args = {};
                    c_args.struct_size = sizeof(c_args);
                    c_args.claim = &claim;
                    c_args.devices_json = View(texts->devices);
                    c_args.undo = View(texts->undo);
                    c_args.others_json = View(texts->others);
                    return api->unprepare(instance.self, hook, &c_args, err);
                  });
}

absl::Status InProcessBackend::ReconcileBound(absl::string_view hook,
                                              dra_code (*function)(dra_backend*, const dra_call*,
                                                                   const dra_reconcile_bound_args*,
                                                                   dra_error*),
                                              const Call& call) {
  if (function == nullptr) return absl::OkStatus();
  DRA_ASSIGN_OR_RETURN(const Instance instance, CurrentInstance(hook));
  return CallHook(Spec(hook, HookMode::kAlone, instance.host), call,
                  [function, instance](const dra_call* running, dra_error* err) {
                    dra_reconcile_bound_args args = {};
                    args.struct_size = sizeof(args);
                    return function(instance.self, running, &args, err);
                  });
}

absl::Status InProcessBackend::ReconcileBegin(const Call& call) {
  return ReconcileBound("reconcile_begin", library_.api->reconcile_begin, call);
}
absl::Status InProcessBackend::ReconcileEnd(const Call& call) {
  return ReconcileBound("reconcile_end", library_.api->reconcile_end, call);
}

absl::StatusOr<ReconcileResult> InProcessBackend::ReconcileRecordHook(const ReconcileRecord& record,
                                                                      const Call& call) {
  if (library_.api->reconcile_record == nullptr) {
    ReconcileResult result;
    result.verdict = record.same_boot ? ReconcileVerdict::kTrue : ReconcileVerdict::kRedo;
    return result;
  }
  DRA_ASSIGN_OR_RETURN(const Instance instance, CurrentInstance("reconcile_record"));
  const UnprepareArgs& from = record.record;
  const auto collector = std::make_shared<ReconcileCollector>(from.devices.size());
  const auto texts =
      std::make_shared<const ClaimTexts>(from.claim, from.devices, from.undo, from.others);
  HookSpec spec = Spec("reconcile_record", HookMode::kAlone, instance.host, from.claim.uid);
  spec.secrets = SecretsOf(texts);
  DRA_RETURN_IF_ERROR(
      CallHook(spec, call,
               [api = library_.api, instance, collector, texts, same_boot = record.same_boot](
                   const dra_call* hook, dra_error* err) {
                 const dra_claim claim = texts->Claim();
                 dra_reconcile_args args = {};
                 args.struct_size = sizeof(args);
                 args.same_boot = same_boot ? 1 : 0;
                 args.claim = &claim;
                 args.devices_json = View(texts->devices);
                 args.undo = View(texts->undo);
                 args.others_json = View(texts->others);
                 const dra_reconcile_sink sink = collector->Sink();
                 return api->reconcile_record(instance.self, hook, &args, &sink, err);
               }));
  absl::StatusOr<ReconcileResult> result = collector->Take();
  if (!result.ok()) return Annotate(result.status(), "hook reconcile_record");
  return result;
}

absl::StatusOr<Busy> InProcessBackend::IsBusy(absl::string_view pool, absl::string_view device,
                                              absl::string_view identity, const Call& call) {
  if (library_.api->busy == nullptr) {
    return absl::UnimplementedError("the backend has no hook busy: it cannot tell");
  }
  DRA_ASSIGN_OR_RETURN(const Instance instance, CurrentInstance("busy"));
  const auto collector = std::make_shared<BusyCollector>();
  DRA_RETURN_IF_ERROR(CallHook(Spec("busy", HookMode::kAny, instance.host), call,
                               [api = library_.api, instance, collector,
                                pool_name = std::string(pool), name = std::string(device),
                                id = std::string(identity)](const dra_call* hook, dra_error* err) {
                                 dra_busy_args args = {};
                                 args.struct_size = sizeof(args);
                                 args.pool = View(pool_name);
                                 args.device = View(name);
                                 args.identity = View(id);
                                 const dra_busy_sink sink = collector->Sink();
                                 return api->busy(instance.self, hook, &args, &sink, err);
                               }));
  absl::StatusOr<Busy> busy = collector->Take();
  if (!busy.ok()) return Annotate(busy.status(), "hook busy");
  return busy;
}

absl::StatusOr<std::vector<DeviceHealth>> InProcessBackend::Health(const Call& call) {
  if (library_.api->health == nullptr) {
    return absl::UnimplementedError(absl::StrCat("backend ", library_.path, ": reports no health"));
  }
  DRA_ASSIGN_OR_RETURN(const Instance instance, CurrentInstance("health"));
  const auto collector = std::make_shared<HealthCollector>();
  DRA_RETURN_IF_ERROR(
      CallHook(Spec("health", HookMode::kAny, instance.host), call,
               [api = library_.api, instance, collector](const dra_call* hook, dra_error* err) {
                 dra_health_args args = {};
                 args.struct_size = sizeof(args);
                 const dra_health_sink sink = collector->Sink();
                 return api->health(instance.self, hook, &args, &sink, err);
               }));
  absl::StatusOr<std::vector<DeviceHealth>> reports = collector->Take();
  if (!reports.ok()) return Annotate(reports.status(), "hook health");
  return reports;
}

}  // namespace dra::loader
