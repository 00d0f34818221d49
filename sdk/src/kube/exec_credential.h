#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/base/call.h"
#include "dra/kube/kube_config.h"

namespace dra::kube {

// What an exec plugin answered. Secrets: never printed.
struct ExecCredential {
  std::string token;
  std::string client_certificate;  // PEM
  std::string client_key;
  std::optional<absl::Time> expiry;
};

// Runs the plugin (posix_spawn, own process group, no open descriptor of ours, empty stdin) and reads its ExecCredential
// from stdout. Errors name the command and, if it is missing, the install hint: NotFound, DeadlineExceeded or Cancelled
// (the process group is killed), FailedPrecondition (exit code, with the end of stderr), InvalidArgument (no credential).
absl::StatusOr<ExecCredential> RunExecPlugin(const ExecPlugin& plugin, const Call& call);

// The decoding alone.
absl::StatusOr<ExecCredential> ParseExecCredential(absl::string_view text,
                                                   absl::string_view api_version);

}  // namespace dra::kube
