#include "loader/host_table.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "loader/hook_args.h"
#include "loader/keep_forever.h"
#include "loader/payload.h"
#include "nlohmann/json.hpp"

namespace dra::loader {
namespace {

constexpr absl::Duration kDefaultHelperTime = absl::Seconds(30);
constexpr size_t kMaxHelperArguments = 1024;

// Nothing thrown gets into a backend.
template <typename Function>
dra_code Guarded(dra_error* err, Function&& function) noexcept {
  try {
    return FromStatus(function(), err);
  } catch (const std::exception& error) {
    return FromStatus(absl::InternalError(absl::StrCat("host: ", error.what())), err);
  } catch (...) {
    return FromStatus(absl::InternalError("host: unknown exception"), err);
  }
}

void Answer(const dra_text_sink* sink, const std::string& text) {
  if (sink != nullptr && DRA_HAS(sink, dra_text_sink, set) && sink->set != nullptr) {
    sink->set(sink->ctx, View(text));
  }
}

}  // namespace

struct HostTable::Functions {
  static HostTable& Self(void* ctx) { return *static_cast<HostTable*>(ctx); }

  // For functions without an error: what cannot be done is dropped.
  template <typename Function>
  static void Quietly(void* ctx, Function&& function) noexcept {
    Guarded(nullptr, [&] {
      return Self(ctx).WithServices([&](HostServices& services) {
        function(services);
        return absl::OkStatus();
      });
    });
  }
  template <typename Function>
  static dra_code Do(void* ctx, dra_error* err, Function&& function) noexcept {
    return Guarded(err, [&] { return Self(ctx).WithServices(std::forward<Function>(function)); });
  }

  static void Log(void* ctx, int32_t level, dra_str text) noexcept {
    Quietly(ctx, [&](HostServices& services) {
      services.Log(std::clamp(level, 0, 4), Self(ctx).Shown(text));
    });
  }
  static void InventoryChanged(void* ctx) noexcept {
    Quietly(ctx, [](HostServices& services) { services.InventoryChanged(); });
  }
  static void HealthChanged(void* ctx) noexcept {
    Quietly(ctx, [](HostServices& services) { services.HealthChanged(); });
  }
  static void RequestRestart(void* ctx, dra_str reason) noexcept {
    Quietly(ctx, [&](HostServices& services) { services.RequestRestart(Self(ctx).Shown(reason)); });
  }

  static dra_code SaveUndo(void* ctx, uint64_t call_id, dra_str undo, dra_error* err) noexcept {
    return Do(ctx, err, [&](HostServices& services) -> absl::Status {
      DRA_ASSIGN_OR_RETURN(const auto hook, Self(ctx).FindCall(call_id));
      DRA_ASSIGN_OR_RETURN(const std::string bytes, CheckedBytes(undo, kMaxUndoBytes, "save_undo"));
      hook->AddSavedUndo(bytes);
      return services.SaveUndo(hook->claim_uid(), bytes);
    });
  }

  static dra_code UpdateDevice(void* ctx, const dra_device_update* update,
                               dra_error* err) noexcept {
    return Do(ctx, err, [&](HostServices& services) -> absl::Status {
      if (update == nullptr || !DRA_HAS(update, dra_device_update, status_json)) {
        return absl::InvalidArgumentError("update_device: the struct is too short");
      }
      DRA_ASSIGN_OR_RETURN(const std::string claim, CheckedText(update->claim_uid, kMaxTextBytes,
                                                                "update_device: claim_uid"));
      DRA_ASSIGN_OR_RETURN(const std::string pool,
                           CheckedText(update->pool, kMaxTextBytes, "update_device: pool"));
      DRA_ASSIGN_OR_RETURN(const std::string device,
                           CheckedText(update->device, kMaxTextBytes, "update_device: device"));
      DRA_ASSIGN_OR_RETURN(const std::string share,
                           CheckedText(update->share_id, kMaxTextBytes, "update_device: share_id"));
      DRA_ASSIGN_OR_RETURN(const Json status,
                           CheckedObject(update->status_json, "update_device: status_json"));
      return services.UpdateDevice(claim, pool, device, share, status);
    });
  }

  static dra_code NoteGet(void* ctx, dra_str identity, dra_str key, const dra_text_sink* sink,
                          dra_error* err) noexcept {
    return Do(ctx, err, [&](HostServices& services) -> absl::Status {
      DRA_ASSIGN_OR_RETURN(const std::string id,
                           CheckedText(identity, kMaxTextBytes, "note_get: identity"));
      DRA_ASSIGN_OR_RETURN(const std::string name,
                           CheckedText(key, kMaxTextBytes, "note_get: key"));
      DRA_ASSIGN_OR_RETURN(const std::string value, services.NoteGet(id, name));
      Answer(sink, value);
      return absl::OkStatus();
    });
  }
  static dra_code NotePut(void* ctx, dra_str identity, dra_str key, dra_str value,
                          dra_error* err) noexcept {
    return Do(ctx, err, [&](HostServices& services) -> absl::Status {
      DRA_ASSIGN_OR_RETURN(const std::string id,
                           CheckedText(identity, kMaxTextBytes, "note_put: identity"));
      DRA_ASSIGN_OR_RETURN(const std::string name,
                           CheckedText(key, kMaxTextBytes, "note_put: key"));
      if (id.empty() || !IsDnsLabel(name)) {
        return absl::InvalidArgumentError(
            absl::StrCat("note_put: identity \"", id, "\", key \"", name,
                         "\": give an identity and a key that is a DNS label"));
      }
      DRA_ASSIGN_OR_RETURN(const std::string text,
                           CheckedBytes(value, kMaxNoteBytes, "note_put: value"));
      return services.NotePut(id, name, text);
    });
  }

  static dra_code Held(void* ctx, uint64_t call_id, dra_str pool, dra_str device,
                       const dra_text_sink* sink, dra_error* err) noexcept {
    return Do(ctx, err, [&](HostServices& services) -> absl::Status {
      DRA_ASSIGN_OR_RETURN(const auto hook, Self(ctx).FindCall(call_id));
      DRA_ASSIGN_OR_RETURN(const std::string pool_name,
                           CheckedText(pool, kMaxTextBytes, "held: pool"));
      DRA_ASSIGN_OR_RETURN(const std::string name,
                           CheckedText(device, kMaxTextBytes, "held: device"));
      DRA_ASSIGN_OR_RETURN(const auto others, services.Held(hook->claim_uid(), pool_name, name));
      Answer(sink, OthersJson(others));
      return absl::OkStatus();
    });
  }

  static dra_code ClaimDirectory(void* ctx, uint64_t call_id, const dra_text_sink* sink,
                                 dra_error* err) noexcept {
    return Do(ctx, err, [&](HostServices& services) -> absl::Status {
      DRA_ASSIGN_OR_RETURN(const auto hook, Self(ctx).FindCall(call_id));
      DRA_ASSIGN_OR_RETURN(const std::string path, services.ClaimDirectory(hook->claim_uid()));
      Answer(sink, path);
      return absl::OkStatus();
    });
  }
  static dra_code SharedFile(void* ctx, uint64_t call_id, dra_str bytes, const dra_text_sink* sink,
                             dra_error* err) noexcept {
    return Do(ctx, err, [&](HostServices& services) -> absl::Status {
      DRA_ASSIGN_OR_RETURN(const auto hook, Self(ctx).FindCall(call_id));
      // Not copied: it may be a whole program, given with each claim.
      DRA_ASSIGN_OR_RETURN(const absl::string_view content,
                           CheckedView(bytes, kMaxSharedFileBytes, "shared_file"));
      DRA_ASSIGN_OR_RETURN(const std::string path, services.SharedFile(hook->claim_uid(), content));
      Answer(sink, path);
      return absl::OkStatus();
    });
  }

  static dra_code RunHelper(void* ctx, const dra_helper_args* args, const dra_helper_sink* sink,
                            dra_error* err) noexcept {
    return Do(ctx, err, [&](HostServices& services) -> absl::Status {
      if (args == nullptr || !DRA_HAS(args, dra_helper_args, argc)) {
        return absl::InvalidArgumentError("run_helper: the struct is too short");
      }
      if (args->argc == 0 || args->argc > kMaxHelperArguments || args->argv == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(
            "run_helper: ", args->argc, " arguments: give 1 to ", kMaxHelperArguments));
      }
      Call call = Call::WithTimeout(kDefaultHelperTime, Self(ctx).detached_.get_token());
      if (args->call_id != 0) {
        DRA_ASSIGN_OR_RETURN(const auto hook, Self(ctx).FindCall(args->call_id));
        call = hook->host_call();
      }
      if (args->deadline_ns != 0) {
        const MonotonicTime asked(std::chrono::duration_cast<MonotonicTime::duration>(
            std::chrono::nanoseconds(static_cast<int64_t>(args->deadline_ns))));
        if (args->call_id == 0 || !call.deadline || asked < *call.deadline) call.deadline = asked;
      }
      std::vector<std::string> argv;
      for (size_t i = 0; i < args->argc; ++i) {
        DRA_ASSIGN_OR_RETURN(
            std::string argument,
            CheckedBytes(args->argv[i], kMaxNoteBytes, absl::StrCat("run_helper: argv[", i, "]")));
        if (argument.find('\0') != std::string::npos) {
          return absl::InvalidArgumentError(
              absl::StrCat("run_helper: argv[", i, "] has a NUL byte"));
        }
        argv.push_back(std::move(argument));
      }
      DRA_ASSIGN_OR_RETURN(const HostServices::HelperResult result, services.RunHelper(argv, call));
      if (sink != nullptr && DRA_HAS(sink, dra_helper_sink, set) && sink->set != nullptr) {
        sink->set(sink->ctx, result.exit_code, View(result.output));
      }
      return absl::OkStatus();
    });
  }

  static const void* GetExtension(void*, const char*) noexcept { return nullptr; }
};

HostTable::HostTable(HostServices* services) : services_(services) {
  table_.struct_size = sizeof(table_);
  table_.abi_major = DRA_ABI_MAJOR;
  table_.abi_minor = DRA_ABI_MINOR;
  table_.ctx = this;
  table_.log = &Functions::Log;
  table_.inventory_changed = &Functions::InventoryChanged;
  table_.health_changed = &Functions::HealthChanged;
  table_.save_undo = &Functions::SaveUndo;
  table_.update_device = &Functions::UpdateDevice;
  table_.note_get = &Functions::NoteGet;
  table_.note_put = &Functions::NotePut;
  table_.held = &Functions::Held;
  table_.claim_dir = &Functions::ClaimDirectory;
  table_.shared_file = &Functions::SharedFile;
  table_.run_helper = &Functions::RunHelper;
  table_.request_restart = &Functions::RequestRestart;
  table_.get_extension = &Functions::GetExtension;
}

HostTable* HostTable::Make(HostServices* services) {
  return KeepForever(std::make_unique<HostTable>(services));
}

void HostTable::Begin(std::shared_ptr<RunningHook> hook) {
  const std::lock_guard lock(mutex_);
  const uint64_t id = hook->id();
  calls_.emplace(id, std::move(hook));
}

void HostTable::End(uint64_t call_id) {
  std::shared_ptr<RunningHook> ended;  // freed outside of the lock
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(call_id);
  if (found == calls_.end()) return;
  ended = std::move(found->second);
  calls_.erase(found);
}

void HostTable::Detach() {
  detached_.request_stop();
  std::unique_lock lock(mutex_);
  services_ = nullptr;
  idle_.wait(lock, [this] { return active_ == 0; });
}

template <typename Function>
absl::Status HostTable::WithServices(Function&& function) {
  HostServices* services = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (services_ == nullptr) {
      return absl::FailedPreconditionError(
          "host: this backend instance was destroyed: stop its threads in destroy");
    }
    services = services_;
    ++active_;
  }
  struct Leave {
    HostTable* self;
    ~Leave() {
      const std::lock_guard lock(self->mutex_);
      if (--self->active_ == 0) self->idle_.notify_all();
    }
  };
  const Leave leave{this};
  return function(*services);
}

std::string HostTable::Shown(dra_str text) {
  std::vector<std::shared_ptr<RunningHook>> running;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, hook] : calls_) running.push_back(hook);
  }
  std::string shown = ShownText(text);
  for (const auto& hook : running) shown = hook->Scrub(std::move(shown));
  return shown;
}

absl::StatusOr<std::shared_ptr<RunningHook>> HostTable::FindCall(uint64_t call_id) {
  const std::lock_guard lock(mutex_);
  const auto found = calls_.find(call_id);
  if (found == calls_.end()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "host: call ", call_id, " is over: per-call functions work only while its hook runs"));
  }
  if (found->second->abandoned()) {
    return absl::DeadlineExceededError(absl::StrCat(
        "host: call ", call_id, " overran its limit: undo what is half done and return"));
  }
  return found->second;
}

}  // namespace dra::loader
