#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

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

// A node with simulated GPUs in a directory of its own, and the backend behind the loader as in dra-driver: the
// simulated library is reached by dlopen.
class NvidiaFixture {
 public:
  NvidiaFixture() {
    std::string name = (std::filesystem::temp_directory_path() / "nvidia-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    directory_ = name;
    std::filesystem::create_directory(root());
    std::filesystem::create_directory(directory_ + "/files");
    host_ = std::make_unique<conformance::MemoryHost>(directory_ + "/files");
  }
  ~NvidiaFixture() {
    backend_.reset();
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }
  NvidiaFixture(const NvidiaFixture&) = delete;
  NvidiaFixture& operator=(const NvidiaFixture&) = delete;

  // The simulated host: its "/".
  std::string root() const { return directory_ + "/root"; }
  std::string Path(const std::string& name) const { return root() + "/" + name; }
  const std::string& directory() const { return directory_; }

  // Lays out the node of a model (YAML). more: further arguments of `create`.
  void MakeNode(const std::string& model, const std::string& more = "") {
    std::ofstream(directory_ + "/model.yaml") << model;
    Simulator("create " + directory_ + "/model.yaml " + root() +
              " --library " NVIDIA_SIMULATED_NVML " " + more +
              (MayMakeNodes() ? "" : " --no-nodes"));
  }
  // Changes the node: `set <root> <arguments>`.
  void Set(const std::string& arguments) { Simulator("set " + root() + " " + arguments); }

  absl::Status Start(Json config = Json::object()) {
    config["hostRoot"] = root();
    config["pollSeconds"] = 1;
    config_ = config;
    auto loaded = loader::LoadBackend(NVIDIA_BACKEND);
    if (!loaded.ok()) return loaded.status();
    backend_ = *std::move(loaded);
    return backend_->Create(config_.dump(), host_.get(), Limit());
  }
  // As after a restart of dra-driver.
  absl::Status Restart() {
    backend_->Destroy();
    return backend_->Create(config_.dump(), host_.get(), Limit());
  }
  void Stop() { backend_->Destroy(); }

  static Call Limit() { return Call::WithTimeout(absl::Seconds(60)); }
  template <typename Done>
  static bool Eventually(Done&& done) {
    const Call bound = Limit();
    while (!done()) {
      if (!bound.Check("wait").ok()) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
  loader::BackendHandle& backend() { return *backend_; }
  conformance::MemoryHost& host() { return *host_; }

  absl::StatusOr<loader::DiscoverResult> Discover() {
    const auto kept = loader::FieldSupport::kKept;
    return backend_->Discover({kept, kept, kept, kept, kept, kept, kept}, {}, Limit());
  }
  // The devices of a discovery by their names.
  std::map<std::string, loader::DiscoveredDevice> Devices() {
    std::map<std::string, loader::DiscoveredDevice> devices;
    const auto found = Discover();
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return devices;
    for (const loader::DiscoverItem& item : found->items) {
      if (item.device) devices[StringOr(item.device->device, "name")] = *item.device;
    }
    return devices;
  }
  // Of GPU `index`.
  std::string Uuid(size_t index) const { return State()["gpus"][index]["uuid"].get<std::string>(); }
  // What the simulator says of itself.
  Json State() const {
    return Json::parse(Output(std::string(NVIDIA_SIMULATOR) + " show " + root()));
  }

  static loader::PrepareDevice Allocated(const loader::DiscoveredDevice& found,
                                         const Json& configs = Json::array()) {
    loader::PrepareDevice device;
    device.result = {{"request", "r0"},
                     {"driver", "gpu.nvidia.com"},
                     {"pool", "node-1"},
                     {"device", StringOr(found.device, "name")}};
    device.identity = found.identity;
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
  absl::StatusOr<loader::PrepareResult> Prepare(const loader::PrepareArgs& args) {
    return backend_->Prepare(args, Limit());
  }
  absl::Status Unprepare(const loader::PrepareArgs& args) {
    loader::UnprepareArgs recorded;
    recorded.claim = args.claim;
    recorded.devices = args.devices;
    return backend_->Unprepare(recorded, Limit());
  }

 private:
  // Whether this process may make device nodes; where it may not, the edits carry their numbers.
  bool MayMakeNodes() const {
    const std::string probe = directory_ + "/node";
    const bool may = mknod(probe.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0;
    std::filesystem::remove(probe);
    return may;
  }
  static std::string Output(const std::string& command) {
    std::string output;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) std::abort();
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) output.append(buffer, n);
    EXPECT_EQ(pclose(pipe), 0) << command << "\n" << output;
    return output;
  }
  void Simulator(const std::string& arguments) {
    Output(std::string(NVIDIA_SIMULATOR) + " " + arguments + " 2>&1");
  }

  std::string directory_;
  Json config_;
  std::unique_ptr<conformance::MemoryHost> host_;
  std::unique_ptr<loader::BackendHandle> backend_;
};

// The paths of an edit's device nodes in the container.
inline std::vector<std::string> Nodes(const Json& edits) {
  std::vector<std::string> paths;
  if (const Json* nodes = Find(edits, "deviceNodes")) {
    for (const Json& node : *nodes) paths.push_back(StringOr(node, "path"));
  }
  return paths;
}

}  // namespace dra
