#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "dra/backend/abi.h"
#include "dra/loader/backend_handle.h"
#include "dra/loader/loader.h"
#include "loader/hook_runner.h"
#include "loader/library.h"

namespace dra::loader {

// A backend in this process: hooks run on the handle's own threads under their limits, everything they hand back is
// checked. See BackendHandle for the contract.
class InProcessBackend final : public BackendHandle {
 public:
  // Asks the library's manifest. Errors: those of describe, FailedPrecondition for a manifest that is junk.
  static absl::StatusOr<std::unique_ptr<InProcessBackend>> Make(Library library,
                                                                const LoadOptions& options);
  ~InProcessBackend() override;

  const Library& library() const { return library_; }
  size_t StuckHooks() const { return runner_.Stuck(); }

  BackendDescription Description() const override;
  absl::Status Create(absl::string_view config_json, HostServices* host, const Call& call) override;
  absl::StatusOr<std::shared_ptr<const Manifest>> GetManifest() const override;
  void Destroy() override;
  absl::StatusOr<DiscoverResult> Discover(const ServerFields& fields,
                                          const std::vector<std::string>& held_devices,
                                          const Call& call) override;
  absl::Status ValidateConfig(const Json& parameters, absl::string_view source,
                              const Call& call) override;
  absl::StatusOr<PrepareResult> Prepare(const PrepareArgs& args, const Call& call) override;
  absl::Status Unprepare(const UnprepareArgs& args, const Call& call) override;
  absl::Status ReconcileBegin(const Call& call) override;
  absl::StatusOr<ReconcileResult> ReconcileRecordHook(const ReconcileRecord& record,
                                                      const Call& call) override;
  absl::Status ReconcileEnd(const Call& call) override;
  absl::StatusOr<Busy> IsBusy(absl::string_view pool, absl::string_view device,
                              absl::string_view identity, const Call& call) override;
  absl::StatusOr<std::vector<DeviceHealth>> Health(const Call& call) override;

 private:
  struct Instance {
    dra_backend* self = nullptr;
    HostTable* host = nullptr;
  };

  InProcessBackend(Library library, const LoadOptions& options);

  absl::StatusOr<Instance> CurrentInstance(absl::string_view hook) const;
  HookSpec Spec(absl::string_view hook, HookMode mode, HostTable* host,
                absl::string_view claim_uid = "") const;
  absl::Status CallHook(const HookSpec& spec, const Call& call,
                        std::function<dra_code(const dra_call*, dra_error*)> body);
  absl::StatusOr<Manifest> Describe(const Instance& instance, const Call& call);
  absl::Status CreateInstance(const std::string& config, HostServices* host, const Call& call);
  absl::Status ReconcileBound(absl::string_view hook,
                              dra_code (*function)(dra_backend*, const dra_call*,
                                                   const dra_reconcile_bound_args*, dra_error*),
                              const Call& call);
  void SetManifest(Manifest manifest);

  const Library library_;
  const LoadOptions options_;
  HookRunner runner_;
  mutable std::mutex mutex_;
  std::shared_ptr<const Manifest> manifest_ =
      std::make_shared<const Manifest>();  // guarded by mutex_
  std::optional<Instance> instance_;       // guarded by mutex_
  bool changing_ = false;                  // guarded by mutex_: create or destroy runs
};

}  // namespace dra::loader
