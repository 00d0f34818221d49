#include "dra/cdi/validate.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cdi/text_rules.h"
#include "dra/base/status.h"
#include "dra/cdi/names.h"

namespace dra::cdi {
namespace {

constexpr size_t kMaxAnnotationBytes = 262144;  // all keys and values of one map, as in Kubernetes
constexpr size_t kMaxAnnotationPrefix = 253;
constexpr size_t kMaxClosId = 4096;

constexpr std::array<absl::string_view, 6> kHookNames = {
    "prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"};

bool IsAnnotationName(absl::string_view name) {
  if (name.empty() || name.size() > kMaxAnnotationName) return false;
  if (!IsAlnum(name.front()) || !IsAlnum(name.back())) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool IsDnsSubdomain(absl::string_view name) {
  if (name.empty() || name.size() > kMaxAnnotationPrefix) return false;
  char previous = '.';
  for (const char c : name) {
    if (!IsAlnum(c) && c != '-' && c != '.') return false;
    if (previous == '.' && !IsAlnum(c)) return false;
    if (c == '.' && !IsAlnum(previous)) return false;
    previous = c;
  }
  return IsAlnum(previous);
}

// Kubernetes' rule for annotations, keys lower-cased first: what CDI intends although its library does not ask.
absl::Status ValidateAnnotations(const std::map<std::string, std::string>& annotations,
                                 absl::string_view path) {
  size_t bytes = 0;
  for (const auto& [key, value] : annotations) {
    bytes += key.size() + value.size();
    const std::string lower = absl::AsciiStrToLower(key);
    const size_t slash = lower.find('/');
    const bool has_prefix = slash != std::string::npos;
    const absl::string_view name = absl::string_view(lower).substr(has_prefix ? slash + 1 : 0);
    if (!IsAnnotationName(name) ||
        (has_prefix && !IsDnsSubdomain(absl::string_view(lower).substr(0, slash)))) {
      return Invalid(path, absl::StrCat("invalid key \"", key, "\""));
    }
  }
  if (bytes > kMaxAnnotationBytes) {
    return Invalid(path, absl::StrCat(bytes, " bytes, at most ", kMaxAnnotationBytes));
  }
  return absl::OkStatus();
}

absl::Status ValidateEnv(const std::vector<std::string>& env, absl::string_view path) {
  for (size_t i = 0; i < env.size(); ++i) {
    const size_t equals = env[i].find('=');
    if (equals == std::string::npos || equals == 0) {
      return Invalid(absl::StrCat(path, "[", i, "]"),
                     equals == 0
                         ? "invalid environment variable without a name, must be NAME=VALUE"
                         : "invalid environment variable without a '=', must be NAME=VALUE");
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateNode(const DeviceNode& node, absl::string_view path) {
  if (node.path.empty()) return Invalid(path, "invalid (empty) device path");
  if (node.type != "" && node.type != "b" && node.type != "c" && node.type != "u" &&
      node.type != "p") {
    return Invalid(path, absl::StrCat("device \"", node.path, "\": invalid type \"", node.type,
                                      "\", must be b, c, u or p"));
  }
  if (node.permissions.find_first_not_of("rwm") != std::string::npos) {
    return Invalid(path, absl::StrCat("device \"", node.path, "\": invalid permissions \"",
                                      node.permissions, "\", must be of r, w and m"));
  }
  return absl::OkStatus();
}

absl::Status ValidateHook(const Hook& hook, absl::string_view path) {
  if (std::find(kHookNames.begin(), kHookNames.end(), hook.hook_name) == kHookNames.end()) {
    return Invalid(path, absl::StrCat("invalid hook name \"", hook.hook_name, "\""));
  }
  if (hook.path.empty()) {
    return Invalid(path, absl::StrCat("invalid hook \"", hook.hook_name, "\" with empty path"));
  }
  return ValidateEnv(hook.env, absl::StrCat(path, ".env"));
}

absl::Status ValidateMount(const Mount& mount, absl::string_view path) {
  if (mount.host_path.empty()) return Invalid(path, "invalid mount, empty host path");
  if (mount.container_path.empty()) return Invalid(path, "invalid mount, empty container path");
  return absl::OkStatus();
}

absl::Status ValidateIntelRdt(const IntelRdt& rdt, absl::string_view path) {
  const std::string& id = rdt.clos_id;
  if (id == "/") return absl::OkStatus();  // the root class of service
  if (id.size() >= kMaxClosId || id == "." || id == ".." ||
      id.find_first_of("/\n") != std::string::npos) {
    return Invalid(path, absl::StrCat("invalid ClosID \"", id, "\""));
  }
  return absl::OkStatus();
}

absl::Status ValidateNetDevices(const std::vector<NetDevice>& devices, absl::string_view path) {
  std::set<std::string> host_names;
  std::set<std::string> names;
  for (size_t i = 0; i < devices.size(); ++i) {
    const NetDevice& device = devices[i];
    const std::string item = absl::StrCat(path, "[", i, "]");
    if (device.host_interface_name.empty()) {
      return Invalid(item, "invalid linux net device, empty hostInterfaceName");
    }
    if (device.name.empty()) return Invalid(item, "invalid linux net device, empty name");
    if (!host_names.insert(device.host_interface_name).second) {
      return Invalid(item, absl::StrCat("invalid linux net device, duplicate hostInterfaceName \"",
                                        device.host_interface_name, "\""));
    }
    if (!names.insert(device.name).second) {
      return Invalid(
          item, absl::StrCat("invalid linux net device, duplicate name \"", device.name, "\""));
    }
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status ValidateEach(const std::vector<T>& items, absl::string_view path,
                          absl::Status (*validate)(const T&, absl::string_view)) {
  for (size_t i = 0; i < items.size(); ++i) {
    DRA_RETURN_IF_ERROR(validate(items[i], absl::StrCat(path, "[", i, "]")));
  }
  return absl::OkStatus();
}

absl::Status ValidateVersion(const Spec& spec) {
  DRA_ASSIGN_OR_RETURN(const int to_floor, CompareVersions(spec.version, "0.3.0"));
  if (to_floor < 0) return absl::InvalidArgumentError("the spec version must be at least v0.3.0");
  const std::string minimum = MinimumVersion(spec);
  DRA_ASSIGN_OR_RETURN(const int to_minimum, CompareVersions(spec.version, minimum));
  if (to_minimum < 0) {
    return absl::InvalidArgumentError(absl::StrCat("the spec version must be at least v", minimum));
  }
  return absl::OkStatus();
}

absl::Status ValidateDevice(const Device& device, absl::string_view path) {
  const std::string context = absl::StrCat("failed add device \"", device.name, "\"");
  DRA_RETURN_IF_ERROR(Annotate(ValidateDeviceName(device.name), context));
  DRA_RETURN_IF_ERROR(ValidateAnnotations(device.annotations, absl::StrCat(path, ".annotations")));
  if (device.edits.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(context, ": invalid device, empty device edits"));
  }
  return Annotate(ValidateEdits(device.edits, absl::StrCat(path, ".containerEdits")),
                  absl::StrCat("invalid device \"", device.name, "\""));
}

}  // namespace

absl::Status ValidateEdits(const ContainerEdits& edits, absl::string_view path) {
  DRA_RETURN_IF_ERROR(ValidateEnv(edits.env, absl::StrCat(path, ".env")));
  DRA_RETURN_IF_ERROR(
      ValidateEach(edits.device_nodes, absl::StrCat(path, ".deviceNodes"), ValidateNode));
  DRA_RETURN_IF_ERROR(ValidateNetDevices(edits.net_devices, absl::StrCat(path, ".netDevices")));
  DRA_RETURN_IF_ERROR(ValidateEach(edits.hooks, absl::StrCat(path, ".hooks"), ValidateHook));
  DRA_RETURN_IF_ERROR(ValidateEach(edits.mounts, absl::StrCat(path, ".mounts"), ValidateMount));
  if (!edits.intel_rdt.has_value()) return absl::OkStatus();
  return ValidateIntelRdt(*edits.intel_rdt, absl::StrCat(path, ".intelRdt"));
}

absl::Status ValidateSpec(const Spec& spec) {
  constexpr absl::string_view kContext = "invalid CDI Spec";
  DRA_RETURN_IF_ERROR(Annotate(ValidateVersion(spec), kContext));
  DRA_RETURN_IF_ERROR(Annotate(ValidateKind(spec.kind), kContext));
  DRA_RETURN_IF_ERROR(Annotate(ValidateAnnotations(spec.annotations, "annotations"), kContext));
  DRA_RETURN_IF_ERROR(Annotate(ValidateEdits(spec.edits, "containerEdits"), kContext));
  std::set<std::string> names;
  for (size_t i = 0; i < spec.devices.size(); ++i) {
    const Device& device = spec.devices[i];
    DRA_RETURN_IF_ERROR(
        Annotate(ValidateDevice(device, absl::StrCat("devices[", i, "]")), kContext));
    if (!names.insert(device.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(kContext, ": invalid spec, multiple device \"", device.name, "\""));
    }
  }
  if (spec.devices.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(kContext, ": invalid spec, no devices"));
  }
  return absl::OkStatus();
}

}  // namespace dra::cdi
