#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dra/base/json.h"
#include "dra/testing/api_server.h"
#include "dra/testing/kubelet_double.h"
#include "dra/testing/temp_directory.h"
#include "nlohmann/json.hpp"

namespace dra::sandbox {

struct BoxOptions {
  std::string driver_program;  // path of dra-driver
  std::string library;         // absolute path of the backend
  std::string driver_name;
  std::string node_name = "sandbox";
  Json backend_config = Json::object();
};

// A node in a box: API server double, kubelet double and a real dra-driver process on a directory of their own. One
// thread. The destructor ends the process.
class NodeBox {
 public:
  // Starts the doubles and the process. Errors: a double or the program cannot be started.
  static absl::StatusOr<std::unique_ptr<NodeBox>> Start(BoxOptions options);
  ~NodeBox();

  // Waits until the kubelet has registered the driver and its pools are complete on the API server. Errors: the
  // process ended, or what it says is missing after `patience`.
  absl::Status WaitUntilReady(absl::Duration patience);

  testing::FakeApiServer& api() { return *api_; }
  testing::FakeKubelet& kubelet() { return *kubelet_; }
  std::string CdiDirectory() const { return directory_.Path("cdi"); }
  std::string DataDirectory() const;
  std::string LogFile() const { return directory_.Path("dra-driver.log"); }
  // What the daemon's status socket says, null if it does not answer.
  Json Status() const;

  // SIGTERM, then waits. The exit status, or an error if it does not end in time.
  absl::StatusOr<int> StopDriver();

 private:
  explicit NodeBox(BoxOptions options) : options_(std::move(options)) {}
  absl::Status StartDoubles();
  absl::Status StartDriver();
  bool DriverEnded();

  const BoxOptions options_;
  testing::TempDirectory directory_;
  std::unique_ptr<testing::FakeApiServer> api_;
  std::unique_ptr<testing::FakeKubelet> kubelet_;
  pid_t pid_ = -1;
  int exit_status_ = 0;
};

}  // namespace dra::sandbox
