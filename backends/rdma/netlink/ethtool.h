#pragma once

#include <map>
#include <string>

namespace rdma {

// Features ("rx-gro", "tx-checksum-ipv4", ...) and private flags of an interface, by the ethtool ioctl in the calling
// thread's namespace. Throw NetlinkError: ENOENT names a feature that the interface has not, with those that it has;
// EOPNOTSUPP a fixed one, or one that stays as it was. SetFeatures also takes the names of ethtool(8) for several at
// once ("tso", "tcp-segmentation-offload"), of which the fixed ones are passed over.
std::map<std::string, bool> GetFeatures(const std::string& interface);
void SetFeatures(const std::string& interface, const std::map<std::string, bool>& features);
std::map<std::string, bool> GetPrivateFlags(const std::string& interface);
void SetPrivateFlags(const std::string& interface, const std::map<std::string, bool>& flags);

}  // namespace rdma
