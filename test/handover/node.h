#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "dra/testing/api_server.h"
#include "dra/testing/kubelet_double.h"
#include "dra/testing/temp_directory.h"
#include "nlohmann/json.hpp"

namespace dra::handover {

inline constexpr char kDriver[] = "gpu.sdk.test";
inline constexpr char kNode[] = "n1";
inline constexpr absl::Duration kPatience = absl::Seconds(60);

// Until the condition holds, at most kPatience.
bool WaitUntil(const std::function<bool()>& condition);

// One instance of the driver: the built dra-driver as a process. Killed at the end.
class Instance {
 public:
  Instance(const std::string& pod_uid, const testing::TempDirectory& directory);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const std::string& pod_uid() const { return pod_uid_; }
  void Signal(int signal) const;
  // SIGTERM, and waits for the end; the exit status, or nullopt if it did not end in time.
  std::optional<int> Terminate();
  void Kill();

  // The driver's part of the status document with "ready" of the whole; an empty object while nobody answers.
  Json Status() const;
  bool WaitForReady() const;
  bool IsOwner() const;
  bool WaitForOwner() const;
  // What it has logged.
  std::string Log() const;

 private:
  // Waits for the end of the process; its status as of waitpid.
  std::optional<int> Wait();

  const std::string pod_uid_;
  const std::string status_socket_;
  const std::string log_;
  pid_t pid_ = -1;
};

// A node: the API server double, the kubelet double, the fake backend's hardware. Any number of instances.
class NodeTest : public ::testing::Test {
 protected:
  static constexpr int kDevices = 8;

  void SetUp() override;

  std::unique_ptr<Instance> Start();  // with the next pod UID
  // The same, ready and called by the kubelet.
  std::unique_ptr<Instance> StartReady();

  testing::KubeletClaim MakeClaim(const std::string& device, bool with_config);
  void Control(const Json& control);
  std::vector<Json> Slices() const;
  size_t PublishedDevices() const;
  int SliceWrites() const;
  std::vector<Json> Hooks() const;

  testing::TempDirectory directory_;
  PosixFileSystem fs_;
  std::unique_ptr<testing::FakeApiServer> api_;
  std::unique_ptr<testing::FakeKubelet> kubelet_;
  int started_ = 0;
};

}  // namespace dra::handover
