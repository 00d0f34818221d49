#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/file_system.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::cdi {

// One device of a claim's CDI file.
struct ClaimDevice {
  std::string device;    // published device name
  std::string share_id;  // "" if none
  Json edits;            // containerEdits, or null
};

// The CDI files of a driver's claims: one transient file a claim, in one directory (docs/cdi-names.md).
// Kind "k8s.<driver>/claim"; file "k8s.<driver>-claim_<claim uid>.json"; device "<claim uid>-<device>[-<share id>]".
// Claim edits stand at spec level, so a claim whose devices have none gets one device "<claim uid>-claim" that every
// device of the claim names. Any thread; two calls for one claim must not run at the same time.
class ClaimSpecs {
 public:
  // `directory` is created (0755) at the first write. fs outlives this.
  ClaimSpecs(FileSystem* fs, std::string directory, std::string driver_name);

  // See claims::CdiFiles; this is its implementation.
  absl::StatusOr<std::vector<std::vector<std::string>>> Write(absl::string_view claim_uid,
                                                              const std::vector<ClaimDevice>& devices,
                                                              const Json& claim_edits);
  absl::StatusOr<bool> Matches(absl::string_view claim_uid, const std::vector<ClaimDevice>& devices,
                               const Json& claim_edits);
  absl::Status Remove(absl::string_view claim_uid);
  absl::StatusOr<std::vector<std::string>> ListClaims();
  // Removes temporary files that a kill left: only ours, by name.
  absl::Status RemoveTemporaries();

  std::string PathFor(absl::string_view claim_uid) const;
  const std::string& kind() const { return kind_; }

 private:
  FileSystem* const fs_;
  const std::string directory_;
  const std::string kind_;
  const std::string file_prefix_;
};

}  // namespace dra::cdi
