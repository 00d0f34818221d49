#include "rdma_sysfs.h"

#include <algorithm>
#include <utility>

#include "text.h"

namespace rdma {
namespace {

constexpr char kClass[] = "class/infiniband/";

// "4: ACTIVE" is "ACTIVE".
std::string AfterNumber(const std::string& text) {
  const size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

// "" where it is all zeros: not set.
std::string Guid(const std::string& text) {
  return text.find_first_not_of("0:") == std::string::npos ? "" : Lower(text);
}

// Of a GID: its low half.
std::string PortGuid(const std::string& gid) {
  constexpr size_t kGidBytes = 39, kGuidBytes = 19;
  return gid.size() == kGidBytes ? Guid(gid.substr(kGidBytes - kGuidBytes)) : "";
}

RdmaPort ReadPort(const dra::Sysfs& sys, const std::string& path, int number) {
  const auto text = [&](const char* name) { return sys.Read(path + "/" + name).value_or(""); };
  RdmaPort port;
  port.number = number;
  port.link_layer = text("link_layer");
  port.state = AfterNumber(text("state"));
  port.physical_state = AfterNumber(text("phys_state"));
  port.rate_mbps = ParseRate(text("rate"));
  port.port_guid = PortGuid(text("gids/0"));
  return port;
}

bool IsNumber(const std::string& text) {
  return !text.empty() && text.size() < 9 &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

// Nodes that one class has, by RDMA device.
struct NodesOfDevice {
  std::string uverbs;
  std::map<int, std::string> umad, issm;
};

std::map<std::string, NodesOfDevice> ReadNodes(const dra::Sysfs& sys) {
  std::map<std::string, NodesOfDevice> nodes;
  for (const char* class_name : {"infiniband_verbs", "infiniband_mad"}) {
    for (const std::string& name : sys.List(std::string("class/") + class_name)) {
      const std::string path = std::string("class/") + class_name + "/" + name;
      const auto device = sys.Read(path + "/ibdev");
      if (!device) continue;  // "abi_version" of the class, or gone
      NodesOfDevice& of_device = nodes[*device];
      const std::string node = "infiniband/" + name;
      const int port = static_cast<int>(sys.ReadInteger(path + "/port").value_or(0));
      if (name.rfind("uverbs", 0) == 0) of_device.uverbs = node;
      if (name.rfind("umad", 0) == 0) of_device.umad[port] = node;
      if (name.rfind("issm", 0) == 0) of_device.issm[port] = node;
    }
  }
  return nodes;
}

std::vector<std::string> NodesOfPorts(const std::map<int, std::string>& nodes,
                                      const std::vector<RdmaPort>& ports) {
  std::vector<std::string> result;
  for (const RdmaPort& port : ports) {
    if (const auto node = nodes.find(port.number); node != nodes.end())
      result.push_back(node->second);
  }
  return result;
}

}  // namespace

std::optional<int64_t> ParseRate(const std::string& text) {
  const size_t end = text.find_first_not_of("0123456789");
  if (end == 0 || end == std::string::npos || end > 9) return std::nullopt;
  int64_t mbps = std::stoll(text.substr(0, end)) * 1000;
  std::string rest = text.substr(end);
  if (rest.rfind(".5", 0) == 0) {
    mbps += 500;
    rest = rest.substr(2);
  }
  if (rest.rfind(" Gb/sec", 0) != 0 || mbps == 0) return std::nullopt;
  return mbps;
}

std::vector<RdmaEntry> ReadRdmaEntries(const dra::Sysfs& sys) {
  std::vector<RdmaEntry> entries;
  const std::map<std::string, NodesOfDevice> nodes = ReadNodes(sys);
  for (const std::string& name : sys.List("class/infiniband")) {
    const std::string path = kClass + name;
    const auto text = [&](const char* file) { return sys.Read(path + "/" + file).value_or(""); };
    RdmaEntry entry;
    RdmaDevice& device = entry.device;
    device.name = name;
    device.node_type = AfterNumber(text("node_type"));
    device.node_guid = Guid(text("node_guid"));
    device.system_image_guid = Guid(text("sys_image_guid"));
    device.firmware = text("fw_ver");
    device.board_id = text("board_id");
    device.hca_type = text("hca_type");
    for (const std::string& port : sys.List(path + "/ports")) {
      if (IsNumber(port))
        device.ports.push_back(ReadPort(sys, path + "/ports/" + port, std::stoi(port)));
    }
    std::sort(device.ports.begin(), device.ports.end(),
              [](const RdmaPort& a, const RdmaPort& b) { return a.number < b.number; });
    if (const auto found = nodes.find(name); found != nodes.end()) {
      device.chars.uverbs = found->second.uverbs;
      entry.umad = found->second.umad;
      entry.issm = found->second.issm;
    }
    device.chars.umad = NodesOfPorts(entry.umad, device.ports);
    device.chars.issm = NodesOfPorts(entry.issm, device.ports);
    entry.place = PlaceOf(sys, path, 2);
    if (device.node_type.empty() || !sys.Exists(path + "/node_type")) continue;
    entries.push_back(std::move(entry));
  }
  return entries;
}

void ReadGidNetdevs(const dra::Sysfs& sys, RdmaDevice& device) {
  for (RdmaPort& port : device.ports) {
    const std::string path =
        kClass + device.name + "/ports/" + std::to_string(port.number) + "/gid_attrs/ndevs";
    std::set<std::string> netdevs;
    for (const std::string& index : sys.List(path)) {
      if (const auto netdev = sys.Read(path + "/" + index)) netdevs.insert(*netdev);
    }
    port.gid_netdevs.assign(netdevs.begin(), netdevs.end());
  }
}

RdmaDevice OnlyPort(const RdmaEntry& entry, int64_t number) {
  RdmaDevice device = entry.device;
  if (device.ports.size() < 2) return device;
  for (const RdmaPort& port : device.ports) {
    if (port.number != number) continue;
    device.ports = {RdmaPort(port)};
    device.chars.umad = NodesOfPorts(entry.umad, device.ports);
    device.chars.issm = NodesOfPorts(entry.issm, device.ports);
    break;
  }
  return device;
}

}  // namespace rdma
