// A ResourceClaim as the API server sends it, with its opaque configurations, down to a backend's own reading of them.
#include "backends/fake/gpu_config.h"
#include "dra/backend/backend.h"
#include "dra/base/json.h"
#include "dra/resource/claim.h"
#include "test/fuzz/fuzz.h"

namespace {

void ReadAsBackend(const dra::Json& parameters) {
  for (const bool merge : {false, true}) {
    try {
      fake::ValidateGpuConfig(parameters, merge);
    } catch (const dra::BackendError& refused) {
      dra::fuzz::Require(refused.what()[0] != '\0', "a refused configuration has a reason");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = dra::ParseJson(dra::fuzz::Text(data, size), "claim");
  if (!json.ok()) return 0;
  ReadAsBackend(*json);
  const auto claim = dra::resource::ParseResourceClaim(*json);
  if (!claim.ok()) {
    dra::fuzz::Require(!claim.status().message().empty(), "a refused claim has a reason");
    return 0;
  }
  dra::fuzz::Require(!claim->uid.empty() && !claim->name.empty(), "a claim has an identity");
  for (const dra::resource::AllocationResult& result : claim->results) {
    const std::string digest = dra::resource::AllocationDigest(*claim, result.id.driver);
    dra::fuzz::Require(digest.size() == 64, "a digest is a SHA-256");
    const auto configs = dra::resource::ResolveConfigs(*claim, result);
    if (!configs.ok()) continue;
    for (const dra::resource::ResolvedConfig& config : *configs) ReadAsBackend(config.parameters);
  }
  return 0;
}
