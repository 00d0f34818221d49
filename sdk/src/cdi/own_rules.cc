#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cdi/text_rules.h"
#include "dra/base/status.h"
#include "dra/cdi/validate.h"

namespace dra::cdi {
namespace {

constexpr size_t kMaxInterfaceName = 15;  // IFNAMSIZ without the NUL

// JSON carries NUL, but every consumer hands the text to C and would cut it there.
absl::Status CheckNoNul(absl::string_view text, absl::string_view path) {
  if (text.find('\0') == absl::string_view::npos) return absl::OkStatus();
  return Invalid(path, "has a NUL byte");
}

absl::Status CheckNoNul(const std::vector<std::string>& texts, absl::string_view path) {
  for (size_t i = 0; i < texts.size(); ++i) {
    DRA_RETURN_IF_ERROR(CheckNoNul(texts[i], absl::StrCat(path, "[", i, "]")));
  }
  return absl::OkStatus();
}

absl::Status CheckPath(absl::string_view file, absl::string_view path) {
  DRA_RETURN_IF_ERROR(CheckNoNul(file, path));
  if (!absl::StartsWith(file, "/")) {
    return Invalid(path, absl::StrCat("\"", file, "\" must be an absolute path"));
  }
  for (const absl::string_view part : absl::StrSplit(file, '/')) {
    if (part == "..") return Invalid(path, absl::StrCat("\"", file, "\" must not contain \"..\""));
  }
  return absl::OkStatus();
}

absl::Status CheckInterfaceName(absl::string_view name, absl::string_view path) {
  DRA_RETURN_IF_ERROR(CheckNoNul(name, path));
  if (name.size() > kMaxInterfaceName) {
    return Invalid(path, absl::StrCat("\"", name, "\" has ", name.size(), " bytes, at most ",
                                      kMaxInterfaceName));
  }
  if (name == "." || name == ".." || name.find_first_of("/: \t\n") != absl::string_view::npos) {
    return Invalid(path, absl::StrCat("\"", name, "\" is no network interface name"));
  }
  return absl::OkStatus();
}

absl::Status CheckNodes(const std::vector<DeviceNode>& nodes, absl::string_view path) {
  std::set<absl::string_view> paths;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string item = absl::StrCat(path, "[", i, "]");
    DRA_RETURN_IF_ERROR(CheckPath(nodes[i].path, absl::StrCat(item, ".path")));
    if (!nodes[i].host_path.empty()) {
      DRA_RETURN_IF_ERROR(CheckPath(nodes[i].host_path, absl::StrCat(item, ".hostPath")));
    }
    if (!paths.insert(nodes[i].path).second) {
      return Invalid(absl::StrCat(item, ".path"),
                     absl::StrCat("\"", nodes[i].path, "\" is there twice"));
    }
  }
  return absl::OkStatus();
}

bool Has(const std::vector<std::string>& options, absl::string_view option) {
  return std::find(options.begin(), options.end(), option) != options.end();
}
bool HasBind(const Mount& mount) {
  return Has(mount.options, "bind") || Has(mount.options, "rbind");
}
bool IsBindMount(const Mount& mount) { return mount.type.empty() || mount.type == "bind"; }

absl::Status CheckMounts(const std::vector<Mount>& mounts, absl::string_view path) {
  std::set<absl::string_view> paths;
  for (size_t i = 0; i < mounts.size(); ++i) {
    const Mount& mount = mounts[i];
    const std::string item = absl::StrCat(path, "[", i, "]");
    DRA_RETURN_IF_ERROR(CheckPath(mount.container_path, absl::StrCat(item, ".containerPath")));
    DRA_RETURN_IF_ERROR(CheckNoNul(mount.options, absl::StrCat(item, ".options")));
    DRA_RETURN_IF_ERROR(CheckNoNul(mount.type, absl::StrCat(item, ".type")));
    if (!paths.insert(mount.container_path).second) {
      return Invalid(absl::StrCat(item, ".containerPath"),
                     absl::StrCat("\"", mount.container_path, "\" is there twice"));
    }
    if (!IsBindMount(mount)) {
      // "tmpfs" and the like have a source that is no path.
      DRA_RETURN_IF_ERROR(CheckNoNul(mount.host_path, absl::StrCat(item, ".hostPath")));
      continue;
    }
    DRA_RETURN_IF_ERROR(CheckPath(mount.host_path, absl::StrCat(item, ".hostPath")));
    if (!HasBind(mount)) {
      return Invalid(absl::StrCat(item, ".options"), "must have bind or rbind");
    }
    if (Has(mount.options, "ro") == Has(mount.options, "rw")) {
      return Invalid(absl::StrCat(item, ".options"), "must have exactly one of ro and rw");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckHooks(const std::vector<Hook>& hooks, absl::string_view path) {
  for (size_t i = 0; i < hooks.size(); ++i) {
    const Hook& hook = hooks[i];
    const std::string item = absl::StrCat(path, "[", i, "]");
    DRA_RETURN_IF_ERROR(CheckPath(hook.path, absl::StrCat(item, ".path")));
    DRA_RETURN_IF_ERROR(CheckNoNul(hook.args, absl::StrCat(item, ".args")));
    DRA_RETURN_IF_ERROR(CheckNoNul(hook.env, absl::StrCat(item, ".env")));
    if (!hook.args.empty() && hook.args[0].empty()) {
      return Invalid(absl::StrCat(item, ".args[0]"), "is empty, must be the program's name");
    }
    if (hook.timeout_seconds.has_value() &&
        (*hook.timeout_seconds <= 0 || *hook.timeout_seconds > UINT32_MAX)) {
      return Invalid(
          absl::StrCat(item, ".timeout"),
          absl::StrCat("is ", *hook.timeout_seconds, ", must be from 1 to 4294967295 seconds"));
    }
  }
  return absl::OkStatus();
}

char TypeLetter(FileType type) {
  switch (type) {
    case FileType::kCharDevice:
      return 'c';
    case FileType::kBlockDevice:
      return 'b';
    case FileType::kFifo:
      return 'p';
    default:
      return '?';
  }
}

}  // namespace

absl::Status ValidateOwnEdits(const ContainerEdits& edits, absl::string_view path) {
  DRA_RETURN_IF_ERROR(ValidateEdits(edits, path));
  DRA_RETURN_IF_ERROR(CheckNoNul(edits.env, absl::StrCat(path, ".env")));
  DRA_RETURN_IF_ERROR(CheckNodes(edits.device_nodes, absl::StrCat(path, ".deviceNodes")));
  for (size_t i = 0; i < edits.net_devices.size(); ++i) {
    const std::string item = absl::StrCat(path, ".netDevices[", i, "]");
    DRA_RETURN_IF_ERROR(CheckInterfaceName(edits.net_devices[i].host_interface_name,
                                           absl::StrCat(item, ".hostInterfaceName")));
    DRA_RETURN_IF_ERROR(CheckInterfaceName(edits.net_devices[i].name, absl::StrCat(item, ".name")));
  }
  DRA_RETURN_IF_ERROR(CheckHooks(edits.hooks, absl::StrCat(path, ".hooks")));
  return CheckMounts(edits.mounts, absl::StrCat(path, ".mounts"));
}

void CompleteMountOptions(ContainerEdits& edits) {
  for (Mount& mount : edits.mounts) {
    if (!IsBindMount(mount)) continue;
    if (mount.options.empty()) {
      mount.options = {"bind", "ro"};
      continue;
    }
    if (!HasBind(mount)) mount.options.insert(mount.options.begin(), "bind");
    if (!Has(mount.options, "ro") && !Has(mount.options, "rw")) mount.options.push_back("rw");
  }
}

std::vector<std::string> CompareDeviceNumbers(const ContainerEdits& edits, FileSystem& fs) {
  std::vector<std::string> findings;
  for (const DeviceNode& node : edits.device_nodes) {
    if (node.major == 0) continue;  // the runtime takes the host's
    const std::string& host_path = node.host_path.empty() ? node.path : node.host_path;
    const absl::StatusOr<FileInfo> info = fs.Stat(host_path, /*follow=*/false);
    if (absl::IsNotFound(info.status())) continue;
    if (!info.ok()) {
      findings.push_back(absl::StrCat("device node \"", node.path,
                                      "\": numbers not compared: ", info.status().message()));
      continue;
    }
    const char type = TypeLetter(info->type);
    if (type != '?' && static_cast<int64_t>(info->major) == node.major &&
        static_cast<int64_t>(info->minor) == node.minor) {
      continue;
    }
    findings.push_back(
        absl::StrCat("device node \"", node.path, "\": number mismatch: the spec says ", node.major,
                     ":", node.minor, ", ", host_path,
                     type == '?' ? std::string(" is not a device node")
                                 : absl::StrCat(" is ", info->major, ":", info->minor)));
  }
  return findings;
}

}  // namespace dra::cdi
