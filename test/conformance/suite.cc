#include "test/conformance/suite.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/loader/loader.h"
#include "test/conformance/subject.h"

namespace dra::conformance {
namespace {

constexpr absl::string_view kShareId = "5b0c9d0e-3d57-4c3e-9d0a-2f1c6f3c7a11";

}  // namespace

loader::PrepareDevice Subject::Allocate(const loader::DiscoveredDevice& device,
                                        const Json& configs) const {
  loader::PrepareDevice allocated;
  allocated.identity = device.identity;
  allocated.configs = configs;
  Json& result = allocated.result;
  result = {{"request", "device"},
            {"driver", options->driver_name},
            {"pool", device.pool.empty() ? "node" : absl::StrCat("node/", device.pool)},
            {"device", StringOr(device.device, "name")}};
  if (BoolOr(device.device, "allowMultipleAllocations")) {
    result["shareID"] = kShareId;
    result["consumedCapacity"] = Json::object();
    const Json* capacity = Find(device.device, "capacity");
    if (capacity != nullptr && capacity->is_object()) {
      for (const auto& [name, value] : capacity->items()) {
        result["consumedCapacity"][name] = StringOr(value, "value");
      }
    }
  }
  return allocated;
}

loader::PrepareArgs Subject::Claim(absl::string_view claim_uid,
                                   const loader::PrepareDevice& device) const {
  loader::PrepareArgs args;
  args.claim = {"default", absl::StrCat("claim-", claim_uid), std::string(claim_uid)};
  args.reserved_for = Json::array({{{"resource", "pods"}, {"name", "pod"}, {"uid", "pod-uid"}}});
  args.devices = {device};
  return args;
}

loader::UnprepareArgs Subject::Recorded(const loader::PrepareArgs& args,
                                        const loader::PrepareResult* result) const {
  loader::UnprepareArgs recorded;
  recorded.claim = args.claim;
  recorded.devices = args.devices;
  recorded.undo = result != nullptr && result->has_undo ? result->undo : host->Undo(args.claim.uid);
  return recorded;
}

absl::StatusOr<loader::DiscoverResult> DiscoverWith(loader::BackendHandle& backend,
                                                    loader::FieldSupport support) {
  const loader::ServerFields fields = {support, support, support, support,
                                       support, support, support};
  return backend.Discover(fields, {}, Subject::LongCall());
}

std::vector<Finding> RunSuite(const Options& options) {
  Findings findings;
  MemoryHost host(options.scratch_directory);
  absl::StatusOr<std::unique_ptr<loader::BackendHandle>> backend =
      absl::UnavailableError("not loaded");
  findings.Run("the library loads", [&] {
    backend = loader::LoadBackend(options.library);
    findings.Expect(backend.status(), "load");
  });
  if (!backend.ok()) return findings.Take();
  bool created = false;
  findings.Run("an instance is created", [&] {
    created = findings.Expect((*backend)->Create(options.config_json, &host, Subject::LongCall()),
                              "create");
  });
  if (!created) return findings.Take();

  Subject subject;
  subject.options = &options;
  subject.backend = backend->get();
  subject.host = &host;
  CheckManifest(subject, findings);
  CheckInventory(subject, findings);
  CheckHealthAndBusy(subject, findings);
  CheckConfigs(subject, findings);
  CheckClaims(subject, findings);
  CheckCancellation(subject, findings);
  findings.Run("an instance is destroyed and created again", [&] {
    (*backend)->Destroy();
    findings.Expect((*backend)->Create(options.config_json, &host, Subject::LongCall()),
                    "create again");
    (*backend)->Destroy();
  });
  return findings.Take();
}

bool Passed(const std::vector<Finding>& findings) {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.outcome == Outcome::kFailed; });
}

std::string Report(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const char* word = finding.outcome == Outcome::kPassed    ? "PASS"
                       : finding.outcome == Outcome::kWarning ? "WARN"
                       : finding.outcome == Outcome::kFailed  ? "FAIL"
                                                              : "SKIP";
    absl::StrAppend(&text, word, " ", finding.check, finding.text.empty() ? "" : ": ", finding.text,
                    "\n");
  }
  return text;
}

}  // namespace dra::conformance
