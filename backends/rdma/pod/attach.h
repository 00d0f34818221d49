#pragma once

#include <string>

#include "claim_folder.h"
#include "namespace.h"
#include "rdma_moves.h"

namespace rdma {

struct PodSandbox {
  std::string pod_uid;     // of the runtime's annotations
  std::string sandbox_id;  // likewise
};

// The hook's work: brings the claim's interfaces into the pod's namespace and sets them up. Runs in the host's network
// namespace. Takes the claim's lock. Throws std::runtime_error whose text goes to the pod's events; nothing of the
// host is left half done: what was moved before the failure is moved back.
//   - refused: no plan (the claim is not prepared any more), another pod's UID, the host's own namespace
//     (hostNetwork: true), a name that the pod has already (found before any move).
//   - the same namespace again (a second or restarted container): finds everything in place and sets up what is
//     missing.
//   - another namespace of the same pod (a new sandbox): brings them over from the pinned one, or from the host.
//   - order: pin, state "moving", moves (of each the interface, then its RDMA device), settings, state "attached". Why
//     it failed is noted in the state, unless another pod asked.
void Attach(const ClaimFolder& folder, const PodSandbox& sandbox, const NetworkNamespace& pod,
            RdmaMoves& rdma = KernelRdmaMoves());

}  // namespace rdma
