#include "container_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "dra/base/file_system.h"
#include "dra/base/status.h"
#include "dra/testing/cdi_runtime.h"
#include "nlohmann/json.hpp"

namespace dra::sandbox {
namespace {

constexpr size_t kNamesShown = 16;

std::string Names(const Json& list) {
  std::vector<std::string> names;
  for (const Json& item : list) names.push_back(StringOr(item, "name"));
  if (names.size() <= kNamesShown) return absl::StrJoin(names, " ");
  const size_t more = names.size() - kNamesShown;
  names.resize(kNamesShown);
  return absl::StrCat(absl::StrJoin(names, " "), " and ", more, " more");
}

}  // namespace

std::string DescribeSlice(const Json& slice) {
  const Json* metadata = Find(slice, "metadata");
  const Json* spec = Find(slice, "spec");
  if (metadata == nullptr || spec == nullptr) return "a slice without metadata or spec";
  const Json* pool = Find(*spec, "pool");
  std::string text = StringOr(*metadata, "name");
  if (pool != nullptr) {
    absl::StrAppend(&text, ": pool ", StringOr(*pool, "name"), ", generation ",
                    IntOr(*pool, "generation"));
  }
  if (const Json* counters = Find(*spec, "sharedCounters");
      counters != nullptr && counters->is_array()) {
    absl::StrAppend(&text, ": ", counters->size(), " counter sets ", Names(*counters));
  }
  if (const Json* devices = Find(*spec, "devices"); devices != nullptr && devices->is_array()) {
    absl::StrAppend(&text, ": ", devices->size(), " devices ", Names(*devices));
  }
  return text;
}

std::string DescribeAllocation(const Json& claim) {
  const Json::json_pointer path("/status/allocation/devices/results");
  if (!claim.contains(path)) return "nothing";
  std::vector<std::string> parts;
  for (const Json& result : claim.at(path)) {
    std::string text =
        absl::StrCat(StringOr(result, "device"), " (request ", StringOr(result, "request"));
    if (BoolOr(result, "adminAccess")) absl::StrAppend(&text, ", admin access");
    if (const Json* consumed = Find(result, "consumedCapacity"); consumed != nullptr) {
      absl::StrAppend(&text, ", share with ", DumpJson(*consumed));
    }
    parts.push_back(absl::StrCat(text, ")"));
  }
  return absl::StrJoin(parts, ", ");
}

absl::StatusOr<std::vector<std::string>> DescribeContainer(
    const testing::KubeletContainer& container, const std::string& cdi_directory) {
  PosixFileSystem fs;
  const testing::CdiRuntime runtime(&fs, {cdi_directory});
  const Json empty = testing::CdiRuntime::EmptyConfig();
  const absl::StatusOr<Json> config = runtime.Inject(empty, container.cdi_ids);
  DRA_RETURN_IF_ERROR(Annotate(config.status(), absl::StrCat("container ", container.name)));
  const std::vector<std::string> own = testing::CdiRuntime::View(empty).env;
  const testing::ContainerView view = testing::CdiRuntime::View(*config);
  std::vector<std::string> lines = {absl::StrCat("container ", container.name, " gets, from CDI ",
                                                 absl::StrJoin(container.cdi_ids, ", "), ":")};
  for (const std::string& variable : view.env) {
    if (std::find(own.begin(), own.end(), variable) == own.end())
      lines.push_back("  env    " + variable);
  }
  for (const std::string& node : view.device_nodes) lines.push_back("  device " + node);
  for (const std::string& mount : view.mounts) lines.push_back("  mount  " + mount);
  for (const std::string& device : view.net_devices) lines.push_back("  net    " + device);
  for (const std::string& hook : view.hooks) lines.push_back("  hook   " + hook);
  return lines;
}

}  // namespace dra::sandbox
