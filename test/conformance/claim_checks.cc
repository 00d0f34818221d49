// Checks of prepare, unprepare and reconcile, each device alone.

#include <algorithm>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "dra/cdi/spec.h"
#include "dra/cdi/validate.h"
#include "test/conformance/subject.h"

namespace dra::conformance {
namespace {

constexpr absl::string_view kForeignVersion = "conformance.invalid/v1";

std::vector<loader::DiscoveredDevice> SomeDevices(const Subject& subject) {
  const size_t count = std::min(subject.options->max_devices, subject.devices.size());
  return {subject.devices.begin(), subject.devices.begin() + static_cast<std::ptrdiff_t>(count)};
}

Json OneConfig(const Json& parameters) {
  return Json::array(
      {{{"source", "FromClaim"}, {"request", "device"}, {"parameters", parameters}}});
}

// Whether edits are there and a container runtime would take them. Completed first, as the host does.
bool CheckEdits(const Json& value, const std::string& where, Findings& findings, bool& empty) {
  absl::StatusOr<cdi::ContainerEdits> edits = cdi::EditsFromJson(value, where);
  if (!findings.Expect(edits.status(), "edits")) return false;
  empty = edits->empty();
  if (empty) return true;
  cdi::CompleteMountOptions(*edits);
  return findings.Expect(cdi::ValidateEdits(*edits, where), "edits") &&
         findings.Expect(cdi::ValidateOwnEdits(*edits, where), "edits");
}

void CheckResult(const Subject& subject, const std::string& device,
                 const loader::PrepareResult& result, Findings& findings) {
  if (result.devices.size() != 1) {
    return findings.Fail(
        absl::StrCat("prepare of ", device, " gave ", result.devices.size(), " devices for 1"));
  }
  bool no_device_edits = true;
  bool no_claim_edits = true;
  if (!CheckEdits(result.devices[0].edits, absl::StrCat(device, ".containerEdits"), findings,
                  no_device_edits) ||
      !CheckEdits(result.claim_edits, absl::StrCat(device, ": claim.containerEdits"), findings,
                  no_claim_edits)) {
    return;
  }
  if (no_device_edits && no_claim_edits && !subject.manifest.no_injection) {
    findings.Fail(
        absl::StrCat("prepare of ", device,
                     " gave nothing to inject: declare \"no_injection\" if that is in order"));
  }
}

bool SameEdits(const loader::PrepareResult& a, const loader::PrepareResult& b) {
  if (a.devices.size() != b.devices.size() || a.claim_edits != b.claim_edits) return false;
  for (size_t i = 0; i < a.devices.size(); ++i) {
    if (a.devices[i].edits != b.devices[i].edits) return false;
  }
  return true;
}

// Prepare, again, unprepare, again: for one device.
void CheckDevice(Subject& subject, const loader::DiscoveredDevice& device,
                 const std::string& claim_uid, Findings& findings) {
  const std::string name = NameOf(device);
  loader::PrepareArgs args = subject.Claim(claim_uid, subject.Allocate(device, Json::array()));
  const auto first = subject.backend->Prepare(args, Subject::LongCall());
  if (!findings.Expect(first.status(), absl::StrCat("prepare of ", name))) return;
  CheckResult(subject, name, *first, findings);
  args.saved_undo = first->has_undo ? first->undo : subject.host->Undo(claim_uid);
  const auto second = subject.backend->Prepare(args, Subject::LongCall());
  if (findings.Expect(second.status(), absl::StrCat("repeated prepare of ", name)) &&
      !SameEdits(*first, *second)) {
    findings.Fail(absl::StrCat("repeated prepare of ", name, " gave other edits"));
  }
  const loader::UnprepareArgs recorded = subject.Recorded(args, second.ok() ? &*second : &*first);
  if (!findings.Expect(subject.backend->Unprepare(recorded, Subject::LongCall()),
                       absl::StrCat("unprepare of ", name))) {
    return;
  }
  findings.Expect(subject.backend->Unprepare(recorded, Subject::LongCall()),
                  absl::StrCat("second unprepare of ", name));
  subject.host->ForgetClaim(claim_uid);
}

void CheckRestart(Subject& subject, Findings& findings) {
  const std::vector<loader::DiscoveredDevice> devices = SomeDevices(subject);
  if (devices.empty()) return findings.Skip("there are no devices");
  const loader::PrepareArgs args =
      subject.Claim("restarted", subject.Allocate(devices[0], Json::array()));
  const auto prepared = subject.backend->Prepare(args, Subject::LongCall());
  if (!findings.Expect(prepared.status(), "prepare")) return;
  const loader::UnprepareArgs recorded = subject.Recorded(args, &*prepared);
  subject.backend->Destroy();
  if (!findings.Expect(
          subject.backend->Create(subject.options->config_json, subject.host, Subject::LongCall()),
          "create again")) {
    return;
  }
  const absl::Status begun = subject.backend->ReconcileBegin(Subject::LongCall());
  if (!absl::IsUnimplemented(begun) && findings.Expect(begun, "reconcile begin")) {
    const auto verdict =
        subject.backend->ReconcileRecordHook({recorded, true}, Subject::LongCall());
    if (findings.Expect(verdict.status(), "reconcile record") &&
        verdict->verdict == loader::ReconcileVerdict::kLost) {
      findings.Fail("a claim prepared by the instance before is judged lost in the same boot");
    }
    findings.Expect(subject.backend->ReconcileEnd(Subject::LongCall()), "reconcile end");
  }
  findings.Expect(subject.backend->Unprepare(recorded, Subject::LongCall()),
                  "unprepare by the next instance");
  subject.host->ForgetClaim("restarted");
}

void CheckUnknown(Subject& subject, Findings& findings) {
  loader::DiscoveredDevice nothing;
  nothing.device = {{"name", "conformance-none"}};
  nothing.identity = "conformance-none";
  const loader::PrepareArgs args =
      subject.Claim("unknown", subject.Allocate(nothing, Json::array()));
  const absl::Status prepared = subject.backend->Prepare(args, Subject::LongCall()).status();
  if (prepared.ok()) {
    findings.Fail("prepare of a device that is not there was OK");
  } else if (!absl::StrContains(prepared.message(), "conformance-none")) {
    findings.Fail(absl::StrCat("the error does not name the device: ", prepared.ToString()));
  }
  findings.Expect(subject.backend->Unprepare(subject.Recorded(args, nullptr), Subject::LongCall()),
                  "unprepare of a claim and device that are not known");
}

void CheckParallel(Subject& subject, Findings& findings) {
  const std::vector<loader::DiscoveredDevice> devices = SomeDevices(subject);
  if (!subject.manifest.parallel) return findings.Skip("the manifest does not say \"parallel\"");
  if (devices.size() < 2) return findings.Skip("there are fewer than two devices");
  std::vector<absl::Status> results(std::min<size_t>(devices.size(), 8));
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < results.size(); ++i) {
      threads.emplace_back([&, i] {
        // A card's devices may exclude each other; each thread has one device, and prepares it for one claim.
        const std::string uid = absl::StrCat("parallel-", i);
        const loader::PrepareArgs args =
            subject.Claim(uid, subject.Allocate(devices[i], Json::array()));
        const auto prepared = subject.backend->Prepare(args, Subject::LongCall());
        results[i] = prepared.status();
        if (!prepared.ok()) return;
        results[i] =
            subject.backend->Unprepare(subject.Recorded(args, &*prepared), Subject::LongCall());
      });
    }
  }
  for (size_t i = 0; i < results.size(); ++i) findings.Expect(results[i], NameOf(devices[i]));
}

}  // namespace

void CheckClaims(Subject& subject, Findings& findings) {
  findings.Run("each device is prepared and unprepared, twice each", [&] {
    const std::vector<loader::DiscoveredDevice> devices = SomeDevices(subject);
    if (devices.empty()) return findings.Skip("there are no devices");
    for (size_t i = 0; i < devices.size(); ++i) {
      CheckDevice(subject, devices[i], absl::StrCat("alone-", i), findings);
    }
  });
  findings.Run("admin access to a device that another claim holds", [&] {
    const std::vector<loader::DiscoveredDevice> devices = SomeDevices(subject);
    if (devices.empty()) return findings.Skip("there are no devices");
    const loader::PrepareArgs owner =
        subject.Claim("owner", subject.Allocate(devices[0], Json::array()));
    const auto owned = subject.backend->Prepare(owner, Subject::LongCall());
    if (!findings.Expect(owned.status(), "prepare of the owner")) return;
    loader::PrepareDevice watched = subject.Allocate(devices[0], Json::array());
    watched.result["adminAccess"] = true;
    loader::PrepareArgs admin = subject.Claim("admin", watched);
    admin.others = {{"owner", NameOf(devices[0]), std::nullopt, false}};
    const auto watching = subject.backend->Prepare(admin, Subject::LongCall());
    findings.Expect(watching.status(), "prepare with admin access");
    loader::UnprepareArgs ended = subject.Recorded(admin, watching.ok() ? &*watching : nullptr);
    ended.others = admin.others;
    findings.Expect(subject.backend->Unprepare(ended, Subject::LongCall()),
                    "unprepare with admin access");
    findings.Expect(
        subject.backend->Unprepare(subject.Recorded(owner, &*owned), Subject::LongCall()),
        "unprepare of the owner");
  });
  findings.Run("unprepare after a restart", [&] { CheckRestart(subject, findings); });
  findings.Run("a claim and device that nobody knows", [&] { CheckUnknown(subject, findings); });
  findings.Run("different claims at the same time", [&] { CheckParallel(subject, findings); });
}

void CheckConfigs(Subject& subject, Findings& findings) {
  const std::vector<loader::DiscoveredDevice> devices = SomeDevices(subject);
  // Refused by validate_config, where there is one, and by prepare; each time with `wanted` in the text.
  const auto refused = [&](const Json& parameters, const std::vector<std::string>& wanted) {
    std::vector<std::pair<std::string, absl::Status>> answers;
    answers.emplace_back("validate_config", subject.backend->ValidateConfig(parameters, "FromClaim",
                                                                            Subject::LongCall()));
    if (!devices.empty()) {
      const loader::PrepareArgs args =
          subject.Claim("configured", subject.Allocate(devices[0], OneConfig(parameters)));
      answers.emplace_back("prepare", subject.backend->Prepare(args, Subject::LongCall()).status());
      findings.Expect(
          subject.backend->Unprepare(subject.Recorded(args, nullptr), Subject::LongCall()),
          "unprepare after a refused prepare");
    }
    for (const auto& [hook, status] : answers) {
      if (absl::IsUnimplemented(status) && hook == "validate_config") continue;
      if (!absl::IsInvalidArgument(status)) {
        findings.Fail(
            absl::StrCat(hook, " must answer INVALID_ARGUMENT, and answered ", status.ToString()));
        continue;
      }
      for (const std::string& word : wanted) {
        if (!absl::StrContains(status.message(), word)) {
          findings.Fail(
              absl::StrCat(hook, ": the error does not say \"", word, "\": ", status.ToString()));
        }
      }
    }
  };
  findings.Run("a configuration of an unknown kind is refused with the known ones", [&] {
    std::vector<std::string> known;
    for (const loader::Manifest::ConfigKind& kind : subject.manifest.config_kinds)
      known.push_back(kind.api_version);
    refused({{"apiVersion", std::string(kForeignVersion)}, {"kind", "Nothing"}}, known);
  });
  findings.Run("a mistyped field is refused with its name", [&] {
    if (subject.manifest.config_kinds.empty())
      return findings.Skip("the backend has no configurations");
    for (const loader::Manifest::ConfigKind& kind : subject.manifest.config_kinds) {
      refused({{"apiVersion", kind.api_version}, {"kind", kind.kind}, {"conformanceTypo", 1}},
              {"conformanceTypo"});
    }
  });
  findings.Run("a configuration that is no object is refused",
               [&] { refused(Json::array({7}), {}); });
}

void CheckCancellation(Subject& subject, Findings& findings) {
  findings.Run("a cancelled call ends and leaves the backend usable", [&] {
    const std::vector<loader::DiscoveredDevice> devices = SomeDevices(subject);
    if (devices.empty()) return findings.Skip("there are no devices");
    std::stop_source stop;
    stop.request_stop();
    const loader::PrepareArgs args =
        subject.Claim("cancelled", subject.Allocate(devices[0], Json::array()));
    // OK and CANCELLED are both right: the work may be done before anybody looks.
    const absl::Status prepared =
        subject.backend->Prepare(args, Call::WithTimeout(absl::Minutes(1), stop.get_token()))
            .status();
    if (!prepared.ok() && !absl::IsCancelled(prepared)) {
      findings.Fail(absl::StrCat("a cancelled prepare answered ", prepared.ToString()));
    }
    findings.Expect(
        subject.backend->Unprepare(subject.Recorded(args, nullptr), Subject::LongCall()),
        "unprepare after it");
    findings.Expect(DiscoverWith(*subject.backend, loader::FieldSupport::kKept).status(),
                    "discover after it");
  });
}

}  // namespace dra::conformance
