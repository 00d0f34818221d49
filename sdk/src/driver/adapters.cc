#include "driver/adapters.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "dra/loader/helper_process.h"

namespace dra::driver {
namespace {

std::vector<cdi::ClaimDevice> ToCdi(const std::vector<claims::CdiDevice>& devices) {
  std::vector<cdi::ClaimDevice> result;
  result.reserve(devices.size());
  for (const claims::CdiDevice& device : devices)
    result.push_back({device.device, device.share_id, device.edits});
  return result;
}

loader::ClaimIdentity ToIdentity(const kubelet::ClaimRef& claim) {
  return {claim.namespace_name, claim.name, claim.uid};
}

status::ClaimKey ToKey(const loader::ClaimIdentity& claim) {
  return {claim.namespace_name, claim.name, claim.uid};
}

std::string HiddenFault(const inventory::Device& device) {
  if (!device.hidden_fault) return "";
  const loader::DeviceHealth& health = device.health;
  return absl::StrCat(
      "device ", device.pool, "/", device.name, " is unhealthy (", health.fault_class,
      health.message.empty() ? "" : ": ", health.message,
      "), which the scheduler cannot be told, since no taint can be published on it (see "
      "docs/operations.md): ",
      health.remedy, health.remedy.empty() ? "" : "; or ",
      "delete the pod, to have it scheduled anew");
}

}  // namespace

absl::StatusOr<resource::ResourceClaim> ApiClaimReader::GetClaim(absl::string_view namespace_name,
                                                                 absl::string_view name,
                                                                 const Call& call) {
  const absl::StatusOr<Json> object = api_->Get(kube::ResourceClaims(), namespace_name, name, call);
  if (object.ok()) return resource::ParseResourceClaim(*object);
  // Claims are released on a 404's word, so it has to be one about this claim: a proxy, or a server that does not serve
  // the API now, answers 404 as well.
  const std::optional<kube::ApiError> error = kube::ApiErrorOf(object.status());
  if (absl::IsNotFound(object.status()) &&
      (!error.has_value() || error->reason != "NotFound" ||
       !absl::StrContains(error->message, absl::StrCat("\"", name, "\"")))) {
    return absl::UnavailableError(
        absl::StrCat("the API server's answer does not say that it is about the claim: ",
                     object.status().message()));
  }
  return object.status();
}

absl::StatusOr<claims::DeviceFacts> InventoryCatalog::FindDevice(absl::string_view pool,
                                                                 absl::string_view device,
                                                                 const Call& call) {
  for (int attempt = 0;; ++attempt) {
    const std::shared_ptr<const inventory::Snapshot> snapshot = inventory_->Get();
    const inventory::Device* found = snapshot->known ? snapshot->FindDevice(pool, device) : nullptr;
    if (found != nullptr)
      return claims::DeviceFacts{found->identity, found->exclusion_keys, found->device,
                                 HiddenFault(*found)};
    if (attempt == 1) {
      if (!snapshot->known) {
        return Annotate(absl::UnavailableError(std::string(snapshot->last_error.message())),
                        "the backend has not discovered its devices yet");
      }
      return absl::NotFoundError(
          absl::StrCat("device ", pool, "/", device, " is not on this node"));
    }
    const absl::Status discovered = supervisor_->DiscoverNow(call);
    if (!discovered.ok()) {
      // "Could not look" is not "not there": the caller may try again.
      return absl::UnavailableError(
          absl::StrCat("look for device ", pool, "/", device, ": ", discovered.message()));
    }
  }
}

Json InventoryCatalog::CounterSets(absl::string_view pool) {
  const std::shared_ptr<const inventory::Snapshot> snapshot = inventory_->Get();
  for (const inventory::Pool& candidate : snapshot->pools) {
    if (candidate.name == pool) return Json(candidate.counter_sets);
  }
  return Json::array();
}

absl::StatusOr<std::vector<std::vector<std::string>>> ClaimCdiFiles::Write(
    absl::string_view claim_uid, const std::vector<claims::CdiDevice>& devices,
    const Json& claim_edits) {
  return specs_.Write(claim_uid, ToCdi(devices), claim_edits);
}

absl::StatusOr<bool> ClaimCdiFiles::Matches(absl::string_view claim_uid,
                                            const std::vector<claims::CdiDevice>& devices,
                                            const Json& claim_edits) {
  return specs_.Matches(claim_uid, ToCdi(devices), claim_edits);
}

void StatusSink::Submit(const loader::ClaimIdentity& claim, std::vector<Json> entries) {
  if (writer_ != nullptr) writer_->Submit(ToKey(claim), std::move(entries));
}

void StatusSink::Withdraw(const loader::ClaimIdentity& claim) {
  if (writer_ != nullptr) writer_->Withdraw(ToKey(claim));
}

void ClaimCalls::PrepareClaim(const kubelet::ClaimRef& claim, const Call& call, PrepareDone done) {
  claims_->Prepare(
      ToIdentity(claim), call,
      [done = std::move(done)](absl::StatusOr<std::vector<claims::PreparedDevice>> prepared) {
        if (!prepared.ok()) return done(prepared.status());
        std::vector<kubelet::PreparedDevice> devices;
        devices.reserve(prepared->size());
        for (claims::PreparedDevice& device : *prepared) {
          devices.push_back({std::move(device.request_names), std::move(device.pool),
                             std::move(device.device), std::move(device.cdi_ids),
                             std::move(device.share_id)});
        }
        done(std::move(devices));
      });
}

void ClaimCalls::UnprepareClaim(const kubelet::ClaimRef& claim, const Call& call,
                                UnprepareDone done) {
  claims_->Unprepare(ToIdentity(claim), call, [this, done = std::move(done)](absl::Status status) {
    if (status.ok()) on_unprepared_();
    done(std::move(status));
  });
}

void HostAdapter::Connect(std::shared_ptr<claims::ClaimManager> claims,
                          BackendSupervisor* supervisor) {
  const absl::MutexLock lock(&mutex_);
  claims_ = std::move(claims);
  supervisor_ = supervisor;
}

void HostAdapter::Disconnect() {
  std::shared_ptr<claims::ClaimManager> released;
  const absl::MutexLock lock(&mutex_);
  released = std::move(claims_);
  claims_ = nullptr;
  supervisor_ = nullptr;
}

std::shared_ptr<claims::ClaimManager> HostAdapter::Claims() const {
  const absl::MutexLock lock(&mutex_);
  return claims_;
}

template <typename Result, typename Function>
Result HostAdapter::WithClaims(Function&& function) {
  const std::shared_ptr<claims::ClaimManager> claims = Claims();
  if (claims == nullptr) return Result(absl::FailedPreconditionError("the driver is not running"));
  return function(*claims);
}

std::string HostAdapter::PoolName(absl::string_view suffix) const {
  return suffix.empty() ? node_name_ : absl::StrCat(node_name_, "/", suffix);
}

void HostAdapter::Log(int level, absl::string_view text) {
  if (level < static_cast<int>(LogLevel::kTrace) || level > static_cast<int>(LogLevel::kError)) {
    level = static_cast<int>(LogLevel::kInfo);
  }
  logger_.Log(static_cast<LogLevel>(level), text);
}

void HostAdapter::InventoryChanged() {
  const absl::MutexLock lock(&mutex_);
  if (supervisor_ != nullptr) supervisor_->RequestDiscovery();
}

void HostAdapter::HealthChanged() {
  const absl::MutexLock lock(&mutex_);
  if (supervisor_ != nullptr) supervisor_->RequestHealth();
}

absl::Status HostAdapter::SaveUndo(absl::string_view claim_uid, absl::string_view undo) {
  return WithClaims<absl::Status>(
      [&](claims::ClaimManager& claims) { return claims.SaveUndo(claim_uid, undo); });
}

absl::Status HostAdapter::UpdateDevice(absl::string_view claim_uid, absl::string_view pool,
                                       absl::string_view device, absl::string_view share_id,
                                       const Json& status) {
  return WithClaims<absl::Status>([&](claims::ClaimManager& claims) {
    return claims.UpdateDevice(claim_uid, PoolName(pool), device, share_id, status);
  });
}

absl::StatusOr<std::string> HostAdapter::NoteGet(absl::string_view identity,
                                                 absl::string_view key) {
  return WithClaims<absl::StatusOr<std::string>>(
      [&](claims::ClaimManager& claims) { return claims.NoteGet(identity, key); });
}

absl::Status HostAdapter::NotePut(absl::string_view identity, absl::string_view key,
                                  absl::string_view value) {
  return WithClaims<absl::Status>(
      [&](claims::ClaimManager& claims) { return claims.NotePut(identity, key, value); });
}

absl::StatusOr<std::vector<loader::OtherClaim>> HostAdapter::Held(absl::string_view claim_uid,
                                                                  absl::string_view pool,
                                                                  absl::string_view device) {
  return WithClaims<absl::StatusOr<std::vector<loader::OtherClaim>>>(
      [&](claims::ClaimManager& claims) { return claims.Held(claim_uid, PoolName(pool), device); });
}

absl::StatusOr<std::string> HostAdapter::ClaimDirectory(absl::string_view claim_uid) {
  return WithClaims<absl::StatusOr<std::string>>(
      [&](claims::ClaimManager& claims) { return claims.ClaimDirectory(claim_uid); });
}

absl::StatusOr<std::string> HostAdapter::SharedFile(absl::string_view claim_uid,
                                                    absl::string_view bytes) {
  return WithClaims<absl::StatusOr<std::string>>(
      [&](claims::ClaimManager& claims) { return claims.SharedFile(claim_uid, bytes); });
}

absl::StatusOr<loader::HostServices::HelperResult> HostAdapter::RunHelper(
    const std::vector<std::string>& argv, const Call& call) {
  return loader::RunHelperProcess(argv, call);
}

void HostAdapter::RequestRestart(absl::string_view reason) {
  const absl::MutexLock lock(&mutex_);
  if (supervisor_ != nullptr) supervisor_->RequestRestart(reason);
}

}  // namespace dra::driver
