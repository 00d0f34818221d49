#include "publisher/slice_names.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace dra::publisher {
namespace {

constexpr size_t kMaxGeneratedPrefix = 58;
constexpr size_t kIndexDigits = 5;

}  // namespace

std::string GenerateName(uint64_t index, absl::string_view driver_name,
                         absl::string_view node_name) {
  std::string name =
      absl::StrCat(absl::Hex(index, absl::kZeroPad5), "-", driver_name, "-", node_name, "-");
  if (name.size() > kMaxGeneratedPrefix) name.resize(kMaxGeneratedPrefix);
  // The server checks the prefix itself as a DNS subdomain and forgives a trailing dash, but no trailing dot.
  while (!name.empty() && name.back() == '.') name.pop_back();
  return name;
}

std::optional<uint64_t> IndexOf(absl::string_view slice_name) {
  const size_t dash = slice_name.find('-');
  if (dash == absl::string_view::npos || dash < kIndexDigits) return std::nullopt;
  const absl::string_view digits = slice_name.substr(0, dash);
  if (digits.find_first_not_of("0123456789abcdef") != absl::string_view::npos) return std::nullopt;
  uint64_t index = 0;
  if (!absl::SimpleHexAtoi(digits, &index)) return std::nullopt;
  return index;
}

std::string Meta(const Json& object, absl::string_view key) {
  const Json* metadata = Find(object, "metadata");
  return metadata == nullptr ? std::string() : StringOr(*metadata, key);
}

bool IsOurs(const Json& slice, absl::string_view driver_name, absl::string_view node_name) {
  const Json* spec = Find(slice, "spec");
  return spec != nullptr && StringOr(*spec, "driver") == driver_name &&
         StringOr(*spec, "nodeName") == node_name;
}

std::string SelectorOf(absl::string_view driver_name, absl::string_view node_name) {
  return absl::StrCat("spec.driver=", driver_name, ",spec.nodeName=", node_name);
}

std::string PoolOf(const Json& slice) {
  const Json* spec = Find(slice, "spec");
  const Json* pool = spec == nullptr ? nullptr : Find(*spec, "pool");
  return pool == nullptr ? std::string() : StringOr(*pool, "name");
}

}  // namespace dra::publisher
