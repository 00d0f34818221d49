#pragma once

#include "claims/claim_core.h"
#include "claims/operations.h"

namespace dra::claims {

// One attempt to unprepare a claim: docs/claim-states.md. Needs neither API server nor hardware. Any thread.
Step AttemptUnprepare(ClaimCore& core, Operation& operation);

}  // namespace dra::claims
