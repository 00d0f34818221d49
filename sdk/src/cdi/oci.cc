#include "dra/cdi/oci.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "dra/base/status.h"
#include "dra/cdi/validate.h"

namespace dra::cdi {
namespace {

// object[key], made as `empty` if it is absent or null. InvalidArgument if it has another type than `empty`.
absl::StatusOr<Json*> Child(Json& object, const char* key, Json empty, absl::string_view path) {
  Json& child = object[key];
  if (child.is_null())
    child = std::move(empty);
  else if (child.type() != empty.type()) {
    return absl::InvalidArgumentError(absl::StrCat("OCI config: ", path, ": is ", child.type_name(),
                                                   ", must be ", empty.type_name()));
  }
  return &child;
}

absl::StatusOr<Json*> Object(Json& parent, const char* key, absl::string_view path) {
  return Child(parent, key, Json::object(), path);
}
absl::StatusOr<Json*> Array(Json& parent, const char* key, absl::string_view path) {
  return Child(parent, key, Json::array(), path);
}

void EraseFirst(Json& array, const char* key, const std::string& value) {
  for (size_t i = 0; i < array.size(); ++i) {
    const Json* member = Find(array[i], key);
    if (member != nullptr && member->is_string() && *member == value) {
      array.erase(i);
      return;
    }
  }
}

absl::Status ApplyEnv(Json& oci, const std::vector<std::string>& env) {
  if (env.empty()) return absl::OkStatus();
  DRA_ASSIGN_OR_RETURN(Json * process, Object(oci, "process", "process"));
  DRA_ASSIGN_OR_RETURN(Json * list, Array(*process, "env", "process.env"));
  for (const std::string& variable : env) {
    const std::string key = variable.substr(0, variable.find('=') + 1);  // with the '='
    const auto existing = std::find_if(list->begin(), list->end(), [&key](const Json& entry) {
      return entry.is_string() && absl::StartsWith(entry.get_ref<const std::string&>(), key);
    });
    if (existing != list->end())
      *existing = variable;
    else
      list->push_back(variable);
  }
  return absl::OkStatus();
}

std::string HostType(FileType type) {
  switch (type) {
    case FileType::kBlockDevice:
      return "b";
    case FileType::kCharDevice:
      return "c";
    case FileType::kFifo:
      return "p";
    default:
      return "";
  }
}

// Fills in what the node leaves to the host.
absl::Status Resolve(DeviceNode& node, FileSystem& fs) {
  const std::string host_path = node.host_path.empty() ? node.path : node.host_path;
  const bool minimal = !node.type.empty() && (node.major != 0 || node.type == "p");
  const absl::StatusOr<FileInfo> info = fs.Stat(host_path, /*follow=*/false);
  if (!info.ok()) {
    if (minimal) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("failed to stat CDI host device \"",
                                                      host_path, "\": ", info.status().message()));
  }
  const std::string host_type = HostType(info->type);
  if (host_type.empty()) {
    if (minimal) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("failed to stat CDI host device \"", host_path, "\": not a device node"));
  }
  if (!node.file_mode.has_value()) node.file_mode = info->mode;
  if (minimal) return absl::OkStatus();
  if (node.type.empty()) node.type = host_type;
  if (node.type != host_type) {
    return absl::FailedPreconditionError(absl::StrCat("CDI device (\"", node.path, "\", \"",
                                                      host_path, "\"), host type mismatch (",
                                                      node.type, ", ", host_type, ")"));
  }
  if (node.type != "p" && node.major == 0) {
    node.major = info->major;
    node.minor = info->minor;
  }
  return absl::OkStatus();
}

absl::Status ApplyDeviceNodes(Json& oci, const std::vector<DeviceNode>& nodes, FileSystem& fs) {
  if (nodes.empty()) return absl::OkStatus();
  DRA_ASSIGN_OR_RETURN(Json * linux_part, Object(oci, "linux", "linux"));
  DRA_ASSIGN_OR_RETURN(Json * devices, Array(*linux_part, "devices", "linux.devices"));
  const Json* process = Find(oci, "process");
  const Json* user = process == nullptr ? nullptr : Find(*process, "user");
  for (DeviceNode node : nodes) {
    DRA_RETURN_IF_ERROR(Resolve(node, fs));
    Json entry{{"path", node.path}, {"type", node.type}};
    if (node.type != "p" || node.major != 0 || node.minor != 0) {  // a FIFO has none of its own
      entry["major"] = node.major;
      entry["minor"] = node.minor;
    }
    if (node.file_mode.has_value()) entry["fileMode"] = *node.file_mode;
    const int64_t user_uid = user == nullptr ? 0 : IntOr(*user, "uid");
    const int64_t user_gid = user == nullptr ? 0 : IntOr(*user, "gid");
    if (node.uid.has_value())
      entry["uid"] = *node.uid;
    else if (user_uid > 0)
      entry["uid"] = user_uid;
    if (node.gid.has_value())
      entry["gid"] = *node.gid;
    else if (user_gid > 0)
      entry["gid"] = user_gid;
    EraseFirst(*devices, "path", node.path);
    devices->push_back(std::move(entry));

    if (node.type != "b" && node.type != "c") continue;
    DRA_ASSIGN_OR_RETURN(Json * resources, Object(*linux_part, "resources", "linux.resources"));
    DRA_ASSIGN_OR_RETURN(Json * rules, Array(*resources, "devices", "linux.resources.devices"));
    std::string access = node.permissions;
    if (access.empty()) access = "rwm";
    if (access == "none") access = "";
    rules->push_back(Json{{"allow", true},
                          {"type", node.type},
                          {"major", node.major},
                          {"minor", node.minor},
                          {"access", access}});
  }
  return absl::OkStatus();
}

absl::Status ApplyNetDevices(Json& oci, const std::vector<NetDevice>& devices) {
  if (devices.empty()) return absl::OkStatus();
  DRA_ASSIGN_OR_RETURN(Json * linux_part, Object(oci, "linux", "linux"));
  DRA_ASSIGN_OR_RETURN(Json * map, Object(*linux_part, "netDevices", "linux.netDevices"));
  for (const NetDevice& device : devices) {
    (*map)[device.host_interface_name] = Json{{"name", device.name}};
  }
  return absl::OkStatus();
}

// A user namespace with mappings of its own: without both a low-level runtime refuses id-mapped mounts.
bool HasUserNamespace(const Json& oci) {
  const Json* linux_part = Find(oci, "linux");
  for (const char* mappings : {"uidMappings", "gidMappings"}) {
    const Json* list = linux_part == nullptr ? nullptr : Find(*linux_part, mappings);
    if (list == nullptr || !list->is_array() || list->empty()) return false;
  }
  const Json* namespaces = Find(*linux_part, "namespaces");
  return namespaces != nullptr && namespaces->is_array() &&
         std::any_of(namespaces->begin(), namespaces->end(),
                     [](const Json& entry) { return StringOr(entry, "type") == "user"; });
}

std::vector<std::string> OptionsIn(const Mount& mount, bool user_namespace) {
  std::vector<std::string> options = mount.options;
  const auto has = [&options](absl::string_view option) {
    return std::find(options.begin(), options.end(), option) != options.end();
  };
  if (!user_namespace || has("idmap") || has("ridmap")) return options;
  if (has("rbind"))
    options.push_back("ridmap");
  else if (has("bind") || mount.type == "bind")
    options.push_back("idmap");
  return options;
}

// How deep the destination lies: its slashes once "//", "/./", "x/.." and a trailing slash are gone.
size_t Depth(const Json& mount) {
  const std::string destination = StringOr(mount, "destination");
  const bool absolute = absl::StartsWith(destination, "/");
  size_t named = 0, up = 0;  // up: leading "..", which only a relative path keeps
  for (const absl::string_view part : absl::StrSplit(destination, '/')) {
    if (part == "..") {
      if (named > 0)
        --named;
      else if (!absolute)
        ++up;
    } else if (!part.empty() && part != ".") {
      ++named;
    }
  }
  const size_t parts = std::max<size_t>(named + up, 1);
  return absolute ? parts : parts - 1;
}

absl::Status ApplyMounts(Json& oci, const std::vector<Mount>& mounts) {
  if (mounts.empty()) return absl::OkStatus();
  const bool user_namespace = HasUserNamespace(oci);
  DRA_ASSIGN_OR_RETURN(Json * list, Array(oci, "mounts", "mounts"));
  for (const Mount& mount : mounts) {
    EraseFirst(*list, "destination", mount.container_path);
    Json entry{{"destination", mount.container_path}, {"source", mount.host_path}};
    if (!mount.type.empty()) entry["type"] = mount.type;
    const std::vector<std::string> options = OptionsIn(mount, user_namespace);
    if (!options.empty()) entry["options"] = options;
    list->push_back(std::move(entry));
  }
  // A mount must come after the one whose tree it lies in.
  std::stable_sort(list->begin(), list->end(),
                   [](const Json& a, const Json& b) { return Depth(a) < Depth(b); });
  return absl::OkStatus();
}

absl::Status ApplyHooks(Json& oci, const std::vector<Hook>& hooks) {
  if (hooks.empty()) return absl::OkStatus();
  DRA_ASSIGN_OR_RETURN(Json * all, Object(oci, "hooks", "hooks"));
  for (const Hook& hook : hooks) {
    DRA_ASSIGN_OR_RETURN(
        Json * list, Array(*all, hook.hook_name.c_str(), absl::StrCat("hooks.", hook.hook_name)));
    Json entry{{"path", hook.path}};
    if (!hook.args.empty()) entry["args"] = hook.args;
    if (!hook.env.empty()) entry["env"] = hook.env;
    if (hook.timeout_seconds.has_value()) entry["timeout"] = *hook.timeout_seconds;
    list->push_back(std::move(entry));
  }
  return absl::OkStatus();
}

absl::Status ApplyIntelRdt(Json& oci, const IntelRdt& rdt) {
  DRA_ASSIGN_OR_RETURN(Json * linux_part, Object(oci, "linux", "linux"));
  ContainerEdits edits;
  edits.intel_rdt = rdt;
  (*linux_part)["intelRdt"] = ToJson(edits)["intelRdt"];  // OCI has CDI's field names
  return absl::OkStatus();
}

absl::Status ApplyGids(Json& oci, const std::vector<uint32_t>& gids) {
  for (const uint32_t gid : gids) {
    if (gid == 0) continue;
    DRA_ASSIGN_OR_RETURN(Json * process, Object(oci, "process", "process"));
    DRA_ASSIGN_OR_RETURN(Json * user, Object(*process, "user", "process.user"));
    DRA_ASSIGN_OR_RETURN(Json * list,
                         Array(*user, "additionalGids", "process.user.additionalGids"));
    if (std::find(list->begin(), list->end(), Json(gid)) == list->end()) list->push_back(gid);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ApplyEdits(Json& oci, const ContainerEdits& edits, FileSystem& fs) {
  if (!oci.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("OCI config: is ", oci.type_name(), ", must be an object"));
  }
  // Two files that are right alone may be at odds: one host interface for two devices.
  DRA_RETURN_IF_ERROR(ValidateEdits(edits, "containerEdits"));
  Json edited = oci;
  DRA_RETURN_IF_ERROR(ApplyEnv(edited, edits.env));
  DRA_RETURN_IF_ERROR(ApplyDeviceNodes(edited, edits.device_nodes, fs));
  DRA_RETURN_IF_ERROR(ApplyNetDevices(edited, edits.net_devices));
  DRA_RETURN_IF_ERROR(ApplyMounts(edited, edits.mounts));
  DRA_RETURN_IF_ERROR(ApplyHooks(edited, edits.hooks));
  if (edits.intel_rdt.has_value()) DRA_RETURN_IF_ERROR(ApplyIntelRdt(edited, *edits.intel_rdt));
  DRA_RETURN_IF_ERROR(ApplyGids(edited, edits.additional_gids));
  oci = std::move(edited);
  return absl::OkStatus();
}

}  // namespace dra::cdi
