#include "network_config.h"

#include <functional>
#include <string>

#include "dra/backend/error.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "normal_form.h"

namespace rdma {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string Refusal(const Json& parameters) {
  try {
    ReadNetworkConfig(parameters, "parameters");
  } catch (const dra::BackendError& error) {
    EXPECT_EQ(error.code(), DRA_INVALID_ARGUMENT);
    return error.what();
  }
  return "accepted";
}

Json Interface(Json interface) { return {{"interface", std::move(interface)}}; }
Json OneOf(const char* list, Json element) { return {{list, Json::array({std::move(element)})}}; }

// Every field at once, in dranet's form.
Json Full() {
  return Json::parse(R"json({
    "interface": {
      "name": "net1", "addresses": ["192.0.2.7/24", "2001:DB8:0::7/64"], "mtu": 9000,
      "hardwareAddr": "02-00-5E-00-53-01", "gsoMaxSize": 524280, "groMaxSize": 65536,
      "gsoIPv4MaxSize": 131072, "groIPv4MaxSize": 1, "forwarding": false, "arpIgnore": 8, "arpAnnounce": 2,
      "macvlan": "bridge", "dhcp": false, "disableEbpfPrograms": false
    },
    "routes": [
      {"destination": "198.51.100.9/24", "gateway": "192.0.2.1", "source": "192.0.2.7", "table": 100, "metric": 50},
      {"destination": "2001:db8:1::/48", "scope": 253}
    ],
    "rules": [{"priority": 32767, "source": "192.0.2.7/32", "destination": "198.51.100.0/24", "table": 4294967295}],
    "neighbors": [{"destination": "2001:db8::1", "hardwareAddr": "02:00:5e:00:53:02"}],
    "ethtool": {"features": {"rx-gro": false}, "privateFlags": {"rx_cqe_compress": true}},
    "rdma": {"umad": true, "issm": true}
  })json");
}

TEST(NetworkConfig, ReadsEveryField) {
  const NetworkConfig config = ReadNetworkConfig(Full(), "parameters");
  EXPECT_EQ(config.interface.name, "net1");
  EXPECT_THAT(config.interface.addresses, testing::ElementsAre("192.0.2.7/24", "2001:db8::7/64"));
  EXPECT_EQ(config.interface.mtu, 9000u);
  EXPECT_EQ(config.interface.hardware_address, "02:00:5e:00:53:01");
  EXPECT_EQ(config.interface.gso_max_size, 524280u);
  EXPECT_EQ(config.interface.gro_max_size, 65536u);
  EXPECT_EQ(config.interface.gso_ipv4_max_size, 131072u);
  EXPECT_EQ(config.interface.gro_ipv4_max_size, 1u);
  EXPECT_EQ(config.interface.forwarding, false);
  EXPECT_EQ(config.interface.arp_ignore, 8);
  EXPECT_EQ(config.interface.arp_announce, 2);
  EXPECT_EQ(config.interface.macvlan, "bridge");
  ASSERT_EQ(config.routes.size(), 2u);
  EXPECT_EQ(config.routes[0].destination, "198.51.100.0/24");
  EXPECT_EQ(config.routes[0].gateway, "192.0.2.1");
  EXPECT_EQ(config.routes[0].source, "192.0.2.7");
  EXPECT_EQ(config.routes[0].table, 100u);
  EXPECT_EQ(config.routes[0].metric, 50u);
  EXPECT_EQ(config.routes[1].scope, 253);
  ASSERT_EQ(config.rules.size(), 1u);
  EXPECT_EQ(config.rules[0].priority, 32767u);
  EXPECT_EQ(config.rules[0].table, 4294967295u);
  ASSERT_EQ(config.neighbors.size(), 1u);
  EXPECT_EQ(config.neighbors[0].hardware_address, "02:00:5e:00:53:02");
  EXPECT_EQ(config.features, (std::map<std::string, bool>{{"rx-gro", false}}));
  EXPECT_EQ(config.private_flags, (std::map<std::string, bool>{{"rx_cqe_compress", true}}));
  EXPECT_TRUE(config.rdma.umad);
  EXPECT_TRUE(config.rdma.issm);
}

TEST(NetworkConfig, IsTheSameAfterJson) {
  const NetworkConfig config = ReadNetworkConfig(Full(), "parameters");
  EXPECT_EQ(NetworkConfig::FromJson(config.ToJson()), config);
  // What is written is also what a user may write.
  EXPECT_EQ(ReadNetworkConfig(config.ToJson(), "parameters"), config);
  EXPECT_EQ(NetworkConfig::FromJson(NetworkConfig().ToJson()), NetworkConfig());
}

TEST(NetworkConfig, OfAPlanMayHaveWhatNoUserMayWrite) {
  NetworkConfig config;  // resolved: the host's own IPv6 route to the link
  config.interface.name = "eth0";
  config.routes.emplace_back().destination = "2001:db8::/64";
  EXPECT_EQ(NetworkConfig::FromJson(config.ToJson()), config);
}

TEST(NetworkConfig, OfAPlanIsRefusedIfItIsNotAsWritten) {
  const NetworkConfig config = ReadNetworkConfig(Full(), "parameters");
  const struct {
    const char* name;
    std::function<void(Json&)> damage;
    const char* text;
  } cases[] = {
      {"no object", [](Json& json) { json = 3; }, "config: must be an object"},
      {"more", [](Json& json) { json["vrf"] = 1; }, "config: is not as this version writes it"},
      {"more inside", [](Json& json) { json["routes"][0]["weight"] = 1; },
       "config: is not as this version writes it"},
      {"other kind", [](Json& json) { json["kind"] = "Other"; },
       "config: is not as this version writes it"},
      {"negative", [](Json& json) { json["interface"]["mtu"] = -1; },
       "config.interface.mtu: must be an integer within"},
      {"too large", [](Json& json) { json["routes"][0]["scope"] = 256; },
       "config.routes[0].scope: must be an integer within"},
      {"other type", [](Json& json) { json["ethtool"]["features"]["rx-gro"] = "on"; },
       "config.ethtool.features.rx-gro: must be true or false"},
      {"no list", [](Json& json) { json["rules"] = "all"; }, "config.rules: must be an array"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    Json json = config.ToJson();
    c.damage(json);
    try {
      NetworkConfig::FromJson(json);
      ADD_FAILURE() << "accepted";
    } catch (const std::exception& error) {
      EXPECT_THAT(error.what(), HasSubstr(c.text));
    }
  }
}

TEST(NetworkConfig, MayBeEmptyWithAndWithoutKind) {
  EXPECT_EQ(ReadNetworkConfig(Json::object(), "parameters"), NetworkConfig());
  EXPECT_EQ(
      ReadNetworkConfig({{"apiVersion", kConfigApiVersion}, {"kind", kConfigKind}}, "parameters"),
      NetworkConfig());
  EXPECT_EQ(ReadNetworkConfig({{"interface", nullptr}, {"routes", nullptr}}, "parameters"),
            NetworkConfig());
}

TEST(NetworkConfig, WantsAnInterfaceUnlessOnlyOfRdma) {
  EXPECT_FALSE(NetworkConfig().WantsInterface());
  EXPECT_FALSE(ReadNetworkConfig({{"rdma", {{"umad", true}}}}, "p").WantsInterface());
  const Json wishes[] = {
      Interface({{"name", "net1"}}),
      Interface({{"forwarding", false}}),
      OneOf("routes", {{"destination", "198.51.100.0/24"}, {"scope", 253}}),
      OneOf("rules", {{"source", "192.0.2.0/24"}, {"table", 7}}),
      OneOf("neighbors", {{"destination", "192.0.2.1"}, {"hardwareAddr", "02:00:5e:00:53:02"}}),
      {{"ethtool", {{"features", {{"rx-gro", true}}}}}},
      {{"ethtool", {{"privateFlags", {{"a", true}}}}}},
  };
  for (const Json& wish : wishes)
    EXPECT_TRUE(ReadNetworkConfig(wish, "p").WantsInterface()) << wish;
}

TEST(NetworkConfig, RefusesByNameWhatItDoesNotDo) {
  const struct {
    Json config;
    const char* text;
  } cases[] = {
      {Interface({{"dhcp", true}}),
       "parameters.interface.dhcp: not supported by this version: give `addresses`"},
      {Interface({{"vrf", {{"name", "red"}}}}),
       "parameters.interface.vrf: not supported by this version: use `rules`"},
      {Interface({{"ipvlan", Json::object()}}),
       "parameters.interface.ipvlan: not supported by this version: use `macvlan`"},
      {Interface({{"disableEbpfPrograms", true}}),
       "parameters.interface.disableEbpfPrograms: not supported by this"},
      {{{"profile", "fast"}},
       "parameters.profile: not supported by this version: write its settings out"},
      {{{"subInterface", {{"type", "ipvlan"}}}},
       "parameters.subInterface: not supported by this version: use interface.macvlan"},
  };
  for (const auto& c : cases) EXPECT_THAT(Refusal(c.config), HasSubstr(c.text));
}

TEST(NetworkConfig, IsReadStrictly) {
  const std::string mac = "02:00:5e:00:53:01";
  const struct {
    Json config;
    const char* text;
  } cases[] = {
      {"net1", "parameters: must be an object"},
      {{{"kind", kConfigKind}}, "parameters.apiVersion: is required with the other one"},
      {{{"apiVersion", kConfigApiVersion}}, "parameters.kind: is required with the other one"},
      {{{"apiVersion", "v1"}, {"kind", kConfigKind}},
       "unknown apiVersion \"v1\" with kind \"NetworkConfig\"; known: "
       "rdma.resource.dra-sdk.dev/v1alpha1 NetworkConfig"},
      {{{"apiVersion", kConfigApiVersion}, {"kind", "Net"}}, "with kind \"Net\""},
      {{{"interfaces", 1}}, "parameters.interfaces: unknown field; known: "},
      {Interface({{"nmae", "x"}}), "parameters.interface.nmae: unknown field"},
      {OneOf("routes", {{"dest", "x"}, {"destination", "1.0.0.0/8"}, {"scope", 253}}),
       "parameters.routes[0].dest: unknown"},
      {{{"ethtool", {{"rings", 1}}}}, "parameters.ethtool.rings: unknown field"},
      {{{"rdma", {{"uverbs", true}}}}, "parameters.rdma.uverbs: unknown field"},

      {Interface({{"name", "sixteenbyteslong"}}),
       "interface.name: \"sixteenbyteslong\" is longer than 15 bytes"},
      {Interface({{"name", "a/b"}}), "interface.name: \"a/b\" has something else in it"},
      {Interface({{"name", "a b"}}), "has something else in it"},
      {Interface({{"name", ".."}}), "\"..\" cannot be an interface's name"},
      {Interface({{"name", "all"}}), "\"all\" cannot be"},
      {Interface({{"name", "eth0"}}), "\"eth0\" is the name of an interface that every pod has"},
      {Interface({{"name", "lo"}}), "\"lo\" is the name"},
      {Interface({{"addresses", {"192.0.2.7"}}}),
       "interface.addresses[0]: \"192.0.2.7\" is no address with prefix length"},
      {Interface({{"addresses", {"192.0.2.7/24", "192.0.2.8/33"}}}),
       "interface.addresses[1]: \"192.0.2.8/33\" is no"},
      {Interface({{"addresses", {"0.0.0.0/0"}}}), "is the unspecified or a multicast address"},
      {Interface({{"addresses", {"ff02::1/64"}}}), "is the unspecified or a multicast address"},
      {Interface({{"addresses", "192.0.2.7/24"}}), "interface.addresses: must be an array"},
      {Interface({{"mtu", 67}}), "interface.mtu: is not in 68..65535"},
      {Interface({{"mtu", 65536}}), "interface.mtu: is not in 68..65535"},
      {Interface({{"mtu", "9000"}}), "interface.mtu: must be an integer"},
      {Interface({{"mtu", 1279}, {"addresses", {"2001:db8::1/64"}}}),
       "interface.mtu: is under 1280"},
      {Interface({{"hardwareAddr", "02:00:5e:00:53"}}),
       "interface.hardwareAddr: \"02:00:5e:00:53\" is no hardware address"},
      {Interface({{"hardwareAddr", "02:00-5e:00:53:01"}}), "is no hardware address"},
      {Interface({{"hardwareAddr", "01:00:5e:00:53:01"}}), "is zero or a multicast address"},
      {Interface({{"hardwareAddr", "00:00:00:00:00:00"}}), "is zero or a multicast address"},
      {Interface({{"hardwareAddr", "80:00:02:08:fe:80:00:00:00:00:00:00:ec:0d:9a:03:00:44:e6:e8"}}),
       "has 20 bytes"},
      {Interface({{"gsoMaxSize", 0}}), "interface.gsoMaxSize: is not in 1..524280"},
      {Interface({{"groMaxSize", 524281}}), "interface.groMaxSize: is not in 1..524280"},
      {Interface({{"gsoIPv4MaxSize", -1}}), "interface.gsoIPv4MaxSize: is not in"},
      {Interface({{"groIPv4MaxSize", 0}}), "interface.groIPv4MaxSize: is not in"},
      {Interface({{"forwarding", 1}}), "interface.forwarding: must be true or false"},
      {Interface({{"arpIgnore", 4}}), "interface.arpIgnore: is not in 0..3 and not 8"},
      {Interface({{"arpAnnounce", 3}}), "interface.arpAnnounce: is not in 0..2"},
      {Interface({{"macvlan", "passthru"}}),
       "\"passthru\" is not one of \"bridge\", \"private\", \"vepa\""},

      {OneOf("routes", Json::object()), "parameters.routes[0].destination: is required"},
      {OneOf("routes", {{"destination", "198.51.100.1"}}),
       "routes[0].destination: \"198.51.100.1\" is no network"},
      {OneOf("routes", {{"destination", "198.51.100.0/24"}}),
       "routes[0].gateway: is required unless scope is 253"},
      {OneOf("routes", {{"destination", "198.51.100.0/24"}, {"gateway", "2001:db8::1"}}),
       "routes[0].gateway: \"2001:db8::1\" is not of the same IP version as destination "
       "\"198.51.100.0/24\""},
      {OneOf("routes", {{"destination", "198.51.100.0/24"}, {"gateway", "192.0.2.0/24"}}),
       "is no IP address"},
      {OneOf("routes",
             {{"destination", "198.51.100.0/24"}, {"gateway", "192.0.2.1"}, {"scope", 253}}),
       "routes[0].gateway: cannot be with scope 253"},
      {OneOf("routes",
             {{"destination", "198.51.100.0/24"}, {"scope", 253}, {"source", "2001:db8::1"}}),
       "routes[0].source: \"2001:db8::1\" is not of the same IP version"},
      {OneOf("routes", {{"destination", "198.51.100.0/24"}, {"scope", 200}}),
       "routes[0].scope: is neither 0"},
      {OneOf("routes", {{"destination", "198.51.100.0/24"}, {"scope", 253}, {"table", -1}}),
       "routes[0].table: is not in 0.."},
      {OneOf("routes", {{"destination", "198.51.100.0/24"}, {"scope", 253}, {"metric", -1}}),
       "routes[0].metric: is not in 0.."},

      {OneOf("rules", {{"table", 7}}), "rules[0].source: or destination is required"},
      {OneOf("rules", {{"source", "192.0.2.0/24"}}), "rules[0].table: is required"},
      {OneOf("rules", {{"source", "192.0.2.0/24"}, {"table", 7}, {"priority", 32768}}),
       "rules[0].priority: is not in 0..32767"},
      {OneOf("rules", {{"source", "192.0.2.0/24"}, {"destination", "2001:db8::/32"}, {"table", 7}}),
       "rules[0].source: \"192.0.2.0/24\" is not of the same IP version"},
      {OneOf("rules", {{"source", "192.0.2.1"}, {"table", 7}}),
       "rules[0].source: \"192.0.2.1\" is no network"},

      {OneOf("neighbors", {{"hardwareAddr", mac}}), "neighbors[0].destination: is required"},
      {OneOf("neighbors", {{"destination", "192.0.2.1"}}),
       "neighbors[0].hardwareAddr: is required"},
      {OneOf("neighbors", {{"destination", "192.0.2.1/32"}, {"hardwareAddr", mac}}),
       "neighbors[0].destination: \"192.0.2.1/32\" is no IP"},

      {{{"ethtool", {{"features", {"rx-gro"}}}}}, "ethtool.features: must be an object"},
      {{{"ethtool", {{"features", {{"rx-gro", "on"}}}}}},
       "ethtool.features: rx-gro: must be true or false"},
      {{{"ethtool", {{"privateFlags", {{std::string(32, 'a'), true}}}}}}, "has not 1..31 bytes"},
      {{{"rdma", {{"umad", 1}}}}, "rdma.umad: must be true or false"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.config.dump());
    EXPECT_THAT(Refusal(c.config), AllOf(HasSubstr("parameters"), HasSubstr(c.text)));
  }
}

TEST(NetworkConfig, SchemaHasTheFieldsThatAreRead) {
  const Json schema = NetworkConfigSchema();
  std::function<void(const Json&, const Json&, const std::string&)> compare =
      [&](const Json& value, const Json& part, const std::string& path) {
        SCOPED_TRACE(path);
        if (value.is_object() && part.contains("properties")) {
          EXPECT_EQ(part.at("additionalProperties"), false);
          for (const auto& [key, member] : value.items()) {
            ASSERT_TRUE(part.at("properties").contains(key)) << key;
            compare(member, part.at("properties").at(key), path + "." + key);
          }
        } else if (value.is_array()) {
          ASSERT_EQ(part.at("type"), "array");
          for (const Json& element : value) compare(element, part.at("items"), path + "[]");
        }
      };
  compare(Full(), schema, "");
  EXPECT_EQ(schema["properties"]["kind"]["const"], kConfigKind);
  EXPECT_EQ(schema["dependentRequired"]["kind"], Json::array({"apiVersion"}));
  EXPECT_EQ(schema["properties"]["routes"]["items"]["required"], Json::array({"destination"}));
  EXPECT_EQ(schema["properties"]["rules"]["items"]["anyOf"],
            Json::parse(R"([{"required": ["source"]}, {"required": ["destination"]}])"));
  EXPECT_EQ(schema["properties"]["interface"]["properties"]["arpIgnore"]["enum"],
            Json::parse("[0, 1, 2, 3, 8]"));
}

TEST(NormalForm, MakesEqualAddressesEqualTexts) {
  EXPECT_EQ(NormalCidr("2001:DB8:0:0::7/64"), "2001:db8::7/64");
  EXPECT_EQ(NormalIp("2001:DB8::A"), "2001:db8::a");
  EXPECT_EQ(NormalIp("192.0.2.7/24"), std::nullopt);
  EXPECT_EQ(NormalCidr("192.0.2.7"), std::nullopt);
  EXPECT_EQ(NormalNetwork("192.0.2.7/25"), "192.0.2.0/25");
  EXPECT_EQ(NormalNetwork("192.0.2.255/0"), "0.0.0.0/0");
  EXPECT_EQ(NormalNetwork("2001:db8::ff/121"), "2001:db8::80/121");
  EXPECT_EQ(BroadcastOf("192.0.2.7/24"), "192.0.2.255");
  EXPECT_EQ(BroadcastOf("192.0.2.6/31"), "");
  EXPECT_EQ(BroadcastOf("2001:db8::7/64"), "");
  EXPECT_EQ(IpFamily("nonsense"), 0);
  EXPECT_EQ(NormalHardwareAddress("02-00-5E-00-53-01"), "02:00:5e:00:53:01");
}

}  // namespace
}  // namespace rdma
