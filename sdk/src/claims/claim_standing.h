#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/records/record.h"
#include "dra/resource/claim.h"

namespace dra::claims {

// What one look at the API server says about a recorded claim.
enum class Standing {
  kOurs,       // as recorded, or the kubelet is going to say what to do
  kGone,       // no such claim
  kReplaced,   // another claim has its name
  kWithdrawn,  // nothing that is recorded is allocated to it any more
};

// "gone", "replaced", "withdrawn".
absl::string_view StandingName(Standing standing);

// looked: the answer to a GET. Errors: the look failed, whatever the reason, which says nothing about the claim. Pure.
absl::StatusOr<Standing> StandingOf(const records::Record& record,
                                    const absl::StatusOr<resource::ResourceClaim>& looked,
                                    absl::string_view driver_name);

}  // namespace dra::claims
