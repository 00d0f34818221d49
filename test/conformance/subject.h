#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "dra/loader/backend_handle.h"
#include "test/conformance/suite.h"

namespace dra::conformance {

// Collects findings: each check has at least one.
class Findings {
 public:
  // Runs `check`; if it adds nothing, it has passed.
  template <typename Check>
  void Run(absl::string_view name, Check&& check) {
    name_ = std::string(name);
    const size_t before = list_.size();
    check();
    if (list_.size() == before) Add(Outcome::kPassed, "");
  }
  void Fail(absl::string_view text) { Add(Outcome::kFailed, text); }
  void Warn(absl::string_view text) { Add(Outcome::kWarning, text); }
  void Skip(absl::string_view text) { Add(Outcome::kSkipped, text); }
  // Fails if `status` is not OK.
  bool Expect(const absl::Status& status, absl::string_view what) {
    if (!status.ok()) Fail(absl::StrCat(what, ": ", status.ToString()));
    return status.ok();
  }
  std::vector<Finding> Take() { return std::move(list_); }

 private:
  void Add(Outcome outcome, absl::string_view text) {
    list_.push_back({outcome, name_, std::string(text)});
  }
  std::string name_;
  std::vector<Finding> list_;
};

// The backend under test and what it said of itself.
struct Subject {
  const Options* options = nullptr;
  loader::BackendHandle* backend = nullptr;
  MemoryHost* host = nullptr;
  loader::Manifest manifest;
  std::vector<loader::DiscoveredDevice> devices;  // with every gated field kept

  // A call with enough time for any hook.
  static Call LongCall() { return Call::WithTimeout(absl::Minutes(2)); }
  // An allocation of one device, as the scheduler would make it. configs: array, may be empty.
  loader::PrepareDevice Allocate(const loader::DiscoveredDevice& device, const Json& configs) const;
  loader::PrepareArgs Claim(absl::string_view claim_uid, const loader::PrepareDevice& device) const;
  // What unprepare gets of a claim that was prepared with `args`, with the undo that the host has of it.
  loader::UnprepareArgs Recorded(const loader::PrepareArgs& args,
                                 const loader::PrepareResult* result) const;
};

// What is looked at without preparing anything.
void CheckManifest(Subject& subject, Findings& findings);
void CheckInventory(Subject& subject, Findings& findings);
void CheckHealthAndBusy(Subject& subject, Findings& findings);
// Prepare, unprepare, reconcile.
void CheckClaims(Subject& subject, Findings& findings);
void CheckConfigs(Subject& subject, Findings& findings);
void CheckCancellation(Subject& subject, Findings& findings);

// discover with every gated field in `support`.
absl::StatusOr<loader::DiscoverResult> DiscoverWith(loader::BackendHandle& backend,
                                                    loader::FieldSupport support);

inline std::string NameOf(const loader::DiscoveredDevice& device) {
  return StringOr(device.device, "name");
}

}  // namespace dra::conformance
