#pragma once

#include <dlfcn.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "cards.h"
#include "gtest/gtest.h"
#include "nvml.h"
#include "state.h"

namespace nvidia_simulator {

// The simulated library on a state file of the test's own, opened by dlopen as a program would.
class SimulatedNvml : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "simulated-nvml-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    state_path_ = directory_ + "/state.json";
    setenv("NVIDIA_SIMULATOR_STATE", state_path_.c_str(), 1);
    unsetenv("NVIDIA_SIMULATOR_DEV");
    library_ = dlopen(NVIDIA_SIMULATED_NVML, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
#define DRA_NVML_LOAD(symbol, parameters)                                \
  symbol = reinterpret_cast<decltype(symbol)>(dlsym(library_, #symbol)); \
  ASSERT_NE(symbol, nullptr) << #symbol;
    DRA_NVML_FUNCTIONS(DRA_NVML_LOAD)
#undef DRA_NVML_LOAD
  }
  void TearDown() override {
    if (library_ != nullptr) {
      while (nvmlShutdown() == nvml::kSuccess) {
      }
      dlclose(library_);
    }
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }

  // A node with one card of each model, and an open NVML.
  void Start(const std::vector<std::string>& models) {
    Write(models);
    ASSERT_EQ(nvmlInitWithFlags(nvml::kInitNoGpus), nvml::kSuccess);
  }
  void Write(const std::vector<std::string>& models) {
    State state;
    for (const std::string& model : models) {
      state.gpus.push_back(MakeCard(model, static_cast<unsigned>(state.gpus.size())));
    }
    WriteState(state_path_, state);
  }
  void Change(const std::function<void(State&)>& change) { UpdateState(state_path_, change); }
  State Read() const { return ReadState(state_path_); }

  nvml::Device Device(unsigned index) {
    nvml::Device device = nullptr;
    EXPECT_EQ(nvmlDeviceGetHandleByIndex_v2(index, &device), nvml::kSuccess);
    return device;
  }
  // A function beyond those of the backend.
  template <typename Function>
  Function* Symbol(const char* name) {
    void* symbol = dlsym(library_, name);
    EXPECT_NE(symbol, nullptr) << name;
    return reinterpret_cast<Function*>(symbol);
  }

#define DRA_NVML_MEMBER(symbol, parameters) nvml::Return(*symbol) parameters = nullptr;
  DRA_NVML_FUNCTIONS(DRA_NVML_MEMBER)
#undef DRA_NVML_MEMBER

  std::string directory_, state_path_;
  void* library_ = nullptr;
};

}  // namespace nvidia_simulator
