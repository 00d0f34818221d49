#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace dra::resource {

// True for a text that the API server takes as a `version` attribute: Semantic Versioning 2.0.0, no "v", three parts.
bool IsSemVer(absl::string_view text);

// A parsed Semantic Version 2.0.0. Value type.
struct SemVer {
  uint64_t major = 0;
  uint64_t minor = 0;
  uint64_t patch = 0;
  std::vector<std::string> prerelease;
  std::vector<std::string> build;

  // Strict. Numbers must fit 64 bits: the API server takes longer ones, but the scheduler's CEL then fails.
  // Errors: InvalidArgument with the text and the rule.
  static absl::StatusOr<SemVer> Parse(absl::string_view text);
  std::string ToString() const;
};

// The precedence of semver.org 2.0.0, clause 11; build metadata plays no part.
std::strong_ordering Compare(const SemVer& a, const SemVer& b);

// A version made valid, or nothing where no rule applies. The rules, in this order: a leading "v" or "V" goes; two
// parts get a third of 0 ("12.4" -> "12.4.0"); the fourth of four parts becomes build metadata
// ("6.19.14.31400000" -> "6.19.14+31400000"). The result is a SemVer of at most 64 bytes; a valid text stays as it is.
std::optional<std::string> RepairVersion(absl::string_view text);

}  // namespace dra::resource
