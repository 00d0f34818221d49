#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "dra/kube/api_client.h"
#include "kube/transport.h"
#include "test/bench/process.h"

namespace dra::bench {

// A claim as the kubelet names it.
struct Claim {
  std::string namespace_name;
  std::string name;
  std::string uid;
};

// What the bench's claims get allocated.
struct ClaimKind {
  std::string driver;
  std::string pool;
  int first_device = 0;  // the i-th of a call gets "gpu-<first_device + i % devices>"
  int devices = 1;
  bool shared = false;      // a share of a device that may be allocated several times
  bool configured = false;  // with an opaque configuration: the fake backend then saves undo data
};

// The API server of a run: the double in a process of its own, or a real one. Makes and deletes what the kubelet, the
// scheduler and users would make. Any thread.
class Api {
 public:
  // `self`: this program, which serves the double when it is started with kServeDouble.
  static absl::StatusOr<std::unique_ptr<Api>> StartDouble(const std::string& self,
                                                          const std::string& kubeconfig_path);
  static absl::StatusOr<std::unique_ptr<Api>> UseServer(const std::string& kubeconfig_path);
  ~Api();

  bool is_double() const { return double_.pid() > 0; }
  const std::string& kubeconfig() const { return kubeconfig_; }
  // Host and port of a plain-HTTP server, 0 for others.
  int http_port() const { return http_port_; }

  // Makes the Node unless it is there; one that was made is deleted by RemoveNode.
  absl::Status EnsureNode(const std::string& node);
  absl::StatusOr<std::vector<Claim>> MakeClaims(const ClaimKind& kind, int count);
  // Deletes claims; those that are gone are fine.
  absl::Status DeleteClaims(const std::vector<Claim>& claims);
  absl::Status GetClaim(const Claim& claim);
  absl::StatusOr<std::vector<Json>> Slices(const std::string& driver);
  // Deletes every claim that was made and the slices of the driver.
  absl::Status CleanUp(const std::string& driver);
  absl::Status RemoveNode();

 private:
  Api() = default;
  absl::Status Connect();
  absl::StatusOr<Claim> MakeClaim(const ClaimKind& kind, int index, int number);
  absl::StatusOr<Json> PutStatus(const std::string& name, const Json& object);

  Process double_;
  std::string kubeconfig_;
  int http_port_ = 0;
  PosixFileSystem fs_;
  SystemClock clock_;
  std::unique_ptr<kube::ApiClient> client_;
  std::unique_ptr<kube::CredentialSource> credentials_;
  std::unique_ptr<kube::Transport> transport_;  // for PUT of a status, which ApiClient has not
  std::string made_node_;
  std::vector<Claim> made_;
  int next_number_ = 0;
};

inline constexpr char kServeDouble[] = "--serve-double";
// The other side of StartDouble: prints a kubeconfig, closes stdout, serves until stdin ends.
int ServeDouble();

}  // namespace dra::bench
