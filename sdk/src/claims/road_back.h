#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "claims/claim_core.h"

namespace dra::claims {

struct RoadBack {
  bool on_disk = true;       // there is a record file
  bool call_backend = true;  // false: nothing was ever begun on the hardware
  bool differs = false;      // the file does not say what the record says: it is written anew
  // Of a prepare that failed: a file that cannot be written must not keep the hardware from being undone.
  bool must_go_on = false;
};

// Undoes a claim with the locks of claim and keys held: phase, CDI file away, backend, record away, files away, holds
// away (design 3.1). On failure the record stays, in phase unpreparing or dirty, so that a repeat goes on from there.
// The status names the claim and what to do.
absl::Status WalkBack(ClaimCore& core, records::Record record, const std::vector<std::string>& keys,
                      const RoadBack& road, const std::stop_token& stop);

// Whether the backend may have done anything for what this record says.
bool BackendMayHaveBegun(const records::Record& record);

// The exclusion keys of a record: by its devices, and those on which this process knows holds of the claim.
std::vector<std::string> KeysOfRecord(const ClaimCore& core, const records::Record& record);

}  // namespace dra::claims
