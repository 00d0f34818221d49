#include "options.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include "dra/backend/json_reader.h"

namespace fake {
namespace {

constexpr int64_t kMaxCards = 65536;
// A partition has at least 1Gi of 80Gi and one of 100 units of compute.
constexpr int64_t kMaxPartitions = 80;
constexpr int64_t kMaxCpus = 65536;
constexpr int64_t kMaxPollMilliseconds = 60000;
constexpr double kMaxHookLimitSeconds = 3600;

// The node as dra-driver knows it from its pod; the name of a pod's own host changes with every pod.
std::string NodeName() {
  const char* from_pod = std::getenv("NODE_NAME");
  if (from_pod != nullptr && from_pod[0] != '\0') return from_pod;
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "node";
  return name;
}

void CheckPath(dra::JsonReader& reader, const std::string& key, const std::string& path) {
  if (!path.empty() && path[0] != '/')
    reader.Refuse(key, "\"" + path + "\" is not an absolute path");
}

std::string NameOf(ProfileName profile) {
  switch (profile) {
    case ProfileName::kGpu:
      return "\"gpu\"";
    case ProfileName::kNet:
      return "\"net\"";
    case ProfileName::kCpu:
      return "\"cpu\"";
  }
  return "";
}

// The options that not every profile has.
struct OwnedOption {
  const char* key;
  std::vector<ProfileName> profiles;
};

void RefuseOptionsOfOthers(dra::JsonReader& reader, const dra::Json& config, ProfileName profile) {
  static const OwnedOption kOwned[] = {
      {"numDevices", {ProfileName::kGpu, ProfileName::kNet}},
      {"partitions", {ProfileName::kGpu}},
      {"shared", {ProfileName::kGpu}},
      {"deviceNodes", {ProfileName::kGpu}},
      {"devRoot", {ProfileName::kGpu}},
      {"deviceStatus", {ProfileName::kGpu}},
      {"configPolicy", {ProfileName::kGpu, ProfileName::kNet}},
      {"numaNodes", {ProfileName::kCpu}},
      {"cpusPerNUMANode", {ProfileName::kCpu}},
      {"driverName", {ProfileName::kCpu}},
  };
  for (const OwnedOption& option : kOwned) {
    // Looked up in the object, so that the reader does not count it among the known ones.
    const auto given = config.find(option.key);
    if (given == config.end() || given->is_null()) continue;
    std::string owners;
    bool own = false;
    for (const ProfileName owner : option.profiles) {
      own = own || owner == profile;
      owners += (owners.empty() ? "" : " and ") + NameOf(owner);
    }
    if (own) continue;
    reader.Refuse(option.key, "is an option of profile " + owners + ", and this is profile " +
                                  NameOf(profile) + ": remove it");
  }
}

// A DNS subdomain, as the name of a driver is.
bool IsDriverName(const std::string& name) {
  if (name.empty() || name.size() > 63) return false;
  char before = '.';
  for (const char c : name + ".") {
    const bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!alphanumeric && c != '-' && c != '.') return false;
    // No label is empty, and none begins or ends with '-'.
    if (!alphanumeric && before == '.') return false;
    if (c == '.' && before == '-') return false;
    before = c;
  }
  return true;
}

void ReadGpuLayout(dra::JsonReader& reader, GpuLayout& layout) {
  layout.cards = reader.Optional("numDevices", 0, kMaxCards).value_or(layout.cards);
  layout.partitions = reader.Optional("partitions", 0, kMaxPartitions).value_or(0);
  layout.shared = reader.Optional<bool>("shared").value_or(false);
  if (layout.shared && layout.partitions > 0 && 80 % layout.partitions != 0) {
    // The steps of a shared capacity are 1Gi: the whole must be a multiple of them.
    reader.Refuse("partitions", std::to_string(layout.partitions) +
                                    " does not divide 80Gi into whole Gi, which \"shared\" needs: "
                                    "use 1, 2, 4, 5, 8, 10, 16, 20, 40 or 80");
  }
}

void ReadCpuLayout(dra::JsonReader& reader, CpuLayout& layout) {
  layout.numa_nodes = reader.Optional("numaNodes", 0, kMaxCards).value_or(layout.numa_nodes);
  layout.cpus_per_node =
      reader.Optional("cpusPerNUMANode", 1, kMaxCpus).value_or(layout.cpus_per_node);
  layout.driver_name = reader.Optional<std::string>("driverName").value_or(layout.driver_name);
  if (!IsDriverName(layout.driver_name)) {
    reader.Refuse("driverName", "\"" + layout.driver_name +
                                    "\" is not a driver's name: a DNS subdomain in lower case, "
                                    "at most 63 characters");
  }
}

void ReadManifest(dra::JsonReader& reader, Options& options) {
  options.parallel = reader.Optional<bool>("parallel");
  options.shared_claims = reader.Optional<bool>("sharedClaims");
  options.never_tainted = reader.Optional<bool>("neverTainted");
  options.no_injection = reader.Optional<bool>("noInjection");
  options.keeps_undo = reader.Optional<bool>("keepsUndo");
  reader.OptionalObject("hookLimits", [&](dra::JsonReader& limits) {
    for (const char* hook :
         {"create", "destroy", "describe", "discover", "validate_config", "prepare", "unprepare",
          "reconcile_begin", "reconcile_record", "reconcile_end", "busy", "health"}) {
      const std::optional<double> seconds = limits.Optional<double>(hook);
      if (!seconds) continue;
      if (!(*seconds > 0) || *seconds > kMaxHookLimitSeconds) {
        limits.Refuse(hook, "must be above 0 and at most 3600 seconds");
      }
      options.hook_limits[hook] = std::chrono::milliseconds(std::llround(*seconds * 1000));
    }
  });
}

}  // namespace

Options Options::Parse(const dra::Json& config) {
  Options options;
  dra::JsonReader::Read(config, "config", [&](dra::JsonReader& reader) {
    const auto path = [&](const char* key) {
      std::string value = reader.Optional<std::string>(key).value_or("");
      CheckPath(reader, key, value);
      return value;
    };
    options.profile = reader
                          .OptionalEnum<ProfileName>("profile", {{"gpu", ProfileName::kGpu},
                                                                 {"net", ProfileName::kNet},
                                                                 {"cpu", ProfileName::kCpu}})
                          .value_or(ProfileName::kGpu);
    RefuseOptionsOfOthers(reader, config, options.profile);
    switch (options.profile) {
      case ProfileName::kGpu:
        ReadGpuLayout(reader, options.gpu);
        options.device_nodes = reader.Optional<bool>("deviceNodes").value_or(false);
        options.dev_root = path("devRoot");
        options.device_status = reader.Optional<bool>("deviceStatus").value_or(false);
        break;
      case ProfileName::kNet:
        options.net.cards = reader.Optional("numDevices", 0, kMaxCards).value_or(options.net.cards);
        break;
      case ProfileName::kCpu:
        ReadCpuLayout(reader, options.cpu);
        break;
    }
    if (options.profile != ProfileName::kCpu) {
      options.merge_configs =
          reader.OptionalEnum<bool>("configPolicy", {{"highestWins", false}, {"merge", true}})
              .value_or(false);
    }
    options.node_name = reader.Optional<std::string>("nodeName").value_or("");
    if (options.node_name.empty()) options.node_name = NodeName();
    options.inventory_file = path("inventoryFile");
    options.state_directory = path("stateDirectory");
    options.control_file = path("controlFile");
    options.hook_log = path("hookLog");
    if (!options.state_directory.empty()) {
      if (options.control_file.empty())
        options.control_file = options.state_directory + "/control.json";
      if (options.hook_log.empty()) options.hook_log = options.state_directory + "/hooks.jsonl";
    }
    options.poll_interval = std::chrono::milliseconds(
        reader.Optional("pollMilliseconds", 1, kMaxPollMilliseconds).value_or(50));
    reader.OptionalObject("manifest",
                          [&](dra::JsonReader& manifest) { ReadManifest(manifest, options); });
  });
  return options;
}

}  // namespace fake
