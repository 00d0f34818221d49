#pragma once

#include <optional>
#include <string>

namespace rdma {

// IP addresses as text. Results are as inet_ntop writes them, so that equal addresses are equal texts.

// AF_INET or AF_INET6, of an address or CIDR; 0 if it is neither.
int IpFamily(const std::string& text);
// "192.0.2.7", "2001:db8::7".
std::optional<std::string> NormalIp(const std::string& text);
// "192.0.2.7/24". A prefix length is required.
std::optional<std::string> NormalCidr(const std::string& text);
// The network of it: "192.0.2.0/24" for "192.0.2.7/24".
std::optional<std::string> NormalNetwork(const std::string& text);
// Whether an interface can have it: neither unspecified nor multicast.
bool IsInterfaceIp(const std::string& cidr);
// The broadcast address of an IPv4 CIDR; "" for IPv6, /31 and /32.
std::string BroadcastOf(const std::string& cidr);

// "02:00:5e:00:53:01" of that, of upper case or of '-' between the bytes; nullopt unless it has 6 or 20 bytes.
std::optional<std::string> NormalHardwareAddress(const std::string& text);

}  // namespace rdma
