#include "claims/prepare_steps.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "claims/road_back.h"
#include "dra/base/status.h"

namespace dra::claims {
namespace {

using records::Phase;
using records::Record;

// A claim that several consumers may use needs a backend that says it can share (PRP-16). A consumer that is no pod
// (a pod group) stands for any number of pods.
absl::Status CheckShareable(const PrepareWork& work) {
  const auto& consumers = work.claim.reserved_for;
  bool several = consumers.size() > 1;
  std::string who = absl::StrCat(consumers.size(), " consumers");
  for (const resource::ConsumerReference& consumer : consumers) {
    if (consumer.resource == "pods" && consumer.api_group.empty()) continue;
    several = true;
    who = absl::StrCat(consumer.resource, " \"", consumer.name, "\", which may be several pods");
  }
  if (!several || work.results.empty() || work.manifest == nullptr ||
      work.manifest->shared_claims) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the claim is not shareable: it is reserved for ", who, ", and backend \"",
                   work.manifest->name, "\" serves one pod a claim"));
}

Step WaitForLock(const PrepareWork& work, const absl::Status& status,
                 std::vector<std::string> keys) {
  if (!absl::IsUnavailable(status)) return Step::Done(Annotate(status, work.context));
  ClaimCore* const core = work.core;
  std::vector<std::string> wake_on = keys;
  wake_on.push_back(work.claim.uid);
  return Step::Wait(Annotate(status, work.context), kHolderPoll, std::move(wake_on),
                    [core, uid = work.claim.uid, keys = std::move(keys)] {
                      const absl::StatusOr<bool> free = core->locks.IsFree(uid, keys);
                      return free.ok() && !*free;
                    });
}

constexpr absl::Duration kHealthPoll = absl::Milliseconds(500);

// What has begun on a device goes on: its pod may run, or start again after a reboot.
bool HasBegun(const PrepareWork& work) {
  return work.keeps_old || (work.old.has_value() && work.old->phase == Phase::kQuarantined);
}

// The device may be well again within the call's time. Meanwhile nothing is asked of the API server.
Step WaitForHealth(const PrepareWork& work) {
  ClaimCore* const core = work.core;
  const PrepareWork::HiddenFault& fault = *work.hidden_fault;
  return Step::Wait(absl::UnavailableError(absl::StrCat(work.context, ": ", fault.text)),
                    kHealthPoll, {}, [core, pool = fault.pool, device = fault.device] {
                      const absl::StatusOr<DeviceFacts> facts = core->deps.devices->FindDevice(
                          pool, device, Call::WithTimeout(absl::ZeroDuration()));
                      return facts.ok() && !facts->hidden_fault.empty();
                    });
}

// After a wait for a lock, however short: whether the claim is still what this attempt works on. nullopt: it is.
std::optional<Step> ReadAgain(PrepareWork& work, const std::string& digest) {
  constexpr absl::Duration kLimit = absl::Seconds(5);  // the locks are held meanwhile
  absl::StatusOr<resource::ResourceClaim> claim =
      work.core->deps.claims->GetClaim(work.claim.namespace_name, work.claim.name,
                                       Call::WithTimeout(kLimit, work.operation->stop.get_token()));
  if (!claim.ok()) {
    const absl::Status failed =
        Annotate(claim.status(), absl::StrCat(work.context, ": read the claim"));
    if (MayPass(failed)) return Step::Wait(failed, Backoff(work.operation->failures++));
    return Step::Done(failed);
  }
  const absl::Status right = CheckClaim(work.operation->claim, *claim);
  if (!right.ok()) return Step::Done(Annotate(right, work.context));
  if (resource::AllocationDigest(*claim, work.core->options.driver_name) == digest)
    return std::nullopt;
  return Step::Wait(
      absl::UnavailableError(absl::StrCat(work.context, ": the allocation has just changed")),
      absl::ZeroDuration());
}

// The answer of a claim that is prepared already: no hook, the same bytes (PRP-10), and the CDI file in place
// whatever happened to it (CKP-06).
Step AnswerAgain(PrepareWork& work) {
  absl::StatusOr<ClaimTable::CdiIds> ids = work.core->EnsureCdi(*work.old, /*may_match=*/true);
  if (!ids.ok())
    return Step::Done(Annotate(ids.status(), absl::StrCat(work.context, ": write CDI file")));
  return Step::Done(AnswerFor(*work.old, *ids));
}

// Whether the backend takes the record over, or whether it has to be undone before a new start.
bool CanTakeOver(const Record& old, const std::string& digest) {
  return old.allocation_digest == digest &&
         (old.phase == Phase::kPreparing || old.phase == Phase::kPrepared);
}

absl::Status UndoOld(PrepareWork& work) {
  RoadBack road;
  road.call_backend = BackendMayHaveBegun(*work.old);
  const std::vector<std::string> keys = KeysOfRecord(*work.core, *work.old);
  DRA_RETURN_IF_ERROR(
      Annotate(WalkBack(*work.core, *work.old, keys, road, work.operation->stop.get_token()),
               "undo what an earlier prepare left"));
  work.old.reset();
  work.core->on_released();
  return absl::OkStatus();
}

Step TakeHoldsAndRun(PrepareWork& work) {
  ClaimCore& core = *work.core;
  absl::StatusOr<std::optional<records::HoldConflict>> conflict =
      core.ledger.Check(work.holds, work.limits, /*remove_stale=*/true, &work.others);
  if (!conflict.ok()) return Step::Done(Annotate(conflict.status(), work.context));
  if (conflict->has_value()) {
    const records::HoldConflict& found = **conflict;
    absl::Status refused =
        absl::FailedPreconditionError(absl::StrCat(work.context, ": ", found.text));
    if (found.holder.uid.empty()) return Step::Done(std::move(refused));
    refused.SetPayload(kHeldPayload, absl::Cord(found.holder.uid));
    std::vector<std::string> wake_on = work.keys;
    wake_on.push_back(found.holder.uid);
    return Step::Wait(std::move(refused), kHolderPoll, std::move(wake_on),
                      [&core, holds = work.holds, limits = work.limits] {
                        const auto still = core.ledger.Check(holds, limits, /*remove_stale=*/false);
                        return still.ok() && still->has_value();
                      });
  }
  // A record that is taken over may name hardware that its devices are not on any more.
  std::vector<std::string> old_keys = work.keys;
  std::erase_if(old_keys, [&](const std::string& key) {
    return std::any_of(work.holds.begin(), work.holds.end(),
                       [&](const records::Hold& hold) { return hold.key == key; });
  });
  absl::StatusOr<std::vector<records::Hold>> more = core.ledger.Others(work.claim.uid, old_keys);
  if (!more.ok()) return Step::Done(Annotate(more.status(), work.context));
  std::move(more->begin(), more->end(), std::back_inserter(work.others));
  const absl::Status written = core.ledger.Write(work.holds);
  if (!written.ok()) return Step::Done(Annotate(written, work.context));
  return RunBackend(work);
}

}  // namespace

absl::Status CheckClaim(const loader::ClaimIdentity& asked, const resource::ResourceClaim& claim) {
  if (claim.uid != asked.uid) {
    return absl::FailedPreconditionError(absl::StrCat(
        "claim ", asked.namespace_name, "/", asked.name, " was replaced: the API server has UID \"",
        claim.uid, "\", the call is for UID \"", asked.uid, "\""));
  }
  if (!claim.allocated) {
    return absl::FailedPreconditionError(
        absl::StrCat("claim ", asked.namespace_name, "/", asked.name, " is not allocated"));
  }
  return absl::OkStatus();
}

std::vector<PreparedDevice> AnswerFor(const Record& record, const ClaimTable::CdiIds& ids) {
  std::vector<PreparedDevice> answer;
  answer.reserve(record.devices.size());
  for (size_t i = 0; i < record.devices.size(); ++i) {
    const records::RecordDevice& device = record.devices[i];
    PreparedDevice prepared;
    // The kubelet compares with the name in the pod's spec, which has no subrequest.
    prepared.request_names = {device.request.substr(0, device.request.find('/'))};
    prepared.pool = device.pool;
    prepared.device = device.device;
    prepared.cdi_ids = ids[i];
    prepared.share_id = device.share_id;
    answer.push_back(std::move(prepared));
  }
  return answer;
}

Step AttemptPrepare(ClaimCore& core, Operation& operation) {
  PrepareWork work{};
  work.core = &core;
  work.operation = &operation;
  work.context = absl::StrCat("prepare ", ClaimText(operation.claim));
  const std::stop_token stop = operation.stop.get_token();

  // Whatever was read before a wait may have changed during it.
  const bool read_for_it = operation.fresh.has_value();
  if (!read_for_it) {
    absl::StatusOr<resource::ResourceClaim> claim =
        core.deps.claims->GetClaim(operation.claim.namespace_name, operation.claim.name,
                                   Call::WithTimeout(core.options.answer_limit, stop));
    if (!claim.ok()) {
      const absl::Status failed =
          Annotate(claim.status(), absl::StrCat(work.context, ": read the claim"));
      if (MayPass(failed)) return Step::Wait(failed, Backoff(operation.failures++));
      return Step::Done(failed);
    }
    operation.fresh = *std::move(claim);
  }
  work.claim = *std::move(operation.fresh);
  operation.fresh.reset();
  const absl::Status right = CheckClaim(operation.claim, work.claim);
  if (!right.ok()) return Step::Done(Annotate(right, work.context));
  for (const resource::AllocationResult& result : work.claim.results) {
    if (result.id.driver == core.options.driver_name) work.results.push_back(result);
  }
  const std::string digest = read_for_it
                                 ? operation.digest
                                 : resource::AllocationDigest(work.claim, core.options.driver_name);

  const Call at_once = Call::WithTimeout(absl::ZeroDuration(), stop);
  const Call lock_call = Call::WithTimeout(kLockPatience, stop);
  absl::StatusOr<records::OperationLock> lock = core.locks.LockClaim(operation.claim.uid, at_once);
  if (absl::IsUnavailable(lock.status())) {
    lock = core.locks.LockClaim(operation.claim.uid, lock_call);
    work.waited = true;
  }
  if (!lock.ok()) return WaitForLock(work, lock.status(), {});
  work.lock = *std::move(lock);
  absl::StatusOr<std::optional<Record>> old = core.LoadOrQuarantine(operation.claim);
  if (!old.ok()) return Step::Done(Annotate(old.status(), work.context));
  work.old = *std::move(old);
  if (work.results.empty() && !work.old.has_value()) {
    return Step::Done(std::vector<PreparedDevice>());  // nothing of ours in it (PRP-02)
  }

  auto manifest = core.deps.backend->GetManifest();
  if (manifest.ok()) work.manifest = *std::move(manifest);
  const absl::Status shareable = CheckShareable(work);
  if (!shareable.ok()) return Step::Done(Annotate(shareable, work.context));
  if (work.old.has_value() && work.old->phase == Phase::kPrepared && core.SameBoot(*work.old) &&
      work.old->allocation_digest == digest) {
    return AnswerAgain(work);
  }
  if (work.manifest == nullptr) {
    return Step::Wait(
        absl::UnavailableError(absl::StrCat(
            work.context, ": the backend is not ready: ", manifest.status().message())),
        Backoff(operation.failures++));
  }

  work.keeps_old = work.old.has_value() && CanTakeOver(*work.old, digest);
  work.draft.allocation_digest = digest;
  if (!work.results.empty()) {
    const absl::Status built = BuildDraft(work);
    if (absl::IsUnavailable(built)) {
      return Step::Wait(Annotate(built, work.context), Backoff(operation.failures++));
    }
    if (!built.ok()) return Step::Done(Annotate(built, work.context));
    if (work.hidden_fault.has_value() && !HasBegun(work)) return WaitForHealth(work);
  }
  std::set<std::string> keys;
  for (const records::Hold& hold : work.holds) keys.insert(hold.key);
  if (work.old.has_value()) {
    for (const std::string& key : KeysOfRecord(core, *work.old)) keys.insert(key);
  }
  work.keys.assign(keys.begin(), keys.end());
  operation.touched = work.keys;
  absl::Status locked = work.lock.LockKeys(work.keys, at_once);
  if (absl::IsUnavailable(locked)) {
    locked = work.lock.LockKeys(work.keys, lock_call);
    work.waited = true;
  }
  if (!locked.ok()) return WaitForLock(work, locked, work.keys);
  if (work.waited) {
    std::optional<Step> changed = ReadAgain(work, digest);
    if (changed.has_value()) return *std::move(changed);
  }

  if (work.old.has_value() && !work.keeps_old) {
    const absl::Status undone = UndoOld(work);
    if (!undone.ok()) return Step::Done(Annotate(undone, work.context));
  }
  if (work.results.empty()) return Step::Done(std::vector<PreparedDevice>());
  return TakeHoldsAndRun(work);
}

}  // namespace dra::claims
