#pragma once

#include <string>

#include "links.h"
#include "namespace.h"
#include "plan.h"

namespace rdma {

struct Restored {
  std::string name;    // that it has now
  std::string remark;  // what is not as it was; "" = all is
};

// Makes the interface, which is in the host's namespace, what it was before: hardware address, MTU and sizes, features,
// name, sysctls, up, addresses, routes, neighbours. What is so already is left alone. Rules are not touched: they do
// not go with an interface. What cannot be done is told and does not stop the rest. lost: nullptr if nothing was noted.
Restored RestoreInterface(const NetworkNamespace& host, const Link& link,
                          const Attachment& attachment, const LostSettings* lost);

}  // namespace rdma
