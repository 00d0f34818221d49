#include "node_json.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "dra/backend/json_reader.h"
#include "dra/backend/pci.h"

namespace rdma_simulator {
namespace {

using dra::JsonReader;

constexpr size_t kMaxInterfaceBytes = 15;  // IFNAMSIZ - 1
constexpr int64_t kMaxNumber = 1 << 20;

std::string Text(JsonReader& reader, const char* key, const std::string& fallback) {
  return reader.Optional<std::string>(key).value_or(fallback);
}

// A name that becomes one of a file.
std::string FileName(JsonReader& reader, const char* key) {
  const std::string name = reader.Required<std::string>(key);
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    reader.Refuse(key, "\"" + name + "\" cannot be a name");
  return name;
}

std::string PciAddress(JsonReader& reader, const char* key, const std::string& address) {
  if (!dra::ParsePciAddress(address))
    reader.Refuse(key, "\"" + address + "\" is no PCI address such as 0000:8d:00.0");
  return address;
}

std::string Id(JsonReader& reader, const char* key, size_t digits, const std::string& fallback) {
  const std::string id = Text(reader, key, fallback);
  if (id.size() != digits + 2 || id.rfind("0x", 0) != 0 ||
      id.find_first_not_of("0123456789abcdef", 2) != std::string::npos) {
    reader.Refuse(key, "\"" + id + "\" is not 0x and " + std::to_string(digits) +
                           " digits, as the kernel writes it");
  }
  return id;
}

std::vector<int> Numbers(JsonReader& reader, const char* key) {
  std::vector<int> numbers;
  for (const int64_t number : reader.List<int64_t>(key)) {
    if (number < 0 || number > kMaxNumber)
      reader.Refuse(key, std::to_string(number) + " is not in 0.." + std::to_string(kMaxNumber));
    numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

Interface ReadInterface(JsonReader& reader) {
  Interface interface;
  interface.name = FileName(reader, "name");
  if (interface.name.size() > kMaxInterfaceBytes)
    reader.Refuse("name", "\"" + interface.name + "\" is longer than 15 bytes, the kernel's limit");
  interface.index = static_cast<int>(reader.Optional("index", 1, INT32_MAX).value_or(0));
  interface.type =
      reader.OptionalEnum<uint16_t>("type", {{"ethernet", 1}, {"infiniband", 32}}).value_or(1);
  interface.address = Text(reader, "address", "");
  interface.mtu = static_cast<uint32_t>(reader.Optional("mtu", 68, 65535).value_or(1500));
  interface.state = Text(reader, "state", interface.state);
  interface.speed_mbps = reader.Optional("speedMbps", 1, INT32_MAX);
  interface.dev_port = reader.Optional("devPort", 0, 255).value_or(0);
  interface.dev_id = reader.Optional("devId", 0, 65535).value_or(0);
  interface.physical_port_name = Text(reader, "physPortName", "");
  interface.physical_switch_id = Text(reader, "physSwitchId", "");
  interface.alias = Text(reader, "alias", "");
  interface.kind = Text(reader, "kind", "");
  interface.master = Text(reader, "master", "");
  interface.parent = Text(reader, "parent", "");
  interface.alternative_names = reader.List<std::string>("alternativeNames");
  interface.cidrs = reader.List<std::string>("addresses");
  return interface;
}

Port ReadPort(JsonReader& reader) {
  Port port;
  port.link_layer = reader
                        .OptionalEnum<const char*>("linkLayer", {{"Ethernet", "Ethernet"},
                                                                 {"InfiniBand", "InfiniBand"},
                                                                 {"Unknown", "Unknown"}})
                        .value_or("Ethernet");
  port.state = Text(reader, "state", port.state);
  port.physical_state = Text(reader, "physState", port.physical_state);
  port.rate = Text(reader, "rate", port.rate);
  reader.Each("gids", [&](JsonReader& r) {
    port.gids.push_back(
        {r.Required<std::string>("gid"), Text(r, "netdev", ""), Text(r, "type", "")});
  });
  return port;
}

RdmaDevice ReadRdma(JsonReader& reader) {
  RdmaDevice device;
  device.name = FileName(reader, "name");
  device.node_type = Text(reader, "nodeType", device.node_type);
  device.node_guid = Text(reader, "nodeGuid", "");
  device.system_image_guid = Text(reader, "sysImageGuid", "");
  device.firmware = Text(reader, "firmware", "");
  device.board_id = Text(reader, "boardId", "");
  device.hca_type = Text(reader, "hcaType", "");
  reader.Each("ports", [&](JsonReader& r) { device.ports.push_back(ReadPort(r)); });
  if (const auto number = reader.Optional("uverbs", 0, kMaxNumber))
    device.uverbs = static_cast<int>(*number);
  device.umad = Numbers(reader, "umad");
  device.issm = Numbers(reader, "issm");
  return device;
}

template <typename Holder>
void ReadDevices(JsonReader& reader, Holder& holder) {
  reader.Each("interfaces", [&](JsonReader& r) { holder.interfaces.push_back(ReadInterface(r)); });
  reader.Each("rdma", [&](JsonReader& r) { holder.rdma.push_back(ReadRdma(r)); });
}

Function ReadFunction(JsonReader& reader) {
  Function function;
  function.address = PciAddress(reader, "address", reader.Required<std::string>("address"));
  function.root = Text(reader, "root", "pci" + function.address.substr(0, 7));
  if (function.root.rfind("pci", 0) != 0 || function.root.find('/') != std::string::npos)
    reader.Refuse("root", "\"" + function.root + "\" is no PCI root such as pci0000:8c");
  for (const std::string& bridge : reader.List<std::string>("bridges"))
    function.bridges.push_back(PciAddress(reader, "bridges", bridge));
  function.vendor = Id(reader, "vendor", 4, function.vendor);
  function.device = Id(reader, "device", 4, function.device);
  function.subsystem_vendor = Id(reader, "subsystemVendor", 4, function.vendor);
  function.subsystem_device = Id(reader, "subsystemDevice", 4, function.subsystem_device);
  function.pci_class = Id(reader, "class", 6, function.pci_class);
  function.numa_node = static_cast<int>(reader.Optional("numaNode", -1, 1023).value_or(0));
  function.driver = Text(reader, "driver", function.driver);
  ReadDevices(reader, function);
  reader.Each("children", [&](JsonReader& r) {
    ChildDevice child;
    child.name = FileName(r, "name");
    child.bus = FileName(r, "bus");
    ReadDevices(r, child);
    function.children.push_back(std::move(child));
  });
  if (const auto total = reader.Optional("totalVfs", 1, 4096))
    function.total_vfs = static_cast<int>(*total);
  function.physical_function = Text(reader, "physicalFunction", "");
  return function;
}

// What says nothing is not written.
void Put(Json& json, const char* key, const std::string& text) {
  if (!text.empty()) json[key] = text;
}

template <typename Value, typename Write>
void PutList(Json& json, const char* key, const std::vector<Value>& list, Write&& write) {
  for (const Value& value : list) json[key].push_back(write(value));
}

Json InterfaceJson(const Interface& interface) {
  Json json = {{"name", interface.name},
               {"index", interface.index},
               {"type", interface.type == 32 ? "infiniband" : "ethernet"},
               {"address", interface.address},
               {"mtu", interface.mtu},
               {"state", interface.state}};
  if (interface.speed_mbps) json["speedMbps"] = *interface.speed_mbps;
  if (interface.dev_port != 0) json["devPort"] = interface.dev_port;
  if (interface.dev_id != 0) json["devId"] = interface.dev_id;
  Put(json, "physPortName", interface.physical_port_name);
  Put(json, "physSwitchId", interface.physical_switch_id);
  Put(json, "alias", interface.alias);
  Put(json, "kind", interface.kind);
  Put(json, "master", interface.master);
  Put(json, "parent", interface.parent);
  if (!interface.alternative_names.empty()) json["alternativeNames"] = interface.alternative_names;
  if (!interface.cidrs.empty()) json["addresses"] = interface.cidrs;
  return json;
}

Json PortJson(const Port& port) {
  Json json = {{"linkLayer", port.link_layer},
               {"state", port.state},
               {"physState", port.physical_state},
               {"rate", port.rate}};
  PutList(json, "gids", port.gids, [](const Gid& gid) {
    Json entry = {{"gid", gid.gid}};
    Put(entry, "netdev", gid.netdev);
    Put(entry, "type", gid.type);
    return entry;
  });
  return json;
}

Json RdmaJson(const RdmaDevice& device) {
  Json json = {{"name", device.name}, {"nodeType", device.node_type}};
  Put(json, "nodeGuid", device.node_guid);
  Put(json, "sysImageGuid", device.system_image_guid);
  Put(json, "firmware", device.firmware);
  Put(json, "boardId", device.board_id);
  Put(json, "hcaType", device.hca_type);
  PutList(json, "ports", device.ports, PortJson);
  if (device.uverbs) json["uverbs"] = *device.uverbs;
  if (!device.umad.empty()) json["umad"] = device.umad;
  if (!device.issm.empty()) json["issm"] = device.issm;
  return json;
}

template <typename Holder>
void PutDevices(Json& json, const Holder& holder) {
  PutList(json, "interfaces", holder.interfaces, InterfaceJson);
  PutList(json, "rdma", holder.rdma, RdmaJson);
}

Json FunctionJson(const Function& function) {
  Json json = {{"address", function.address},
               {"root", function.root},
               {"vendor", function.vendor},
               {"device", function.device},
               {"subsystemVendor", function.subsystem_vendor},
               {"subsystemDevice", function.subsystem_device},
               {"class", function.pci_class},
               {"numaNode", function.numa_node},
               {"driver", function.driver}};
  if (!function.bridges.empty()) json["bridges"] = function.bridges;
  PutDevices(json, function);
  PutList(json, "children", function.children, [](const ChildDevice& child) {
    Json entry = {{"name", child.name}, {"bus", child.bus}};
    PutDevices(entry, child);
    return entry;
  });
  if (function.total_vfs) json["totalVfs"] = *function.total_vfs;
  Put(json, "physicalFunction", function.physical_function);
  return json;
}

}  // namespace

Json ToJson(const Node& node) {
  Json json = {{"rdmaCm", node.rdma_cm}};
  PutList(json, "functions", node.functions, FunctionJson);
  PutList(json, "virtualInterfaces", node.virtual_interfaces, InterfaceJson);
  PutList(json, "softwareRdma", node.software_rdma, RdmaJson);
  Put(json, "pciIds", node.pci_ids);
  return json;
}

Node NodeFromJson(const Json& json, const std::string& path) {
  Node node;
  try {
    JsonReader::Read(json, path, [&](JsonReader& reader) {
      reader.Each("functions", [&](JsonReader& r) { node.functions.push_back(ReadFunction(r)); });
      reader.Each("virtualInterfaces",
                  [&](JsonReader& r) { node.virtual_interfaces.push_back(ReadInterface(r)); });
      reader.Each("softwareRdma",
                  [&](JsonReader& r) { node.software_rdma.push_back(ReadRdma(r)); });
      node.rdma_cm = reader.Optional<bool>("rdmaCm").value_or(true);
      node.pci_ids = Text(reader, "pciIds", "");
    });
  } catch (const dra::BackendError& error) {
    throw std::invalid_argument(error.what());
  }
  return node;
}

}  // namespace rdma_simulator
