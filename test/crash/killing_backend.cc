// A backend that is another one (DRA_REAL_BACKEND) with a kill point before and after every hook and every host function,
// that tells what undo data it saves, and answers reconcile_record as it is told. All that are functions of the program
// that loads it (crash_daemon); in any other program it does nothing of its own. The fake backend keeps the log of its
// hooks itself; for another one (DRA_REAL_IS_FAKE 0) this one keeps it.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <string>

#include "dra/backend/abi.h"

namespace {

using KillPoint = void (*)(const char* label);

void Reach(const char* label) {
  static const auto point =
      reinterpret_cast<KillPoint>(::dlsym(RTLD_DEFAULT, "dra_crash_kill_point"));
  if (point != nullptr) point(label);
}

void Note(const char* event, const std::string& claim, dra_str undo) {
  static const auto note = reinterpret_cast<void (*)(const char*, const char*, const char*)>(
      ::dlsym(RTLD_DEFAULT, "dra_crash_note"));
  if (note != nullptr) note(event, claim.c_str(), std::string(undo.data, undo.size).c_str());
}

constexpr bool kIsFake = DRA_REAL_IS_FAKE != 0;

// The beginning of a hook of a claim, and its end, in the hook log.
void NoteBegin(const char* hook, const std::string& claim, dra_str devices_json) {
  static const auto note = reinterpret_cast<void (*)(const char*, const char*, const char*)>(
      ::dlsym(RTLD_DEFAULT, "dra_crash_note_begin"));
  if (kIsFake || note == nullptr) return;
  note(hook, claim.c_str(), std::string(devices_json.data, devices_json.size).c_str());
}

dra_code NoteEnd(const char* hook, const std::string& claim, dra_code code) {
  static const auto note = reinterpret_cast<void (*)(const char*, const char*, int32_t)>(
      ::dlsym(RTLD_DEFAULT, "dra_crash_note_end"));
  if (!kIsFake && note != nullptr) note(hook, claim.c_str(), code);
  return code;
}

std::string VerdictFor(const std::string& claim) {
  static const auto verdict =
      reinterpret_cast<const char* (*)(const char*)>(::dlsym(RTLD_DEFAULT, "dra_crash_verdict"));
  return verdict == nullptr ? "" : verdict(claim.c_str());
}

thread_local std::string t_claim;  // of the hook that runs

// What stands before and after one call.
class Boundary {
 public:
  Boundary(const char* kind, const char* name) : label_(std::string(kind) + " " + name) {
    Reach((label_ + " before").c_str());
  }
  ~Boundary() { Reach((label_ + " after").c_str()); }
  Boundary(const Boundary&) = delete;
  Boundary& operator=(const Boundary&) = delete;

 private:
  const std::string label_;
};

const dra_backend_api* Real(uint32_t major) {
  void* library = ::dlopen(DRA_REAL_BACKEND, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  const auto entry = reinterpret_cast<dra_backend_entry_fn>(::dlsym(library, "dra_backend_entry"));
  return entry == nullptr ? nullptr : entry(major);
}

const dra_backend_api* g_real = nullptr;
std::atomic<const dra_host*> g_host = nullptr;

const dra_host& Host() { return *g_host.load(); }

// The host's table with a boundary around each function; ctx is the host's own.
dra_host WrappedHost(const dra_host& host) {
  dra_host wrapped = host;
  wrapped.struct_size = sizeof(wrapped) < host.struct_size ? sizeof(wrapped) : host.struct_size;
  wrapped.inventory_changed = [](void* ctx) {
    const Boundary boundary("host", "inventory_changed");
    Host().inventory_changed(ctx);
  };
  wrapped.health_changed = [](void* ctx) {
    const Boundary boundary("host", "health_changed");
    Host().health_changed(ctx);
  };
  wrapped.save_undo = [](void* ctx, uint64_t call, dra_str undo, dra_error* err) {
    const Boundary boundary("host", "save_undo");
    Note("saving", t_claim, undo);
    const dra_code saved = Host().save_undo(ctx, call, undo, err);
    if (saved == DRA_OK) Note("saved", t_claim, undo);
    return saved;
  };
  wrapped.update_device = [](void* ctx, const dra_device_update* update, dra_error* err) {
    const Boundary boundary("host", "update_device");
    return Host().update_device(ctx, update, err);
  };
  wrapped.note_get = [](void* ctx, dra_str identity, dra_str key, const dra_text_sink* value,
                        dra_error* err) {
    const Boundary boundary("host", "note_get");
    return Host().note_get(ctx, identity, key, value, err);
  };
  wrapped.note_put = [](void* ctx, dra_str identity, dra_str key, dra_str value, dra_error* err) {
    const Boundary boundary("host", "note_put");
    return Host().note_put(ctx, identity, key, value, err);
  };
  wrapped.held = [](void* ctx, uint64_t call, dra_str pool, dra_str device,
                    const dra_text_sink* claims, dra_error* err) {
    const Boundary boundary("host", "held");
    return Host().held(ctx, call, pool, device, claims, err);
  };
  wrapped.claim_dir = [](void* ctx, uint64_t call, const dra_text_sink* path, dra_error* err) {
    const Boundary boundary("host", "claim_dir");
    return Host().claim_dir(ctx, call, path, err);
  };
  wrapped.shared_file = [](void* ctx, uint64_t call, dra_str bytes, const dra_text_sink* path,
                           dra_error* err) {
    const Boundary boundary("host", "shared_file");
    return Host().shared_file(ctx, call, bytes, path, err);
  };
  wrapped.run_helper = [](void* ctx, const dra_helper_args* args, const dra_helper_sink* sink,
                          dra_error* err) {
    const Boundary boundary("host", "run_helper");
    return Host().run_helper(ctx, args, sink, err);
  };
  wrapped.request_restart = [](void* ctx, dra_str reason) {
    const Boundary boundary("host", "request_restart");
    Host().request_restart(ctx, reason);
  };
  return wrapped;
}

dra_code Create(const dra_host* host, const dra_call* call, const dra_create_args* args,
                dra_backend** out, dra_error* err) {
  const Boundary boundary("hook", "create");
  g_host = host;
  // One for each instance, kept: a host's table is valid until the process ends.
  static std::list<dra_host> tables;
  tables.push_back(WrappedHost(*host));
  return g_real->create(&tables.back(), call, args, out, err);
}

std::string UidOf(const dra_claim* claim) { return {claim->uid.data, claim->uid.size}; }

// With the fake backend a shared file that none of its devices needs, kept by every claim that is prepared: so that its
// way through the records is walked too.
dra_code Prepare(dra_backend* self, const dra_call* call, const dra_prepare_args* args,
                 const dra_prepare_sink* sink, dra_error* err) {
  const Boundary boundary("hook", "prepare");
  t_claim = UidOf(args->claim);
  NoteBegin("prepare", t_claim, args->devices_json);
  if (kIsFake) {
    const dra_text_sink ignore = {sizeof(dra_text_sink), nullptr, [](void*, dra_str) {}};
    static const char kBytes[] = "#!/bin/true\n";
    const Boundary shared("host", "shared_file");
    const dra_code stored =
        Host().shared_file(Host().ctx, call->id, {kBytes, sizeof(kBytes) - 1}, &ignore, err);
    if (stored != DRA_OK) return stored;
  }
  return NoteEnd("prepare", t_claim, g_real->prepare(self, call, args, sink, err));
}

constexpr uint32_t kDevicesOfVerdict = 2;  // of the claims that get new edits
// With a host path, which needs the same version of CDI whatever the claim's UID begins with.
std::string NewEdits(uint32_t index) {
  return R"({"env":["RECONCILED=1"],"deviceNodes":[{"hostPath":"/dev/null","path":"/dev/renewed)" +
         std::to_string(index) + R"("}]})";
}

dra_code ReconcileRecord(dra_backend* self, const dra_call* call, const dra_reconcile_args* args,
                         const dra_reconcile_sink* sink, dra_error* err) {
  const Boundary boundary("hook", "reconcile_record");
  const std::string verdict = VerdictFor(UidOf(args->claim));
  if (verdict.empty()) return g_real->reconcile_record(self, call, args, sink, err);
  // The real one hears of the claim, so that it does not take its hardware for a leftover.
  const dra_reconcile_sink ignore = {sizeof(dra_reconcile_sink), nullptr, [](void*, int32_t) {},
                                     [](void*, uint32_t, dra_str) {}, [](void*, dra_str) {}};
  const dra_code heard = g_real->reconcile_record(self, call, args, &ignore, err);
  if (heard != DRA_OK) return heard;
  if (verdict == "edits") {
    sink->set_verdict(sink->ctx, DRA_RECONCILE_TRUE_WITH_EDITS);
    for (uint32_t i = 0; i < kDevicesOfVerdict; ++i) {
      const std::string edits = NewEdits(i);
      sink->emit_device_edits(sink->ctx, i, {edits.data(), edits.size()});
    }
    return DRA_OK;
  }
  sink->set_verdict(sink->ctx, verdict == "redo" ? DRA_RECONCILE_REDO : DRA_RECONCILE_LOST);
  return DRA_OK;
}

dra_backend_api WrappedApi(const dra_backend_api& real) {
  dra_backend_api api = real;
  api.struct_size = sizeof(api) < real.struct_size ? sizeof(api) : real.struct_size;
  api.create = Create;
  api.destroy = [](dra_backend* self, const dra_call* call, dra_error* err) {
    const Boundary boundary("hook", "destroy");
    return g_real->destroy(self, call, err);
  };
  api.discover = [](dra_backend* self, const dra_call* call, const dra_discover_args* args,
                    const dra_discover_sink* sink, dra_error* err) {
    const Boundary boundary("hook", "discover");
    return g_real->discover(self, call, args, sink, err);
  };
  if (real.validate_config != nullptr) {
    api.validate_config = [](dra_backend* self, const dra_call* call, const dra_validate_args* args,
                             dra_error* err) {
      const Boundary boundary("hook", "validate_config");
      return g_real->validate_config(self, call, args, err);
    };
  }
  api.prepare = Prepare;
  api.unprepare = [](dra_backend* self, const dra_call* call, const dra_unprepare_args* args,
                     dra_error* err) {
    const Boundary boundary("hook", "unprepare");
    t_claim = UidOf(args->claim);
    NoteBegin("unprepare", t_claim, args->devices_json);
    return NoteEnd("unprepare", t_claim, g_real->unprepare(self, call, args, err));
  };
  api.reconcile_begin = [](dra_backend* self, const dra_call* call,
                           const dra_reconcile_bound_args* args, dra_error* err) {
    const Boundary boundary("hook", "reconcile_begin");
    return g_real->reconcile_begin(self, call, args, err);
  };
  api.reconcile_record = ReconcileRecord;
  api.reconcile_end = [](dra_backend* self, const dra_call* call,
                         const dra_reconcile_bound_args* args, dra_error* err) {
    const Boundary boundary("hook", "reconcile_end");
    return g_real->reconcile_end(self, call, args, err);
  };
  if (real.busy != nullptr) {
    api.busy = [](dra_backend* self, const dra_call* call, const dra_busy_args* args,
                  const dra_busy_sink* sink, dra_error* err) {
      const Boundary boundary("hook", "busy");
      return g_real->busy(self, call, args, sink, err);
    };
  }
  if (real.health != nullptr) {
    api.health = [](dra_backend* self, const dra_call* call, const dra_health_args* args,
                    const dra_health_sink* sink, dra_error* err) {
      const Boundary boundary("hook", "health");
      return g_real->health(self, call, args, sink, err);
    };
  }
  return api;
}

}  // namespace

extern "C" DRA_EXPORT const dra_backend_api* dra_backend_entry(uint32_t host_major) {
  static const dra_backend_api* const real = Real(host_major);
  if (real == nullptr) return nullptr;
  g_real = real;
  static const dra_backend_api api = WrappedApi(*real);
  return &api;
}
