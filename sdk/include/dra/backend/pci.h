#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "dra/backend/error.h"

namespace dra {

// A PCI function's address: domain:bus:device.function.
struct PciAddress {
  uint16_t domain = 0;
  uint8_t bus = 0;
  uint8_t device = 0;
  uint8_t function = 0;

  // "dddd:bb:dd.f", lower case: the form of sysfs and of resource.kubernetes.io/pciBusID.
  std::string ToString() const {
    char text[16];
    std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", static_cast<unsigned>(domain),
                  static_cast<unsigned>(bus), static_cast<unsigned>(device),
                  static_cast<unsigned>(function));
    return text;
  }
  friend bool operator==(const PciAddress&, const PciAddress&) = default;
};

// Reads an address in any case, with a domain of 4 to 8 digits (vendor libraries print 8). The
// domain is required. nullopt for anything else, also for a domain that does not fit into 16 bits
// (VMD): such a device has no pciBusID.
inline std::optional<PciAddress> ParsePciAddress(const std::string& text) {
  size_t at = 0;
  const auto number = [&](size_t min_digits, size_t max_digits,
                          uint32_t max) -> std::optional<uint32_t> {
    uint32_t value = 0;
    size_t digits = 0;
    for (; digits < max_digits && at < text.size(); ++digits, ++at) {
      const char c = text[at];
      if (c >= '0' && c <= '9') {
        value = value * 16 + static_cast<uint32_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        value = value * 16 + static_cast<uint32_t>(c - 'a' + 10);
      } else if (c >= 'A' && c <= 'F') {
        value = value * 16 + static_cast<uint32_t>(c - 'A' + 10);
      } else {
        break;
      }
    }
    if (digits < min_digits || value > max) return std::nullopt;
    return value;
  };
  const auto skip = [&](char c) { return at < text.size() && text[at++] == c; };
  const auto domain = number(4, 8, 0xFFFF);
  if (!domain || !skip(':')) return std::nullopt;
  const auto bus = number(2, 2, 0xFF);
  if (!bus || !skip(':')) return std::nullopt;
  const auto device = number(2, 2, 0x1F);
  if (!device || !skip('.')) return std::nullopt;
  const auto function = number(1, 1, 7);
  if (!function || at != text.size()) return std::nullopt;
  return PciAddress{static_cast<uint16_t>(*domain), static_cast<uint8_t>(*bus),
                    static_cast<uint8_t>(*device), static_cast<uint8_t>(*function)};
}

// The address in its one form; throws DRA_INVALID_ARGUMENT if it is none.
inline std::string NormalizePciAddress(const std::string& text) {
  const std::optional<PciAddress> address = ParsePciAddress(text);
  if (!address) {
    throw BackendError(DRA_INVALID_ARGUMENT,
                       "\"" + text + "\" is not a PCI address (dddd:bb:dd.f, domain of 16 bits)");
  }
  return address->ToString();
}

}  // namespace dra
