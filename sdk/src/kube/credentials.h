#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dra/base/call.h"
#include "dra/base/clock.h"
#include "dra/base/file_system.h"
#include "dra/base/logger.h"
#include "dra/kube/kube_config.h"

namespace dra::kube {

// What one request shows the server. Secrets: never printed.
struct Credentials {
  std::string token;               // "" = none
  std::string client_certificate;  // PEM, "" = none
  std::string client_key;
  std::string ca;  // PEM, "" = the system's
};

// The credentials of a ClusterConfig, kept fresh: files are read again after `reload` and at once after a 401 (a
// projected token rotates within the hour), an exec plugin runs again when its answer expires or after a 401. A file
// that cannot be read keeps its last content. One thread refreshes, the others go on with what there is, or wait for
// the first. Any thread.
class CredentialSource {
 public:
  // fs and clock outlive this.
  CredentialSource(const ClusterConfig& config, absl::Duration reload, absl::Duration exec_timeout,
                   FileSystem* fs, Clock* clock, Logger logger);

  // Errors: what kept the first reading from succeeding.
  absl::StatusOr<std::shared_ptr<const Credentials>> Current(const Call& call);
  // The server said 401 to `refused`: reads everything anew, unless another thread has done so since.
  absl::StatusOr<std::shared_ptr<const Credentials>> Renew(
      const std::shared_ptr<const Credentials>& refused, const Call& call);
  // True if a second try after 401 may differ: something can be read again.
  bool CanRenew() const;

 private:
  absl::StatusOr<std::shared_ptr<const Credentials>> Refresh(std::unique_lock<std::mutex>& lock,
                                                             const Call& call);
  absl::StatusOr<Credentials> Read(const std::shared_ptr<const Credentials>& last, const Call& call,
                                   std::optional<absl::Time>& expiry);
  absl::Status ReadFileInto(const std::string& path, bool trim, const std::string& last,
                            std::string& out);

  const ClusterConfig config_;
  const absl::Duration reload_;
  const absl::Duration exec_timeout_;
  FileSystem* const fs_;
  Clock* const clock_;
  const Logger logger_;

  // std::mutex throughout this layer: the race detector knows it, also with a distribution's abseil.
  std::mutex mutex_;
  std::condition_variable_any refreshed_;
  std::shared_ptr<const Credentials> current_;
  MonotonicTime read_at_;
  std::optional<absl::Time> expiry_;  // of the exec plugin's answer
  bool refreshing_ = false;
  bool failing_ = false;  // the first failure and the recovery are logged, not each try
};

}  // namespace dra::kube
