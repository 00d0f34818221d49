#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rdma {

// An IP address with the length of its network's prefix.
struct IpNetwork {
  int family = 0;              // AF_INET, AF_INET6
  std::vector<uint8_t> bytes;  // 4 or 16, in network order
  uint8_t prefix_length = 0;
};

// "192.0.2.7/24"; without a length it is a single address. Throws NetlinkError EINVAL.
IpNetwork ParseIpNetwork(const std::string& cidr);
// "192.0.2.7". Throws NetlinkError EINVAL.
IpNetwork ParseIpAddress(const std::string& text);
// As inet_ntop writes it; "" if the bytes are not of this family.
std::string FormatIpAddress(int family, std::span<const uint8_t> bytes);
// With the prefix length. No bytes: the address of zeros, as the kernel leaves out a default route's destination.
std::string FormatIpNetwork(int family, std::span<const uint8_t> bytes, uint8_t prefix_length);

}  // namespace rdma
