#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dra/backend/backend.h"
#include "dra/backend/sysfs.h"
#include "nic.h"
#include "options.h"
#include "pci_names.h"

namespace rdma {

inline constexpr char kNotIncluded[] = "not included by the configuration";

// Why a NIC is not offered; nullopt: it is. Told once per change, not as an error: it is as wanted.
//   "excluded by the configuration", "not included by the configuration", "the default route leads through it",
//   "it is a port of br0", "no kernel driver is bound to it", ...
// Where "attach" is "none" the interface stays on the host: default route and ports are no reasons then.
std::optional<std::string> WhyNotOffered(const Nic& nic, const Options& options);

// The rule under which it is shared; nullptr: one claim at a time.
const ShareRule* ShareRuleOf(const Nic& nic, const Options& options);

// The NIC as a resource.k8s.io/v1 Device. Attributes in the order of their rank until 32 are there (those of the
// standard domain resource.kubernetes.io first), each string cut at 64 bytes on a character's end or, where a cut one
// would lie (addresses, GUIDs), left out. Names and meanings of dranet's come first in every rank.
//   exclusion keys: a function's address in the shape "function", a physical function with "pf"; a virtual function
//   also its physical function's key in the shape "part"; a bond its members' keys in the shape "bond", what lies on a
//   function otherwise (vlan, macvlan) its key in the shape "part"; both also the keys of the physical functions of
//   virtual ones below them, in the shape "part". Several ports of one function may be held at once.
//   counters: where the server keeps them, a physical function with virtual ones is one counter set, so that the
//   scheduler knows that too.
//   shared: allowMultipleAllocations, with the capacities "shares" and, where its rate is known, "bandwidth" (bits a
//   second; a claim that asks for none gets the rate divided by the shares).
// Where the server does not keep multiple allocations, a shared NIC is one for one claim at a time.
// names: of vendors and cards; nullptr = none.
dra::DeviceReport DeviceOf(const Nic& nic, const dra::Sysfs& sys, const Options& options,
                           const dra::DiscoverRequest& request, const PciNames* names = nullptr);

// The counter sets of the physical functions that the offered NICs consume. {} unless the server keeps counters.
// offered: all that go through DeviceOf.
std::vector<dra::Json> CounterSetsOf(const std::vector<Nic>& offered,
                                     const dra::DiscoverRequest& request);

// The attributes with type and meaning, for the manifest.
std::vector<dra::BackendManifest::Attribute> DescribeAttributes();

}  // namespace rdma
