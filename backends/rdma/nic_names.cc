// Names in the slice. An interface may be called anything of up to 15 bytes but '/', ':' and white space (linux
// net/core/dev.c, dev_valid_name).

#include <algorithm>

#include "nic.h"
#include "text.h"

namespace rdma {
namespace {

constexpr char kPlainPrefix[] = "net-";
constexpr char kEncodedPrefix[] = "netx-";
constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuv";  // RFC 4648 base32hex, lower case

std::string ToBase32Hex(const std::string& bytes) {
  std::string result;
  unsigned held = 0;
  int bits = 0;
  for (const char c : bytes) {
    held = (held << 8) | static_cast<unsigned char>(c);
    for (bits += 8; bits >= 5; bits -= 5) result += kDigits[(held >> (bits - 5)) & 31];
    held &= (1u << bits) - 1;
  }
  if (bits > 0) result += kDigits[(held << (5 - bits)) & 31];
  return result;
}

std::optional<std::string> FromBase32Hex(const std::string& text) {
  std::string result;
  unsigned held = 0;
  int bits = 0;
  for (const char c : text) {
    const char* digit = std::find(kDigits, kDigits + 32, c);
    if (digit == kDigits + 32) return std::nullopt;
    held = (held << 5) | static_cast<unsigned>(digit - kDigits);
    bits += 5;
    if (bits >= 8) {
      bits -= 8;
      result += static_cast<char>(held >> bits);
      held &= (1u << bits) - 1;
    }
  }
  return result;
}

bool HasPrefix(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

}  // namespace

std::string PciNicName(const std::string& pci_address, int64_t port) {
  std::string name = "pci-" + Lower(pci_address);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '.'; }, '-');
  return port == 0 ? name : name + "-p" + std::to_string(port);
}

std::string VirtualNicName(const std::string& interface) {
  return IsDnsLabel(interface) ? kPlainPrefix + interface : kEncodedPrefix + ToBase32Hex(interface);
}

std::optional<std::string> InterfaceOfName(const std::string& nic_name) {
  std::optional<std::string> interface;
  if (HasPrefix(nic_name, kPlainPrefix)) {
    interface = nic_name.substr(sizeof(kPlainPrefix) - 1);
  } else if (HasPrefix(nic_name, kEncodedPrefix)) {
    interface = FromBase32Hex(nic_name.substr(sizeof(kEncodedPrefix) - 1));
  }
  // Only the one name that it has.
  if (!interface || interface->empty() || VirtualNicName(*interface) != nic_name)
    return std::nullopt;
  return interface;
}

}  // namespace rdma
