#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/json.h"
#include "dra/base/logger.h"
#include "dra/kube/api_client.h"

namespace dra::status {

struct ClaimKey {
  std::string namespace_name;
  std::string name;
  std::string uid;
};

// Writes status.devices of claims by server-side apply: one apply per claim with the complete list of our driver's
// entries and the claim's UID in the body, so that a claim of the same name is never touched. Changes are coalesced;
// an apply is repeated with backoff until confirmed, replaced (a newer Submit), or the claim is gone (404, 409) or
// replaced (422 on the uid). Never blocks the caller. Any thread.
class DeviceStatusWriter {
 public:
  // api and clock outlive this. field_manager is the driver name.
  static std::unique_ptr<DeviceStatusWriter> Create(kube::ApiClient* api, Clock* clock,
                                                    Logger logger, std::string field_manager);
  virtual ~DeviceStatusWriter() = default;

  virtual void Submit(const ClaimKey& claim, std::vector<Json> entries) = 0;
  virtual void Withdraw(const ClaimKey& claim) = 0;
  // Claims whose entries are not confirmed yet.
  virtual size_t Pending() const = 0;
};

}  // namespace dra::status
