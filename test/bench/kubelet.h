#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "test/bench/api.h"

namespace dra::bench {

enum class Verb { kPrepare, kUnprepare };

// What one round of calls took.
struct Load {
  std::vector<double> milliseconds;  // of each call, in the order of the claims
  double seconds = 0;                // all of them
  double Rate() const {
    return seconds > 0 ? static_cast<double>(milliseconds.size()) / seconds : 0;
  }
};

// A kept gRPC connection to one unix socket, as the kubelet has it: one connection, any number of calls on it. One thread
// starts and ends all calls (a completion queue), so the caller's own work is small and the same at any parallelism.
class KubeletConnection {
 public:
  explicit KubeletConnection(const std::string& socket);
  ~KubeletConnection();

  // Until the socket takes connections. Polls the file at short intervals first, as a kubelet is told of it by inotify.
  absl::Status Connect(absl::Duration patience);
  // Registration socket: one GetInfo; milliseconds.
  absl::StatusOr<double> GetInfo();
  // Registration socket: `count` GetInfo calls, `parallel` at once: what the connection itself costs.
  absl::StatusOr<Load> GetInfoLoad(int count, int parallel);
  // Service socket: one call a claim, `parallel` at once. An error of any claim ends the round.
  absl::StatusOr<Load> Run(Verb verb, const std::vector<Claim>& claims, int parallel);

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace dra::bench
