#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dra/backend/abi.h"
#include "dra/backend/error.h"
#include "nlohmann/json.hpp"

namespace dra {

using Json = nlohmann::json;

// The call a hook runs in: until when, and whether anybody still waits. Lives as long as the hook;
// any thread.
class HookCall {
 public:
  explicit HookCall(const dra_call* call) : call_(call) {}

  // Names the call to Host's functions. A thread that outlives the hook may keep it: it is refused
  // then.
  uint64_t id() const { return DRA_HAS(call_, dra_call, id) ? call_->id : 0; }

  // Monotonic; nullopt: no deadline.
  std::optional<std::chrono::steady_clock::time_point> deadline() const {
    if (!DRA_HAS(call_, dra_call, deadline_ns) || call_->deadline_ns == 0) return std::nullopt;
    return std::chrono::steady_clock::time_point(
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(
            std::chrono::nanoseconds(call_->deadline_ns)));
  }
  // Time left, 0 when over, nanoseconds::max() without a deadline.
  std::chrono::nanoseconds Remaining() const {
    const auto end = deadline();
    if (!end) return std::chrono::nanoseconds::max();
    const auto now = std::chrono::steady_clock::now();
    return *end > now ? std::chrono::nanoseconds(*end - now) : std::chrono::nanoseconds(0);
  }

  bool cancelled() const {
    return DRA_HAS(call_, dra_call, cancelled) && call_->cancelled != nullptr &&
           call_->cancelled(call_->ctx) != 0;
  }
  // Readable once cancelled, for poll; -1 if there is none.
  int cancel_fd() const { return DRA_HAS(call_, dra_call, cancel_fd) ? call_->cancel_fd : -1; }

  // Throws DRA_CANCELLED or DRA_DEADLINE_EXCEEDED if the call is over; for long loops.
  void Check(const std::string& what) const {
    if (cancelled()) throw BackendError(DRA_CANCELLED, what + ": cancelled");
    if (Remaining().count() == 0)
      throw BackendError(DRA_DEADLINE_EXCEEDED, what + ": deadline exceeded");
  }

 private:
  const dra_call* call_;
};

enum class Severity : int32_t { kTrace = 0, kDebug, kInfo, kWarn, kError };

struct HelperOutput {
  int exit_code = 0;   // 128 + signal when killed
  std::string output;  // stdout and stderr, at most 64 KiB
};

// What the host does for a backend; dra_host of abi.h has each function's contract. Copyable; any
// thread; functions throw BackendError with the host's code, DRA_UNIMPLEMENTED if this host does
// not have the function.
class Host {
 public:
  explicit Host(const dra_host* host) : host_(host) {}

  // Never throws.
  void Log(Severity severity, const std::string& text) const noexcept {
    if (DRA_HAS(host_, dra_host, log) && host_->log != nullptr) {
      host_->log(host_->ctx, static_cast<int32_t>(severity), ToStr(text));
    }
  }
  void InventoryChanged() const noexcept {
    if (DRA_HAS(host_, dra_host, inventory_changed) && host_->inventory_changed != nullptr) {
      host_->inventory_changed(host_->ctx);
    }
  }
  void HealthChanged() const noexcept {
    if (DRA_HAS(host_, dra_host, health_changed) && host_->health_changed != nullptr) {
      host_->health_changed(host_->ctx);
    }
  }

  void SaveUndo(const HookCall& call, const std::string& undo) const {
    Need(DRA_HAS(host_, dra_host, save_undo) && host_->save_undo, "save_undo");
    Run([&](dra_error* err) { return host_->save_undo(host_->ctx, call.id(), ToStr(undo), err); });
  }

  // pool is the suffix, share_id "" if there is none. status: AllocatedDeviceStatus members.
  void UpdateDevice(const std::string& claim_uid, const std::string& pool,
                    const std::string& device, const std::string& share_id,
                    const Json& status) const {
    Need(DRA_HAS(host_, dra_host, update_device) && host_->update_device, "update_device");
    const std::string text = status.dump();
    dra_device_update update = {};
    update.struct_size = sizeof(update);
    update.claim_uid = ToStr(claim_uid);
    update.pool = ToStr(pool);
    update.device = ToStr(device);
    update.share_id = ToStr(share_id);
    update.status_json = ToStr(text);
    Run([&](dra_error* err) { return host_->update_device(host_->ctx, &update, err); });
  }

  // nullopt if there is no such note.
  std::optional<std::string> NoteGet(const std::string& identity, const std::string& key) const {
    Need(DRA_HAS(host_, dra_host, note_get) && host_->note_get, "note_get");
    // Most looks find nothing, and an exception for each would be the dearest part of a hook.
    return TextUnlessNotFound([&](const dra_text_sink* sink, dra_error* err) {
      return host_->note_get(host_->ctx, ToStr(identity), ToStr(key), sink, err);
    });
  }
  void NotePut(const std::string& identity, const std::string& key,
               const std::string& value) const {
    Need(DRA_HAS(host_, dra_host, note_put) && host_->note_put, "note_put");
    Run([&](dra_error* err) {
      return host_->note_put(host_->ctx, ToStr(identity), ToStr(key), ToStr(value), err);
    });
  }

  // Array of {"claimUID","device","shareID","adminAccess"}.
  Json Held(const HookCall& call, const std::string& pool, const std::string& device) const {
    Need(DRA_HAS(host_, dra_host, held) && host_->held, "held");
    return Json::parse(Text([&](const dra_text_sink* sink, dra_error* err) {
      return host_->held(host_->ctx, call.id(), ToStr(pool), ToStr(device), sink, err);
    }));
  }

  std::string ClaimDirectory(const HookCall& call) const {
    Need(DRA_HAS(host_, dra_host, claim_dir) && host_->claim_dir, "claim_dir");
    return Text([&](const dra_text_sink* sink, dra_error* err) {
      return host_->claim_dir(host_->ctx, call.id(), sink, err);
    });
  }
  std::string SharedFile(const HookCall& call, std::string_view bytes) const {
    Need(DRA_HAS(host_, dra_host, shared_file) && host_->shared_file, "shared_file");
    return Text([&](const dra_text_sink* sink, dra_error* err) {
      return host_->shared_file(host_->ctx, call.id(), ToStr(bytes.data(), bytes.size()), sink,
                                err);
    });
  }

  // argv[0] is an absolute path. Ends with the call at the latest.
  HelperOutput RunHelper(const HookCall& call, const std::vector<std::string>& argv) const {
    Need(DRA_HAS(host_, dra_host, run_helper) && host_->run_helper, "run_helper");
    std::vector<dra_str> views;
    for (const std::string& argument : argv) views.push_back(ToStr(argument));
    dra_helper_args args = {};
    args.struct_size = sizeof(args);
    args.call_id = call.id();
    args.argv = views.data();
    args.argc = views.size();
    HelperOutput result;
    dra_helper_sink sink = {};
    sink.struct_size = sizeof(sink);
    sink.ctx = &result;
    sink.set = [](void* ctx, int32_t exit_code, dra_str output) noexcept {
      auto* into = static_cast<HelperOutput*>(ctx);
      into->exit_code = exit_code;
      into->output = FromStr(output);
    };
    Run([&](dra_error* err) { return host_->run_helper(host_->ctx, &args, &sink, err); });
    return result;
  }

  void RequestRestart(const std::string& reason) const {
    Need(DRA_HAS(host_, dra_host, request_restart) && host_->request_restart, "request_restart");
    host_->request_restart(host_->ctx, ToStr(reason));
  }

  // An optional group, or nullptr.
  const void* GetExtension(const std::string& id) const noexcept {
    if (!DRA_HAS(host_, dra_host, get_extension) || host_->get_extension == nullptr) return nullptr;
    return host_->get_extension(host_->ctx, id.c_str());
  }

 private:
  static void Need(bool present, const char* name) {
    if (!present) {
      throw BackendError(DRA_UNIMPLEMENTED,
                         std::string("this host has no ") + name + ": update dra-driver");
    }
  }
  template <typename Function>
  static void Run(Function&& function) {
    dra_error err = {};
    err.struct_size = sizeof(err);
    const dra_code code = function(&err);
    if (code != DRA_OK) throw BackendError(code, err.message);
  }
  static dra_text_sink SinkInto(std::string& text) {
    dra_text_sink sink = {};
    sink.struct_size = sizeof(sink);
    sink.ctx = &text;
    sink.set = [](void* ctx, dra_str value) noexcept {
      *static_cast<std::string*>(ctx) = FromStr(value);
    };
    return sink;
  }
  template <typename Function>
  static std::optional<std::string> TextUnlessNotFound(Function&& function) {
    std::string text;
    const dra_text_sink sink = SinkInto(text);
    bool found = true;
    Run([&](dra_error* err) {
      const dra_code code = function(&sink, err);
      found = code != DRA_NOT_FOUND;
      return found ? code : DRA_OK;
    });
    return found ? std::optional<std::string>(std::move(text)) : std::nullopt;
  }
  template <typename Function>
  static std::string Text(Function&& function) {
    std::string text;
    const dra_text_sink sink = SinkInto(text);
    Run([&](dra_error* err) { return function(&sink, err); });
    return text;
  }

  const dra_host* host_;
};

}  // namespace dra
