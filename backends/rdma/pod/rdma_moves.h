#pragma once

#include <string>

#include "namespace.h"

namespace rdma {

// Moves RDMA devices between namespaces, which the kernel allows in exclusive mode. Their names are unique in all
// namespaces together. A seam: few kernels have RDMA devices.
class RdmaMoves {
 public:
  virtual ~RdmaMoves() = default;
  virtual bool Has(const std::string& device, const NetworkNamespace& in) = 0;
  // Throws NetlinkError: ENODEV if `from` has it not, EBUSY while a process has it open.
  virtual void Move(const std::string& device, const NetworkNamespace& from,
                    const NetworkNamespace& to) = 0;
};

// By netlink. Throws NetlinkError EPROTONOSUPPORT where the kernel has no RDMA.
RdmaMoves& KernelRdmaMoves();

}  // namespace rdma
