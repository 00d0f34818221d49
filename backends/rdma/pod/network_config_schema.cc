#include "network_config.h"

namespace rdma {
namespace {

Json Object(Json properties, Json required = Json::array()) {
  Json schema = {
      {"type", "object"}, {"additionalProperties", false}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  return schema;
}
Json Integer(int64_t minimum, int64_t maximum) {
  return {{"type", "integer"}, {"minimum", minimum}, {"maximum", maximum}};
}
Json Text(const char* pattern) { return {{"type", "string"}, {"pattern", pattern}}; }
Json ListOf(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

// Coarse: ReadNetworkConfig has the last word.
constexpr char kIp[] = "^[0-9A-Fa-f.:]+$";
constexpr char kCidr[] = "^[0-9A-Fa-f.:]+/[0-9]{1,3}$";
constexpr char kMac[] = "^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$";
constexpr char kAnyHardwareAddress[] =
    "^([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2}|([0-9A-Fa-f]{2}[:-]){14}[0-9A-Fa-f]{2})$";

}  // namespace

Json NetworkConfigSchema() {
  const Json boolean = {{"type", "boolean"}};
  const Json switches = {{"type", "object"}, {"additionalProperties", boolean}};
  const Json offload_size = Integer(1, 524280);
  const Json interface = Object({
      {"name",
       {{"type", "string"},
        {"pattern", "^[A-Za-z0-9_.-]{1,15}$"},
        {"not", {{"enum", {".", "..", "all", "default", "eth0", "lo"}}}}}},
      {"addresses", ListOf(Text(kCidr))},
      {"mtu", Integer(68, 65535)},
      {"hardwareAddr", Text(kMac)},
      {"gsoMaxSize", offload_size},
      {"groMaxSize", offload_size},
      {"gsoIPv4MaxSize", offload_size},
      {"groIPv4MaxSize", offload_size},
      {"forwarding", boolean},
      {"arpIgnore", {{"enum", {0, 1, 2, 3, 8}}}},
      {"arpAnnounce", Integer(0, 2)},
      {"macvlan", {{"enum", {"bridge", "private", "vepa"}}}},
      {"dhcp", {{"const", false}}},
      {"disableEbpfPrograms", {{"const", false}}},
  });
  const Json route = Object({{"destination", Text(kCidr)},
                             {"gateway", Text(kIp)},
                             {"source", Text(kIp)},
                             {"scope", {{"enum", {0, 253}}}},
                             {"table", Integer(0, kMaxTable)},
                             {"metric", Integer(0, kMaxMetric)}},
                            {"destination"});
  Json rule = Object({{"priority", Integer(0, 32767)},
                      {"source", Text(kCidr)},
                      {"destination", Text(kCidr)},
                      {"table", Integer(1, kMaxTable)}},
                     {"table"});
  rule["anyOf"] = {{{"required", {"source"}}}, {{"required", {"destination"}}}};
  const Json neighbour =
      Object({{"destination", Text(kIp)}, {"hardwareAddr", Text(kAnyHardwareAddress)}},
             {"destination", "hardwareAddr"});
  Json schema = Object({
      {"apiVersion", {{"const", kConfigApiVersion}}},
      {"kind", {{"const", kConfigKind}}},
      {"interface", interface},
      {"routes", ListOf(route)},
      {"rules", ListOf(rule)},
      {"neighbors", ListOf(neighbour)},
      {"ethtool", Object({{"features", switches}, {"privateFlags", switches}})},
      {"rdma", Object({{"umad", boolean}, {"issm", boolean}})},
  });
  // Both or none: dranet's own form has neither.
  schema["dependentRequired"] = {{"apiVersion", {"kind"}}, {"kind", {"apiVersion"}}};
  return schema;
}

}  // namespace rdma
