// A backend that misbehaves on demand, written straight against the C header: throws across it, hangs, answers junk.
// Configuration: {"<hook>": "<behaviour>", "dir": "<directory for files>"}; see Misbehave and each hook.
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "dra/backend/abi.h"
#include "nlohmann/json.hpp"

namespace {

using Json = nlohmann::json;

struct OwnType {
  int value = 1;
};

// Destroyed when the thread ends that ran a hook, long after the backend was destroyed.
struct AtThreadEnd {
  std::string text = "still here";
  ~AtThreadEnd() { text.clear(); }
};
thread_local AtThreadEnd at_thread_end;

struct Instance {
  const dra_host* host = nullptr;
  Json config;
  std::thread late;

  std::string Behaviour(const char* hook) const {
    const auto found = config.find(hook);
    return found != config.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
  std::filesystem::path File(const char* name) const {
    return std::filesystem::path(config.at("dir").get<std::string>()) / name;
  }
};

dra_str View(const std::string& text) { return {text.data(), text.size()}; }
Instance& Self(dra_backend* self) { return *reinterpret_cast<Instance*>(self); }

void WaitForFile(const std::filesystem::path& path) {
  while (!std::filesystem::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

dra_code Fail(dra_error* err, dra_code code, const std::string& text) {
  err->code = code;
  text.copy(err->message, sizeof(err->message) - 1);
  return code;
}

// The behaviours that every hook has.
dra_code Misbehave(const Instance& self, const char* hook, const dra_call* call, dra_error* err) {
  static_cast<void>(at_thread_end.text.size());
  const std::string behaviour = self.Behaviour(hook);
  if (behaviour == "throw_std") throw std::runtime_error("thrown in " + std::string(hook));
  if (behaviour == "throw_int") throw 7;
  if (behaviour == "throw_own") throw OwnType();
  if (behaviour == "fail") return Fail(err, DRA_UNAVAILABLE, "card is resetting");
  if (behaviour == "bad_code") return 4711;
  if (behaviour == "unterminated") {
    std::fill(std::begin(err->message), std::end(err->message), 'x');
    return DRA_INTERNAL;
  }
  if (behaviour == "hang") {
    std::ofstream(self.File("hangs")) << hook;
    WaitForFile(self.File("go"));
  }
  if (behaviour == "until_cancelled") {
    std::ofstream(self.File("waits")) << hook;
    pollfd watched = {call->cancel_fd, POLLIN, 0};
    ::poll(&watched, 1, 60000);
    return call->cancelled(call->ctx) != 0
               ? Fail(err, DRA_CANCELLED, "saw the cancellation")
               : Fail(err, DRA_INTERNAL, "woken without a cancellation");
  }
  return DRA_OK;
}

dra_code Create(const dra_host* host, const dra_call* call, const dra_create_args* args,
                dra_backend** out, dra_error* err) {
  auto made = std::make_unique<Instance>();
  made->host = host;
  made->config =
      Json::parse(args->config_json.data, args->config_json.data + args->config_json.size);
  if (const dra_code code = Misbehave(*made, "create", call, err); code != DRA_OK) return code;
  if (made->Behaviour("create") == "no_instance") return DRA_OK;
  *out = reinterpret_cast<dra_backend*>(made.release());
  return DRA_OK;
}

dra_code Destroy(dra_backend* self, const dra_call* call, dra_error* err) {
  std::unique_ptr<Instance> instance(&Self(self));
  // Against the contract, a thread stays.
  if (instance->late.joinable()) instance->late.detach();
  return Misbehave(*instance, "destroy", call, err);
}

dra_code Describe(dra_backend* self, const dra_call*, const dra_describe_args*,
                  const dra_text_sink* sink, dra_error*) {
  const bool parallel = self != nullptr && Self(self).config.value("parallel", false);
  const std::string text = Json({{"name", "hostile"},
                                 {"version", "1"},
                                 {"parallel", parallel},
                                 {"hook_limits", {{"busy", 0.5}}}})
                               .dump();
  sink->set(sink->ctx, View(text));
  return DRA_OK;
}

void Emit(const dra_discover_sink* sink, const std::string& json, const std::string& identity) {
  dra_device device = {};
  device.struct_size = sizeof(device);
  device.device_json = View(json);
  device.identity = View(identity);
  sink->emit_device(sink->ctx, &device);
}

dra_code Discover(dra_backend* self, const dra_call* call, const dra_discover_args*,
                  const dra_discover_sink* sink, dra_error* err) {
  if (const dra_code code = Misbehave(Self(self), "discover", call, err); code != DRA_OK)
    return code;
  Emit(sink, R"({"name": "good", "attributes": {}})", "serial-1");
  if (Self(self).Behaviour("discover") == "junk") {
    Emit(sink, "{not json", "serial-2");
    Emit(sink, "[1]", "serial-3");
    Emit(sink, "{\"name\": \"bad-utf8\", \"x\": \"\xff\"}", "serial-4");
    Emit(sink, R"({"name": "Upper"})", "serial-5");
    Emit(sink, R"({"name": "good"})", "serial-6");
    Emit(sink, R"({"name": "no-identity"})", "");
    Emit(sink, "{\"name\":\"deep\",\"x\":" + std::string(100, '[') + std::string(100, ']') + "}",
         "serial-7");
    Emit(sink, "{\"name\":\"long\",\"x\":\"" + std::string(2 << 20, 'a') + "\"}", "serial-8");
    dra_device shorter = {};
    shorter.struct_size = sizeof(uint32_t);
    sink->emit_device(sink->ctx, &shorter);
    const dra_str null_text = {nullptr, 99};
    sink->emit_counter_set(sink->ctx, null_text, null_text);
    sink->set_slice_fields(sink->ctx, null_text, null_text);
  }
  return DRA_OK;
}

void EmitPrepared(const dra_prepare_sink* sink, uint32_t index, const std::string& edits) {
  dra_prepared_device device = {};
  device.struct_size = sizeof(device);
  device.index = index;
  device.edits_json = View(edits);
  sink->emit_device(sink->ctx, &device);
}

// Calls the host with an id whose hook is over, when the test says so; writes the codes down.
void CallLate(const dra_host* host, uint64_t call_id, const std::filesystem::path& go,
              const std::filesystem::path& result) {
  WaitForFile(go);
  dra_error err = {};
  err.struct_size = sizeof(err);
  const std::string undo = "late";
  host->log(host->ctx, 2, View(undo));
  host->inventory_changed(host->ctx);
  const dra_code code = host->save_undo(host->ctx, call_id, View(undo), &err);
  std::ofstream(result.string() + ".tmp") << code << ' ' << err.message;
  std::filesystem::rename(result.string() + ".tmp", result);
}

dra_code Prepare(dra_backend* self, const dra_call* call, const dra_prepare_args* args,
                 const dra_prepare_sink* sink, dra_error* err) {
  Instance& instance = Self(self);
  const std::string behaviour = instance.Behaviour("prepare");
  if (behaviour == "late" && !instance.late.joinable()) {
    instance.late = std::thread(CallLate, instance.host, call->id, instance.File("go"),
                                instance.File("result"));
  }
  if (const dra_code code = Misbehave(instance, "prepare", call, err); code != DRA_OK) return code;
  if (behaviour == "hang") {
    // The host has given up on this call: what it says of that is written down.
    const dra_code code = instance.host->save_undo(instance.host->ctx, call->id, {"x", 1}, err);
    std::ofstream(instance.File("after.tmp")) << code;
    std::filesystem::rename(instance.File("after.tmp"), instance.File("after"));
  }
  const size_t count =
      Json::parse(args->devices_json.data, args->devices_json.data + args->devices_json.size)
          .size();
  if (behaviour == "undo") {
    const std::string undo("undo\0bytes", 10);
    return instance.host->save_undo(instance.host->ctx, call->id, View(undo), err);
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (behaviour == "few" && i == 1) break;
    EmitPrepared(sink, i,
                 behaviour == "edits_no_object" ? "[]"
                 : behaviour == "edits_junk"    ? "{"
                                                : R"({"env": ["A=1"]})");
  }
  if (behaviour == "twice") EmitPrepared(sink, 0, "{}");
  if (behaviour == "many") EmitPrepared(sink, static_cast<uint32_t>(count), "{}");
  return DRA_OK;
}

dra_code Unprepare(dra_backend* self, const dra_call* call, const dra_unprepare_args*,
                   dra_error* err) {
  return Misbehave(Self(self), "unprepare", call, err);
}

dra_code Busy(dra_backend* self, const dra_call* call, const dra_busy_args*,
              const dra_busy_sink* sink, dra_error* err) {
  if (const dra_code code = Misbehave(Self(self), "busy", call, err); code != DRA_OK) return code;
  if (Self(self).Behaviour("busy") != "silent") {
    sink->set(sink->ctx, Self(self).Behaviour("busy") == "junk" ? 99 : DRA_BUSY_BUSY);
  }
  return DRA_OK;
}

dra_code Health(dra_backend* self, const dra_call* call, const dra_health_args*,
                const dra_health_sink* sink, dra_error* err) {
  if (const dra_code code = Misbehave(Self(self), "health", call, err); code != DRA_OK) return code;
  const std::string behaviour = Self(self).Behaviour("health");
  const std::string name = behaviour == "junk" ? "\xff" : "good";
  dra_device_health report = {};
  report.struct_size = sizeof(report);
  report.device = View(name);
  report.state = DRA_HEALTH_HEALTHY;
  if (behaviour.rfind("severity", 0) == 0) {
    report.state = DRA_HEALTH_UNHEALTHY;
    report.severity = std::stoi(behaviour.substr(8));
  }
  // As a library of 1.0 has it, whatever lies behind.
  if (behaviour == "severity3 of 1.0") report.struct_size = offsetof(dra_device_health, severity);
  sink->emit(sink->ctx, &report);
  return DRA_OK;
}

}  // namespace

const dra_backend_api* dra_backend_entry(uint32_t) {
  static const dra_backend_api api = [] {
    dra_backend_api made = {};
    made.struct_size = sizeof(made);
    made.abi_major = DRA_ABI_MAJOR;
    made.abi_minor = DRA_ABI_MINOR;
    made.create = &Create;
    made.destroy = &Destroy;
    made.describe = &Describe;
    made.discover = &Discover;
    made.prepare = &Prepare;
    made.unprepare = &Unprepare;
    made.busy = &Busy;
    made.health = &Health;
    return made;
  }();
  return &api;
}
