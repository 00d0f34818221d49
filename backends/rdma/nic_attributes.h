#pragma once

#include <string>

#include "dra/backend/backend.h"
#include "dra/backend/sysfs.h"
#include "nic.h"
#include "pci_names.h"

namespace rdma {

// Fills device["attributes"] by rank until `room` attributes are there: those of resource.kubernetes.io, then dranet's,
// then ours, the latter two in `domain`. What is not known is left out. names: nullptr = none are known.
void AddAttributes(const Nic& nic, const dra::Sysfs& sys, const std::string& domain,
                   const PciNames* names, size_t room, dra::Json& device);

}  // namespace rdma
