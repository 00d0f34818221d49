#include "normal_form.h"

#include <sys/socket.h>

#include <algorithm>
#include <cctype>

#include "ip_network.h"
#include "netlink_error.h"

namespace rdma {
namespace {

// prefix: whether the text must have one.
std::optional<IpNetwork> Parse(const std::string& text, bool prefix) {
  if ((text.find('/') != std::string::npos) != prefix) return std::nullopt;
  try {
    return prefix ? ParseIpNetwork(text) : ParseIpAddress(text);
  } catch (const NetlinkError&) {
    return std::nullopt;
  }
}

std::string Text(const IpNetwork& ip) {
  return FormatIpNetwork(ip.family, ip.bytes, ip.prefix_length);
}

// Sets the bits behind the prefix.
void SetHostBits(IpNetwork& ip, bool value) {
  for (size_t bit = ip.prefix_length; bit < ip.bytes.size() * 8; ++bit) {
    uint8_t& byte = ip.bytes[bit / 8];
    const uint8_t mask = static_cast<uint8_t>(0x80 >> (bit % 8));
    byte = static_cast<uint8_t>(value ? byte | mask : byte & ~mask);
  }
}

}  // namespace

int IpFamily(const std::string& text) {
  const std::optional<IpNetwork> ip = Parse(text, text.find('/') != std::string::npos);
  return ip ? ip->family : 0;
}

std::optional<std::string> NormalIp(const std::string& text) {
  const std::optional<IpNetwork> ip = Parse(text, /*prefix=*/false);
  if (!ip) return std::nullopt;
  return FormatIpAddress(ip->family, ip->bytes);
}

std::optional<std::string> NormalCidr(const std::string& text) {
  const std::optional<IpNetwork> ip = Parse(text, /*prefix=*/true);
  if (!ip) return std::nullopt;
  return Text(*ip);
}

std::optional<std::string> NormalNetwork(const std::string& text) {
  std::optional<IpNetwork> ip = Parse(text, /*prefix=*/true);
  if (!ip) return std::nullopt;
  SetHostBits(*ip, false);
  return Text(*ip);
}

bool IsInterfaceIp(const std::string& cidr) {
  const std::optional<IpNetwork> ip = Parse(cidr, /*prefix=*/true);
  if (!ip) return false;
  const uint8_t first = ip->bytes[0];
  if (ip->family == AF_INET ? (first & 0xF0) == 0xE0 : first == 0xFF) return false;
  return std::any_of(ip->bytes.begin(), ip->bytes.end(), [](uint8_t byte) { return byte != 0; });
}

std::string BroadcastOf(const std::string& cidr) {
  std::optional<IpNetwork> ip = Parse(cidr, /*prefix=*/true);
  if (!ip || ip->family != AF_INET || ip->prefix_length > 30) return "";
  SetHostBits(*ip, true);
  return FormatIpAddress(ip->family, ip->bytes);
}

std::optional<std::string> NormalHardwareAddress(const std::string& text) {
  if (text.size() != 6 * 3 - 1 && text.size() != 20 * 3 - 1) return std::nullopt;
  std::string normal;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char letter = static_cast<unsigned char>(text[i]);
    if (i % 3 == 2) {
      if ((letter != ':' && letter != '-') || text[i] != text[2]) return std::nullopt;
      normal += ':';
    } else {
      if (std::isxdigit(letter) == 0) return std::nullopt;
      normal += static_cast<char>(std::tolower(letter));
    }
  }
  return normal;
}

}  // namespace rdma
