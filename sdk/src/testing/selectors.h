#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/json.h"
#include "dra/kube/api_client.h"
#include "dra/testing/server_profile.h"

namespace dra::testing {

// The field and label selectors of one list or watch.
class Selector {
 public:
  // Errors: 400 for a field that is not selectable in this kind and version, or for text that does not parse.
  static absl::StatusOr<Selector> Parse(const kube::Resource& resource,
                                        const ServerProfile& profile,
                                        absl::string_view field_selector,
                                        absl::string_view label_selector);
  bool Matches(const Json& object) const;

 private:
  enum class Operator { kIn, kNotIn, kExists, kAbsent };
  struct Term {
    std::vector<std::string> path;  // to the value; labels: metadata, labels, key
    Operator op = Operator::kIn;
    std::vector<std::string> values;
  };
  static absl::Status AddLabelTerm(absl::string_view text, Selector& selector);
  std::vector<Term> terms_;
};

}  // namespace dra::testing
