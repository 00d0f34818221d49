#pragma once

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dra/base/json.h"
#include "dra/loader/loader.h"
#include "test/conformance/memory_host.h"

namespace dra::conformance {

// One backend behind the loader as in dra-driver, with a directory of its own and a host in memory. What a fixture of a
// backend's tests begins with.
class BackendFixture {
 public:
  // library: the backend's file.
  explicit BackendFixture(std::string library) : library_(std::move(library)) {
    std::string name = (std::filesystem::temp_directory_path() / "backend-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    directory_ = name;
    std::filesystem::create_directory(directory_ + "/files");
    host_ = std::make_unique<MemoryHost>(directory_ + "/files");
  }
  virtual ~BackendFixture() {
    backend_.reset();
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }
  BackendFixture(const BackendFixture&) = delete;
  BackendFixture& operator=(const BackendFixture&) = delete;

  const std::string& directory() const { return directory_; }
  loader::BackendHandle& backend() { return *backend_; }
  MemoryHost& host() { return *host_; }

  // Loads the library and creates an instance.
  absl::Status Create(const Json& config) {
    config_ = config;
    auto loaded = loader::LoadBackend(library_);
    if (!loaded.ok()) return loaded.status();
    backend_ = *std::move(loaded);
    return backend_->Create(config_.dump(), host_.get(), Limit());
  }
  // The instance ends and another begins, as after a restart of dra-driver; the host's records stay.
  absl::Status Restart() {
    backend_->Destroy();
    return backend_->Create(config_.dump(), host_.get(), Limit());
  }
  void Stop() { backend_->Destroy(); }

  static Call Limit() { return Call::WithTimeout(absl::Seconds(60)); }
  // Looks until `done` is true; false after a bound that no machine needs.
  template <typename Done>
  static bool Eventually(Done&& done) {
    const Call bound = Limit();
    while (!done()) {
      if (!bound.Check("wait").ok()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  absl::StatusOr<loader::DiscoverResult> Discover(
      loader::FieldSupport support = loader::FieldSupport::kKept,
      const std::vector<std::string>& held = {}) {
    return backend_->Discover({support, support, support, support, support, support, support}, held,
                              Limit());
  }
  static loader::PrepareArgs Claim(const std::string& uid,
                                   std::vector<loader::PrepareDevice> devices) {
    loader::PrepareArgs args;
    args.claim = {"default", "claim-" + uid, uid};
    args.reserved_for = {{{"resource", "pods"}, {"name", "pod"}, {"uid", "pod-uid"}}};
    args.devices = std::move(devices);
    return args;
  }
  absl::StatusOr<loader::PrepareResult> Prepare(loader::PrepareArgs args) {
    args.saved_undo = host_->Undo(args.claim.uid);
    absl::StatusOr<loader::PrepareResult> prepared = backend_->Prepare(args, Limit());
    if (prepared.ok() && prepared->has_undo) {
      const absl::Status saved = host_->SaveUndo(args.claim.uid, prepared->undo);
      if (!saved.ok()) return saved;
    }
    return prepared;
  }
  absl::Status Unprepare(const loader::PrepareArgs& args,
                         std::vector<loader::OtherClaim> others = {}) {
    loader::UnprepareArgs recorded;
    recorded.claim = args.claim;
    recorded.devices = args.devices;
    recorded.undo = host_->Undo(args.claim.uid);
    recorded.others = std::move(others);
    return backend_->Unprepare(recorded, Limit());
  }
  // Within the boot that the claim was prepared in, unless told otherwise.
  absl::StatusOr<loader::ReconcileResult> Reconcile(const loader::PrepareArgs& args,
                                                    bool same_boot = true) {
    loader::ReconcileRecord record;
    record.record.claim = args.claim;
    record.record.devices = args.devices;
    record.record.undo = host_->Undo(args.claim.uid);
    record.same_boot = same_boot;
    const absl::Status begun = backend_->ReconcileBegin(Limit());
    if (!begun.ok()) return begun;
    return backend_->ReconcileRecordHook(record, Limit());
  }

 private:
  const std::string library_;
  std::string directory_;
  Json config_;
  std::unique_ptr<MemoryHost> host_;
  std::unique_ptr<loader::BackendHandle> backend_;
};

// An allocated device. more: further members of the result.
inline loader::PrepareDevice Allocated(const std::string& driver, const std::string& name,
                                       const std::string& identity,
                                       const Json& configs = Json::array(),
                                       const Json& more = Json::object()) {
  loader::PrepareDevice device;
  device.result = {{"request", "r0"}, {"driver", driver}, {"pool", "node-1"}, {"device", name}};
  device.result.update(more);
  device.identity = identity;
  device.configs = configs;
  return device;
}
// The devices of a discovery by their names; none if it failed.
inline std::map<std::string, loader::DiscoveredDevice> ByName(
    const absl::StatusOr<loader::DiscoverResult>& found) {
  std::map<std::string, loader::DiscoveredDevice> devices;
  if (!found.ok()) return devices;
  for (const loader::DiscoverItem& item : found->items) {
    if (item.device) devices[StringOr(item.device->device, "name")] = *item.device;
  }
  return devices;
}
// A configuration list, lowest precedence first: source and parameters of each.
inline Json Configs(const std::vector<std::pair<std::string, Json>>& entries) {
  Json list = Json::array();
  for (const auto& [source, parameters] : entries) {
    list.push_back({{"source", source}, {"request", "r0"}, {"parameters", parameters}});
  }
  return list;
}
// The paths of an edit's device nodes in the container.
inline std::vector<std::string> Nodes(const Json& edits) {
  std::vector<std::string> paths;
  if (const Json* nodes = Find(edits, "deviceNodes")) {
    for (const Json& node : *nodes) paths.push_back(StringOr(node, "path"));
  }
  return paths;
}

}  // namespace dra::conformance
