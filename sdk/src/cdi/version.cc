#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dra/base/status.h"
#include "dra/cdi/names.h"
#include "dra/cdi/spec.h"

namespace dra::cdi {
namespace {

// Oldest first. Tags of the Go library (v0.5.1, v1.0.1 ...) are not spec versions.
constexpr std::array<absl::string_view, 10> kVersions = {
    "0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0"};

absl::StatusOr<int> IndexOf(absl::string_view version) {
  const auto found = std::find(kVersions.begin(), kVersions.end(), absl::StripPrefix(version, "v"));
  if (found == kVersions.end()) {
    return absl::InvalidArgumentError(absl::StrCat("invalid version \"", version, "\""));
  }
  return static_cast<int>(found - kVersions.begin());
}

bool Needs110(const ContainerEdits& edits) {
  return !edits.net_devices.empty() ||
         (edits.intel_rdt.has_value() &&
          (edits.intel_rdt->schemata.has_value() || edits.intel_rdt->enable_monitoring));
}

bool Needs070(const ContainerEdits& edits) {
  return edits.intel_rdt.has_value() || !edits.additional_gids.empty();
}

bool Needs050(const ContainerEdits& edits) {
  return std::any_of(edits.device_nodes.begin(), edits.device_nodes.end(),
                     [](const DeviceNode& node) { return !node.host_path.empty(); });
}

bool Needs040(const ContainerEdits& edits) {
  return std::any_of(edits.mounts.begin(), edits.mounts.end(),
                     [](const Mount& mount) { return !mount.type.empty(); });
}

bool AnyEdits(const Spec& spec, bool (*needs)(const ContainerEdits&)) {
  return needs(spec.edits) || std::any_of(spec.devices.begin(), spec.devices.end(),
                                          [needs](const Device& d) { return needs(d.edits); });
}

}  // namespace

std::string MinimumVersion(const Spec& spec) {
  if (AnyEdits(spec, Needs110)) return "1.1.0";
  if (AnyEdits(spec, Needs070)) return "0.7.0";
  const bool annotated =
      !spec.annotations.empty() ||
      std::any_of(spec.devices.begin(), spec.devices.end(),
                  [](const Device& device) { return !device.annotations.empty(); });
  if (annotated || absl::StrContains(ClassOf(spec.kind), ".")) return "0.6.0";
  const bool other_first_character =
      std::any_of(spec.devices.begin(), spec.devices.end(), [](const Device& device) {
        return !device.name.empty() &&
               !absl::ascii_isalpha(static_cast<unsigned char>(device.name[0]));
      });
  if (other_first_character || AnyEdits(spec, Needs050)) return "0.5.0";
  return AnyEdits(spec, Needs040) ? "0.4.0" : "0.3.0";
}

absl::StatusOr<int> CompareVersions(absl::string_view left, absl::string_view right) {
  DRA_ASSIGN_OR_RETURN(const int left_index, IndexOf(left));
  DRA_ASSIGN_OR_RETURN(const int right_index, IndexOf(right));
  return left_index < right_index ? -1 : (left_index > right_index ? 1 : 0);
}

}  // namespace dra::cdi
