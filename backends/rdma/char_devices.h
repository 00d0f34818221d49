#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dra/backend/backend.h"
#include "nic.h"
#include "pod/network_config.h"

namespace rdma {

// Why no pod could use the RDMA device now: a node that it cannot do without is missing below `dev` (the host's /dev),
// with the kernel module that makes it. uverbs always; rdma_cm on InfiniBand and Ethernet (EFA has no use for it).
// nullopt: all are there.
std::optional<std::string> WhyUnusable(const RdmaDevice& device, const std::string& dev);

// CDI containerEdits with the nodes of exactly this RDMA device: uverbs and rdma_cm, umad and issm where asked for.
// Each must be there as a character device below `dev_root`; throws DRA_FAILED_PRECONDITION with the node and the
// kernel module that makes it (ib_uverbs, rdma_ucm, ib_umad). issm on Ethernet, where nobody needs a subnet manager, is
// refused (DRA_INVALID_ARGUMENT).
dra::Json CharDeviceEdits(const RdmaDevice& device, const std::string& dev_root,
                          const NetworkConfig::RdmaWish& wish);

}  // namespace rdma
