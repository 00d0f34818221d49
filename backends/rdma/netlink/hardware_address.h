#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace rdma {

// "02:00:5e:00:53:01"; "" for no bytes. InfiniBand's have 20 bytes.
std::string FormatHardwareAddress(std::span<const uint8_t> bytes);
// Throws NetlinkError EINVAL unless it is 1 to 32 (MAX_ADDR_LEN) bytes of two hexadecimal digits with colons between.
std::vector<uint8_t> ParseHardwareAddress(const std::string& text);

}  // namespace rdma
