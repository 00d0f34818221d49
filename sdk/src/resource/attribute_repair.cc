#include "resource/attribute_repair.h"

#include <algorithm>
#include <array>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "dra/resource/device_repair.h"
#include "dra/resource/limits.h"
#include "dra/resource/semver.h"
#include "nlohmann/json.hpp"
#include "resource/device_rules.h"

namespace dra::resource {
namespace {

constexpr absl::string_view kReservedDomain = "resource.kubernetes.io/";

bool IsLowerHex(absl::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

// "pci<dddd>:<bb>"
bool IsPcieRoot(absl::string_view text) {
  return absl::ConsumePrefix(&text, "pci") && text.size() == 7 &&
         IsLowerHex(text.substr(0, 4), 4) && text[4] == ':' && IsLowerHex(text.substr(5), 2);
}

// "dddd:bb:dd.f"
bool IsPciBusId(absl::string_view text) {
  return text.size() == 12 && IsLowerHex(text.substr(0, 4), 4) && text[4] == ':' &&
         IsLowerHex(text.substr(5, 2), 2) && text[7] == ':' && IsLowerHex(text.substr(8, 2), 2) &&
         text[10] == '.' && IsLowerHex(text.substr(11), 1);
}

// A list squeezed into one text: two or more parts, none with white space inside ("10.0.0.1/32,10.0.0.2/32"), against
// prose with a comma ("Advanced Micro Devices, Inc.").
bool IsJoinedList(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  return parts.size() > 1 && std::all_of(parts.begin(), parts.end(), [](absl::string_view part) {
           part = absl::StripAsciiWhitespace(part);
           return std::none_of(part.begin(), part.end(), [](char c) {
             return absl::ascii_isspace(static_cast<unsigned char>(c));
           });
         });
}

struct TextRepair {
  std::optional<std::string> text;
  std::string problem;
};

TextRepair RepairText(const std::string& text) {
  if (!IsUtf8(text)) return {std::nullopt, "must be UTF-8"};
  if (text.size() <= kMaxAttributeValueBytes) return {text, ""};
  const std::string limit =
      absl::StrCat("must be at most ", kMaxAttributeValueBytes, " bytes, has ", text.size());
  if (IsJoinedList(text)) return {std::nullopt, absl::StrCat(limit, "; a joined list is not cut")};
  return {std::string(CutUtf8(text, kMaxAttributeValueBytes)), limit};
}

TextRepair RepairVersionText(const std::string& text) {
  if (text.size() <= kMaxAttributeValueBytes && SemVer::Parse(text).ok()) return {text, ""};
  std::string problem = absl::StrCat("must be a Semantic Version 2.0.0 of at most ",
                                     kMaxAttributeValueBytes, " bytes");
  std::optional<std::string> repaired = RepairVersion(text);
  return {std::move(repaired), std::move(problem)};
}

// One value of a string or version attribute in place; false: it cannot be kept.
bool RepairItem(Json& value, bool is_version, std::string* problem) {
  if (!value.is_string()) {
    *problem = absl::StrCat("must be a string, is ", value.type_name());
    return false;
  }
  const std::string text = value.get<std::string>();
  TextRepair repair = is_version ? RepairVersionText(text) : RepairText(text);
  if (!repair.problem.empty()) *problem = repair.problem;
  if (!repair.text.has_value()) return false;
  value = std::move(*repair.text);
  return true;
}

// The rule of a standard attribute that `attribute` breaks, or "".
std::string StandardProblem(absl::string_view name, const Json& attribute) {
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, kReservedDomain)) return "";
  if (id == "pcieRoot") {
    return IsPcieRoot(StringOr(attribute, "string")) ? ""
                                                     : "must be a string of the form pci0000:00";
  }
  if (id == "pciBusID") {
    return IsPciBusId(StringOr(attribute, "string"))
               ? ""
               : "must be a string of the form 0000:17:00.0 in lower case";
  }
  if (id != "numaNode")
    return "resource.kubernetes.io has no such standard attribute; use the driver's own domain";
  if (const Json* list = Member(attribute, "ints"); list != nullptr && list->is_array()) {
    const bool known = std::all_of(list->begin(), list->end(), [](const Json& node) {
      return node.is_number_integer() && node >= 0;
    });
    return known ? "" : "must be NUMA node numbers of 0 or more";
  }
  const Json* node = Member(attribute, "int");
  if (node == nullptr || !node->is_number_integer()) return "must be an int";
  return *node >= 0 ? "" : "a NUMA node below 0 means unknown and is left out";
}

bool HasKnownType(const Json& attribute) {
  constexpr std::array<absl::string_view, 8> kTypes = {"int",  "bool",  "string",  "version",
                                                       "ints", "bools", "strings", "versions"};
  return std::any_of(kTypes.begin(), kTypes.end(),
                     [&](absl::string_view type) { return Find(attribute, type) != nullptr; });
}

}  // namespace

AttributeRepair RepairAttribute(const std::string& name, const Json& attribute) {
  // A type of a newer API is for the server to judge.
  if (attribute.is_object() && !HasKnownType(attribute) && !attribute.empty())
    return {attribute, ""};
  if (std::string problem = StandardProblem(name, attribute); !problem.empty())
    return {std::nullopt, problem};
  Json repaired = attribute;
  std::string problem;
  for (const absl::string_view type : {"string", "version", "strings", "versions"}) {
    if (Member(repaired, type) == nullptr) continue;
    Json& value = repaired[std::string(type)];
    const bool is_version = absl::StartsWith(type, "version");
    if (!value.is_array()) {
      if (!RepairItem(value, is_version, &problem)) return {std::nullopt, problem};
      continue;
    }
    for (Json& item : value) {
      if (!RepairItem(item, is_version, &problem)) return {std::nullopt, problem};
    }
  }
  FieldReader reader;
  CheckAttribute(reader, repaired, "");
  const std::vector<FieldError> errors = reader.Take();
  if (!errors.empty()) return {std::nullopt, JoinFieldErrors(errors)};
  return {std::move(repaired), std::move(problem)};
}

}  // namespace dra::resource
