#include "cards.h"

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace rdma_simulator {
namespace {

// Ids of vendors and cards: pci.ids. Classes: 0200 Ethernet, 0207 InfiniBand, 0880 a system peripheral.
// Firmware, board and rates: as such cards show them; of no particular one.
constexpr char kCards[] = R"json({
  "ConnectX-7": {
    "vendor": "0x15b3", "device": "0x1021", "class": "0x020000", "driver": "mlx5_core", "totalVfs": 16,
    "interfaces": [{"speedMbps": 400000}],
    "rdma": [{"firmware": "28.39.1002", "boardId": "MT_0000000838", "hcaType": "MT4129",
              "ports": [{"rate": "400 Gb/sec (4X NDR)"}]}],
    "vf": {"device": "0x101e"}
  },
  "ConnectX-7-IB": {
    "vendor": "0x15b3", "device": "0x1021", "class": "0x020700", "driver": "mlx5_core", "totalVfs": 16,
    "interfaces": [{"type": "infiniband", "kind": "ipoib", "mtu": 4092, "speedMbps": 400000}],
    "rdma": [{"firmware": "28.39.1002", "boardId": "MT_0000000838", "hcaType": "MT4129",
              "ports": [{"linkLayer": "InfiniBand", "rate": "400 Gb/sec (4X NDR)"}]}],
    "vf": {"device": "0x101e"}
  },
  "BCM57608": {
    "vendor": "0x14e4", "device": "0x1760", "class": "0x020000", "driver": "bnxt_en", "totalVfs": 64,
    "interfaces": [{"speedMbps": 400000}],
    "rdma": [{"firmware": "231.0.153.0", "ports": [{"rate": "400 Gb/sec (4X NDR)"}]}],
    "vf": {"device": "0x1819"}
  },
  "E810": {
    "vendor": "0x8086", "device": "0x1592", "class": "0x020000", "driver": "ice", "totalVfs": 256,
    "interfaces": [{"speedMbps": 100000}],
    "rdma": [{"firmware": "1.54", "ports": [{"rate": "100 Gb/sec (4X EDR)"}]}],
    "vf": {"device": "0x1889", "driver": "iavf"}
  },
  "EFA": {
    "vendor": "0x1d0f", "device": "0xefa2", "class": "0x088000", "driver": "efa",
    "interfaces": [{}],
    "rdma": [{"nodeType": "7: unspecified",
              "ports": [{"linkLayer": "Unknown", "rate": "200 Gb/sec (4X HDR)"}]}]
  },
  "I350": {
    "vendor": "0x8086", "device": "0x1521", "class": "0x020000", "driver": "igb", "totalVfs": 7,
    "interfaces": [{"speedMbps": 1000}],
    "rdma": [{}],
    "vf": {"device": "0x1520", "driver": "igbvf"}
  }
})json";

const Json& Cards() {
  static const Json cards = Json::parse(kCards);
  return cards;
}

}  // namespace

std::vector<std::string> CardNames() {
  std::vector<std::string> names;
  for (const auto& [name, card] : Cards().items()) names.push_back(name);
  return names;
}

Json CardOf(const std::string& name) {
  const auto found = Cards().find(name);
  if (found != Cards().end()) return *found;
  std::string known;
  for (const std::string& each : CardNames()) known += (known.empty() ? "" : ", ") + each;
  throw std::invalid_argument("\"" + name + "\" is not one of " + known);
}

}  // namespace rdma_simulator
