#include "cards.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>

// The cards' numbers. Sources: ids and placements of profiles, engines, PCI ids from NVIDIA's MIG user guide
// (r580) and the PCI id list; what comes from third parties' captures, or is derived from such, is named in
// `unverified`, member by member.
namespace nvidia_simulator {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// The profiles that all cards with 8 memory slices and 7 compute slices have, in the order of every table below.
struct Shape {
  unsigned profile_enum, id, slices, instances;
  std::vector<Placement> placements;
};

const std::vector<Shape>& Shapes() {
  static const std::vector<Shape> shapes = {
      {0, 19, 1, 7, {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}}},  // 1g
      {7, 20, 1, 1, {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}}},  // 1g+me
      {9, 15, 1, 4, {{0, 2}, {2, 2}, {4, 2}, {6, 2}}},                          // 1g, double memory
      {1, 14, 2, 3, {{0, 2}, {2, 2}, {4, 2}}},                                  // 2g
      {2, 9, 3, 2, {{0, 4}, {4, 4}}},                                           // 3g
      {3, 5, 4, 1, {{0, 4}}},                                                   // 4g
      {4, 0, 7, 1, {{0, 8}}},                                                   // 7g
  };
  return shapes;
}

// One row of a card's table, for the shape of the same place.
struct Row {
  const char* name;
  unsigned memory_mib, multiprocessors, copy_engines, decoders, jpegs, ofas;
};

struct Card {
  const char* model;
  const char* name;
  uint32_t device_id, subsystem_id;
  unsigned architecture;
  const char* compute_capability;
  unsigned brand;
  unsigned memory_mib, reserved_mib;
  unsigned addressing_mode;
  unsigned fabric_state;
  std::vector<std::string> unverified;
  std::vector<Row> rows;  // empty: not MIG capable
  std::vector<std::string> unverified_of_rows;
};

constexpr unsigned kTuring = 6, kAmpere = 7, kAda = 8, kHopper = 9, kBlackwell = 10;
constexpr unsigned kBrandNvidia = 14;
constexpr unsigned kNone = 0, kAts = 2;
constexpr unsigned kNoFabric = 0, kCompleted = 3;

const std::vector<Card>& Cards() {
  static const std::vector<std::string> card = {"pci.subsystem_id", "brand", "memoryBytes",
                                                "memoryReservedBytes"};
  static const std::vector<std::string> documented = {"memoryMiB", "multiprocessors", "copyEngines",
                                                      "encoders", "p2p"};
  static const std::vector<Card> cards = {
      {"A100-40GB",
       "NVIDIA A100-SXM4-40GB",
       0x20b010de,
       0x134f10de,
       kAmpere,
       "8.0",
       kBrandNvidia,
       40960,
       424,
       kNone,
       kNoFabric,
       card,
       {{"1g.5gb", 4864, 14, 1, 0, 0, 0},
        {"1g.5gb+me", 4864, 14, 1, 1, 1, 1},
        {"1g.10gb", 9856, 14, 1, 1, 0, 0},
        {"2g.10gb", 9856, 28, 2, 1, 0, 0},
        {"3g.20gb", 19968, 42, 3, 2, 0, 0},
        {"4g.20gb", 19968, 56, 4, 2, 0, 0},
        {"7g.40gb", 40192, 98, 7, 5, 1, 1}},
       documented},
      {"A100-80GB",
       "NVIDIA A100-SXM4-80GB",
       0x20b210de,
       0x147f10de,
       kAmpere,
       "8.0",
       kBrandNvidia,
       81920,
       602,
       kNone,
       kNoFabric,
       card,
       {{"1g.10gb", 9728, 14, 1, 0, 0, 0},
        {"1g.10gb+me", 9728, 14, 1, 1, 1, 1},
        {"1g.20gb", 19968, 14, 1, 1, 0, 0},
        {"2g.20gb", 19968, 28, 2, 1, 0, 0},
        {"3g.40gb", 40192, 42, 3, 2, 0, 0},
        {"4g.40gb", 40192, 56, 4, 2, 0, 0},
        {"7g.80gb", 80896, 98, 7, 5, 1, 1}},
       documented},
      {"H100-80GB",
       "NVIDIA H100 80GB HBM3",
       0x233010de,
       0x16c110de,
       kHopper,
       "9.0",
       kBrandNvidia,
       81559,
       551,
       kNone,
       kCompleted,
       card,
       {{"1g.10gb", 9984, 16, 1, 1, 1, 0},
        {"1g.10gb+me", 9984, 16, 1, 1, 1, 1},
        {"1g.20gb", 20096, 26, 1, 1, 1, 0},
        {"2g.20gb", 20096, 32, 2, 2, 2, 0},
        {"3g.40gb", 40448, 60, 3, 3, 3, 0},
        {"4g.40gb", 40448, 64, 4, 4, 4, 0},
        {"7g.80gb", 81152, 132, 7, 7, 7, 1}},
       documented},
      {"H200",
       "NVIDIA H200",
       0x233510de,
       0x18be10de,
       kHopper,
       "9.0",
       kBrandNvidia,
       143771,
       625,
       kNone,
       kCompleted,
       card,
       {{"1g.18gb", 16384, 16, 1, 1, 1, 0},
        {"1g.18gb+me", 16384, 16, 1, 1, 1, 1},
        {"1g.35gb", 33280, 26, 1, 1, 1, 0},
        {"2g.35gb", 33280, 32, 2, 2, 2, 0},
        {"3g.71gb", 71168, 60, 3, 3, 3, 0},
        {"4g.71gb", 71168, 64, 4, 4, 4, 0},
        {"7g.141gb", 143360, 132, 7, 7, 7, 1}},
       documented},
      {"B200",
       "NVIDIA B200",
       0x290110de,
       0x199910de,
       kBlackwell,
       "10.0",
       kBrandNvidia,
       183359,
       676,
       kNone,
       kCompleted,
       card,
       {{"1g.23gb", 22784, 18, 2, 1, 1, 0},
        {"1g.23gb+me", 22784, 18, 2, 1, 1, 1},
        {"1g.45gb", 45568, 18, 2, 1, 1, 0},
        {"2g.45gb", 45568, 36, 3, 1, 1, 0},
        {"3g.90gb", 91136, 54, 6, 1, 1, 0},
        {"4g.90gb", 91136, 72, 8, 1, 1, 0},
        {"7g.180gb", 182784, 126, 16, 1, 1, 1}},
       {"id", "placements", "instances", "memoryMiB", "multiprocessors", "encoders", "p2p"}},
      {"GB200",
       "NVIDIA GB200",
       0x294110de,
       0x204610de,
       kBlackwell,
       "10.0",
       kBrandNvidia,
       189471,
       676,
       kAts,
       kCompleted,
       card,
       {{"1g.23gb", 23552, 18, 2, 1, 1, 0},
        {"1g.23gb+me", 23552, 18, 2, 1, 1, 1},
        {"1g.47gb", 47104, 18, 2, 1, 1, 0},
        {"2g.47gb", 47104, 36, 3, 1, 1, 0},
        {"3g.93gb", 94208, 54, 6, 1, 1, 0},
        {"4g.93gb", 94208, 72, 8, 1, 1, 0},
        {"7g.186gb", 188928, 126, 16, 1, 1, 1}},  // 7g.189gb is reported too
       {"id", "name", "placements", "instances", "memoryMiB", "multiprocessors", "copyEngines",
        "decoders", "encoders", "jpegs", "ofas", "p2p"}},
      {"L4",
       "NVIDIA L4",
       0x27b810de,
       0x16ca10de,
       kAda,
       "8.9",
       kBrandNvidia,
       23034,
       500,
       kNone,
       kNoFabric,
       card,
       {},
       {}},
      {"T4",
       "Tesla T4",
       0x1eb810de,
       0x12a210de,
       kTuring,
       "7.5",
       kBrandNvidia,
       15360,
       450,
       kNone,
       kNoFabric,
       card,
       {},
       {}},
  };
  return cards;
}

std::vector<MigProfile> Profiles(const Card& card) {
  std::vector<MigProfile> profiles;
  for (size_t i = 0; i < card.rows.size(); ++i) {
    const Shape& shape = Shapes()[i];
    const Row& row = card.rows[i];
    MigProfile profile;
    profile.profile_enum = shape.profile_enum;
    profile.id = shape.id;
    profile.name = row.name;
    profile.slices = shape.slices;
    profile.instances = shape.instances;
    profile.memory_mib = row.memory_mib;
    profile.multiprocessors = row.multiprocessors;
    profile.copy_engines = row.copy_engines;
    profile.decoders = row.decoders;
    profile.jpegs = row.jpegs;
    profile.ofas = row.ofas;
    profile.p2p = card.architecture >= kHopper;
    profile.placements = shape.placements;
    profile.unverified = card.unverified_of_rows;
    profile.verified = profile.unverified.empty();
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

// Two cards behind a switch on each PCIe root, two roots on each NUMA node, 16 cards in a PCI domain.
void Place(Gpu& gpu, unsigned index) {
  const unsigned domain = index / 16, root = 0x10 + (index % 16) / 2 * 0x20;
  char text[32];
  std::snprintf(text, sizeof text, "%08x:%02x:00.0", domain, root + 3 + index % 2 * 4);
  gpu.pci.bus_id = text;
  std::snprintf(text, sizeof text, "pci%04x:%02x", domain, root);
  gpu.pcie_root = text;
  gpu.numa_node = static_cast<int>(index / 4);
}

// 13 digits, as boards have them.
std::string Serial(const std::string& uuid) {
  std::string digits = "16";
  for (const char c : uuid) {
    if (digits.size() < 13 && c != '-') {
      digits += static_cast<char>('0' + static_cast<unsigned char>(c) % 10);
    }
  }
  return digits;
}

}  // namespace

std::vector<std::string> CardNames() {
  std::vector<std::string> names;
  for (const Card& card : Cards()) names.push_back(card.model);
  return names;
}

Gpu MakeCard(const std::string& model, unsigned index, const std::string& node) {
  const auto card = std::find_if(Cards().begin(), Cards().end(),
                                 [&](const Card& entry) { return model == entry.model; });
  if (card == Cards().end()) {
    std::string known;
    for (const std::string& name : CardNames()) known += " " + name;
    throw std::invalid_argument("no card of the model \"" + model + "\"; there are:" + known);
  }
  Gpu gpu;
  gpu.model = model;
  gpu.uuid = StableUuid("GPU-", node + "/" + std::to_string(index));
  gpu.minor = index;
  gpu.serial = Serial(gpu.uuid.substr(4));
  gpu.name = card->name;
  gpu.brand = card->brand;
  gpu.architecture = card->architecture;
  gpu.compute_capability = card->compute_capability;
  gpu.memory_bytes = card->memory_mib * kMiB;
  gpu.memory_reserved_bytes = card->reserved_mib * kMiB;
  gpu.pci.device_id = card->device_id;
  gpu.pci.subsystem_id = card->subsystem_id;
  Place(gpu, index);
  gpu.module_id = index + 1;
  gpu.addressing_mode = card->addressing_mode;
  gpu.mig_capable = !card->rows.empty();
  gpu.mig_profiles = Profiles(*card);
  gpu.fabric.state = card->fabric_state;
  if (model ==
      "GB200") {  // an NVLink domain that spans nodes; elsewhere the cluster's UUID is zero
    gpu.fabric.cluster_uuid = StableUuid("", "rack");
    gpu.fabric.clique_id = 1;
    gpu.fabric.health_summary = 1;
    gpu.memory_numa_node = 2 + 8 * index;  // its memory is the system's too
  }
  gpu.remapped_rows.supported = card->architecture >= kAmpere;
  gpu.retired_pages_supported = card->architecture < kAmpere;
  gpu.recovery_action = 0;
  gpu.unverified = card->unverified;
  if (gpu.memory_numa_node.has_value()) gpu.unverified.push_back("memoryNumaNode");
  return gpu;
}

}  // namespace nvidia_simulator
