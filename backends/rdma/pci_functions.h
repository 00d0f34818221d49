#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dra/backend/sysfs.h"

namespace rdma {

// Where the target of a class link lies: ".../0000:8d:00.0/virtio0/net/eth0" is below the function 0000:8d:00.0, at its
// child "virtio0".
struct Place {
  std::string function;  // the nearest PCI function upwards; "" = none
  std::string child;     // what lies between; "" = nothing
  // A part of a function that works by itself (mlx5_core.sf.4) is none of the function's own.
  bool IsSubFunction() const { return child.find(".sf.") != std::string::npos; }
};
// link: "class/net/eth0" or "class/infiniband/mlx5_0" (skip 2: class and name), "bus/virtio/devices/virtio0" (skip 0).
Place PlaceOf(const dra::Sysfs& sys, const std::string& link, size_t skip);

struct PciFunction {
  std::string address;
  bool network_class = false;                                      // base class 02
  std::string vendor, device, subsystem_vendor, subsystem_device;  // "0x15b3"; "" if not said
  std::string driver;                                              // "" = none
  bool physical_function = false;
  int64_t virtual_functions = 0;
  std::string pf_address;
  int64_t vf_index = -1;
};

// Reads PCI functions. One thread; of one look at the node.
class PciFunctions {
 public:
  explicit PciFunctions(const dra::Sysfs& sys) : sys_(sys) {}

  std::vector<std::string> Addresses() const;
  bool IsNetworkClass(const std::string& address) const;
  // nullopt: it is not there, or went away while it was read.
  std::optional<PciFunction> Read(const std::string& address);

 private:
  int64_t VfIndex(const std::string& pf_address, const std::string& address);

  const dra::Sysfs& sys_;
  std::map<std::string, std::map<std::string, int64_t>>
      vf_indexes_;  // by physical function, then by address
};

}  // namespace rdma
