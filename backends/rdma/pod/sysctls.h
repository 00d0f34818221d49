#pragma once

#include <map>
#include <optional>
#include <string>

namespace rdma {

// Settings of an interface below /proc/sys/net/<family>/conf/<interface>, by "ipv4/forwarding", "ipv6/accept_ra". All
// of them are those of the calling thread's namespace.

// nullopt if there is none (a kernel without IPv6) or it has no value.
std::optional<std::string> ReadSysctl(const std::string& interface, const std::string& setting);
// Throws std::runtime_error with path and reason.
void WriteSysctl(const std::string& interface, const std::string& setting,
                 const std::string& value);
// Those that are not as the defaults, with which an interface starts that comes into the namespace.
std::map<std::string, std::string> SysctlsOf(const std::string& interface);

}  // namespace rdma
