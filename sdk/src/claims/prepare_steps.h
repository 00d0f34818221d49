#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "claims/claim_core.h"
#include "claims/operations.h"

namespace dra::claims {

// The claim that the API server has under the name is the one asked for, and is allocated. Errors:
// FailedPrecondition that says which it is not.
absl::Status CheckClaim(const loader::ClaimIdentity& asked, const resource::ResourceClaim& claim);

// One attempt to prepare a claim: design 3, docs/claim-states.md. Any thread.
Step AttemptPrepare(ClaimCore& core, Operation& operation);

// What one attempt works on. Private to the steps.
struct PrepareWork {
  ClaimCore* core;
  Operation* operation;
  resource::ResourceClaim claim;
  std::vector<resource::AllocationResult> results;  // ours
  std::shared_ptr<const loader::Manifest> manifest;
  std::optional<records::Record> old;  // the record there is
  bool keeps_old = false;              // its undo data goes to the backend, it is not undone first
  records::Record draft;               // what is to be recorded
  std::vector<records::Hold> holds;
  records::HoldLimits limits;
  std::vector<std::string> keys;      // of the draft and of the record there is
  std::vector<records::Hold> others;  // of other claims on the keys of `holds`
  records::OperationLock lock;
  // The first device that new work must not have: where it is, and why.
  struct HiddenFault {
    std::string pool, device, text;
  };
  std::optional<HiddenFault> hidden_fault;
  bool waited = false;  // for a lock: then the claim is read again before the backend is called
  std::string context;
};

// Devices, configs, limits and holds of the draft, from the claim and the inventory. Errors: Unavailable may pass.
absl::Status BuildDraft(PrepareWork& work);

// What the prepare hook gets of a record: all but the other claims on its hardware.
loader::PrepareArgs PrepareArguments(const records::Record& record);

// What is recorded of a hook that succeeded: `draft` with its result, prepared by `backend` ("<name> <version>"). As many
// results as devices.
records::Record PreparedRecord(records::Record draft, loader::PrepareResult result,
                               const std::string& backend, absl::Time now);

// Error if the hook answered for more or fewer devices than it was asked for.
absl::Status CheckAnswered(const loader::PrepareArgs& args, const loader::PrepareResult& result);

// "<name> <version>", as records have it.
std::string BackendText(const loader::Manifest& manifest);

// Locks and holds are taken: backend, record, CDI file, answer, or all of it undone.
Step RunBackend(PrepareWork& work);

// The answer for a prepared record.
std::vector<PreparedDevice> AnswerFor(const records::Record& record, const ClaimTable::CdiIds& ids);

}  // namespace dra::claims
