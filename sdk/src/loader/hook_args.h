#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "dra/backend/abi.h"
#include "dra/loader/backend_handle.h"

namespace dra::loader {

// What prepare, unprepare and reconcile say of a claim, as abi.h wants it. Lives as long as the hook.
struct ClaimTexts {
  ClaimTexts(const ClaimIdentity& claim, const std::vector<PrepareDevice>& devices,
             std::string undo, const std::vector<OtherClaim>& others);
  dra_claim Claim() const;  // views into this

  std::string namespace_name;
  std::string name;
  std::string uid;
  std::string devices;  // JSON
  std::string undo;     // bytes
  std::string others;   // JSON
};

// `held` outlives the result.
dra_discover_args MakeDiscoverArgs(const ServerFields& fields, const std::string& held);

// JSON array of {"claimUID","device","shareID","adminAccess"}.
std::string OthersJson(const std::vector<OtherClaim>& others);

// For a backend without validate_config: OK if the manifest has the parameters' apiVersion and kind, else
// InvalidArgument that lists the known ones.
absl::Status CheckConfigKind(const Manifest& manifest, const Json& parameters);

}  // namespace dra::loader
