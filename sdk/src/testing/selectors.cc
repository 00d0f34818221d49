#include "testing/selectors.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"
#include "testing/api_errors.h"

namespace dra::testing {
namespace {

std::string Trim(absl::string_view text) { return std::string(absl::StripAsciiWhitespace(text)); }

bool IsSelectable(const kube::Resource& resource, const ServerProfile& profile,
                  absl::string_view field) {
  if (field == "metadata.name") return true;
  if (field == "metadata.namespace") return resource.namespaced;
  if (resource.plural == "resourceslices") {
    if (field == "spec.nodeName" || field == "spec.driver") return true;
    return field == "spec.pool.name" && profile.minor >= 37;
  }
  if (resource.plural == "pods") return field == "spec.nodeName" || field == "status.phase";
  return false;
}

// Splits on commas that stand outside parentheses.
std::vector<std::string> SplitTerms(absl::string_view text) {
  std::vector<std::string> terms(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (c == ',' && depth == 0) {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  return terms;
}

}  // namespace

absl::StatusOr<Selector> Selector::Parse(const kube::Resource& resource,
                                         const ServerProfile& profile,
                                         absl::string_view field_selector,
                                         absl::string_view label_selector) {
  Selector selector;
  for (absl::string_view text : absl::StrSplit(field_selector, ',', absl::SkipEmpty())) {
    const bool negated = absl::StrContains(text, "!=");
    const std::vector<std::string> sides =
        absl::StrSplit(text, absl::MaxSplits(negated ? "!=" : "=", 1));
    if (sides.size() != 2) return BadRequestError(absl::StrCat("invalid field selector: ", text));
    const std::string field = Trim(sides[0]);
    if (!IsSelectable(resource, profile, field)) {
      return BadRequestError(absl::StrCat("field label not supported: ", field));
    }
    Term term;
    term.path = absl::StrSplit(field, '.');
    term.op = negated ? Operator::kNotIn : Operator::kIn;
    absl::string_view value = sides[1];
    if (!negated && absl::StartsWith(value, "=")) value.remove_prefix(1);
    term.values = {Trim(value)};
    selector.terms_.push_back(std::move(term));
  }
  if (!absl::StripAsciiWhitespace(label_selector).empty()) {
    for (const std::string& text : SplitTerms(label_selector)) {
      DRA_RETURN_IF_ERROR(AddLabelTerm(absl::StripAsciiWhitespace(text), selector));
    }
  }
  return selector;
}

absl::Status Selector::AddLabelTerm(absl::string_view text, Selector& selector) {
  Term term;
  std::string key;
  const size_t open = text.find('(');
  if (open != absl::string_view::npos) {
    const std::vector<std::string> words =
        absl::StrSplit(text.substr(0, open), ' ', absl::SkipWhitespace());
    if (words.size() != 2 || !absl::EndsWith(text, ")") ||
        (words[1] != "in" && words[1] != "notin")) {
      return BadRequestError(absl::StrCat("unable to parse requirement: ", text));
    }
    key = words[0];
    term.op = words[1] == "in" ? Operator::kIn : Operator::kNotIn;
    for (absl::string_view value :
         absl::StrSplit(text.substr(open + 1, text.size() - open - 2), ',')) {
      term.values.push_back(Trim(value));
    }
  } else if (const size_t unequal = text.find("!="); unequal != absl::string_view::npos) {
    key = Trim(text.substr(0, unequal));
    term.op = Operator::kNotIn;
    term.values = {Trim(text.substr(unequal + 2))};
  } else if (const size_t equal = text.find('='); equal != absl::string_view::npos) {
    key = Trim(text.substr(0, equal));
    absl::string_view value = text.substr(equal + 1);
    if (absl::StartsWith(value, "=")) value.remove_prefix(1);
    term.values = {Trim(value)};
  } else if (absl::StartsWith(text, "!")) {
    key = Trim(text.substr(1));
    term.op = Operator::kAbsent;
  } else {
    key = Trim(text);
    term.op = Operator::kExists;
  }
  if (key.empty())
    return BadRequestError(absl::StrCat("unable to parse requirement: \"", text, "\""));
  term.path = {"metadata", "labels", key};
  selector.terms_.push_back(std::move(term));
  return absl::OkStatus();
}

bool Selector::Matches(const Json& object) const {
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    const Json* value = &object;
    for (const std::string& member : term.path) {
      if (value != nullptr) value = Find(*value, member);
    }
    const bool present = value != nullptr && value->is_string();
    if (term.op == Operator::kExists) return present;
    if (term.op == Operator::kAbsent) return !present;
    // A field that is absent selects as "" (spec.nodeName= finds the slices without a node); a label does not.
    const bool is_label = term.path.size() > 1 && term.path[1] == "labels";
    const bool listed =
        (present || !is_label) &&
        std::find(term.values.begin(), term.values.end(),
                  present ? value->get<std::string>() : std::string()) != term.values.end();
    return term.op == Operator::kIn ? listed : !listed;
  });
}

}  // namespace dra::testing
