#include "dra/driver/operator_commands.h"

#include <unistd.h>

#include <set>
#include <stop_token>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "dra/base/json.h"
#include "dra/base/status.h"
#include "dra/base/trusted_directory.h"
#include "driver/driver_marker.h"
#include "driver/held_claims.h"
#include "driver/requests.h"
#include "nlohmann/json.hpp"

namespace dra::driver {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(200);

int Fail(const CommandContext& context, const absl::Status& status) {
  *context.error << std::string(status.message()) << "\n";
  return kExitUnknown;
}

std::string DataDirectory(const CommandContext& context, const std::string& driver) {
  return JoinPath(JoinPath(context.kubelet_root, "plugins"), driver);
}

// The directory of the requests of a driver that has run here.
absl::StatusOr<std::string> RequestDirectory(const CommandContext& context,
                                             const std::string& driver) {
  const std::string data = DataDirectory(context, driver);
  const absl::StatusOr<FileInfo> info = context.fs->Stat(data);
  if (absl::IsNotFound(info.status())) {
    return absl::NotFoundError(
        absl::StrCat(data, " is not there: driver \"", driver,
                     "\" has never run on this node, or the kubelet root is another one"));
  }
  DRA_RETURN_IF_ERROR(info.status());
  std::string directory = JoinPath(data, "requests");
  DRA_RETURN_IF_ERROR(context.fs->MakeDirectory(directory, 0700));
  DRA_RETURN_IF_ERROR(CheckTrustedDirectory(*context.fs, directory, DirectoryUse::kOurs));
  return directory;
}

absl::StatusOr<std::vector<HeldClaim>> Held(const CommandContext& context,
                                            const std::string& driver) {
  // Without a boot id the holds of every boot are shown: more is safer than less.
  return ReadHeldClaims(*context.fs, DataDirectory(context, driver),
                        ReadBootId(*context.fs).value_or(""));
}

void Print(const CommandContext& context, const std::string& driver,
           const std::vector<HeldClaim>& claims) {
  if (claims.empty()) *context.out << driver << ": no claim holds a device\n";
  for (const HeldClaim& claim : claims) *context.out << driver << ": " << Describe(claim) << "\n";
}

Json HeldJson(const HeldClaim& claim) {
  Json devices = Json::array();
  for (const auto& [pool, device] : claim.devices)
    devices.push_back({{"pool", pool}, {"device", device}});
  return {{"namespace", claim.claim.namespace_name},
          {"name", claim.claim.name},
          {"uid", claim.claim.uid},
          {"phase", claim.phase},
          {"sameBoot", claim.same_boot},
          {"devices", std::move(devices)},
          {"pods", claim.pods},
          {"lastError", claim.last_error}};
}

absl::Status WriteDrain(const CommandContext& context, const std::string& path,
                        const DrainCommand& command) {
  DrainRequest request;
  request.mode =
      command.mode == "withdraw" ? DrainRequest::Mode::kWithdraw : DrainRequest::Mode::kTaint;
  request.since = context.clock->Now();
  request.by = context.by;
  // Asking again changes the mode, not the time since when the node is drained.
  if (const auto text = context.fs->ReadOwnFile(path, 64u << 10); text.ok()) {
    if (const auto before = DecodeDrain(*text); before.ok()) request.since = before->since;
  }
  return WriteFileAtomically(*context.fs, path, EncodeDrain(request), 0600, Durability::kDurable);
}

}  // namespace

int RunDrain(const CommandContext& context, const DrainCommand& command) {
  if (command.mode != "taint" && command.mode != "withdraw") {
    return Fail(context, absl::InvalidArgumentError(absl::StrCat(
                             "mode \"", command.mode, "\" is not one of taint, withdraw")));
  }
  const absl::StatusOr<std::string> directory = RequestDirectory(context, command.driver);
  if (!directory.ok()) return Fail(context, directory.status());
  const std::string path = JoinPath(*directory, kDrainFile);
  if (command.off) {
    const absl::Status removed = RemoveIfExists(*context.fs, path);
    if (!removed.ok()) return Fail(context, removed);
    *context.out << command.driver << ": drain ended, the running driver offers its devices again "
                 << "within a few seconds\n";
    return kExitNothing;
  }
  const absl::Status written = WriteDrain(context, path, command);
  if (!written.ok()) return Fail(context, Annotate(written, "write the request"));
  *context.out
      << command.driver << ": drain requested (" << command.mode
      << "): the running driver follows within a few seconds, and again after every restart "
      << "until drain --off.\n"
      << "Claims that are allocated go on being prepared and unprepared: keep the driver running "
      << "until nothing is held.\n"
      << "A driver that just stops leaves its slices for about 30 s, and pods bound in that time "
      << "hang: that is why it is drained first.\n";

  const MonotonicTime end = context.clock->Monotonic() + absl::ToChronoNanoseconds(command.wait);
  absl::StatusOr<std::vector<HeldClaim>> held = Held(context, command.driver);
  while (held.ok() && !held->empty() && context.clock->Monotonic() < end) {
    context.clock->Sleep(kLook, std::stop_token());
    held = Held(context, command.driver);
  }
  if (!held.ok()) return Fail(context, Annotate(held.status(), "look for claims"));
  Print(context, command.driver, *held);
  return command.wait > absl::ZeroDuration() && !held->empty() ? kExitSomething : kExitNothing;
}

int RunClearFault(const CommandContext& context, const ClearFaultCommand& command) {
  const absl::StatusOr<std::string> directory = RequestDirectory(context, command.driver);
  if (!directory.ok()) return Fail(context, directory.status());
  const absl::Time now = context.clock->Now();
  const ClearFaultRequest request = {command.pool, command.device, command.evidence, context.by,
                                     now};
  const absl::StatusOr<ClearFaultRequest> valid = DecodeClearFault(EncodeClearFault(request));
  if (!valid.ok()) return Fail(context, valid.status());
  // Names sort by their time; the process id keeps two of one moment apart.
  const std::string name =
      absl::StrCat(kClearFaultPrefix, absl::FormatTime("%Y%m%dT%H%M%E6S", now, absl::UTCTimeZone()),
                   "-", ::getpid(), ".json");
  const std::string path = JoinPath(*directory, name);
  const absl::Status written =
      WriteFileAtomically(*context.fs, path, EncodeClearFault(request), 0600, Durability::kDurable);
  if (!written.ok()) return Fail(context, Annotate(written, "write the request"));

  const std::string taken = JoinPath(*directory, absl::StrCat(kTakenPrefix, name));
  const MonotonicTime end = context.clock->Monotonic() + absl::ToChronoNanoseconds(command.wait);
  for (;;) {
    // In the order in which they are renamed, so that neither is missed.
    const bool waits = !absl::IsNotFound(context.fs->Stat(path).status()) ||
                       !absl::IsNotFound(context.fs->Stat(taken).status());
    if (!waits) break;
    if (context.clock->Monotonic() >= end) {
      return Fail(context,
                  absl::UnavailableError(absl::StrCat(
                      command.driver, " has not answered yet; the request stays at ", path,
                      " and is followed as soon as the driver runs and knows its devices")));
    }
    context.clock->Sleep(kLook, std::stop_token());
  }
  const absl::StatusOr<std::string> refusal =
      context.fs->ReadOwnFile(JoinPath(JoinPath(*directory, kRefusedDirectory), name), 64u << 10);
  if (absl::IsNotFound(refusal.status())) {
    *context.out << command.driver << ": evidence \"" << command.evidence
                 << "\" is recorded for device " << command.device << "\n";
    return kExitNothing;
  }
  if (!refusal.ok()) return Fail(context, refusal.status());
  const absl::StatusOr<Json> json = ParseJsonObject(*refusal, name);
  *context.error << command.driver
                 << ": refused: " << (json.ok() ? StringOr(*json, "reason") : *refusal) << "\n";
  return kExitSomething;
}

int RunUninstallCheck(const CommandContext& context, const UninstallCheckCommand& command) {
  std::set<std::string> drivers;
  int exit_status = kExitNothing;
  std::string error;
  if (command.driver.has_value()) {
    drivers.insert(*command.driver);
  } else {
    drivers.insert(command.configured.begin(), command.configured.end());
    const absl::StatusOr<std::vector<DriverMarker>> markers =
        FindDriverMarkers(*context.fs, context.kubelet_root);
    if (!markers.ok()) {
      error = std::string(markers.status().message());
      exit_status = kExitUnknown;
    } else {
      for (const DriverMarker& marker : *markers) drivers.insert(marker.driver);
    }
  }
  Json shown = Json::array();
  for (const std::string& driver : drivers) {
    const absl::StatusOr<std::vector<HeldClaim>> held = Held(context, driver);
    Json claims = Json::array();
    if (held.ok()) {
      for (const HeldClaim& claim : *held) claims.push_back(HeldJson(claim));
      if (!held->empty() && exit_status == kExitNothing) exit_status = kExitSomething;
      if (!command.json) Print(context, driver, *held);
    } else {
      // What cannot be read is never "nothing".
      exit_status = kExitUnknown;
      *context.error << driver << ": could not look: " << std::string(held.status().message())
                     << "\n";
    }
    shown.push_back({{"driver", driver},
                     {"dataDirectory", DataDirectory(context, driver)},
                     {"claims", std::move(claims)},
                     {"error", std::string(held.status().message())}});
  }
  if (!error.empty()) *context.error << "could not look: " << error << "\n";
  if (command.json) {
    *context.out << DumpJsonPretty({{"drivers", std::move(shown)}, {"error", error}}) << "\n";
  } else if (exit_status == kExitSomething) {
    *context.out << "Pods that use these claims stay in Terminating once the driver is gone: drain "
                 << "it and let them end first (docs/operations.md).\n";
  } else if (drivers.empty() && error.empty()) {
    *context.out << "no driver has run on this node\n";
  }
  return exit_status;
}

}  // namespace dra::driver
