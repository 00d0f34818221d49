#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "dra/backend/error.h"
#include "dra/backend/json_reader.h"
#include "network_config.h"
#include "normal_form.h"

namespace rdma {

using dra::BackendError;
using dra::JsonReader;

namespace {

constexpr int64_t kMaxNameSize = 15;  // IFNAMSIZ - 1
constexpr int64_t kMinMtu = 68, kMaxMtu = 65535;
constexpr int64_t kMinIpv6Mtu = 1280;
constexpr int64_t kMaxOffloadSize = 524280;  // GSO_MAX_SIZE of linux/netdevice.h: 8 * 65535
constexpr int64_t kScopeLink = 253;          // RT_SCOPE_LINK

// What dranet has and this backend does not do yet. `false` asks for nothing.
void RefuseIfAsked(JsonReader& reader, const char* key, const std::string& instead) {
  const auto value = reader.Optional<Json>(key);
  if (!value || *value == false) return;
  reader.Refuse(key, "not supported by this version: " + instead);
}

std::string ReadName(JsonReader& reader) {
  const std::string name = reader.Optional<std::string>("name").value_or("");
  if (name.empty()) return name;
  const auto refuse = [&](const std::string& why) {
    reader.Refuse("name", "\"" + name + "\" " + why);
  };
  if (static_cast<int64_t>(name.size()) > kMaxNameSize)
    refuse("is longer than " + std::to_string(kMaxNameSize) + " bytes, the kernel's limit");
  if (name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") !=
      std::string::npos)
    refuse("has something else in it than letters, digits, '-', '_' and '.'");
  // all and default are directories beside those of interfaces in /proc/sys/net.
  for (const char* taken : {".", "..", "all", "default"}) {
    if (name == taken) refuse("cannot be an interface's name");
  }
  for (const char* taken : {"eth0", "lo"}) {
    if (name == taken)
      refuse("is the name of an interface that every pod has: choose another one, net1 say");
  }
  return name;
}

std::string ReadHardwareAddress(JsonReader& reader, const char* key, bool of_interface) {
  const std::string text = reader.Optional<std::string>(key).value_or("");
  if (text.empty()) return text;
  const auto address = NormalHardwareAddress(text);
  if (!address)
    reader.Refuse(key, "\"" + text + "\" is no hardware address like 02:00:5e:00:53:01");
  if (!of_interface) return *address;
  if (address->size() > 17)
    reader.Refuse(key, "has 20 bytes: the address of an InfiniBand interface cannot be set");
  // The second digit's lowest bit is the multicast bit.
  if (*address == "00:00:00:00:00:00" ||
      std::string("13579bdf").find((*address)[1]) != std::string::npos)
    reader.Refuse(key, "\"" + text + "\" is zero or a multicast address: no interface can have it");
  return *address;
}

std::string ReadIp(JsonReader& reader, const char* key) {
  const std::string text = reader.Optional<std::string>(key).value_or("");
  if (text.empty()) return text;
  const auto ip = NormalIp(text);
  if (!ip) reader.Refuse(key, "\"" + text + "\" is no IP address");
  return *ip;
}

std::string ReadNetwork(JsonReader& reader, const char* key) {
  const std::string text = reader.Optional<std::string>(key).value_or("");
  if (text.empty()) return text;
  const auto network = NormalNetwork(text);
  if (!network)
    reader.Refuse(key, "\"" + text + "\" is no network like 192.0.2.0/24 (a host: /32 or /128)");
  return *network;
}

void SameFamily(JsonReader& reader, const char* key, const std::string& value,
                const char* other_key, const std::string& other) {
  if (value.empty() || other.empty() || IpFamily(value) == IpFamily(other)) return;
  reader.Refuse(key, "\"" + value + "\" is not of the same IP version as " + other_key + " \"" +
                         other + "\"");
}

std::optional<uint32_t> ReadSize(JsonReader& reader, const char* key, int64_t minimum,
                                 int64_t maximum) {
  const auto size = reader.Optional(key, minimum, maximum);
  if (!size) return std::nullopt;
  return static_cast<uint32_t>(*size);
}

NetworkConfig::Interface ReadInterface(JsonReader& reader) {
  NetworkConfig::Interface interface;
  interface.name = ReadName(reader);
  bool ipv6 = false;
  for (const std::string& text : reader.List<std::string>("addresses")) {
    const auto cidr = NormalCidr(text);
    const std::string key = "addresses[" + std::to_string(interface.addresses.size()) + "]";
    if (!cidr)
      reader.Refuse(key, "\"" + text + "\" is no address with prefix length like 192.0.2.7/24");
    if (!IsInterfaceIp(*cidr))
      reader.Refuse(
          key,
          "\"" + text + "\" is the unspecified or a multicast address: no interface can have it");
    ipv6 = ipv6 || IpFamily(*cidr) == AF_INET6;
    interface.addresses.push_back(*cidr);
  }
  interface.mtu = ReadSize(reader, "mtu", kMinMtu, kMaxMtu);
  if (ipv6 && interface.mtu && *interface.mtu < kMinIpv6Mtu)
    reader.Refuse("mtu",
                  "is under 1280, which IPv6 needs at least: raise it or give no IPv6 address");
  interface.hardware_address = ReadHardwareAddress(reader, "hardwareAddr", /*of_interface=*/true);
  interface.gso_max_size = ReadSize(reader, "gsoMaxSize", 1, kMaxOffloadSize);
  interface.gro_max_size = ReadSize(reader, "groMaxSize", 1, kMaxOffloadSize);
  interface.gso_ipv4_max_size = ReadSize(reader, "gsoIPv4MaxSize", 1, kMaxOffloadSize);
  interface.gro_ipv4_max_size = ReadSize(reader, "groIPv4MaxSize", 1, kMaxOffloadSize);
  interface.forwarding = reader.Optional<bool>("forwarding");
  if (const auto value = reader.Optional<int64_t>("arpIgnore")) {
    if ((*value < 0 || *value > 3) && *value != 8)
      reader.Refuse("arpIgnore", "is not in 0..3 and not 8");
    interface.arp_ignore = static_cast<int>(*value);
  }
  if (const auto value = reader.Optional("arpAnnounce", 0, 2))
    interface.arp_announce = static_cast<int>(*value);
  interface.macvlan =
      reader
          .OptionalEnum<const char*>(
              "macvlan", {{"bridge", "bridge"}, {"private", "private"}, {"vepa", "vepa"}})
          .value_or("");
  RefuseIfAsked(reader, "dhcp", "give `addresses`, or none, and the host's go along");
  RefuseIfAsked(reader, "vrf", "use `rules` and a `table` for the routes");
  RefuseIfAsked(reader, "ipvlan", "use `macvlan`");
  RefuseIfAsked(reader, "disableEbpfPrograms",
                "detach them on the host, or choose a NIC without them");
  return interface;
}

NetworkConfig::RouteWish ReadRoute(JsonReader& reader) {
  NetworkConfig::RouteWish route;
  route.destination = ReadNetwork(reader, "destination");
  if (route.destination.empty()) reader.Refuse("destination", "is required");
  route.gateway = ReadIp(reader, "gateway");
  route.source = ReadIp(reader, "source");
  SameFamily(reader, "gateway", route.gateway, "destination", route.destination);
  SameFamily(reader, "source", route.source, "destination", route.destination);
  const int64_t scope = reader.Optional<int64_t>("scope").value_or(0);
  if (scope != 0 && scope != kScopeLink)
    reader.Refuse("scope", "is neither 0 (universe) nor 253 (link)");
  if (scope == 0 && route.gateway.empty())
    reader.Refuse("gateway", "is required unless scope is 253 (link)");
  if (scope == kScopeLink && !route.gateway.empty())
    reader.Refuse("gateway",
                  "cannot be with scope 253 (link): what is on the link needs no gateway");
  route.scope = static_cast<uint8_t>(scope);
  route.table = ReadSize(reader, "table", 0, kMaxTable).value_or(0);
  route.metric = ReadSize(reader, "metric", 0, kMaxMetric).value_or(0);
  return route;
}

NetworkConfig::RuleWish ReadRule(JsonReader& reader) {
  NetworkConfig::RuleWish rule;
  rule.priority = ReadSize(reader, "priority", 0, 32767).value_or(0);
  rule.source = ReadNetwork(reader, "source");
  rule.destination = ReadNetwork(reader, "destination");
  SameFamily(reader, "source", rule.source, "destination", rule.destination);
  if (rule.source.empty() && rule.destination.empty())
    reader.Refuse("source", "or destination is required: it says for which IP version the rule is");
  rule.table = ReadSize(reader, "table", 0, kMaxTable).value_or(0);
  if (rule.table == 0) reader.Refuse("table", "is required: to which table the rule sends");
  return rule;
}

NetworkConfig::NeighbourWish ReadNeighbour(JsonReader& reader) {
  NetworkConfig::NeighbourWish neighbour;
  neighbour.destination = ReadIp(reader, "destination");
  if (neighbour.destination.empty()) reader.Refuse("destination", "is required");
  neighbour.hardware_address = ReadHardwareAddress(reader, "hardwareAddr", /*of_interface=*/false);
  if (neighbour.hardware_address.empty()) reader.Refuse("hardwareAddr", "is required");
  return neighbour;
}

std::map<std::string, bool> ReadSwitches(JsonReader& reader, const char* key) {
  std::map<std::string, bool> switches;
  const auto object = reader.Optional<Json>(key);
  if (!object) return switches;
  if (!object->is_object()) reader.Refuse(key, "must be an object of names and true or false");
  for (const auto& [name, value] : object->items()) {
    if (!value.is_boolean()) reader.Refuse(key, name + ": must be true or false");
    // ETH_GSTRING_LEN, with the ending zero.
    if (name.empty() || name.size() >= 32)
      reader.Refuse(key, "\"" + name + "\" has not 1..31 bytes");
    switches[name] = value.get<bool>();
  }
  return switches;
}

void ReadAll(JsonReader& reader, NetworkConfig& config) {
  reader.OptionalObject("interface", [&](JsonReader& r) { config.interface = ReadInterface(r); });
  reader.Each("routes", [&](JsonReader& r) { config.routes.push_back(ReadRoute(r)); });
  reader.Each("rules", [&](JsonReader& r) { config.rules.push_back(ReadRule(r)); });
  reader.Each("neighbors", [&](JsonReader& r) { config.neighbors.push_back(ReadNeighbour(r)); });
  reader.OptionalObject("ethtool", [&](JsonReader& r) {
    config.features = ReadSwitches(r, "features");
    config.private_flags = ReadSwitches(r, "privateFlags");
  });
  reader.OptionalObject("rdma", [&](JsonReader& r) {
    config.rdma.umad = r.Optional<bool>("umad").value_or(false);
    config.rdma.issm = r.Optional<bool>("issm").value_or(false);
  });
  RefuseIfAsked(reader, "profile", "write its settings out");
  RefuseIfAsked(reader, "subInterface", "use interface.macvlan");
}

}  // namespace

NetworkConfig ReadNetworkConfig(const Json& parameters, const std::string& path) {
  NetworkConfig config;
  JsonReader::Read(parameters, path, [&](JsonReader& reader) {
    const auto api_version = reader.Optional<std::string>("apiVersion");
    const auto kind = reader.Optional<std::string>("kind");
    if (api_version.has_value() != kind.has_value())
      reader.Refuse(kind ? "apiVersion" : "kind",
                    "is required with the other one of the two; or leave both out");
    if (kind && (*api_version != kConfigApiVersion || *kind != kConfigKind)) {
      throw BackendError(DRA_INVALID_ARGUMENT,
                         path + ": unknown apiVersion \"" + *api_version + "\" with kind \"" +
                             *kind + "\"; known: " + kConfigApiVersion + " " + kConfigKind);
    }
    ReadAll(reader, config);
  });
  return config;
}

}  // namespace rdma
