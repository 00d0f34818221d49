#pragma once

#include <string>
#include <vector>

#include "dra/backend/backend.h"
#include "links_source.h"
#include "nic.h"
#include "options.h"
#include "pod/plan.h"

namespace rdma {

// One device of a claim with what was found of it and what is wanted.
struct WantedNic {
  const dra::AllocatedDevice* allocated = nullptr;
  const Nic* nic = nullptr;
  NetworkConfig config;
  bool shared = false;  // other claims may have it too
};

// The config that counts for a device: the fields of all that apply, per field the highest. Throws
// DRA_INVALID_ARGUMENT with the path.
NetworkConfig ConfigOf(const dra::AllocatedDevice& device);

// What the plan calls it: its name, with the share where there is one. A claim may have several shares of one NIC.
std::string NameInPlan(const dra::AllocatedDevice& device);

// The interface as it is now, with its addresses, routes, rules and neighbours.
HostInterface HostInterfaceOf(const Nic& nic, const KernelNetwork& network);

// What is to be done with the interfaces of the claim's NICs once its pod's namespace is there. Only those that something
// is to be done with: none for a NIC without interface, a shared one without macvlan, one that is only looked at (admin
// access), and none at all with AttachBy::kNone. With AttachBy::kNetDevices the runtime does it: the plan is refused
// what that cannot do. Throws DRA_INVALID_ARGUMENT, or DRA_FAILED_PRECONDITION, that names device, request and remedy:
// two interfaces of one name, a wish for an interface that the NIC has not, an MTU above the physical function's.
Plan MakePlan(const dra::PrepareRequest& request, const std::vector<WantedNic>& wanted,
              const KernelNetwork& network, const Options& options);

// AllocatedDeviceStatus members: networkData and conditions, for a device that is in the pod, whose way there failed,
// that goes there with the first container, and that has nothing to go there.
dra::Json StatusOf(const AttachedInterface& attached);
dra::Json FailedStatusOf(const AttachState& state);
dra::Json WaitingStatusOf(const Attachment& attachment);
dra::Json ReadyStatusOf(const Nic& nic);

}  // namespace rdma
