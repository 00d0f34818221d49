#include "options.h"

#include <unistd.h>

#include <cmath>
#include <string>
#include <utility>

#include "dra/backend/json_reader.h"

namespace fake {
namespace {

constexpr int64_t kMaxCards = 65536;
// A partition has at least 1Gi of 80Gi and one of 100 units of compute.
constexpr int64_t kMaxPartitions = 80;
constexpr int64_t kMaxPollMilliseconds = 60000;
constexpr double kMaxHookLimitSeconds = 3600;

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "node";
  return name;
}

void CheckPath(dra::JsonReader& reader, const std::string& key, const std::string& path) {
  if (!path.empty() && path[0] != '/')
    reader.Refuse(key, "\"" + path + "\" is not an absolute path");
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
    reader.OptionalEnum<int>("profile", {{"gpu", 0}});
    options.layout.cards =
        reader.Optional("numDevices", 0, kMaxCards).value_or(options.layout.cards);
    options.layout.partitions = reader.Optional("partitions", 0, kMaxPartitions).value_or(0);
    options.layout.shared = reader.Optional<bool>("shared").value_or(false);
    if (options.layout.shared && options.layout.partitions > 0 &&
        80 % options.layout.partitions != 0) {
      // The steps of a shared capacity are 1Gi: the whole must be a multiple of them.
      reader.Refuse("partitions",
                    std::to_string(options.layout.partitions) +
                        " does not divide 80Gi into whole Gi, which \"shared\" needs: "
                        "use 1, 2, 4, 5, 8, 10, 16, 20, 40 or 80");
    }
    options.layout.node_name = reader.Optional<std::string>("nodeName").value_or("");
    if (options.layout.node_name.empty()) options.layout.node_name = HostName();
    options.device_nodes = reader.Optional<bool>("deviceNodes").value_or(false);
    options.dev_root = path("devRoot");
    options.device_status = reader.Optional<bool>("deviceStatus").value_or(false);
    options.merge_configs =
        reader.OptionalEnum<bool>("configPolicy", {{"highestWins", false}, {"merge", true}})
            .value_or(false);
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
