#include "claims/claim_standing.h"

#include <algorithm>
#include <string>

namespace dra::claims {

absl::string_view StandingName(Standing standing) {
  switch (standing) {
    case Standing::kOurs:
      return "ours";
    case Standing::kGone:
      return "gone";
    case Standing::kReplaced:
      return "replaced";
    case Standing::kWithdrawn:
      return "withdrawn";
  }
  return "unknown";
}

absl::StatusOr<Standing> StandingOf(const records::Record& record,
                                    const absl::StatusOr<resource::ResourceClaim>& looked,
                                    absl::string_view driver_name) {
  if (absl::IsNotFound(looked.status())) return Standing::kGone;
  if (!looked.ok()) return looked.status();
  const resource::ResourceClaim& claim = *looked;
  if (claim.uid != record.claim.uid) return Standing::kReplaced;
  if (!claim.allocated) return Standing::kWithdrawn;
  const auto is_recorded = [&](const resource::AllocationResult& result) {
    return std::any_of(
        record.devices.begin(), record.devices.end(), [&](const records::RecordDevice& device) {
          // The CDI file, which may be all that tells of a damaged record, names no pool.
          return (device.pool.empty() || device.pool == result.id.pool) &&
                 device.device == result.id.device && device.share_id == result.id.share_id;
        });
  };
  bool any_of_ours = false;
  bool any_recorded = false;
  for (const resource::AllocationResult& result : claim.results) {
    if (driver_name != result.id.driver) continue;
    any_of_ours = true;
    any_recorded = any_recorded || is_recorded(result);
  }
  if (!any_of_ours) return Standing::kWithdrawn;
  if (record.devices.empty()) return Standing::kOurs;  // which devices it had is not known
  if (!any_recorded) return Standing::kWithdrawn;      // allocated again, elsewhere
  if (record.allocation_digest.empty() || !claim.reserved_for.empty()) return Standing::kOurs;
  // Allocated again, in part to the same devices, and nobody uses it: no prepare is on its way.
  const bool same = resource::AllocationDigest(claim, driver_name) == record.allocation_digest;
  return same ? Standing::kOurs : Standing::kWithdrawn;
}

}  // namespace dra::claims
