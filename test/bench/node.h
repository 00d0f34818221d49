#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"
#include "test/bench/api.h"
#include "test/bench/kubelet.h"
#include "test/bench/process.h"

namespace dra::bench {

struct NodeOptions {
  std::string driver_program;
  std::string library;     // the fake backend
  std::string directory;   // its own, made and removed; its path is short
  std::string cdi_parent;  // on a node the CDI directory is a tmpfs (/var/run); "": beside the rest
  std::string kubeconfig;
  std::string node_name;
  std::string driver_name;
  Json backend_config = Json::object();
  std::vector<std::string>
      prefix;  // a program that runs the driver, such as strace with its options
};

// One dra-driver process on directories of its own. The destructor ends it and removes them. One thread.
class Node {
 public:
  // Starts the process; nothing is waited for.
  static absl::StatusOr<std::unique_ptr<Node>> Start(NodeOptions options);
  ~Node();

  // Both sockets take connections and the driver's pool is complete on the API server, of `devices` devices.
  absl::Status WaitUntilReady(Api& api, int devices, absl::Duration patience);
  // SIGTERM, then waits.
  absl::Status Stop();

  KubeletConnection& service() { return *service_; }
  KubeletConnection& registration() { return *registration_; }
  pid_t pid() const { return process_.pid(); }
  const std::string& directory() const { return options_.directory; }
  const std::string& cdi_directory() const { return cdi_directory_; }
  std::string data_directory() const;
  // Bytes of the first claim record there is, 0 if there is none.
  size_t RecordBytes() const;
  // The last lines of its log, for messages.
  std::string LogTail() const;

 private:
  explicit Node(NodeOptions options) : options_(std::move(options)) {}

  const NodeOptions options_;
  std::string cdi_directory_;
  Process process_;
  std::unique_ptr<KubeletConnection> registration_;
  std::unique_ptr<KubeletConnection> service_;
};

// The devices in the slices of a driver; -1 if a pool is incomplete.
int PublishedDevices(const std::vector<Json>& slices);

}  // namespace dra::bench
