#include "dra/cdi/spec.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cdi/object_reader.h"
#include "dra/base/status.h"

namespace dra::cdi {
namespace {

absl::Status ReadDeviceNode(const Json& value, const std::string& path, DeviceNode& node) {
  ObjectReader in(value, path);
  in.RequiredString("path", node.path);
  in.String("hostPath", node.host_path);
  in.String("type", node.type);
  in.Int64("major", node.major);
  in.Int64("minor", node.minor);
  in.Uint32("fileMode", node.file_mode);
  in.String("permissions", node.permissions);
  in.Uint32("uid", node.uid);
  in.Uint32("gid", node.gid);
  return in.Finish();
}

absl::Status ReadNetDevice(const Json& value, const std::string& path, NetDevice& device) {
  ObjectReader in(value, path);
  in.RequiredString("hostInterfaceName", device.host_interface_name);
  in.RequiredString("name", device.name);
  return in.Finish();
}

absl::Status ReadHook(const Json& value, const std::string& path, Hook& hook) {
  ObjectReader in(value, path);
  in.RequiredString("hookName", hook.hook_name);
  in.RequiredString("path", hook.path);
  in.Strings("args", hook.args);
  in.Strings("env", hook.env);
  in.Int64("timeout", hook.timeout_seconds);
  return in.Finish();
}

absl::Status ReadMount(const Json& value, const std::string& path, Mount& mount) {
  ObjectReader in(value, path);
  in.RequiredString("hostPath", mount.host_path);
  in.RequiredString("containerPath", mount.container_path);
  in.Strings("options", mount.options);
  in.String("type", mount.type);
  return in.Finish();
}

absl::Status ReadIntelRdt(const Json& value, const std::string& path, IntelRdt& rdt) {
  ObjectReader in(value, path);
  in.String("closID", rdt.clos_id);
  in.String("l3CacheSchema", rdt.l3_cache_schema);
  in.String("memBwSchema", rdt.mem_bw_schema);
  in.Strings("schemata", rdt.schemata);
  in.Bool("enableMonitoring", rdt.enable_monitoring);
  return in.Finish();
}

// A reader of one array element that appends it to `out`.
template <typename T>
auto Into(std::vector<T>& out, absl::Status (*read)(const Json&, const std::string&, T&)) {
  return [&out, read](const Json& value, const std::string& path) {
    return read(value, path, out.emplace_back());
  };
}

absl::Status ReadEdits(const Json& value, const std::string& path, ContainerEdits& edits) {
  ObjectReader in(value, path);
  in.Strings("env", edits.env);
  in.Each("deviceNodes", Into(edits.device_nodes, ReadDeviceNode));
  in.Each("netDevices", Into(edits.net_devices, ReadNetDevice));
  in.Each("hooks", Into(edits.hooks, ReadHook));
  in.Each("mounts", Into(edits.mounts, ReadMount));
  in.Member("intelRdt", [&edits](const Json& member, const std::string& member_path) {
    return ReadIntelRdt(member, member_path, edits.intel_rdt.emplace());
  });
  in.Uint32s("additionalGids", edits.additional_gids);
  return in.Finish();
}

absl::Status ReadDevice(const Json& value, const std::string& path, Device& device) {
  ObjectReader in(value, path);
  in.RequiredString("name", device.name);
  in.StringMap("annotations", device.annotations);
  in.Require("containerEdits");
  in.Member("containerEdits", [&device](const Json& member, const std::string& member_path) {
    return ReadEdits(member, member_path, device.edits);
  });
  return in.Finish();
}

void Put(Json& object, const char* key, const std::string& value) {
  if (!value.empty()) object[key] = value;
}

template <typename T>
void Put(Json& object, const char* key, const std::vector<T>& values) {
  if (!values.empty()) object[key] = values;
}

template <typename T>
void Put(Json& object, const char* key, const std::optional<T>& value) {
  if (value.has_value()) object[key] = *value;
}

void PutNumber(Json& object, const char* key, int64_t value) {
  if (value != 0) object[key] = value;
}

Json ToJson(const DeviceNode& node) {
  Json out = Json::object();
  out["path"] = node.path;
  Put(out, "hostPath", node.host_path);
  Put(out, "type", node.type);
  PutNumber(out, "major", node.major);
  PutNumber(out, "minor", node.minor);
  Put(out, "fileMode", node.file_mode);
  Put(out, "permissions", node.permissions);
  Put(out, "uid", node.uid);
  Put(out, "gid", node.gid);
  return out;
}

Json ToJson(const NetDevice& device) {
  return Json{{"hostInterfaceName", device.host_interface_name}, {"name", device.name}};
}

Json ToJson(const Hook& hook) {
  Json out = Json::object();
  out["hookName"] = hook.hook_name;
  out["path"] = hook.path;
  Put(out, "args", hook.args);
  Put(out, "env", hook.env);
  Put(out, "timeout", hook.timeout_seconds);
  return out;
}

Json ToJson(const Mount& mount) {
  Json out = Json::object();
  out["hostPath"] = mount.host_path;
  out["containerPath"] = mount.container_path;
  Put(out, "options", mount.options);
  Put(out, "type", mount.type);
  return out;
}

Json ToJson(const IntelRdt& rdt) {
  Json out = Json::object();
  Put(out, "closID", rdt.clos_id);
  Put(out, "l3CacheSchema", rdt.l3_cache_schema);
  Put(out, "memBwSchema", rdt.mem_bw_schema);
  Put(out, "schemata", rdt.schemata);
  if (rdt.enable_monitoring) out["enableMonitoring"] = true;
  return out;
}

template <typename T>
void PutObjects(Json& object, const char* key, const std::vector<T>& values) {
  for (const T& value : values) object[key].push_back(ToJson(value));
}

template <typename T>
void Concatenate(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

bool ContainerEdits::empty() const {
  return env.empty() && device_nodes.empty() && net_devices.empty() && hooks.empty() &&
         mounts.empty() && !intel_rdt.has_value() && additional_gids.empty();
}

absl::StatusOr<ContainerEdits> EditsFromJson(const Json& value, absl::string_view path) {
  ContainerEdits edits;
  if (value.is_null()) return edits;
  DRA_RETURN_IF_ERROR(ReadEdits(value, std::string(path), edits));
  return edits;
}

absl::StatusOr<Spec> SpecFromJson(const Json& value) {
  Spec spec;
  ObjectReader in(value, "");
  in.RequiredString("cdiVersion", spec.version);
  in.RequiredString("kind", spec.kind);
  in.StringMap("annotations", spec.annotations);
  in.Require("devices");
  in.Each("devices", Into(spec.devices, ReadDevice));
  in.Member("containerEdits", [&spec](const Json& member, const std::string& path) {
    return ReadEdits(member, path, spec.edits);
  });
  DRA_RETURN_IF_ERROR(in.Finish());
  return spec;
}

absl::StatusOr<Spec> ParseSpecFile(absl::string_view text) {
  DRA_ASSIGN_OR_RETURN(const Json value, ParseJsonObject(text, "CDI spec"));
  const std::string duplicate = FindDuplicateKey(text);
  if (!duplicate.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("CDI spec: key \"", duplicate, "\" is there twice"));
  }
  absl::StatusOr<Spec> spec = SpecFromJson(value);
  if (!spec.ok()) return Annotate(spec.status(), "CDI spec");
  return spec;
}

Json ToJson(const ContainerEdits& edits) {
  Json out = Json::object();
  Put(out, "env", edits.env);
  PutObjects(out, "deviceNodes", edits.device_nodes);
  PutObjects(out, "netDevices", edits.net_devices);
  PutObjects(out, "hooks", edits.hooks);
  PutObjects(out, "mounts", edits.mounts);
  if (edits.intel_rdt.has_value()) out["intelRdt"] = ToJson(*edits.intel_rdt);
  Put(out, "additionalGids", edits.additional_gids);
  return out;
}

Json ToJson(const Spec& spec) {
  Json out = Json::object();
  out["cdiVersion"] = spec.version;
  out["kind"] = spec.kind;
  if (!spec.annotations.empty()) out["annotations"] = spec.annotations;
  out["devices"] = Json::array();
  for (const Device& device : spec.devices) {
    Json entry = Json::object();
    entry["name"] = device.name;
    if (!device.annotations.empty()) entry["annotations"] = device.annotations;
    entry["containerEdits"] = ToJson(device.edits);
    out["devices"].push_back(std::move(entry));
  }
  if (!spec.edits.empty()) out["containerEdits"] = ToJson(spec.edits);
  return out;
}

void Append(ContainerEdits& to, const ContainerEdits& more) {
  Concatenate(to.env, more.env);
  Concatenate(to.device_nodes, more.device_nodes);
  Concatenate(to.net_devices, more.net_devices);
  Concatenate(to.hooks, more.hooks);
  Concatenate(to.mounts, more.mounts);
  Concatenate(to.additional_gids, more.additional_gids);
  if (more.intel_rdt.has_value()) to.intel_rdt = more.intel_rdt;
}

void DropRedundantHostPaths(ContainerEdits& edits) {
  for (DeviceNode& node : edits.device_nodes) {
    if (node.host_path == node.path) node.host_path.clear();
  }
}

}  // namespace dra::cdi
