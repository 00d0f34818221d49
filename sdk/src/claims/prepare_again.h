#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "claims/claim_core.h"

namespace dra::claims {

// The last error of a record in phase preparing that was prepared and is to be prepared again begins with this: so that
// it is known after a restart, too.
inline constexpr absl::string_view kPrepareAgain = "the backend asks to prepare the claim again";

// True for such a record of this boot.
bool WantsPrepareAgain(const ClaimCore& core, const records::Record& record);

// One attempt to do what the backend asked for in reconcile: the claim is read, its allocation compared with the
// record, and the backend's prepare is given the saved undo data. A pod runs on the claim, so a failure keeps the record
// and what it holds. True: there is nothing left to do, be it that somebody else prepared or released the claim. False:
// to be tried again.
bool PrepareClaimAgain(ClaimCore& core, const std::string& claim_uid, const Call& call);

}  // namespace dra::claims
