#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dra/base/logger.h"
#include "dra/cdi/claim_specs.h"
#include "dra/claims/claim_manager.h"
#include "dra/claims/ports.h"
#include "dra/inventory/inventory.h"
#include "dra/kube/api_client.h"
#include "dra/kubelet/plugin_server.h"
#include "dra/loader/backend_handle.h"
#include "dra/status/device_status_writer.h"
#include "driver/backend_supervisor.h"

// The ports of the layers below, filled by each other: nothing is decided here.
namespace dra::driver {

class ApiClaimReader final : public claims::ClaimReader {
 public:
  explicit ApiClaimReader(kube::ApiClient* api) : api_(api) {}
  absl::StatusOr<resource::ResourceClaim> GetClaim(absl::string_view namespace_name,
                                                   absl::string_view name,
                                                   const Call& call) override;

 private:
  kube::ApiClient* const api_;
};

class InventoryCatalog final : public claims::DeviceCatalog {
 public:
  InventoryCatalog(const inventory::Inventory* inventory, BackendSupervisor* supervisor)
      : inventory_(inventory), supervisor_(supervisor) {}
  absl::StatusOr<claims::DeviceFacts> FindDevice(absl::string_view pool, absl::string_view device,
                                                 const Call& call) override;
  Json CounterSets(absl::string_view pool) override;

 private:
  const inventory::Inventory* const inventory_;
  BackendSupervisor* const supervisor_;
};

class ClaimCdiFiles final : public claims::CdiFiles {
 public:
  ClaimCdiFiles(FileSystem* fs, std::string directory, std::string driver_name)
      : specs_(fs, std::move(directory), std::move(driver_name)) {}
  absl::StatusOr<std::vector<std::vector<std::string>>> Write(
      absl::string_view claim_uid, const std::vector<claims::CdiDevice>& devices,
      const Json& claim_edits) override;
  absl::StatusOr<bool> Matches(absl::string_view claim_uid,
                               const std::vector<claims::CdiDevice>& devices,
                               const Json& claim_edits) override;
  absl::Status Remove(absl::string_view claim_uid) override { return specs_.Remove(claim_uid); }
  absl::StatusOr<std::vector<std::string>> ListClaims() override { return specs_.ListClaims(); }
  absl::StatusOr<std::vector<std::string>> ListTemporaries() override {
    return specs_.ListTemporaries();
  }
  absl::Status RemoveTemporaries(absl::string_view claim_uid) override {
    return specs_.RemoveTemporaries(claim_uid);
  }
  absl::StatusOr<std::vector<std::pair<std::string, std::string>>> Devices(
      absl::string_view claim_uid) override {
    return specs_.Devices(claim_uid);
  }

 private:
  cdi::ClaimSpecs specs_;
};

// `writer` may be null: statuses are not written.
class StatusSink final : public claims::DeviceStatusSink {
 public:
  explicit StatusSink(status::DeviceStatusWriter* writer) : writer_(writer) {}
  void Submit(const loader::ClaimIdentity& claim, std::vector<Json> entries) override;
  void Withdraw(const loader::ClaimIdentity& claim) override;

 private:
  status::DeviceStatusWriter* const writer_;
};

class ClaimCalls final : public kubelet::ClaimHandler {
 public:
  // `on_unprepared` is called after each successful unprepare: a held device may be free now.
  ClaimCalls(claims::ClaimManager* claims, std::function<void()> on_unprepared)
      : claims_(claims), on_unprepared_(std::move(on_unprepared)) {}
  void PrepareClaim(const kubelet::ClaimRef& claim, const Call& call, PrepareDone done) override;
  void UnprepareClaim(const kubelet::ClaimRef& claim, const Call& call,
                      UnprepareDone done) override;

 private:
  claims::ClaimManager* const claims_;
  const std::function<void()> on_unprepared_;
};

// What a backend may ask of its host. A backend thread may call at any time, before the claim manager is there and
// after it is gone: such calls get FailedPrecondition.
class HostAdapter final : public loader::HostServices {
 public:
  HostAdapter(Logger logger, std::string node_name)
      : logger_(std::move(logger)), node_name_(std::move(node_name)) {}
  void Connect(std::shared_ptr<claims::ClaimManager> claims, BackendSupervisor* supervisor);
  // Returns at once; a call that is inside keeps its claim manager.
  void Disconnect();

  void Log(int level, absl::string_view text) override;
  void InventoryChanged() override;
  void HealthChanged() override;
  absl::Status SaveUndo(absl::string_view claim_uid, absl::string_view undo) override;
  absl::Status UpdateDevice(absl::string_view claim_uid, absl::string_view pool,
                            absl::string_view device, absl::string_view share_id,
                            const Json& status) override;
  absl::StatusOr<std::string> NoteGet(absl::string_view identity, absl::string_view key) override;
  absl::Status NotePut(absl::string_view identity, absl::string_view key,
                       absl::string_view value) override;
  absl::StatusOr<std::vector<loader::OtherClaim>> Held(absl::string_view claim_uid,
                                                       absl::string_view pool,
                                                       absl::string_view device) override;
  absl::StatusOr<std::string> ClaimDirectory(absl::string_view claim_uid) override;
  absl::StatusOr<std::string> SharedFile(absl::string_view claim_uid,
                                         absl::string_view bytes) override;
  absl::StatusOr<HelperResult> RunHelper(const std::vector<std::string>& argv,
                                         const Call& call) override;
  void RequestRestart(absl::string_view reason) override;

 private:
  template <typename Result, typename Function>
  Result WithClaims(Function&& function);

  // A backend names a pool by its suffix.
  std::string PoolName(absl::string_view suffix) const;

  const Logger logger_;
  const std::string node_name_;
  std::shared_ptr<claims::ClaimManager> Claims() const;

  mutable absl::Mutex mutex_;
  std::shared_ptr<claims::ClaimManager> claims_ ABSL_GUARDED_BY(mutex_);
  BackendSupervisor* supervisor_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace dra::driver
