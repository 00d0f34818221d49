#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dra/backend/sysfs.h"
#include "nic.h"
#include "pci_functions.h"

namespace rdma {

// An RDMA device as it is found, with all its ports.
struct RdmaEntry {
  RdmaDevice device;                      // chars of all ports
  Place place;                            // no function: one of software (rxe, siw)
  std::map<int, std::string> umad, issm;  // by port
};

// The entries of /sys/class/infiniband with their character devices, sorted by name. One that goes away while it is
// read is left out. Without GID tables: see ReadGidNetdevs.
std::vector<RdmaEntry> ReadRdmaEntries(const dra::Sysfs& sys);

// Fills gid_netdevs of every port.
void ReadGidNetdevs(const dra::Sysfs& sys, RdmaDevice& device);

// The device as one with only the port `number` and its nodes; as it is if there is no such port, or no other.
RdmaDevice OnlyPort(const RdmaEntry& entry, int64_t number);

// "400 Gb/sec (4X NDR)" is 400000, "2.5 Gb/sec (1X)" is 2500.
std::optional<int64_t> ParseRate(const std::string& text);

}  // namespace rdma
