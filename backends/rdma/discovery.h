#pragma once

#include <functional>
#include <map>
#include <string>

#include "dra/backend/sysfs.h"
#include "links_source.h"
#include "nic.h"

namespace rdma {

// Joins what sysfs and netlink say into the node's NICs. Everything optional may be missing; one function that cannot
// be read now costs itself (problems: the host keeps what it knew of it), one that is gone is not there.
//   - every PCI function of base class 02, and every one that has an RDMA device (EFA and the like). One that nothing
//     can be given of (no driver, vfio-pci, no interface and no RDMA device here) is there all the same: WhyNotOffered
//     (devices.h) says why not.
//   - every virtual link: Nic without PCI address; which of them are offered is WhyNotOffered's too. Kept out:
//     representors of virtual functions, and what no claim can mean (loopback, bridges, tunnels, taps).
//   - the RDMA device of an interface: its function's own; where that has several, by the GIDs' netdevs; of an
//     interface without a function, or of a bond (which takes over its members' device), by the GIDs' netdevs as well.
//   - a function with several interfaces is one Nic for each, told apart by dev_port.
//   - what a default route leads through: with all that it lies on, down to the physical function of a virtual one.
// sys: /sys below the kernel root. dev: directory in which "infiniband/uverbs0" is looked for.
// held: what Prepare noted of NICs that pods hold, by identity: what the host does not see of them is as it was.
// A virtual one, which sysfs does not show any more, is made of its note alone.
// check: called between functions; throws when the call is over.
NodeNics LookAtNode(const dra::Sysfs& sys, const std::string& dev, const KernelNetwork& kernel,
                    const std::map<std::string, HeldNic>& held, const std::function<void()>& check);

}  // namespace rdma
