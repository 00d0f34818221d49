#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "dra/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "test/conformance/backend_fixture.h"

namespace dra {

using conformance::Nodes;

// A node with simulated GPUs; the simulated library is reached by dlopen.
class NvidiaFixture : public conformance::BackendFixture {
 public:
  NvidiaFixture() : BackendFixture(NVIDIA_BACKEND) { std::filesystem::create_directory(root()); }

  // The simulated host: its "/".
  std::string root() const { return directory() + "/root"; }
  std::string Path(const std::string& name) const { return root() + "/" + name; }

  // Lays out the node of a model (YAML). more: further arguments of `create`.
  void MakeNode(const std::string& model, const std::string& more = "") {
    std::ofstream(directory() + "/model.yaml") << model;
    Simulator("create " + directory() + "/model.yaml " + root() +
              " --library " NVIDIA_SIMULATED_NVML " " + more +
              (MayMakeNodes() ? "" : " --no-nodes"));
  }
  // Changes the node: `set <root> <arguments>`.
  void Set(const std::string& arguments) { Simulator("set " + root() + " " + arguments); }

  absl::Status Start(Json config = Json::object()) {
    config["hostRoot"] = root();
    if (!config.contains("pollSeconds")) config["pollSeconds"] = 1;
    return Create(config);
  }

  // The devices of a discovery by their names.
  std::map<std::string, loader::DiscoveredDevice> Devices() {
    const auto found = Discover();
    EXPECT_TRUE(found.ok()) << found.status();
    return conformance::ByName(found);
  }
  // Of GPU `index`.
  std::string Uuid(size_t index) const { return State()["gpus"][index]["uuid"].get<std::string>(); }
  // What the simulator says of itself.
  Json State() const {
    return Json::parse(Output(std::string(NVIDIA_SIMULATOR) + " show " + root()));
  }

  static loader::PrepareDevice Allocated(const loader::DiscoveredDevice& found,
                                         const Json& configs = Json::array()) {
    return conformance::Allocated("gpu.nvidia.com", StringOr(found.device, "name"), found.identity,
                                  configs);
  }

 private:
  // Whether this process may make device nodes; where it may not, the edits carry their numbers.
  bool MayMakeNodes() const {
    const std::string probe = directory() + "/node";
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
};

}  // namespace dra
