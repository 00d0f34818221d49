#include "netlink_error.h"

#include <cstring>

namespace rdma {

NetlinkError MakeNetlinkError(int error, const std::string& what, const std::string& detail) {
  const char* words = strerrordesc_np(error);  // in no language of a locale's
  std::string text = what + ": " + (words != nullptr ? words : "error " + std::to_string(error));
  if (!detail.empty()) text += " (" + detail + ")";
  return NetlinkError(error, text);
}

}  // namespace rdma
