#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "claims/prepare_steps.h"
#include "claims/road_back.h"
#include "dra/base/status.h"
#include "dra/loader/uncreated_backend.h"

namespace dra::claims {
namespace {

using records::Phase;
using records::Record;

// The first device that a container would get nothing of; "" if there is none.
std::string DeviceWithoutEdits(const loader::PrepareArgs& args,
                               const loader::PrepareResult& result) {
  if (!NoEdits(result.claim_edits)) return "";
  for (size_t i = 0; i < result.devices.size(); ++i) {
    if (NoEdits(result.devices[i].edits)) {
      const Json& allocated = args.devices[i].result;
      return absl::StrCat(StringOr(allocated, "pool"), "/", StringOr(allocated, "device"));
    }
  }
  return "";
}

// The prepare hook; once more if a device came without edits, because what a backend keeps about its vendor's files may
// be out of date (CDI-04). `began`: the hook has succeeded at least once, so there is something to undo.
absl::StatusOr<loader::PrepareResult> CallBackend(PrepareWork& work, loader::PrepareArgs args,
                                                  RunningHook& hook, bool* began) {
  ClaimCore& core = *work.core;
  const absl::Duration limit = HookLimitOf(*work.manifest, "prepare", kPrepareLimit);
  std::string empty;
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (attempt > 0) args.saved_undo = hook.draft().undo;
    absl::StatusOr<loader::PrepareResult> result = core.deps.backend->Prepare(
        args, Call::WithTimeout(limit, work.operation->stop.get_token()));
    if (!result.ok()) return result;
    *began = true;
    DRA_RETURN_IF_ERROR(CheckAnswered(args, *result));
    empty = DeviceWithoutEdits(args, *result);
    if (empty.empty() || work.manifest->no_injection) return result;
  }
  return absl::InternalError(absl::StrCat("backend \"", work.manifest->name,
                                          "\" gives no CDI edits for device ", empty,
                                          " and does not declare that it injects nothing"));
}

// Brings the node back to where it was, and makes the answer: the first error, the undo's as a note (PRP-08).
Step Fail(PrepareWork& work, Record draft, bool on_disk, bool began, absl::Status error) {
  ClaimCore& core = *work.core;
  const std::string uid = draft.claim.uid;
  const bool take_back = began || draft.has_undo;
  if (!take_back && work.old.has_value()) {
    // Nothing was done now, and the record of an earlier try or boot still says what may be undone one day.
    core.table.Put(*work.old);
    const absl::Status removed = core.ledger.Remove(uid, work.keys);
    core.on_released();
    if (!removed.ok())
      error = absl::Status(error.code(), absl::StrCat(error.message(), "; ", removed.message()));
    return Step::Done(Annotate(error, work.context));
  }
  RoadBack road;
  road.on_disk = on_disk || work.old.has_value();
  road.differs = work.old.has_value();
  road.call_backend = take_back;
  road.must_go_on = true;
  const absl::Status undone = WalkBack(core, std::move(draft), work.keys, road, {});
  work.lock = records::OperationLock();
  if (!undone.ok()) {
    return Step::Done(Annotate(
        absl::Status(error.code(), absl::StrCat(error.message(),
                                                "; undoing it failed as well: ", undone.message())),
        work.context));
  }
  core.on_released();
  // A backend that says "not now" is asked again while somebody waits: the kubelet itself comes back after a minute.
  // One that is being created, or created anew, will be there in a moment.
  if ((absl::IsUnavailable(error) || loader::IsUncreated(error)) && !began) {
    return Step::Wait(Annotate(error, work.context), Backoff(work.operation->failures++));
  }
  return Step::Done(Annotate(error, work.context));
}

}  // namespace

loader::PrepareArgs PrepareArguments(const Record& draft) {
  loader::PrepareArgs args;
  args.claim = ClaimCore::Identity(draft);
  args.reserved_for = draft.reserved_for;
  args.devices = ClaimCore::HookDevices(draft);
  args.saved_undo = draft.undo;
  return args;
}

absl::Status CheckAnswered(const loader::PrepareArgs& args, const loader::PrepareResult& result) {
  if (result.devices.size() == args.devices.size()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the backend answered ", result.devices.size(), " of ",
                                          args.devices.size(), " devices"));
}

std::string BackendText(const loader::Manifest& manifest) {
  return absl::StrCat(manifest.name, " ", manifest.version);
}

Record PreparedRecord(Record draft, loader::PrepareResult result, const std::string& backend,
                      absl::Time now) {
  draft.phase = Phase::kPrepared;
  draft.since = now;
  draft.last_error.clear();
  draft.claim_edits = std::move(result.claim_edits);
  // Undo data that the hook did not give anew stays that of the backend that wrote it.
  if (result.has_undo || !draft.has_undo) draft.backend = backend;
  if (result.has_undo) {
    draft.undo = std::move(result.undo);
    draft.has_undo = true;
  }
  for (size_t i = 0; i < draft.devices.size(); ++i) {
    draft.devices[i].edits = std::move(result.devices[i].edits);
    MergeStatus(draft.devices[i].status, result.devices[i].status, now);
  }
  return draft;
}

Step RunBackend(PrepareWork& work) {
  ClaimCore& core = *work.core;
  bool began = false;
  core.WarnOfOlderBackend(work.draft, *work.manifest, "Prepare");
  core.table.Put(work.draft);
  loader::PrepareArgs args = PrepareArguments(work.draft);
  args.others = ClaimCore::OtherClaims(work.others);
  const std::string uid = work.draft.claim.uid;
  const auto hook = std::make_shared<RunningHook>(
      &core.store, core.deps.clock, std::move(work.draft), BackendText(*work.manifest));
  absl::StatusOr<loader::PrepareResult> result;
  {
    const auto registration = core.hooks.Add(hook, uid);
    result = CallBackend(work, std::move(args), *hook, &began);
  }
  Record draft = hook->TakeDraft();
  if (!result.ok()) return Fail(work, std::move(draft), hook->saved(), began, result.status());

  Record record = PreparedRecord(std::move(draft), *std::move(result), BackendText(*work.manifest),
                                 core.deps.clock->Now());
  const absl::Status saved = core.store.Save(record);
  if (!saved.ok()) {
    // The rename may have happened although its fsync failed: what is there decides.
    const absl::StatusOr<bool> there = core.store.Exists(record.claim.uid);
    return Fail(work, std::move(record), !there.ok() || *there, began, saved);
  }
  core.table.Put(record);
  absl::StatusOr<ClaimTable::CdiIds> ids = core.EnsureCdi(record, /*may_match=*/false);
  if (!ids.ok()) {
    return Fail(work, std::move(record), /*on_disk=*/true, began,
                Annotate(ids.status(), "write CDI file"));
  }
  core.SubmitStatus(record);
  return Step::Done(AnswerFor(record, *ids));
}

}  // namespace dra::claims
