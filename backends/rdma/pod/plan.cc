#include "plan.h"

#include <stdexcept>

#include "json_fields.h"

namespace rdma {
namespace {

// Raised when an older version would misread what is written. It then refuses.
constexpr int kVersion = 1;

void CheckVersion(const JsonFields& fields) {
  int version = 0;
  fields.Get("version", version);
  if (version < 1) throw std::runtime_error("has no version");
  if (version > kVersion) {
    throw std::runtime_error("has version " + std::to_string(version) +
                             ", this program knows up to " + std::to_string(kVersion) +
                             ": it is of a newer driver, use that one");
  }
}

template <typename T, typename Function>
Json ListOf(const std::vector<T>& values, Function&& to_json) {
  Json list = Json::array();
  for (const T& value : values) to_json(list.emplace_back(Json::object()), value);
  return list;
}

// Of the host's interface itself: indexes of its addresses and the like are its own.
Json ToJson(const HostInterface& home) {
  Json json = {
      {"name", home.name}, {"index", home.index}, {"address", home.address}, {"mtu", home.mtu}};
  Put(json, "alternativeNames", home.alternative_names);
  Put(json, "alias", home.alias);
  Put(json, "flags", home.flags);
  Put(json, "kind", home.kind);
  Put(json, "pciAddress", home.pci_address);
  Put(json, "permanentAddress", home.permanent_address);
  Put(json, "up", home.up);
  Put(json, "xdpPrograms", home.xdp_programs);
  Put(json, "gsoMaxSize", home.gso_max_size);
  Put(json, "groMaxSize", home.gro_max_size);
  Put(json, "gsoIPv4MaxSize", home.gso_ipv4_max_size);
  Put(json, "groIPv4MaxSize", home.gro_ipv4_max_size);
  json["addresses"] = ListOf(home.addresses, [](Json& to, const InterfaceAddress& address) {
    to["index"] = address.index;
    to["cidr"] = address.cidr;
    to["permanent"] = address.permanent;
    Put(to, "broadcast", address.broadcast);
    Put(to, "scope", address.scope);
  });
  json["routes"] = ListOf(home.routes, [](Json& to, const Route& route) {
    to = {{"index", route.index},
          {"family", route.family},
          {"destination", route.destination},
          {"table", route.table},
          {"protocol", route.protocol}};
    Put(to, "gateway", route.gateway);
    Put(to, "source", route.source);
    Put(to, "scope", route.scope);
    Put(to, "metric", route.metric);
  });
  json["rules"] = ListOf(home.rules, [](Json& to, const Rule& rule) {
    to = {{"family", rule.family}, {"priority", rule.priority}, {"table", rule.table}};
    Put(to, "source", rule.source);
    Put(to, "destination", rule.destination);
  });
  json["neighbours"] = ListOf(home.neighbours, [](Json& to, const Neighbour& neighbour) {
    to = {{"index", neighbour.index},
          {"destination", neighbour.destination},
          {"address", neighbour.address}};
  });
  return json;
}

void Read(const JsonFields& fields, HostInterface& home) {
  fields.Get("name", home.name);
  fields.Get("alternativeNames", home.alternative_names);
  fields.Get("alias", home.alias);
  fields.Get("flags", home.flags);
  fields.Get("index", home.index);
  fields.Get("kind", home.kind);
  fields.Get("pciAddress", home.pci_address);
  fields.Get("address", home.address);
  fields.Get("permanentAddress", home.permanent_address);
  fields.Get("mtu", home.mtu);
  fields.Get("up", home.up);
  fields.Get("xdpPrograms", home.xdp_programs);
  fields.Get("gsoMaxSize", home.gso_max_size);
  fields.Get("groMaxSize", home.gro_max_size);
  fields.Get("gsoIPv4MaxSize", home.gso_ipv4_max_size);
  fields.Get("groIPv4MaxSize", home.gro_ipv4_max_size);
  fields.List("addresses", home.addresses, [](const JsonFields& from, InterfaceAddress& address) {
    from.Get("index", address.index);
    from.Get("cidr", address.cidr);
    from.Get("permanent", address.permanent);
    from.Get("broadcast", address.broadcast);
    from.Get("scope", address.scope);
  });
  fields.List("routes", home.routes, [](const JsonFields& from, Route& route) {
    from.Get("index", route.index);
    from.Get("family", route.family);
    from.Get("destination", route.destination);
    from.Get("gateway", route.gateway);
    from.Get("source", route.source);
    from.Get("table", route.table);
    from.Get("scope", route.scope);
    from.Get("protocol", route.protocol);
    from.Get("metric", route.metric);
  });
  fields.List("rules", home.rules, [](const JsonFields& from, Rule& rule) {
    from.Get("family", rule.family);
    from.Get("priority", rule.priority);
    from.Get("source", rule.source);
    from.Get("destination", rule.destination);
    from.Get("table", rule.table);
  });
  fields.List("neighbours", home.neighbours, [](const JsonFields& from, Neighbour& neighbour) {
    from.Get("index", neighbour.index);
    from.Get("destination", neighbour.destination);
    from.Get("address", neighbour.address);
  });
}

}  // namespace

Json ToJson(const Plan& plan) {
  Json json = {{"version", kVersion}, {"claimUID", plan.claim_uid}, {"podUID", plan.pod_uid}};
  Put(json, "bootID", plan.boot_id);
  Put(json, "hostDevice", plan.host_device);
  Put(json, "hostInode", plan.host_inode);
  json["attachments"] = ListOf(plan.attachments, [](Json& to, const Attachment& attachment) {
    to["device"] = attachment.device;
    to["request"] = attachment.request;
    to["kind"] = attachment.kind == AttachKind::kMacvlan ? "macvlan" : "move";
    to["home"] = ToJson(attachment.home);
    to["podName"] = attachment.pod_name;
    to["config"] = attachment.config.ToJson();
    Put(to, "rdmaDevice", attachment.rdma_device);
  });
  return json;
}

Plan PlanFromJson(const Json& json) {
  Plan plan;
  const JsonFields fields(json, "");
  CheckVersion(fields);
  fields.Get("claimUID", plan.claim_uid);
  fields.Get("podUID", plan.pod_uid);
  fields.Get("bootID", plan.boot_id);
  fields.Get("hostDevice", plan.host_device);
  fields.Get("hostInode", plan.host_inode);
  fields.List("attachments", plan.attachments, [](const JsonFields& from, Attachment& attachment) {
    from.Get("device", attachment.device);
    from.Get("request", attachment.request);
    std::string kind;
    from.Get("kind", kind);
    if (kind != "move" && kind != "macvlan")
      JsonFields::Wrong(from.path() + ".kind", "\"move\" or \"macvlan\"");
    attachment.kind = kind == "move" ? AttachKind::kMove : AttachKind::kMacvlan;
    from.Object("home", [&](const JsonFields& home) { Read(home, attachment.home); });
    from.Get("podName", attachment.pod_name);
    const auto config = from.json().find("config");
    if (config == from.json().end()) JsonFields::Wrong(from.path() + ".config", "there");
    attachment.config = NetworkConfig::FromJson(*config);
    from.Get("rdmaDevice", attachment.rdma_device);
    // Without these nothing is found, or a wrong one.
    if (attachment.device.empty()) JsonFields::Wrong(from.path() + ".device", "a name");
    if (attachment.home.name.empty() && attachment.rdma_device.empty())
      JsonFields::Wrong(from.path() + ".home.name", "a name, or rdmaDevice one");
    if (!attachment.home.name.empty() && attachment.pod_name.empty())
      JsonFields::Wrong(from.path() + ".podName", "a name");
  });
  return plan;
}

Json ToJson(const AttachState& state) {
  Json json = {{"version", kVersion},
               {"phase", state.phase == AttachState::Phase::kAttached ? "attached" : "moving"},
               {"podUID", state.pod_uid},
               {"sandbox", state.sandbox},
               {"namespaceDevice", state.namespace_device},
               {"namespaceInode", state.namespace_inode}};
  json["interfaces"] = ListOf(state.interfaces, [](Json& to, const AttachedInterface& interface) {
    to = {{"device", interface.device},
          {"podName", interface.pod_name},
          {"index", interface.index},
          {"address", interface.address},
          {"ips", interface.ips}};
  });
  json["lost"] = Json::object();
  for (const auto& [device, lost] : state.lost) {
    Json& to = json["lost"][device] = Json::object();
    Put(to, "features", lost.features);
    Put(to, "privateFlags", lost.private_flags);
    Put(to, "sysctls", lost.sysctls);
  }
  Put(json, "error", state.error);
  return json;
}

AttachState AttachStateFromJson(const Json& json) {
  AttachState state;
  const JsonFields fields(json, "");
  CheckVersion(fields);
  std::string phase;
  fields.Get("phase", phase);
  if (phase != "moving" && phase != "attached")
    JsonFields::Wrong("phase", "\"moving\" or \"attached\"");
  state.phase = phase == "moving" ? AttachState::Phase::kMoving : AttachState::Phase::kAttached;
  fields.Get("podUID", state.pod_uid);
  fields.Get("sandbox", state.sandbox);
  fields.Get("namespaceDevice", state.namespace_device);
  fields.Get("namespaceInode", state.namespace_inode);
  fields.List("interfaces", state.interfaces,
              [](const JsonFields& from, AttachedInterface& interface) {
                from.Get("device", interface.device);
                from.Get("podName", interface.pod_name);
                from.Get("index", interface.index);
                from.Get("address", interface.address);
                from.Get("ips", interface.ips);
              });
  fields.Object("lost", [&](const JsonFields& all) {
    for (const auto& [device, from] : all.json().items()) {
      const JsonFields lost(from, "lost." + device);
      LostSettings& settings = state.lost[device];
      lost.Get("features", settings.features);
      lost.Get("privateFlags", settings.private_flags);
      lost.Get("sysctls", settings.sysctls);
    }
  });
  fields.Get("error", state.error);
  return state;
}

}  // namespace rdma
