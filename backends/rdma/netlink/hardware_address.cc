#include "hardware_address.h"

#include <cerrno>

#include "netlink_error.h"

namespace rdma {
namespace {

constexpr size_t kMaxBytes = 32;  // MAX_ADDR_LEN of the kernel's include/linux/netdevice.h

int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string FormatHardwareAddress(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    if (!text.empty()) text += ':';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::vector<uint8_t> ParseHardwareAddress(const std::string& text) {
  std::vector<uint8_t> bytes;
  bool good = text.size() % 3 == 2 && text.size() / 3 < kMaxBytes;
  for (size_t at = 0; good && at < text.size(); at += 3) {
    const int high = Digit(text[at]), low = Digit(text[at + 1]);
    good = high >= 0 && low >= 0 && (at + 2 == text.size() || text[at + 2] == ':');
    bytes.push_back(static_cast<uint8_t>(high * 16 + low));
  }
  if (!good) {
    throw NetlinkError(
        EINVAL, "hardware address \"" + text + "\": not bytes like 02:00:5e:00:53:01, 32 at most");
  }
  return bytes;
}

}  // namespace rdma
