#include "inventory_file.h"

#include <algorithm>
#include <string>
#include <utility>

#include "dra/backend/configs.h"
#include "dra/backend/json_reader.h"
#include "files.h"

namespace fake {
namespace {

using dra::BackendError;
using dra::Json;
using dra::JsonReader;

dra::HealthReport ReadHealth(JsonReader& reader) {
  dra::HealthReport health;
  health.device = reader.Required<std::string>("device");
  health.pool = reader.Optional<std::string>("pool").value_or("");
  health.state = reader.Enum<dra::HealthKind>("state", {{"healthy", dra::HealthKind::kHealthy},
                                                        {"unhealthy", dra::HealthKind::kUnhealthy},
                                                        {"unknown", dra::HealthKind::kUnknown}});
  health.fault_class = reader.Optional<std::string>("faultClass").value_or("");
  health.message = reader.Optional<std::string>("message").value_or("");
  health.remedy = reader.Optional<std::string>("remedy").value_or("");
  health.clears_with = reader.Optional<std::string>("clearsWith").value_or("");
  health.severity = reader
                        .OptionalEnum<dra::FaultSeverity>(
                            "severity", {{"minor", dra::FaultSeverity::kMinor},
                                         {"major", dra::FaultSeverity::kMajor},
                                         {"critical", dra::FaultSeverity::kCritical}})
                        .value_or(dra::FaultSeverity::kUnset);
  return health;
}

FileDevice ReadDevice(JsonReader& reader) {
  FileDevice device;
  device.report.device = reader.Optional<Json>("device").value_or(Json());
  if (device.report.device.is_object() && device.report.device.contains("name") &&
      device.report.device["name"].is_string()) {
    device.name = device.report.device["name"];
  }
  // Without an identity the name serves, so that short inventories stay short.
  device.report.identity = reader.Optional<std::string>("identity").value_or(device.name);
  device.report.pool = reader.Optional<std::string>("pool").value_or("");
  reader.Each("exclusionKeys", [&](JsonReader& key) {
    device.report.exclusion_keys.emplace_back(key.Required<std::string>("key"),
                                              key.Optional<std::string>("shape").value_or(""));
  });
  const Json edits = reader.Optional<Json>("edits").value_or(Json());
  if (edits.is_array()) {
    device.edits.assign(edits.begin(), edits.end());
  } else {
    device.edits.push_back(edits);
  }
  if (device.edits.empty()) device.edits.emplace_back();
  device.status = reader.Optional<Json>("status").value_or(Json());
  reader.OptionalObject("error", [&](JsonReader& error) {
    device.is_error = true;
    device.error_code =
        error.Enum<int32_t>("code", {{"NOT_FOUND", DRA_NOT_FOUND},
                                     {"UNAVAILABLE", DRA_UNAVAILABLE},
                                     {"PERMISSION_DENIED", DRA_PERMISSION_DENIED},
                                     {"FAILED_PRECONDITION", DRA_FAILED_PRECONDITION},
                                     {"INTERNAL", DRA_INTERNAL}});
    device.error_text = error.Required<std::string>("message");
  });
  device.subject = reader.Optional<std::string>("subject").value_or(device.name);
  if (!device.is_error && device.report.device.is_null())
    reader.Refuse("device", "is required without \"error\"");
  return device;
}

FileContents ParseInventory(const std::string& text, const std::string& path) {
  FileContents contents;
  const Json document = dra::ParseStrictJson(text, path);
  JsonReader::Read(document, "", [&](JsonReader& reader) {
    reader.Each("devices",
                [&](JsonReader& entry) { contents.devices.push_back(ReadDevice(entry)); });
    reader.Each("counterSets", [&](JsonReader& entry) {
      contents.counter_sets.emplace_back(entry.Optional<std::string>("pool").value_or(""),
                                         entry.Required<Json>("counterSet"));
    });
    const Json fields = reader.Optional<Json>("sliceFields").value_or(Json::object());
    for (const auto& [pool, value] : fields.items()) contents.slice_fields[pool] = value;
    contents.complete = reader.Optional<bool>("complete").value_or(true);
    contents.reason = reader.Optional<std::string>("reason").value_or("the inventory file says so");
    reader.Each("health", [&](JsonReader& entry) { contents.health.push_back(ReadHealth(entry)); });
    contents.claim_edits = reader.Optional<Json>("claimEdits").value_or(Json());
    contents.undo = reader.Optional<std::string>("undo");
    reader.Each("configKinds", [&](JsonReader& entry) {
      contents.config_kinds.push_back({entry.Required<std::string>("apiVersion"),
                                       entry.Required<std::string>("kind"),
                                       entry.List<std::string>("fields")});
    });
    contents.show_config = reader.Optional<bool>("showConfig").value_or(false);
  });
  Json rest = document;
  const auto health = rest.find("health");
  if (health != rest.end()) {
    contents.health_text = health->dump();
    rest.erase(health);
  }
  contents.inventory_text = rest.dump();
  return contents;
}

// Reads one configuration strictly by the kinds of the file.
void CheckConfig(const FileContents& contents, const Json& parameters, const std::string& path) {
  std::vector<dra::ConfigKinds<bool>::Entry> entries;
  for (const FileConfigKind& kind : contents.config_kinds) {
    entries.push_back({kind.api_version, kind.kind, [&kind](JsonReader& reader) {
                         for (const std::string& field : kind.fields) reader.Has(field);
                         return true;
                       }});
  }
  dra::ConfigKinds<bool>(std::move(entries)).Read(parameters, path);
}

}  // namespace

std::shared_ptr<const FileContents> FileInventory::Read() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string stamp = FileStamp(path_);
  if (contents_ != nullptr && !stamp.empty() && stamp == stamp_) return contents_;
  const std::optional<std::string> text = ReadFileIfExists(path_);
  if (!text) throw BackendError(DRA_UNAVAILABLE, "inventory file " + path_ + " is not there");
  try {
    contents_ = std::make_shared<const FileContents>(ParseInventory(*text, path_));
  } catch (const BackendError& error) {
    throw BackendError(error.code(), "inventory file " + path_ + ": " + error.what());
  }
  stamp_ = stamp;
  return contents_;
}

void FileInventory::Describe(dra::BackendManifest& manifest) {
  // The attributes are the file's, and so are the configurations. Without a file there are none; why it cannot be read
  // is told by discover, because a node must be able to unprepare all the same.
  try {
    for (const FileConfigKind& kind : Read()->config_kinds) {
      Json schema = {{"type", "object"}, {"required", {"apiVersion", "kind"}}};
      manifest.config_kinds.push_back({kind.api_version, kind.kind, std::move(schema)});
    }
  } catch (const BackendError&) {
    manifest.config_kinds.clear();
  }
}

std::pair<std::string, std::string> FileInventory::Look() {
  const std::shared_ptr<const FileContents> contents = Read();
  return {contents->inventory_text, contents->health_text};
}

void FileInventory::Discover(const dra::DiscoverRequest&, dra::DiscoverSink& sink) {
  const std::shared_ptr<const FileContents> contents = Read();
  for (const FileDevice& device : contents->devices) {
    if (device.is_error) {
      sink.AddError(device.subject, device.error_code, device.error_text);
    } else {
      sink.AddDevice(device.report);
    }
  }
  for (const auto& [pool, counter_set] : contents->counter_sets)
    sink.AddCounterSet(pool, counter_set);
  for (const auto& [pool, fields] : contents->slice_fields) sink.SetSliceFields(pool, fields);
  if (!contents->complete) sink.SetPartial(contents->reason);
}

std::vector<dra::HealthReport> FileInventory::Health() {
  const std::shared_ptr<const FileContents> contents = Read();
  std::vector<dra::HealthReport> reports;
  for (const FileDevice& device : contents->devices) {
    if (device.is_error || device.name.empty()) continue;
    reports.push_back(
        {.device = device.name, .pool = device.report.pool, .state = dra::HealthKind::kHealthy});
    for (const dra::HealthReport& said : contents->health) {
      if (said.device == device.name && said.pool == device.report.pool) reports.back() = said;
    }
  }
  return reports;
}

dra::PrepareReply FileInventory::Prepare(const dra::HookCall& call,
                                         const dra::PrepareRequest& request) {
  const std::shared_ptr<const FileContents> contents = Read();
  dra::PrepareReply reply;
  for (const dra::AllocatedDevice& device : request.devices) {
    const FileDevice* found = nullptr;
    for (const FileDevice& candidate : contents->devices) {
      if (!candidate.is_error && candidate.name == device.name()) found = &candidate;
    }
    if (found == nullptr) {
      throw BackendError(DRA_NOT_FOUND, "device \"" + device.name() + "\" is not in " + path_);
    }
    const std::vector<dra::DeviceConfig> configs =
        merge_ ? dra::MergeConfigs(device.configs) : device.configs;
    for (const dra::DeviceConfig& config : configs) {
      CheckConfig(*contents, config.parameters, "configuration " + config.source + ": parameters");
    }
    size_t turn = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      turn = prepares_[found->name]++;
    }
    dra::PreparedDeviceReply prepared;
    prepared.edits = found->edits[std::min(turn, found->edits.size() - 1)];
    if (contents->show_config && !configs.empty()) {
      if (!prepared.edits.is_object()) prepared.edits = Json::object();
      prepared.edits["env"].push_back("FAKE_CONFIG=" + configs.back().parameters.dump());
    }
    prepared.status = found->status;
    reply.devices.push_back(std::move(prepared));
  }
  if (contents->undo && control_.Read()->save_undo) host_.SaveUndo(call, *contents->undo);
  reply.claim_edits = contents->claim_edits;
  return reply;
}

dra::ReconcileReply FileInventory::ReconcileRecord(const dra::ReconcileRequest& request) {
  return {.verdict = request.same_boot ? dra::Reconciled::kTrue : dra::Reconciled::kRedo};
}

void FileInventory::ValidateConfig(const Json& parameters) {
  CheckConfig(*Read(), parameters, "parameters");
}

}  // namespace fake
