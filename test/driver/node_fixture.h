#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "dra/driver/daemon.h"
#include "dra/testing/api_server.h"
#include "dra/testing/kubelet_double.h"
#include "dra/testing/temp_directory.h"
#include "nlohmann/json.hpp"

namespace dra::driver {

// A node with the daemon in this process and the fake backend as a real library: API server double, kubelet double,
// real sockets and files. Path of the library: DRA_FAKE_BACKEND.
class NodeFixture : public ::testing::Test {
 protected:
  static constexpr char kDriver[] = "gpu.sdk.test";
  static constexpr char kNode[] = "n1";
  static constexpr absl::Duration kPatience = absl::Seconds(30);

  NodeFixture();
  ~NodeFixture() override;

  // The API server double; call before the others to choose another profile.
  void StartApi(testing::ServerProfile profile = {});
  void StartKubelet(int minor = 37);
  // The daemon with one driver; `backend_config` is added to numDevices 4 and the state directory.
  void StartDaemon(Json backend_config = Json::object());
  void StartDaemonWith(DaemonConfig config);
  DaemonConfig Config(Json backend_config = Json::object()) const;
  void StopDaemon();
  // All of it, and waits until the driver is registered and its slices are there.
  void StartNode(Json backend_config = Json::object());

  // An allocated claim in the API server double. `results`: device names, or objects merged over
  // {"request":"r<n>","driver":kDriver,"pool":kNode}.
  testing::KubeletClaim MakeClaim(const std::string& name, const Json& results,
                                  const Json& config = Json::array());

  std::vector<Json> Slices() const;
  // The published devices by name.
  std::map<std::string, Json> Devices() const;
  bool WaitForDevices(const std::function<bool(const std::map<std::string, Json>&)>& wanted) const;
  bool WaitForReady(bool ready) const;
  bool WaitUntil(const std::function<bool()>& condition) const;

  // Writes the fake backend's control file.
  void Control(const Json& control);
  // Calls of a hook so far, from the fake backend's log; with another event, those.
  int HookCalls(const std::string& hook, const std::string& event = "begin") const;
  std::vector<std::string> CdiFiles() const;
  std::vector<std::string> Records() const;

  testing::TempDirectory directory_;
  PosixFileSystem fs_;
  SystemClock clock_;
  std::unique_ptr<testing::FakeApiServer> api_;
  std::unique_ptr<testing::FakeKubelet> kubelet_;
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace dra::driver
