#pragma once

#include "links.h"
#include "namespace.h"
#include "plan.h"

namespace rdma {

// Makes the interface in the pod's namespace what the config asks for. afresh: all of it; else it was set up before,
// the pod may have changed it since, and only what is missing of up, addresses, routes, rules and neighbours is added.
// Throws with what could not be set.
AttachedInterface SetUpInterface(const NetworkNamespace& pod, const Link& link,
                                 const Attachment& attachment, bool afresh);

}  // namespace rdma
