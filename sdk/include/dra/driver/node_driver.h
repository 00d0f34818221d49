#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "dra/base/logger.h"
#include "dra/driver/config.h"
#include "dra/kube/api_client.h"
#include "dra/observe/events.h"
#include "dra/observe/http_endpoint.h"
#include "dra/observe/metrics.h"

namespace dra::driver {

// What the drivers of one daemon share. All outlive them.
struct Environment {
  FileSystem* fs = nullptr;
  Clock* clock = nullptr;
  kube::ApiClient* api = nullptr;
  observe::Metrics* metrics = nullptr;
  observe::EventRecorder* events = nullptr;
  Logger logger;
  std::string boot_id;
};

// One driver name with its backend: everything from the library to the sockets, wired. Start order (design 3.5): load
// the library, read the records, bind the service socket, bind the registration socket; the backend's instance and its
// inventory follow in the background, since Unprepare must work without them. Any thread.
class NodeDriver {
 public:
  // Decides nothing and touches nothing.
  static std::unique_ptr<NodeDriver> Create(const DaemonConfig& daemon, DriverConfig config,
                                            Environment environment);
  virtual ~NodeDriver() = default;

  // Returns at once. What fails (library missing, records unreadable) is retried every few seconds and shown by
  // Conditions: it stops neither this driver's later start nor any other driver.
  virtual void Start() = 0;
  // Registration socket first, then refuse calls, drain for at most `grace`; records, CDI files and slices stay.
  virtual void Stop(absl::Duration grace) = 0;

  // "loaded", "registered", "published", "backend": readiness.
  virtual std::vector<observe::Condition> Conditions() const = 0;
  // This driver's part of the status document (docs/status-socket.md).
  virtual Json Status() const = 0;
};

}  // namespace dra::driver
