#include "driver/runtime_cdi.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "dra/base/status.h"

// Header only: Debian's library has no variant without exceptions, and every start would load it for one command.
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace dra::driver {
namespace {

constexpr uint64_t kMaxConfigBytes = 1u << 20;
// Imports of imports: containerd follows them too.
constexpr int kMaxFiles = 64;

// The keys of one runtime, of all its files: a later file outranks an earlier one.
struct CdiSettings {
  std::optional<bool> enabled;
  std::optional<std::vector<std::string>> spec_dirs;
  std::vector<std::string> files;
};

void TakeSettings(const toml::table& table, CdiSettings* settings) {
  if (const auto enabled = table["enable_cdi"].value<bool>()) settings->enabled = *enabled;
  const toml::array* directories = table["cdi_spec_dirs"].as_array();
  if (directories == nullptr) return;
  settings->spec_dirs.emplace();
  for (const toml::node& directory : *directories) {
    if (const auto text = directory.value<std::string>()) settings->spec_dirs->push_back(*text);
  }
}

absl::StatusOr<toml::table> ReadToml(FileSystem& fs, const std::string& path) {
  DRA_ASSIGN_OR_RETURN(const std::string text, fs.ReadFile(path, kMaxConfigBytes));
  toml::parse_result parsed = toml::parse(text, path);
  if (parsed.failed()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", parsed.error().source().begin.line,
                                                   ": ",
                                                   std::string(parsed.error().description())));
  }
  return std::move(parsed).table();
}

// The files that `pattern` names: itself, or for "<directory>/*<suffix>" those of the directory, sorted.
std::vector<std::string> Expand(FileSystem& fs, const std::string& pattern) {
  const std::string name = BaseName(pattern);
  if (!absl::StartsWith(name, "*")) return {pattern};
  std::vector<std::string> files;
  const absl::StatusOr<std::vector<std::string>> entries = fs.List(DirectoryName(pattern));
  if (!entries.ok()) return files;
  for (const std::string& entry : *entries) {
    if (absl::EndsWith(entry, name.substr(1))) {
      files.push_back(JoinPath(DirectoryName(pattern), entry));
    }
  }
  return files;
}

absl::StatusOr<CdiSettings> ReadContainerd(FileSystem& fs, absl::string_view root) {
  CdiSettings settings;
  std::vector<std::string> open = {absl::StrCat(root, "/etc/containerd/config.toml")};
  for (size_t next = 0; next < open.size() && next < kMaxFiles; ++next) {
    const absl::StatusOr<toml::table> table = ReadToml(fs, open[next]);
    if (absl::IsNotFound(table.status())) continue;
    DRA_RETURN_IF_ERROR(table.status());
    settings.files.push_back(open[next]);
    for (const char* plugin : {"io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"}) {
      if (const toml::table* cri = (*table)["plugins"][plugin].as_table()) {
        TakeSettings(*cri, &settings);
      }
    }
    const toml::array* imports = (*table)["imports"].as_array();
    if (imports == nullptr) continue;
    for (const toml::node& import : *imports) {
      const auto pattern = import.value<std::string>();
      if (!pattern.has_value()) continue;
      const std::string path = absl::StartsWith(*pattern, "/")
                                   ? absl::StrCat(root, *pattern)
                                   : JoinPath(DirectoryName(open[next]), *pattern);
      for (std::string& file : Expand(fs, path)) {
        if (std::find(open.begin(), open.end(), file) == open.end())
          open.push_back(std::move(file));
      }
    }
  }
  return settings;
}

absl::StatusOr<CdiSettings> ReadCrio(FileSystem& fs, absl::string_view root) {
  CdiSettings settings;
  std::vector<std::string> files = {absl::StrCat(root, "/etc/crio/crio.conf")};
  for (std::string& file : Expand(fs, absl::StrCat(root, "/etc/crio/crio.conf.d/*"))) {
    files.push_back(std::move(file));
  }
  for (const std::string& file : files) {
    const absl::StatusOr<toml::table> table = ReadToml(fs, file);
    if (absl::IsNotFound(table.status())) continue;
    DRA_RETURN_IF_ERROR(table.status());
    settings.files.push_back(file);
    if (const toml::table* runtime = (*table)["crio"]["runtime"].as_table()) {
      TakeSettings(*runtime, &settings);
    }
  }
  settings.enabled = true;  // CRI-O has no switch
  return settings;
}

// /var/run is /run on every node that runs a kubelet.
std::string Canonical(absl::string_view directory) {
  absl::string_view path = absl::StripSuffix(directory, "/");
  return absl::ConsumePrefix(&path, "/var/run/") ? absl::StrCat("/run/", path) : std::string(path);
}

CheckResult Judge(const std::string& subject, const CdiSettings& settings,
                  absl::string_view cdi_directory) {
  if (settings.enabled.has_value() && !*settings.enabled) {
    return {subject, false,
            "enable_cdi is false: containers start without their devices, and nothing says so; set "
            "it to true"};
  }
  if (settings.spec_dirs.has_value()) {
    const auto same = [&](const std::string& directory) {
      return Canonical(directory) == Canonical(cdi_directory);
    };
    if (std::none_of(settings.spec_dirs->begin(), settings.spec_dirs->end(), same)) {
      return {subject, false,
              absl::StrCat("cdi_spec_dirs is [", absl::StrJoin(*settings.spec_dirs, ", "),
                           "], this driver writes to ", cdi_directory,
                           ": containers would fail with \"unresolvable CDI devices\"; set "
                           "cdiDirectory to one of them")};
    }
    return {subject, true, absl::StrCat("reads ", cdi_directory)};
  }
  const bool unknown = !settings.enabled.has_value();
  return {subject, true,
          unknown ? "enable_cdi is not set: on from containerd 2.0, off in 1.7, where containers "
                    "then start without their devices"
                  : "CDI is on, with the runtime's own directories"};
}

}  // namespace

std::vector<CheckResult> CheckRuntimeCdi(FileSystem& fs, absl::string_view root,
                                         absl::string_view cdi_directory) {
  std::vector<CheckResult> results;
  const auto add = [&](const std::string& runtime, const absl::StatusOr<CdiSettings>& settings) {
    if (!settings.ok()) {
      results.push_back({absl::StrCat(runtime, " configuration"), false,
                         std::string(settings.status().message())});
    } else if (!settings->files.empty()) {
      results.push_back(
          Judge(absl::StrCat(runtime, " configuration ", absl::StrJoin(settings->files, ", ")),
                *settings, cdi_directory));
    }
  };
  add("containerd", ReadContainerd(fs, root));
  add("CRI-O", ReadCrio(fs, root));
  return results;
}

}  // namespace dra::driver
