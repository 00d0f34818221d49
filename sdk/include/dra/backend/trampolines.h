#pragma once

// The C functions behind DRA_BACKEND: read the arguments, call the C++ class, write the answer.
// Included by backend.h.

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "dra/backend/backend.h"

namespace dra::backend_internal {

inline Json ParseOr(dra_str text, const char* what, Json fallback) {
  return text.size == 0 ? std::move(fallback)
                        : ParseStrictJson(std::string_view(text.data, text.size), what);
}
// What the host recorded is read leniently: a record of another release must not stop an unprepare.
inline Json ParseRecorded(dra_str text) {
  if (text.size == 0) return Json::array();
  Json value = Json::parse(text.data, text.data + text.size, nullptr, false);
  return value.is_array() ? value : Json::array();
}

inline std::string Text(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}
inline Json Member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found != object.end() ? *found : Json(nullptr);
}

inline ClaimRef ToClaim(const dra_claim* claim) {
  if (claim == nullptr) return {};
  return {FromStr(claim->namespace_name), FromStr(claim->name), FromStr(claim->uid)};
}

inline std::vector<AllocatedDevice> ToDevices(const Json& array) {
  std::vector<AllocatedDevice> devices;
  for (const Json& item : array) {
    AllocatedDevice device;
    device.result = Member(item, "result");
    if (!device.result.is_object()) device.result = Json::object();
    device.identity = Text(item, "identity");
    const Json configs = Member(item, "configs");
    if (configs.is_array()) {
      for (const Json& config : configs) {
        device.configs.push_back(
            {Text(config, "source"), Text(config, "request"), Member(config, "parameters")});
      }
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

inline std::vector<NeighbourClaim> ToOthers(dra_str text) {
  std::vector<NeighbourClaim> others;
  for (const Json& item : ParseRecorded(text)) {
    const Json admin = Member(item, "adminAccess");
    others.push_back({Text(item, "claimUID"), Text(item, "device"), Text(item, "shareID"),
                      admin.is_boolean() && admin.get<bool>()});
  }
  return others;
}

inline std::string DumpOptional(const Json& value) {
  return value.is_null() ? std::string() : value.dump();
}

inline Backend& Self(dra_backend* self) { return *reinterpret_cast<Backend*>(self); }

template <typename T>
dra_code Create(const dra_host* host, const dra_call*, const dra_create_args* args,
                dra_backend** out, dra_error* err) noexcept {
  return Guard(err, [&] {
    std::unique_ptr<Backend> made =
        std::make_unique<T>(Host(host), ParseOr(args->config_json, "config", Json::object()));
    *out = reinterpret_cast<dra_backend*>(made.release());
  });
}

inline dra_code Destroy(dra_backend* self, const dra_call*, dra_error* err) noexcept {
  return Guard(err, [&] { delete reinterpret_cast<Backend*>(self); });
}

template <typename T>
dra_code Describe(dra_backend*, const dra_call*, const dra_describe_args*,
                  const dra_text_sink* sink, dra_error* err) noexcept {
  return Guard(err, [&] {
    const std::string text = T::Describe().ToJson().dump();
    sink->set(sink->ctx, ToStr(text));
  });
}

inline dra_code Discover(dra_backend* self, const dra_call* call, const dra_discover_args* args,
                         const dra_discover_sink* sink, dra_error* err) noexcept {
  return Guard(err, [&] {
    DiscoverRequest request;
    request.counters = static_cast<ServerField>(args->counters);
    request.multiple_allocations = static_cast<ServerField>(args->multiple_allocations);
    request.taints = static_cast<ServerField>(args->taints);
    request.binding_conditions = static_cast<ServerField>(args->binding_conditions);
    request.list_attributes = static_cast<ServerField>(args->list_attributes);
    request.node_allocatable = static_cast<ServerField>(args->node_allocatable);
    request.skip_node_operations = static_cast<ServerField>(args->skip_node_operations);
    for (const Json& name : ParseRecorded(args->held_json)) {
      if (name.is_string()) request.held.push_back(name.get<std::string>());
    }
    DiscoverSink into(sink);
    Self(self).Discover(HookCall(call), request, into);
  });
}

inline dra_code ValidateConfig(dra_backend* self, const dra_call* call,
                               const dra_validate_args* args, dra_error* err) noexcept {
  return Guard(err, [&] {
    const Json parameters = ParseOr(args->parameters_json, "parameters", nullptr);
    Self(self).ValidateConfig(HookCall(call), parameters, FromStr(args->source));
  });
}

inline dra_code Prepare(dra_backend* self, const dra_call* call, const dra_prepare_args* args,
                        const dra_prepare_sink* sink, dra_error* err) noexcept {
  return Guard(err, [&] {
    PrepareRequest request;
    request.claim = ToClaim(args->claim);
    request.reserved_for = ParseRecorded(args->reserved_for_json);
    request.devices = ToDevices(ParseOr(args->devices_json, "devices", Json::array()));
    request.saved_undo = FromStr(args->saved_undo);
    request.others = ToOthers(args->others_json);
    const PrepareReply reply = Self(self).Prepare(HookCall(call), request);
    for (size_t i = 0; i < reply.devices.size(); ++i) {
      const std::string edits = DumpOptional(reply.devices[i].edits);
      const std::string status = DumpOptional(reply.devices[i].status);
      dra_prepared_device device = {};
      device.struct_size = sizeof(device);
      device.index = static_cast<uint32_t>(i);
      device.edits_json = ToStr(edits);
      device.status_json = ToStr(status);
      sink->emit_device(sink->ctx, &device);
    }
    const std::string claim_edits = DumpOptional(reply.claim_edits);
    if (!claim_edits.empty()) sink->set_claim_edits(sink->ctx, ToStr(claim_edits));
    if (reply.undo) sink->set_undo(sink->ctx, ToStr(*reply.undo));
  });
}

inline dra_code Unprepare(dra_backend* self, const dra_call* call, const dra_unprepare_args* args,
                          dra_error* err) noexcept {
  return Guard(err, [&] {
    UnprepareRequest request;
    request.claim = ToClaim(args->claim);
    request.devices = ToDevices(ParseRecorded(args->devices_json));
    request.undo = FromStr(args->undo);
    request.others = ToOthers(args->others_json);
    Self(self).Unprepare(HookCall(call), request);
  });
}

inline dra_code ReconcileBegin(dra_backend* self, const dra_call* call,
                               const dra_reconcile_bound_args*, dra_error* err) noexcept {
  return Guard(err, [&] { Self(self).ReconcileBegin(HookCall(call)); });
}
inline dra_code ReconcileEnd(dra_backend* self, const dra_call* call,
                             const dra_reconcile_bound_args*, dra_error* err) noexcept {
  return Guard(err, [&] { Self(self).ReconcileEnd(HookCall(call)); });
}
inline dra_code ReconcileRecord(dra_backend* self, const dra_call* call,
                                const dra_reconcile_args* args, const dra_reconcile_sink* sink,
                                dra_error* err) noexcept {
  return Guard(err, [&] {
    ReconcileRequest request;
    request.claim = ToClaim(args->claim);
    request.devices = ToDevices(ParseRecorded(args->devices_json));
    request.undo = FromStr(args->undo);
    request.others = ToOthers(args->others_json);
    request.same_boot = args->same_boot != 0;
    const ReconcileReply reply = Self(self).ReconcileRecord(HookCall(call), request);
    sink->set_verdict(sink->ctx, static_cast<int32_t>(reply.verdict));
    for (size_t i = 0; i < reply.device_edits.size(); ++i) {
      const std::string edits = DumpOptional(reply.device_edits[i]);
      sink->emit_device_edits(sink->ctx, static_cast<uint32_t>(i), ToStr(edits));
    }
    const std::string claim_edits = DumpOptional(reply.claim_edits);
    if (!claim_edits.empty()) sink->set_claim_edits(sink->ctx, ToStr(claim_edits));
  });
}

inline dra_code Busy(dra_backend* self, const dra_call* call, const dra_busy_args* args,
                     const dra_busy_sink* sink, dra_error* err) noexcept {
  return Guard(err, [&] {
    const BusyState state = Self(self).Busy(
        HookCall(call), {FromStr(args->pool), FromStr(args->device), FromStr(args->identity)});
    sink->set(sink->ctx, static_cast<int32_t>(state));
  });
}

inline dra_code Health(dra_backend* self, const dra_call* call, const dra_health_args*,
                       const dra_health_sink* sink, dra_error* err) noexcept {
  return Guard(err, [&] {
    for (const HealthReport& report : Self(self).Health(HookCall(call))) {
      dra_device_health item = {};
      item.struct_size = sizeof(item);
      item.state = static_cast<int32_t>(report.state);
      item.pool = ToStr(report.pool);
      item.device = ToStr(report.device);
      item.fault_class = ToStr(report.fault_class);
      item.message = ToStr(report.message);
      item.remedy = ToStr(report.remedy);
      item.clears_with = ToStr(report.clears_with);
      item.severity = static_cast<int32_t>(report.severity);
      sink->emit(sink->ctx, &item);
    }
  });
}

// A class may name the oldest host it works with: static constexpr uint32_t kMinHostMinor.
template <typename T>
constexpr uint32_t MinHostMinor() {
  if constexpr (requires { T::kMinHostMinor; }) {
    return T::kMinHostMinor;
  } else {
    return 0;
  }
}
// And optional groups: static const void* GetExtension(const char* id).
template <typename T>
constexpr auto ExtensionFunction() -> const void* (*)(const char*) {
  if constexpr (requires { T::GetExtension(""); }) {
    return [](const char* id) noexcept { return static_cast<const void*>(T::GetExtension(id)); };
  } else {
    return nullptr;
  }
}

template <typename T>
const dra_backend_api* Table() noexcept {
  static_assert(std::is_base_of_v<Backend, T>,
                "DRA_BACKEND needs a class derived from dra::Backend");
  static_assert(std::is_same_v<decltype(T::Describe()), BackendManifest>,
                "the class needs: static dra::BackendManifest Describe()");
  static_assert(std::is_constructible_v<T, Host, const Json&>,
                "the class needs the constructor (dra::Host host, const dra::Json& config)");
  // The type of &T::F names the class that declares F: Backend itself if nobody overrides it.
  constexpr bool kValidates =
      !std::is_same_v<decltype(&T::ValidateConfig), decltype(&Backend::ValidateConfig)>;
  constexpr bool kReconciles =
      !std::is_same_v<decltype(&T::ReconcileBegin), decltype(&Backend::ReconcileBegin)> ||
      !std::is_same_v<decltype(&T::ReconcileRecord), decltype(&Backend::ReconcileRecord)> ||
      !std::is_same_v<decltype(&T::ReconcileEnd), decltype(&Backend::ReconcileEnd)>;
  constexpr bool kBusy = !std::is_same_v<decltype(&T::Busy), decltype(&Backend::Busy)>;
  constexpr bool kHealth = !std::is_same_v<decltype(&T::Health), decltype(&Backend::Health)>;
  static const dra_backend_api table = [] {
    dra_backend_api api = {};
    api.struct_size = sizeof(api);
    api.abi_major = DRA_ABI_MAJOR;
    api.abi_minor = DRA_ABI_MINOR;
    api.min_host_minor = MinHostMinor<T>();
    api.create = &backend_internal::Create<T>;
    api.destroy = &backend_internal::Destroy;
    api.describe = &backend_internal::Describe<T>;
    api.discover = &backend_internal::Discover;
    api.validate_config = kValidates ? &backend_internal::ValidateConfig : nullptr;
    api.prepare = &backend_internal::Prepare;
    api.unprepare = &backend_internal::Unprepare;
    api.reconcile_begin = kReconciles ? &backend_internal::ReconcileBegin : nullptr;
    api.reconcile_record = kReconciles ? &backend_internal::ReconcileRecord : nullptr;
    api.reconcile_end = kReconciles ? &backend_internal::ReconcileEnd : nullptr;
    api.busy = kBusy ? &backend_internal::Busy : nullptr;
    api.health = kHealth ? &backend_internal::Health : nullptr;
    api.get_extension = ExtensionFunction<T>();
    return api;
  }();
  return &table;
}

}  // namespace dra::backend_internal
