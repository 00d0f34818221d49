#include "ip_network.h"

#include <arpa/inet.h>

#include <cerrno>
#include <charconv>

#include "netlink_error.h"

namespace rdma {
namespace {

size_t BytesOf(int family) { return family == AF_INET ? 4 : family == AF_INET6 ? 16 : 0; }

}  // namespace

IpNetwork ParseIpAddress(const std::string& text) {
  IpNetwork network;
  network.family = text.find(':') == std::string::npos ? AF_INET : AF_INET6;
  network.bytes.resize(BytesOf(network.family));
  network.prefix_length = static_cast<uint8_t>(network.bytes.size() * 8);
  if (text.find('\0') != std::string::npos ||
      inet_pton(network.family, text.c_str(), network.bytes.data()) != 1) {
    throw NetlinkError(EINVAL, "\"" + text + "\" is no IP address");
  }
  return network;
}

IpNetwork ParseIpNetwork(const std::string& cidr) {
  const size_t slash = cidr.find('/');
  IpNetwork network = ParseIpAddress(cidr.substr(0, slash));
  if (slash == std::string::npos) return network;
  const uint8_t limit = network.prefix_length;
  const char* begin = cidr.data() + slash + 1;
  const char* end = cidr.data() + cidr.size();
  const auto [stop, error] = std::from_chars(begin, end, network.prefix_length);
  if (error != std::errc() || stop != end || network.prefix_length > limit) {
    throw NetlinkError(EINVAL, "\"" + cidr + "\": the prefix length is no number from 0 to " +
                                   std::to_string(limit));
  }
  return network;
}

std::string FormatIpAddress(int family, std::span<const uint8_t> bytes) {
  if (bytes.empty() || bytes.size() != BytesOf(family)) return "";
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(family, bytes.data(), text, sizeof(text)) != nullptr ? text : "";
}

std::string FormatIpNetwork(int family, std::span<const uint8_t> bytes, uint8_t prefix_length) {
  const std::vector<uint8_t> zeros(BytesOf(family));
  const std::string address =
      FormatIpAddress(family, bytes.empty() ? std::span<const uint8_t>(zeros) : bytes);
  return address.empty() ? "" : address + "/" + std::to_string(prefix_length);
}

}  // namespace rdma
