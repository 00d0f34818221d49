#include "dra/resource/semver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "dra/resource/limits.h"

namespace dra::resource {
namespace {

bool IsNumber(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}
bool IsCoreNumber(absl::string_view text) {
  return IsNumber(text) && (text.size() == 1 || text[0] != '0');
}

bool IsBuildIdentifier(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-';
  });
}
bool IsPrereleaseIdentifier(absl::string_view text) {
  return IsBuildIdentifier(text) && (!IsNumber(text) || IsCoreNumber(text));
}

// The pieces of "<core>[-<prerelease>][+<build>]"; an empty piece is one empty identifier.
struct Pieces {
  std::vector<absl::string_view> core;
  std::vector<absl::string_view> prerelease;
  std::vector<absl::string_view> build;
};

Pieces Split(absl::string_view text) {
  Pieces pieces;
  if (const size_t plus = text.find('+'); plus != absl::string_view::npos) {
    pieces.build = absl::StrSplit(text.substr(plus + 1), '.');
    text = text.substr(0, plus);
  }
  if (const size_t dash = text.find('-'); dash != absl::string_view::npos) {
    pieces.prerelease = absl::StrSplit(text.substr(dash + 1), '.');
    text = text.substr(0, dash);
  }
  pieces.core = absl::StrSplit(text, '.');
  return pieces;
}

bool IsValid(const Pieces& pieces) {
  return pieces.core.size() == 3 &&
         std::all_of(pieces.core.begin(), pieces.core.end(), IsCoreNumber) &&
         std::all_of(pieces.prerelease.begin(), pieces.prerelease.end(), IsPrereleaseIdentifier) &&
         std::all_of(pieces.build.begin(), pieces.build.end(), IsBuildIdentifier);
}

std::string Join(const std::vector<absl::string_view>& core,
                 const std::vector<absl::string_view>& prerelease,
                 const std::vector<absl::string_view>& build) {
  std::string text = absl::StrJoin(core, ".");
  if (!prerelease.empty()) absl::StrAppend(&text, "-", absl::StrJoin(prerelease, "."));
  if (!build.empty()) absl::StrAppend(&text, "+", absl::StrJoin(build, "."));
  return text;
}

std::strong_ordering CompareIdentifiers(const std::string& a, const std::string& b) {
  const bool a_number = IsNumber(a), b_number = IsNumber(b);
  if (a_number != b_number)
    return a_number ? std::strong_ordering::less : std::strong_ordering::greater;
  // Without leading zeros a longer number is a larger one.
  if (a_number && a.size() != b.size()) return a.size() <=> b.size();
  return a.compare(b) <=> 0;
}

}  // namespace

bool IsSemVer(absl::string_view text) { return IsValid(Split(text)); }

absl::StatusOr<SemVer> SemVer::Parse(absl::string_view text) {
  const Pieces pieces = Split(text);
  if (!IsValid(pieces)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "version \"", text,
        "\": must be a Semantic Version 2.0.0: <major>.<minor>.<patch>[-<pre>][+<build>], no "
        "leading zeros, no \"v\""));
  }
  SemVer version;
  if (!absl::SimpleAtoi(pieces.core[0], &version.major) ||
      !absl::SimpleAtoi(pieces.core[1], &version.minor) ||
      !absl::SimpleAtoi(pieces.core[2], &version.patch)) {
    return absl::InvalidArgumentError(
        absl::StrCat("version \"", text, "\": a number does not fit 64 bits"));
  }
  for (const absl::string_view identifier : pieces.prerelease) {
    uint64_t number = 0;
    if (IsNumber(identifier) && !absl::SimpleAtoi(identifier, &number)) {
      return absl::InvalidArgumentError(
          absl::StrCat("version \"", text, "\": a number of the pre-release does not fit 64 bits"));
    }
    version.prerelease.emplace_back(identifier);
  }
  for (const absl::string_view identifier : pieces.build) version.build.emplace_back(identifier);
  return version;
}

std::string SemVer::ToString() const {
  std::string text = absl::StrCat(major, ".", minor, ".", patch);
  if (!prerelease.empty()) absl::StrAppend(&text, "-", absl::StrJoin(prerelease, "."));
  if (!build.empty()) absl::StrAppend(&text, "+", absl::StrJoin(build, "."));
  return text;
}

std::strong_ordering Compare(const SemVer& a, const SemVer& b) {
  if (const auto order = a.major <=> b.major; order != 0) return order;
  if (const auto order = a.minor <=> b.minor; order != 0) return order;
  if (const auto order = a.patch <=> b.patch; order != 0) return order;
  if (a.prerelease.empty() != b.prerelease.empty()) {
    return a.prerelease.empty() ? std::strong_ordering::greater : std::strong_ordering::less;
  }
  const size_t common = std::min(a.prerelease.size(), b.prerelease.size());
  for (size_t i = 0; i < common; ++i) {
    if (const auto order = CompareIdentifiers(a.prerelease[i], b.prerelease[i]); order != 0)
      return order;
  }
  return a.prerelease.size() <=> b.prerelease.size();
}

std::optional<std::string> RepairVersion(absl::string_view text) {
  if (!text.empty() && (text[0] == 'v' || text[0] == 'V')) text.remove_prefix(1);
  Pieces pieces = Split(text);
  if (pieces.core.size() == 2) {
    pieces.core.push_back("0");
  } else if (pieces.core.size() == 4 && IsNumber(pieces.core[3])) {
    pieces.build.insert(pieces.build.begin(), pieces.core[3]);
    pieces.core.pop_back();
  }
  std::string repaired = Join(pieces.core, pieces.prerelease, pieces.build);
  if (repaired.size() > kMaxAttributeValueBytes || !SemVer::Parse(repaired).ok())
    return std::nullopt;
  return repaired;
}

}  // namespace dra::resource
