#pragma once

#include <stdlib.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dra/loader/helper_process.h"
#include "dra/loader/loader.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace dra::loader {

// Below the build folder of test/abi.
inline std::string Lib(const std::string& name) {
  return absl::StrCat(DRA_TEST_LIBS, "/", name, ".so");
}

class TempDir {
 public:
  TempDir() {
    char name[] = "/tmp/draXXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string Path(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  // Waits for a file that another thread writes; fails the test after a minute.
  std::string WaitFor(const std::string& name) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!std::filesystem::exists(Path(name))) {
      if (std::chrono::steady_clock::now() > until) {
        ADD_FAILURE() << "nobody wrote " << Path(name);
        return "";
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ifstream file(Path(name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  }

 private:
  std::string path_;
};

// What the driver layer will be, in memory.
class FakeServices : public HostServices {
 public:
  void Log(int level, absl::string_view text) override {
    Add(absl::StrCat("log ", level, " ", text));
  }
  void InventoryChanged() override { Add("inventory_changed"); }
  void HealthChanged() override { Add("health_changed"); }
  absl::Status SaveUndo(absl::string_view claim_uid, absl::string_view undo) override {
    const std::lock_guard lock(mutex_);
    undo_[std::string(claim_uid)] = std::string(undo);
    return absl::OkStatus();
  }
  absl::Status UpdateDevice(absl::string_view claim_uid, absl::string_view,
                            absl::string_view device, absl::string_view,
                            const Json& status) override {
    Add(absl::StrCat("update ", claim_uid, " ", device, " ", status.dump()));
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> NoteGet(absl::string_view, absl::string_view key) override {
    if (key == "throws") throw std::runtime_error("host function threw");
    return absl::NotFoundError("no such note");
  }
  absl::Status NotePut(absl::string_view, absl::string_view, absl::string_view) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<OtherClaim>> Held(absl::string_view claim_uid, absl::string_view,
                                               absl::string_view device) override {
    return std::vector<OtherClaim>{
        {absl::StrCat("not-", claim_uid), std::string(device), std::nullopt, true}};
  }
  absl::StatusOr<std::string> ClaimDirectory(absl::string_view claim_uid) override {
    return absl::StrCat("/files/", claim_uid);
  }
  absl::StatusOr<std::string> SharedFile(absl::string_view, absl::string_view) override {
    return std::string("/shared");
  }
  absl::StatusOr<HelperResult> RunHelper(const std::vector<std::string>& argv,
                                         const Call& call) override {
    return RunHelperProcess(argv, call);
  }
  void RequestRestart(absl::string_view reason) override { Add(absl::StrCat("restart ", reason)); }

  std::vector<std::string> events() {
    const std::lock_guard lock(mutex_);
    return events_;
  }
  std::map<std::string, std::string> undo() {
    const std::lock_guard lock(mutex_);
    return undo_;
  }

 private:
  void Add(std::string event) {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  std::mutex mutex_;
  std::vector<std::string> events_;
  std::map<std::string, std::string> undo_;
};

inline PrepareArgs TwoDevices(const std::string& claim_uid) {
  PrepareArgs args;
  args.claim = {"default", "claim", claim_uid};
  args.reserved_for = Json::array();
  for (const char* name : {"d0", "d1"}) {
    PrepareDevice device;
    device.result = {
        {"request", "r0"}, {"driver", "x.example.com"}, {"pool", "node"}, {"device", name}};
    device.identity = name;
    device.configs = Json::array();
    args.devices.push_back(device);
  }
  return args;
}

}  // namespace dra::loader
