#pragma once

#include <string>
#include <vector>

#include "dra/backend/abi.h"
#include "dra/backend/error.h"
#include "dra/backend/host.h"
#include "dra/backend/json_reader.h"
#include "dra/backend/types.h"

namespace dra {

// What a C++ author writes. Header only; std and nlohmann_json, nothing of the SDK is linked.
//
//   class AcmeBackend final : public dra::Backend {
//    public:
//     static dra::BackendManifest Describe() { return {.name = "acme", .version = "1.0"}; }
//     AcmeBackend(dra::Host host, const dra::Json& config);
//     void Discover(const dra::HookCall&, const dra::DiscoverRequest&, dra::DiscoverSink&)
//     override; dra::PrepareReply Prepare(const dra::HookCall&, const dra::PrepareRequest&)
//     override; void Unprepare(const dra::HookCall&, const dra::UnprepareRequest&) override;
//   };
//   DRA_BACKEND(AcmeBackend)
//
// Failures are thrown: BackendError with a code, or any exception (DRA_INTERNAL). Nothing thrown
// gets out. Each function's contract, thread rule and time limit stand beside the hook of the same
// name in abi.h (dra_backend_api). A hook that is not overridden is not offered to the host.
class Backend {
 public:
  // Joins the threads that the constructor started. What it throws is an error of destroy.
  virtual ~Backend() noexcept(false) = default;

  // [serial] 30 s
  virtual void Discover(const HookCall& call, const DiscoverRequest& request,
                        DiscoverSink& sink) = 0;
  // [per-claim] 40 s
  virtual PrepareReply Prepare(const HookCall& call, const PrepareRequest& request) = 0;
  // [per-claim] 40 s
  virtual void Unprepare(const HookCall& call, const UnprepareRequest& request) = 0;

  // [any-thread] 5 s. Throws DRA_INVALID_ARGUMENT with the path. source: "FromClass", "FromClaim"
  // or "".
  virtual void ValidateConfig(const HookCall&, const Json& /*parameters*/,
                              const std::string& /*source*/) {}

  // [serial] 60 s each. Overriding one of them offers all three.
  virtual void ReconcileBegin(const HookCall&) {}
  virtual ReconcileReply ReconcileRecord(const HookCall&, const ReconcileRequest& request) {
    return {.verdict = request.same_boot ? Reconciled::kTrue : Reconciled::kRedo};
  }
  virtual void ReconcileEnd(const HookCall&) {}

  // [any-thread] 5 s
  virtual BusyState Busy(const HookCall&, const BusyRequest&) { return BusyState::kUnknown; }
  // [any-thread] 10 s. The present state of every device.
  virtual std::vector<HealthReport> Health(const HookCall&) { return {}; }
};

}  // namespace dra

#include "dra/backend/trampolines.h"

// Defines the library's one symbol for the class. Once, in one source, at namespace scope.
#define DRA_BACKEND(Type)                                                    \
  extern "C" DRA_EXPORT const dra_backend_api* dra_backend_entry(uint32_t) { \
    return ::dra::backend_internal::Table<Type>();                           \
  }                                                                          \
  static_assert(true)
