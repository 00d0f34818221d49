#include "network_config.h"

#include "json_fields.h"

namespace rdma {
namespace {

Json InterfaceToJson(const NetworkConfig::Interface& interface) {
  Json json = Json::object();
  Put(json, "name", interface.name);
  Put(json, "addresses", interface.addresses);
  Put(json, "mtu", interface.mtu);
  Put(json, "hardwareAddr", interface.hardware_address);
  Put(json, "gsoMaxSize", interface.gso_max_size);
  Put(json, "groMaxSize", interface.gro_max_size);
  Put(json, "gsoIPv4MaxSize", interface.gso_ipv4_max_size);
  Put(json, "groIPv4MaxSize", interface.gro_ipv4_max_size);
  Put(json, "forwarding", interface.forwarding);
  Put(json, "arpIgnore", interface.arp_ignore);
  Put(json, "arpAnnounce", interface.arp_announce);
  Put(json, "macvlan", interface.macvlan);
  return json;
}

void Read(const JsonFields& fields, NetworkConfig::Interface& interface) {
  fields.Get("name", interface.name);
  fields.Get("addresses", interface.addresses);
  fields.Get("mtu", interface.mtu);
  fields.Get("hardwareAddr", interface.hardware_address);
  fields.Get("gsoMaxSize", interface.gso_max_size);
  fields.Get("groMaxSize", interface.gro_max_size);
  fields.Get("gsoIPv4MaxSize", interface.gso_ipv4_max_size);
  fields.Get("groIPv4MaxSize", interface.gro_ipv4_max_size);
  fields.Get("forwarding", interface.forwarding);
  fields.Get("arpIgnore", interface.arp_ignore);
  fields.Get("arpAnnounce", interface.arp_announce);
  fields.Get("macvlan", interface.macvlan);
}

// Nothing for an empty list.
template <typename T, typename Function>
void PutList(Json& json, const char* key, const std::vector<T>& values, Function&& to_json) {
  if (values.empty()) return;
  Json& list = json[key] = Json::array();
  for (const T& value : values) to_json(list.emplace_back(Json::object()), value);
}

}  // namespace

bool NetworkConfig::WantsInterface() const {
  return !(interface == Interface()) || !routes.empty() || !rules.empty() || !neighbors.empty() ||
         !features.empty() || !private_flags.empty();
}

Json NetworkConfig::ToJson() const {
  Json json = {{"apiVersion", kConfigApiVersion}, {"kind", kConfigKind}};
  if (!(interface == Interface())) json["interface"] = rdma::InterfaceToJson(interface);
  PutList(json, "routes", routes, [](Json& to, const RouteWish& route) {
    Put(to, "destination", route.destination);
    Put(to, "gateway", route.gateway);
    Put(to, "source", route.source);
    Put(to, "scope", route.scope);
    Put(to, "table", route.table);
    Put(to, "metric", route.metric);
  });
  PutList(json, "rules", rules, [](Json& to, const RuleWish& rule) {
    Put(to, "priority", rule.priority);
    Put(to, "source", rule.source);
    Put(to, "destination", rule.destination);
    Put(to, "table", rule.table);
  });
  PutList(json, "neighbors", neighbors, [](Json& to, const NeighbourWish& neighbour) {
    Put(to, "destination", neighbour.destination);
    Put(to, "hardwareAddr", neighbour.hardware_address);
  });
  if (!features.empty()) json["ethtool"]["features"] = features;
  if (!private_flags.empty()) json["ethtool"]["privateFlags"] = private_flags;
  if (rdma.umad) json["rdma"]["umad"] = true;
  if (rdma.issm) json["rdma"]["issm"] = true;
  return json;
}

NetworkConfig NetworkConfig::FromJson(const Json& json) {
  NetworkConfig config;
  const JsonFields fields(json, "config");
  fields.Object("interface", [&](const JsonFields& from) { Read(from, config.interface); });
  fields.List("routes", config.routes, [](const JsonFields& from, RouteWish& route) {
    from.Get("destination", route.destination);
    from.Get("gateway", route.gateway);
    from.Get("source", route.source);
    from.Get("scope", route.scope);
    from.Get("table", route.table);
    from.Get("metric", route.metric);
  });
  fields.List("rules", config.rules, [](const JsonFields& from, RuleWish& rule) {
    from.Get("priority", rule.priority);
    from.Get("source", rule.source);
    from.Get("destination", rule.destination);
    from.Get("table", rule.table);
  });
  fields.List("neighbors", config.neighbors, [](const JsonFields& from, NeighbourWish& neighbour) {
    from.Get("destination", neighbour.destination);
    from.Get("hardwareAddr", neighbour.hardware_address);
  });
  fields.Object("ethtool", [&](const JsonFields& from) {
    from.Get("features", config.features);
    from.Get("privateFlags", config.private_flags);
  });
  fields.Object("rdma", [&](const JsonFields& from) {
    from.Get("umad", config.rdma.umad);
    from.Get("issm", config.rdma.issm);
  });
  // What would be passed over is asked for and would not be done.
  if (config.ToJson() != json)
    throw std::runtime_error("config: is not as this version writes it: " + json.dump());
  return config;
}

}  // namespace rdma
