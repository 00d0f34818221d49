#include "dra/testing/cdi_runtime.h"

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dra/base/status.h"
#include "dra/cdi/oci.h"
#include "dra/cdi/spec.h"
#include "dra/cdi/validate.h"
#include "nlohmann/json.hpp"
#include "testing/admission.h"

namespace dra::testing {
namespace {

struct Entry {
  std::shared_ptr<const cdi::Spec> spec;
  std::string path;
  size_t device = 0;
  size_t priority = 0;
};

struct Scanned {
  std::map<std::string, Entry> devices;
  std::map<std::string, std::string> errors;
};

void AddError(Scanned& scanned, const std::string& path, const std::string& why) {
  std::string& text = scanned.errors[path];
  absl::StrAppend(&text, text.empty() ? "" : "; ", why);
}

absl::StatusOr<cdi::Spec> Load(FileSystem& fs, const std::string& path) {
  DRA_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(path));
  DRA_ASSIGN_OR_RETURN(cdi::Spec spec, cdi::ParseSpecFile(text));
  DRA_RETURN_IF_ERROR(cdi::ValidateSpec(spec));
  return spec;
}

Scanned ScanDirectories(FileSystem& fs, const std::vector<std::string>& directories) {
  Scanned scanned;
  std::set<std::string> conflicts;
  for (size_t priority = 0; priority < directories.size(); ++priority) {
    const absl::StatusOr<std::vector<std::string>> names = fs.List(directories[priority]);
    if (!names.ok()) {
      if (!absl::IsNotFound(names.status()))
        AddError(scanned, directories[priority], names.status().ToString());
      continue;
    }
    for (const std::string& name : *names) {
      if (!absl::EndsWith(name, ".json") && !absl::EndsWith(name, ".yaml")) continue;
      const std::string path = JoinPath(directories[priority], name);
      absl::StatusOr<cdi::Spec> loaded = Load(fs, path);
      if (!loaded.ok()) {
        AddError(scanned, path,
                 absl::StrCat("failed to load CDI Spec: ", std::string(loaded.status().message())));
        continue;
      }
      const auto spec = std::make_shared<const cdi::Spec>(*std::move(loaded));
      for (size_t device = 0; device < spec->devices.size(); ++device) {
        const std::string qualified = absl::StrCat(spec->kind, "=", spec->devices[device].name);
        const auto [found, added] =
            scanned.devices.try_emplace(qualified, Entry{spec, path, device, priority});
        if (added) continue;
        if (found->second.priority < priority) {
          found->second = Entry{spec, path, device, priority};
          continue;
        }
        const std::string why = absl::StrCat("conflicting device \"", qualified, "\" (specs \"",
                                             found->second.path, "\", \"", path, "\")");
        AddError(scanned, found->second.path, why);
        AddError(scanned, path, why);
        conflicts.insert(qualified);
      }
    }
  }
  // After the whole scan and whatever the priority, as the CDI library does it.
  for (const std::string& qualified : conflicts) scanned.devices.erase(qualified);
  return scanned;
}

void AppendLines(std::string& text, absl::string_view title,
                 const std::vector<std::string>& lines) {
  if (lines.empty()) return;
  absl::StrAppend(&text, std::string(title), ":\n");
  for (const std::string& line : lines) absl::StrAppend(&text, "  ", line, "\n");
}

std::vector<std::string> TextsOf(const Json& array) {
  std::vector<std::string> texts;
  if (!array.is_array()) return texts;
  for (const Json& entry : array) {
    if (entry.is_string()) texts.push_back(entry.get<std::string>());
  }
  return texts;
}

std::string AccessOf(const Json& oci, const Json& node) {
  const Json& rules = At(oci, {"linux", "resources", "devices"});
  std::string access = "no access";
  if (!rules.is_array()) return access;
  for (const Json& rule : rules) {
    if (StringOr(rule, "type") == StringOr(node, "type") &&
        IntOr(rule, "major", -1) == IntOr(node, "major") &&
        IntOr(rule, "minor", -1) == IntOr(node, "minor")) {
      access = StringOr(rule, "access");
    }
  }
  return access;
}

}  // namespace

CdiRuntime::CdiRuntime(FileSystem* fs, std::vector<std::string> directories)
    : fs_(fs), directories_(std::move(directories)) {}

CdiRuntime::Registry CdiRuntime::Scan() const {
  Scanned scanned = ScanDirectories(*fs_, directories_);
  Registry registry;
  for (const auto& [name, entry] : scanned.devices) registry.devices.push_back(name);
  registry.errors = std::move(scanned.errors);
  return registry;
}

absl::StatusOr<Json> CdiRuntime::Inject(const Json& oci,
                                        const std::vector<std::string>& ids) const {
  const Scanned scanned = ScanDirectories(*fs_, directories_);
  cdi::ContainerEdits edits;
  std::vector<std::string> missing;
  std::set<std::string> used_files;
  for (const std::string& id : ids) {
    const auto found = scanned.devices.find(id);
    if (found == scanned.devices.end()) {
      missing.push_back(id);
      continue;
    }
    const Entry& entry = found->second;
    if (used_files.insert(entry.path).second) cdi::Append(edits, entry.spec->edits);
    cdi::Append(edits, entry.spec->devices[entry.device].edits);
  }
  if (!missing.empty()) {
    std::string text = absl::StrCat("unresolvable CDI devices ", absl::StrJoin(missing, ", "));
    for (const auto& [path, why] : scanned.errors) absl::StrAppend(&text, "; ", path, ": ", why);
    return absl::NotFoundError(text);
  }
  Json injected = oci;
  DRA_RETURN_IF_ERROR(Annotate(cdi::ApplyEdits(injected, edits, *fs_), "failed to inject devices"));
  return injected;
}

Json CdiRuntime::EmptyConfig() {
  return {{"ociVersion", "1.2.0"},
          {"process",
           {{"env", Json::array()},
            {"args", {"sh"}},
            {"cwd", "/"},
            {"user", {{"uid", 0}, {"gid", 0}}}}},
          {"root", {{"path", "rootfs"}}},
          {"mounts", Json::array()},
          {"linux", Json::object()}};
}

ContainerView CdiRuntime::View(const Json& oci) {
  ContainerView view;
  std::map<std::string, std::string> env;
  for (const std::string& variable : TextsOf(At(oci, {"process", "env"}))) {
    env[variable.substr(0, variable.find('='))] = variable;
  }
  for (const auto& [name, variable] : env) view.env.push_back(variable);
  const Json& devices = At(oci, {"linux", "devices"});
  if (devices.is_array()) {
    for (const Json& node : devices) {
      view.device_nodes.push_back(absl::StrCat(StringOr(node, "path"), " ", StringOr(node, "type"),
                                               " ", IntOr(node, "major"), ":", IntOr(node, "minor"),
                                               " ", AccessOf(oci, node)));
    }
  }
  const Json& mounts = At(oci, {"mounts"});
  if (mounts.is_array()) {
    for (const Json& mount : mounts) {
      view.mounts.push_back(absl::StrCat(StringOr(mount, "source"), " -> ",
                                         StringOr(mount, "destination"), " (",
                                         absl::StrJoin(TextsOf(At(mount, {"options"})), ","), ")"));
    }
  }
  const Json& net_devices = At(oci, {"linux", "netDevices"});
  if (net_devices.is_object()) {
    for (const auto& [host_name, device] : net_devices.items()) {
      view.net_devices.push_back(absl::StrCat(host_name, " -> ", StringOr(device, "name")));
    }
  }
  const Json& hooks = At(oci, {"hooks"});
  if (hooks.is_object()) {
    for (const auto& [point, list] : hooks.items()) {
      if (!list.is_array()) continue;
      for (const Json& hook : list) {
        std::vector<std::string> arguments = TextsOf(At(hook, {"args"}));
        if (!arguments.empty()) arguments.erase(arguments.begin());  // args[0] repeats the name
        view.hooks.push_back(absl::StrCat(point, " ", StringOr(hook, "path"),
                                          arguments.empty() ? "" : " ",
                                          absl::StrJoin(arguments, " ")));
      }
    }
  }
  return view;
}

std::string ContainerView::ToText() const {
  std::string text;
  AppendLines(text, "environment", env);
  AppendLines(text, "device nodes", device_nodes);
  AppendLines(text, "mounts", mounts);
  AppendLines(text, "network devices", net_devices);
  AppendLines(text, "hooks", hooks);
  return text;
}

}  // namespace dra::testing
