#include "nic.h"
#include "text.h"

namespace rdma {
namespace {

constexpr uint16_t kEthernetType = 1, kInfiniBandType = 32;  // ARPHRD_...

}  // namespace

std::string KindOf(const Nic& nic) {
  if (!nic.pf_address.empty()) return "virtualFunction";
  if (!nic.pci_address.empty()) return "physical";
  if (!nic.netdev) return "device";
  if (nic.netdev->link.parent_bus == "auxiliary") return "subFunction";
  return nic.netdev->link.kind.empty() ? "device" : nic.netdev->link.kind;
}

std::string LinkLayerOf(const Nic& nic) {
  if (nic.netdev) {
    if (nic.netdev->link.type == kEthernetType) return "ethernet";
    if (nic.netdev->link.type == kInfiniBandType) return "infiniband";
  }
  if (nic.rdma) {
    for (const RdmaPort& port : nic.rdma->ports) {
      const std::string layer = Lower(port.link_layer);
      if (layer == "ethernet" || layer == "infiniband") return layer;
    }
  }
  return "";
}

std::optional<int64_t> RateMbpsOf(const Nic& nic) {
  if (nic.netdev && nic.netdev->speed_mbps) return nic.netdev->speed_mbps;
  if (!nic.rdma) return std::nullopt;
  for (const RdmaPort& port : nic.rdma->ports) {
    // A port that is down shows the least that it can do.
    if (port.state == "ACTIVE" && port.rate_mbps) return port.rate_mbps;
  }
  return std::nullopt;
}

}  // namespace rdma
