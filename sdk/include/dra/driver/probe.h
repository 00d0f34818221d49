#pragma once

#include <optional>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace dra::driver {

// What `dra-driver --probe` asks the instance behind a status socket: docs/status-socket.md.
enum class ProbeQuestion { kLive, kReady };
// "live" or "ready", else nullopt.
std::optional<ProbeQuestion> ParseProbeQuestion(absl::string_view text);

inline constexpr int kProbeYes = 0;
inline constexpr int kProbeNo = 1;       // it answers, and the answer is no
inline constexpr int kProbeUnknown = 2;  // could not look

// More than the document of a node with thousands of devices and claims.
inline constexpr size_t kMaxProbeBytes = 16u << 20;

struct ProbeCommand {
  ProbeQuestion question = ProbeQuestion::kLive;
  std::string status_socket;
  std::string pod_uid;                        // of the instance that is meant
  absl::Duration timeout = absl::Seconds(5);  // for all of it
};

// Reads the one document and judges it. Prints the answer to `out`: for "not ready" the failing conditions, one a line;
// to `error`, with the socket's path, why it could not look. Returns the exit status. Touches nothing but the socket.
int RunProbe(const ProbeCommand& command, std::ostream& out, std::ostream& error);

}  // namespace dra::driver
