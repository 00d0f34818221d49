#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
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
// Kind "k8s.<driver>/claim"; file "k8s.<driver>-claim_<claim uid>.json"; device "<claim uid>-<device>[-<share id>]",
// and with "-2", "-3" ... behind it where a claim has the same device and share again.
// Claim edits stand at spec level, so they reach a container with any device of the claim. A device without edits of
// its own in a claim that has claim edits therefore needs an entry, of its own since the kubelet takes the first id
// for the device's identity, and CDI refuses an entry without edits: it gets additionalGids [0], which every runtime
// accepts (CDI 0.7.0) and ignores, so nothing of it shows in the container. Where the claim has no edits either, the
// device gets no entry and no id; a claim without entries has no file. Any thread; two calls for one claim must not
// run at the same time.
class ClaimSpecs {
 public:
  // `directory` is created (0755) at the first write and never removed: runtimes watch it. fs outlives this.
  ClaimSpecs(FileSystem* fs, std::string directory, std::string driver_name);

  // See claims::CdiFiles; this is its implementation. The file is validated before it is put in place, atomically and
  // mode 0644. Errors: InvalidArgument with the path of the value for edits that CDI or our own rules
  // (ValidateOwnEdits) do not allow, for a claim UID that may not name a file, and for a device name CDI cannot carry.
  absl::StatusOr<std::vector<std::vector<std::string>>> Write(
      absl::string_view claim_uid, const std::vector<ClaimDevice>& devices,
      const Json& claim_edits);
  absl::StatusOr<bool> Matches(absl::string_view claim_uid, const std::vector<ClaimDevice>& devices,
                               const Json& claim_edits);
  absl::Status Remove(absl::string_view claim_uid);
  absl::StatusOr<std::vector<std::string>> ListClaims();
  // (device, share id or "") by the names of the entries. What ends in a UUID has a share id. Of two entries for the
  // same device and share the second is told as a device "<device>-2": the name does not say which it is.
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Devices(
      absl::string_view claim_uid);
  // The claims, sorted and unique, with a temporary file of ours: left by a kill, or being written by who holds the
  // claim's lock.
  absl::StatusOr<std::vector<std::string>> ListTemporaries();
  // Removes them, with the claim's lock held. Goes on after a failure and returns the first.
  absl::Status RemoveTemporaries(absl::string_view claim_uid);

  std::string PathFor(absl::string_view claim_uid) const;
  const std::string& kind() const { return kind_; }

 private:
  // The claim whose temporary file has that name; "": it is none of ours.
  std::string ClaimOfTemporary(absl::string_view name) const;
  struct Built;
  absl::StatusOr<Built> Build(absl::string_view claim_uid, const std::vector<ClaimDevice>& devices,
                              const Json& claim_edits) const;

  FileSystem* const fs_;
  const std::string directory_;
  const std::string kind_;
  const std::string file_prefix_;
};

}  // namespace dra::cdi
