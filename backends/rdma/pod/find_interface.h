#pragma once

#include <optional>
#include <string>
#include <vector>

#include "links.h"
#include "plan.h"

namespace rdma {

// An interface is known again by where it sits (PCI address) and its permanent hardware address, whatever it is called.
// One that has neither (veth) is known by what was noted of it.

// The name of the device on its way back, which nothing else has: "dra" and 12 digits out of claim and device.
std::string TemporaryName(const std::string& claim_uid, const std::string& device);

// Among the host's links. sys: root of sysfs, for kernels whose netlink does not say the PCI address (before 5.14).
std::optional<Link> FindOnHost(const std::vector<Link>& links, const Attachment& attachment,
                               const std::string& temporary, const std::string& sys);

// Among the links of a namespace into which it was moved. noted: of this very namespace; nullptr if there is nothing.
// The temporary name is none of it there: a pod can give it to anything.
std::optional<Link> FindInPod(const std::vector<Link>& links, const Attachment& attachment,
                              const AttachedInterface* noted);

// The macvlan that was made on `parent`, an index of the host.
std::optional<Link> FindMacvlan(const std::vector<Link>& links, const Attachment& attachment,
                                int parent, const AttachedInterface* noted);

// Whether the host has the PCI function and a driver of the kernel on it that makes interfaces: then an interface that
// is in no namespace that can be looked into is not gone for good.
bool HasNetworkDriver(const std::string& sys, const std::string& pci_address);

// Whether a link, other than the one of index `but`, has the name, also as an alternative one.
bool HasName(const std::vector<Link>& links, const std::string& name, int but = 0);

}  // namespace rdma
