// The library's one symbol. The table is the one of DRA_BACKEND with its answers put through a filter: where the
// control file asks for junk, the hook breaks the contract of dra/backend/abi.h, as dra::Backend itself never would.

#include <string>

#include "dra/backend/backend.h"
#include "fake_backend.h"

namespace fake {
namespace {

using dra::FromStr;
using dra::ToStr;
using dra::backend_internal::Guard;

constexpr dra_code kBadCode = 9999;
constexpr int32_t kBadNumber = 77;
constexpr uint32_t kBadIndex = 4000000000u;

const dra_backend_api& Plain() { return *dra::backend_internal::Table<FakeBackend>(); }

FakeBackend& Self(dra_backend* self) {
  return static_cast<FakeBackend&>(*reinterpret_cast<dra::Backend*>(self));
}

// A text that is wrong in the way `junk` says.
std::string BadText(const std::string& junk) {
  if (junk == "notUtf8") return std::string("{\"name\":\"\xff\xfe\"}");
  if (junk == "wrongType") return "[7]";
  return "{not json";
}

// Runs `answer(junk)` if the control file asks for junk, else `plain`.
template <typename Answer, typename PlainHook>
dra_code Filter(dra_backend* self, const char* hook, const std::string& claim_uid, dra_error* err,
                Answer&& answer, PlainHook&& plain) noexcept {
  std::string junk;
  const dra_code looked = Guard(err, [&] { junk = Self(self).TakeJunk(hook, claim_uid); });
  if (looked != DRA_OK) return looked;
  if (junk.empty()) return plain();
  if (junk == "badCode") return kBadCode;
  if (junk == "nothing") return DRA_OK;
  return Guard(err, [&] {
    answer(junk);
    if (junk == "twice") answer(junk);
  });
}

dra_str Bad(const std::string& junk, const std::string& text) {
  return junk == "nullText" ? dra_str{nullptr, 64} : ToStr(text);
}

dra_code Describe(dra_backend* self, const dra_call* call, const dra_describe_args* args,
                  const dra_text_sink* sink, dra_error* err) noexcept {
  if (self == nullptr) return Plain().describe(self, call, args, sink, err);
  return Filter(
      self, "describe", "", err,
      [&](const std::string& junk) {
        const std::string text = BadText(junk);
        sink->set(sink->ctx, Bad(junk, text));
      },
      [&] {
        return Guard(err, [&] {
          const std::string text = Self(self).InstanceManifest().ToJson().dump();
          sink->set(sink->ctx, ToStr(text));
        });
      });
}

dra_code Discover(dra_backend* self, const dra_call* call, const dra_discover_args* args,
                  const dra_discover_sink* sink, dra_error* err) noexcept {
  return Filter(
      self, "discover", "", err,
      [&](const std::string& junk) {
        const std::string text = junk == "twice" ? R"({"name":"same-name"})" : BadText(junk);
        const std::string identity = "junk";
        dra_device device = {};
        device.struct_size = sizeof(device);
        device.device_json = Bad(junk, text);
        device.identity = ToStr(identity);
        if (junk == "wrongType") device.exclusion_keys_json = ToStr(text);
        sink->emit_device(sink->ctx, &device);
      },
      [&] { return Plain().discover(self, call, args, sink, err); });
}

dra_code Prepare(dra_backend* self, const dra_call* call, const dra_prepare_args* args,
                 const dra_prepare_sink* sink, dra_error* err) noexcept {
  return Filter(
      self, "prepare", args->claim == nullptr ? "" : FromStr(args->claim->uid), err,
      [&](const std::string& junk) {
        const std::string text =
            junk == "twice" || junk == "badIndex" ? R"({"env":["A=b"]})" : BadText(junk);
        dra_prepared_device device = {};
        device.struct_size = sizeof(device);
        device.index = junk == "badIndex" ? kBadIndex : 0;
        device.edits_json = Bad(junk, text);
        sink->emit_device(sink->ctx, &device);
      },
      [&] { return Plain().prepare(self, call, args, sink, err); });
}

dra_code ReconcileRecord(dra_backend* self, const dra_call* call, const dra_reconcile_args* args,
                         const dra_reconcile_sink* sink, dra_error* err) noexcept {
  return Filter(
      self, "reconcile_record", args->claim == nullptr ? "" : FromStr(args->claim->uid), err,
      [&](const std::string& junk) {
        const std::string text = BadText(junk);
        sink->set_verdict(sink->ctx,
                          junk == "badNumber" ? kBadNumber : DRA_RECONCILE_TRUE_WITH_EDITS);
        sink->emit_device_edits(sink->ctx, junk == "badIndex" ? kBadIndex : 0, Bad(junk, text));
      },
      [&] { return Plain().reconcile_record(self, call, args, sink, err); });
}

dra_code Busy(dra_backend* self, const dra_call* call, const dra_busy_args* args,
              const dra_busy_sink* sink, dra_error* err) noexcept {
  return Filter(
      self, "busy", "", err, [&](const std::string&) { sink->set(sink->ctx, kBadNumber); },
      [&] { return Plain().busy(self, call, args, sink, err); });
}

dra_code Health(dra_backend* self, const dra_call* call, const dra_health_args* args,
                const dra_health_sink* sink, dra_error* err) noexcept {
  return Filter(
      self, "health", "", err,
      [&](const std::string& junk) {
        const std::string text = junk == "twice" ? "gpu-0" : BadText(junk);
        dra_device_health health = {};
        health.struct_size = sizeof(health);
        health.state = junk == "badNumber" ? kBadNumber : DRA_HEALTH_HEALTHY;
        health.device = Bad(junk, text);
        health.message = ToStr(text);
        sink->emit(sink->ctx, &health);
      },
      [&] { return Plain().health(self, call, args, sink, err); });
}

}  // namespace
}  // namespace fake

extern "C" DRA_EXPORT const dra_backend_api* dra_backend_entry(uint32_t) {
  static const dra_backend_api table = [] {
    dra_backend_api filtered = fake::Plain();
    filtered.describe = &fake::Describe;
    filtered.discover = &fake::Discover;
    filtered.prepare = &fake::Prepare;
    filtered.reconcile_record = &fake::ReconcileRecord;
    filtered.busy = &fake::Busy;
    filtered.health = &fake::Health;
    return filtered;
  }();
  return &table;
}
