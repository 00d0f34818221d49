#include "claims/claim_manager_impl.h"

namespace dra::claims {

absl::Status ClaimManagerImpl::Reconcile(const Call&) { return absl::OkStatus(); }
int ClaimManagerImpl::PrepareAgain(const Call&) { return 0; }
OrphanReport ClaimManagerImpl::CollectOrphans(const Call&) { return {}; }

}  // namespace dra::claims
