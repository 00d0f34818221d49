#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/file_system.h"
#include "dra/claims/ports.h"

namespace dra::driver {

// The claims of `driver_name` in the text of the kubelet's <root>/dra_manager_state: a JSON object whose member Data is
// a string with another one, of kind DRACheckpoint. A claim without the drivers' part counts as ours. Errors: DataLoss
// if it is not that; FailedPrecondition for a kind or version that this build does not know. Pure.
// Source: kubernetes/kubernetes:pkg/kubelet/cm/dra/state (checkpoint.dra.kubelet.k8s.io/v1).
absl::StatusOr<std::vector<loader::ClaimIdentity>> ParseKubeletCheckpoint(
    absl::string_view text, absl::string_view driver_name);

// Reads that file anew with each call. The kubelet replaces it as a whole. Any thread.
class KubeletCheckpoint final : public claims::KubeletState {
 public:
  // fs outlives this.
  KubeletCheckpoint(FileSystem* fs, absl::string_view kubelet_root, std::string driver_name);
  absl::StatusOr<std::vector<loader::ClaimIdentity>> PreparedClaims() override;

 private:
  FileSystem* const fs_;
  const std::string path_;
  const std::string driver_name_;
};

}  // namespace dra::driver
