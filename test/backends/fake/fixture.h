#pragma once

#include <filesystem>
#include <fstream>
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

using conformance::ByName;
using conformance::Configs;

// One fake backend with a state directory of its own.
class FakeBackendFixture : public conformance::BackendFixture {
 public:
  FakeBackendFixture() : BackendFixture(FAKE_BACKEND) {}

  // "stateDirectory", a short poll and, if absent, "nodeName" are added.
  absl::Status Start(Json config = Json::object()) {
    config["stateDirectory"] = directory();
    if (!config.contains("nodeName")) config["nodeName"] = "node-1";
    config["pollMilliseconds"] = 2;
    return Create(config);
  }
  std::string Path(const std::string& name) const { return directory() + "/" + name; }

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

  // The backend needs no identity.
  static loader::PrepareDevice Device(const std::string& name, const Json& configs = Json::array(),
                                      const Json& more = Json::object()) {
    return conformance::Allocated("gpu.example.com", name, "", configs, more);
  }
};

inline Json GpuConfig(const Json& sharing) {
  return {{"apiVersion", "gpu.resource.example.com/v1alpha1"},
          {"kind", "GpuConfig"},
          {"sharing", sharing}};
}
inline Json TimeSlicing(const std::string& interval) {
  return GpuConfig({{"strategy", "TimeSlicing"}, {"timeSlicingConfig", {{"interval", interval}}}});
}
inline std::vector<std::string> Environment(const Json& edits) {
  const Json* environment = Find(edits, "env");
  return environment == nullptr ? std::vector<std::string>()
                                : environment->get<std::vector<std::string>>();
}

}  // namespace dra
