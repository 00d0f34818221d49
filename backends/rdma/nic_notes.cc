// Notes of NICs that pods hold. What a note of an older version lacks is as by default.

#include <stdexcept>

#include "nic.h"
#include "text.h"

namespace rdma {
namespace {

using nlohmann::json;

constexpr char kBytes[] = "bytes";  // of a text that is not UTF-8

json TextOrBytes(const std::string& text) {
  if (IsUtf8(text)) return text;
  json bytes = json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return {{kBytes, std::move(bytes)}};
}

std::string ToText(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::string text;
  for (const json& byte : value.at(kBytes)) text += static_cast<char>(byte.get<unsigned char>());
  return text;
}

// Writes and reads the same members, so that neither forgets one.
class Saver {
 public:
  json result = json::object();

  void operator()(const char* key, const std::string& text) { result[key] = TextOrBytes(text); }
  void operator()(const char* key, bool value) { result[key] = value; }
  void operator()(const char* key, int value) { result[key] = value; }
  void operator()(const char* key, int64_t value) { result[key] = value; }
  void operator()(const char* key, uint8_t value) { result[key] = value; }
  void operator()(const char* key, uint16_t value) { result[key] = value; }
  void operator()(const char* key, uint32_t value) { result[key] = value; }
  void operator()(const char* key, const std::optional<int64_t>& value) {
    if (value) result[key] = *value;
  }
  void operator()(const char* key, const std::vector<std::string>& texts) {
    json& list = result[key] = json::array();
    for (const std::string& text : texts) list.push_back(TextOrBytes(text));
  }
};

class Loader {
 public:
  explicit Loader(const json& from) : from_(from) {
    if (!from.is_object()) throw std::runtime_error("note of a NIC: must be an object");
  }

  template <typename Number>
  void operator()(const char* key, Number& value) {
    if (from_.contains(key)) value = from_.at(key).get<Number>();
  }
  void operator()(const char* key, std::string& text) {
    if (from_.contains(key)) text = ToText(from_.at(key));
  }
  void operator()(const char* key, std::optional<int64_t>& value) {
    if (from_.contains(key)) value = from_.at(key).get<int64_t>();
  }
  void operator()(const char* key, std::vector<std::string>& texts) {
    if (!from_.contains(key)) return;
    for (const json& text : from_.at(key)) texts.push_back(ToText(text));
  }

 private:
  const json& from_;
};

template <typename Visitor, typename L>
void VisitLink(Visitor& visit, L& link) {
  visit("index", link.index);
  visit("name", link.name);
  visit("alternativeNames", link.alternative_names);
  visit("alias", link.alias);
  visit("type", link.type);
  visit("kind", link.kind);
  visit("slaveKind", link.slave_kind);
  visit("address", link.address);
  visit("permanentAddress", link.permanent_address);
  visit("mtu", link.mtu);
  visit("up", link.up);
  visit("state", link.state);
  visit("master", link.master);
  visit("parent", link.parent);
  visit("parentElsewhere", link.parent_elsewhere);
  visit("parentBus", link.parent_bus);
  visit("parentDevice", link.parent_device);
  visit("physicalSwitchID", link.physical_switch_id);
  visit("physicalPortName", link.physical_port_name);
  visit("gsoMaxSize", link.gso_max_size);
  visit("groMaxSize", link.gro_max_size);
  visit("gsoIPv4MaxSize", link.gso_ipv4_max_size);
  visit("groIPv4MaxSize", link.gro_ipv4_max_size);
}

template <typename Visitor, typename A>
void VisitAddress(Visitor& visit, A& address) {
  visit("index", address.index);
  visit("cidr", address.cidr);
  visit("broadcast", address.broadcast);
  visit("scope", address.scope);
  visit("permanent", address.permanent);
}

template <typename Visitor, typename N>
void VisitNetdev(Visitor& visit, N& netdev) {
  visit("speedMbps", netdev.speed_mbps);
  visit("devPort", netdev.dev_port);
  visit("defaultRoute", netdev.default_route);
}

template <typename Visitor, typename P>
void VisitPort(Visitor& visit, P& port) {
  visit("number", port.number);
  visit("linkLayer", port.link_layer);
  visit("state", port.state);
  visit("physicalState", port.physical_state);
  visit("rateMbps", port.rate_mbps);
  visit("portGUID", port.port_guid);
  visit("gidNetdevs", port.gid_netdevs);
}

template <typename Visitor, typename R>
void VisitRdma(Visitor& visit, R& rdma) {
  visit("name", rdma.name);
  visit("nodeType", rdma.node_type);
  visit("nodeGUID", rdma.node_guid);
  visit("systemImageGUID", rdma.system_image_guid);
  visit("firmware", rdma.firmware);
  visit("boardID", rdma.board_id);
  visit("hcaType", rdma.hca_type);
  visit("uverbs", rdma.chars.uverbs);
  visit("umad", rdma.chars.umad);
  visit("issm", rdma.chars.issm);
  visit("unusable", rdma.unusable);
}

json RdmaToJson(const RdmaDevice& rdma) {
  Saver save;
  VisitRdma(save, rdma);
  json& ports = save.result["ports"] = json::array();
  for (const RdmaPort& port : rdma.ports) {
    Saver save_port;
    VisitPort(save_port, port);
    ports.push_back(std::move(save_port.result));
  }
  return std::move(save.result);
}

RdmaDevice RdmaFromJson(const json& from) {
  RdmaDevice rdma;
  Loader load(from);
  VisitRdma(load, rdma);
  for (const json& port : from.at("ports")) {
    Loader load_port(port);
    VisitPort(load_port, rdma.ports.emplace_back());
  }
  return rdma;
}

}  // namespace

json ToJson(const Netdev& netdev) {
  Saver save, link;
  VisitNetdev(save, netdev);
  VisitLink(link, netdev.link);
  save.result["link"] = std::move(link.result);
  json& addresses = save.result["addresses"] = json::array();
  for (const InterfaceAddress& address : netdev.addresses) {
    Saver save_address;
    VisitAddress(save_address, address);
    addresses.push_back(std::move(save_address.result));
  }
  return std::move(save.result);
}

Netdev NetdevFromJson(const json& from) {
  Netdev netdev;
  Loader load(from);
  VisitNetdev(load, netdev);
  Loader link(from.at("link"));
  VisitLink(link, netdev.link);
  if (netdev.link.name.empty())
    throw std::runtime_error("note of a NIC: its interface has no name");
  for (const json& address : from.at("addresses")) {
    Loader load_address(address);
    VisitAddress(load_address, netdev.addresses.emplace_back());
  }
  return netdev;
}

json ToJson(const HeldNic& held) {
  json result = json::object();
  if (held.netdev) result["netdev"] = ToJson(*held.netdev);
  if (held.rdma) result["rdma"] = RdmaToJson(*held.rdma);
  return result;
}

HeldNic HeldNicFromJson(const json& from) {
  if (!from.is_object()) throw std::runtime_error("note of a NIC: must be an object");
  HeldNic held;
  if (from.contains("netdev")) held.netdev = NetdevFromJson(from.at("netdev"));
  if (from.contains("rdma")) held.rdma = RdmaFromJson(from.at("rdma"));
  return held;
}

}  // namespace rdma
