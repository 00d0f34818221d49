#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "claim_folder.h"
#include "rdma_moves.h"

namespace rdma {

struct GivenBack {
  std::string device;
  // The name on the host; "" = it is not there any more (a virtual one whose namespace went, an unplugged card). Of a
  // macvlan: that of the NIC it was made on. Of a NIC without an interface: that of its RDMA device.
  std::string host_name;
  std::string remark;  // "eth3 is taken by another interface: it is dra1f3a09 now"; "" = as it was
};

// Brings the claim's interfaces back to the host's namespace, the calling process's, under their old names and
// settings, and removes pin and state. May be repeated, and works after every step of Attach at which that was killed,
// and when the pod's namespace went first: then the device is looked for on the host by PCI address or hardware
// address, whatever name the kernel gave it. A macvlan is deleted. Throws only where a repeat may help (the lock is
// held beyond `limit`, the device is in the pod's namespace and cannot be moved, or is in one that cannot be looked
// into); what is gone for good is told, not thrown. Of a plan of an earlier boot only pin and state are removed.
// sys: root of sysfs, to find an interface by its PCI address. limit: for the lock and for what the kernel is bringing
// back, all of it.
std::vector<GivenBack> GiveBack(const ClaimFolder& folder, const std::string& sys,
                                std::chrono::milliseconds limit,
                                RdmaMoves& rdma = KernelRdmaMoves());

}  // namespace rdma
