#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dra/base/json.h"
#include "dra/loader/loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "test/conformance/memory_host.h"

namespace dra {

// One fake backend with a state directory of its own, behind the loader as in dra-driver.
class FakeBackendFixture {
 public:
  FakeBackendFixture() {
    std::string name = (std::filesystem::temp_directory_path() / "fake-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    directory_ = name;
    host_ = std::make_unique<conformance::MemoryHost>(directory_);
  }
  ~FakeBackendFixture() {
    backend_.reset();
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }
  FakeBackendFixture(const FakeBackendFixture&) = delete;
  FakeBackendFixture& operator=(const FakeBackendFixture&) = delete;

  // Loads the library and creates an instance; "stateDirectory", a short poll and, if absent, "nodeName" are added.
  absl::Status Start(Json config = Json::object()) {
    config["stateDirectory"] = directory_;
    if (!config.contains("nodeName")) config["nodeName"] = "node-1";
    config["pollMilliseconds"] = 2;
    config_ = config;
    auto loaded = loader::LoadBackend(FAKE_BACKEND);
    if (!loaded.ok()) return loaded.status();
    backend_ = *std::move(loaded);
    return backend_->Create(config_.dump(), host_.get(), Limit());
  }
  // The instance ends and another begins, as after a restart of dra-driver; the host's records stay.
  absl::Status Restart() {
    backend_->Destroy();
    return backend_->Create(config_.dump(), host_.get(), Limit());
  }

  // Looks until `done` is true; false after a bound that no machine needs.
  template <typename Done>
  static bool Eventually(Done&& done) {
    const Call bound = Limit();
    while (!done()) {
      if (!bound.Check("wait").ok()) return false;
      std::this_thread::yield();
    }
    return true;
  }
  static Call Limit() { return Call::WithTimeout(absl::Seconds(60)); }
  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  loader::BackendHandle& backend() { return *backend_; }
  conformance::MemoryHost& host() { return *host_; }

  // Replaces a file at once, as the control and inventory files want it.
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name) + ".new") << text;
    std::filesystem::rename(Path(name) + ".new", Path(name));
  }
  void Control(const Json& control) const { Write("control.json", control.dump()); }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name));
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // What a card is set to now, or "reset" if nothing ever set it.
  std::string CardSetting(const std::string& card) const {
    const Json state = Json::parse(Read("hardware.json"), nullptr, false);
    const Json::json_pointer sharing("/cards/" + card + "/sharing");
    return state.contains(sharing) ? state.at(sharing).dump() : "reset";
  }
  // The events of the hook log with event == `event`, in order.
  std::vector<Json> Events(const std::string& event) const {
    std::vector<Json> events;
    std::istringstream lines(Read("hooks.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      Json parsed = Json::parse(line, nullptr, false);
      if (parsed.is_object() && parsed["event"] == event) events.push_back(std::move(parsed));
    }
    return events;
  }

  static loader::PrepareDevice Device(const std::string& name, const Json& configs = Json::array(),
                                      const Json& more = Json::object()) {
    loader::PrepareDevice device;
    device.result = {
        {"request", "r0"}, {"driver", "gpu.example.com"}, {"pool", "node-1"}, {"device", name}};
    device.result.update(more);
    device.configs = configs;
    return device;
  }
  static loader::PrepareArgs Claim(const std::string& uid,
                                   std::vector<loader::PrepareDevice> devices) {
    loader::PrepareArgs args;
    args.claim = {"default", "claim-" + uid, uid};
    args.reserved_for = Json::array();
    args.devices = std::move(devices);
    return args;
  }
  absl::StatusOr<loader::PrepareResult> Prepare(loader::PrepareArgs args) {
    args.saved_undo = host_->Undo(args.claim.uid);
    return backend_->Prepare(args, Limit());
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
  absl::StatusOr<loader::DiscoverResult> Discover(
      loader::FieldSupport support = loader::FieldSupport::kKept) {
    return backend_->Discover({support, support, support, support, support, support, support}, {},
                              Limit());
  }

 private:
  std::string directory_;
  Json config_;
  std::unique_ptr<conformance::MemoryHost> host_;
  std::unique_ptr<loader::BackendHandle> backend_;
};

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

inline Json GpuConfig(const Json& sharing) {
  return {{"apiVersion", "gpu.resource.example.com/v1alpha1"},
          {"kind", "GpuConfig"},
          {"sharing", sharing}};
}
inline Json TimeSlicing(const std::string& interval) {
  return GpuConfig({{"strategy", "TimeSlicing"}, {"timeSlicingConfig", {{"interval", interval}}}});
}
// A configuration list, lowest precedence first.
inline Json Configs(const std::vector<std::pair<std::string, Json>>& entries) {
  Json list = Json::array();
  for (const auto& [source, parameters] : entries) {
    list.push_back({{"source", source}, {"request", "r0"}, {"parameters", parameters}});
  }
  return list;
}
inline std::vector<std::string> Environment(const Json& edits) {
  const Json* environment = Find(edits, "env");
  return environment == nullptr ? std::vector<std::string>()
                                : environment->get<std::vector<std::string>>();
}

}  // namespace dra
