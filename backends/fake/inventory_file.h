#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control.h"
#include "dra/backend/backend.h"
#include "profile.h"

namespace fake {

// One entry of "devices" in the inventory file: a device, or what could not be looked at.
struct FileDevice {
  dra::DeviceReport report;
  std::string name;              // report.device.name, "" if it has none
  std::vector<dra::Json> edits;  // of the first, second, ... prepare; the last one stays
  dra::Json status;
  bool is_error = false;
  int32_t error_code = 0;
  std::string error_text;
  std::string subject;
};

// An opaque configuration that claims of the file's devices may have.
struct FileConfigKind {
  std::string api_version;
  std::string kind;
  std::vector<std::string> fields;  // members it may have beside apiVersion and kind
};

// One reading of the file; README.md has the format.
struct FileContents {
  std::vector<FileDevice> devices;
  std::vector<std::pair<std::string, dra::Json>> counter_sets;  // pool suffix, CounterSet
  std::map<std::string, dra::Json> slice_fields;                // by pool suffix
  bool complete = true;
  std::string reason;
  std::vector<dra::HealthReport> health;
  dra::Json claim_edits;
  std::optional<std::string> undo;
  std::vector<FileConfigKind> config_kinds;
  bool show_config = false;
  std::string health_text;     // changes with the health section
  std::string inventory_text;  // changes with everything else
};

// Devices that stand in a file, for tests: any device at all, valid or not. The file is read anew whenever it
// changed. Any thread. Failures throw dra::BackendError: DRA_UNAVAILABLE if there is no file, DRA_INVALID_ARGUMENT
// with the path of what is wrong.
class FileInventory final : public Profile {
 public:
  // merge: configurations are merged; otherwise the highest counts. control outlives this.
  FileInventory(std::string path, bool merge, dra::Host host, Control& control)
      : path_(std::move(path)), merge_(merge), host_(host), control_(control) {}

  void Describe(dra::BackendManifest& manifest) override;
  void Discover(const dra::DiscoverRequest& request, dra::DiscoverSink& sink) override;
  std::vector<dra::HealthReport> Health() override;
  void ValidateConfig(const dra::Json& parameters) override;
  dra::PrepareReply Prepare(const dra::HookCall& call, const dra::PrepareRequest& request) override;
  dra::ReconcileReply ReconcileRecord(const dra::ReconcileRequest& request) override;
  std::pair<std::string, std::string> Look() override;

 private:
  std::shared_ptr<const FileContents> Read();

  const std::string path_;
  const bool merge_;
  const dra::Host host_;
  Control& control_;
  std::mutex mutex_;
  std::string stamp_;                             // under mutex_
  std::shared_ptr<const FileContents> contents_;  // under mutex_
  std::map<std::string, size_t> prepares_;        // device -> prepares so far; under mutex_
};

}  // namespace fake
