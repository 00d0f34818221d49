#include "dra/cdi/claim_specs.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"
#include "dra/cdi/names.h"
#include "dra/cdi/spec.h"
#include "dra/cdi/validate.h"

namespace dra::cdi {
namespace {

constexpr uint32_t kDirectoryMode = 0755;
constexpr uint32_t kFileMode = 0644;  // the runtime may be another user: rootless podman, docker
constexpr absl::string_view kExtension = ".json";

// The backend's edits, completed and checked.
absl::StatusOr<ContainerEdits> OwnEdits(const Json& edits, const std::string& path) {
  DRA_ASSIGN_OR_RETURN(ContainerEdits own, EditsFromJson(edits, path));
  DropRedundantHostPaths(own);
  CompleteMountOptions(own);
  DRA_RETURN_IF_ERROR(ValidateOwnEdits(own, path));
  return own;
}

// "<claim uid>-<device>[-<share id>]" for each device, made unique by a number in order of the list. A number never
// takes a name that another device has by itself.
std::vector<std::string> EntryNames(absl::string_view claim_uid,
                                    const std::vector<ClaimDevice>& devices) {
  std::vector<std::string> names;
  for (const ClaimDevice& device : devices) {
    names.push_back(absl::StrCat(claim_uid, "-", device.device, device.share_id.empty() ? "" : "-",
                                 device.share_id));
  }
  const std::set<std::string> natural(names.begin(), names.end());
  std::set<std::string> taken;
  for (std::string& name : names) {
    std::string unique = name;
    for (int n = 2; taken.count(unique) != 0; ++n) {
      const std::string numbered = absl::StrCat(name, "-", n);
      if (natural.count(numbered) == 0) unique = numbered;
    }
    taken.insert(unique);
    name = unique;
  }
  return names;
}

}  // namespace

struct ClaimSpecs::Built {
  std::optional<Spec> spec;  // nullopt: the claim needs no file
  std::vector<std::vector<std::string>> ids;
};

ClaimSpecs::ClaimSpecs(FileSystem* fs, std::string directory, std::string driver_name)
    : fs_(fs),
      directory_(std::move(directory)),
      kind_(absl::StrCat("k8s.", driver_name, "/claim")),
      file_prefix_(absl::StrCat("k8s.", driver_name, "-claim_")) {}

std::string ClaimSpecs::PathFor(absl::string_view claim_uid) const {
  return JoinPath(directory_, absl::StrCat(file_prefix_, claim_uid, kExtension));
}

absl::StatusOr<ClaimSpecs::Built> ClaimSpecs::Build(absl::string_view claim_uid,
                                                    const std::vector<ClaimDevice>& devices,
                                                    const Json& claim_edits) const {
  if (!IsSafeFileId(claim_uid)) {
    return absl::InvalidArgumentError(
        absl::StrCat("claim UID \"", claim_uid, "\" may not name a file"));
  }
  Built built;
  Spec spec;
  spec.kind = kind_;
  DRA_ASSIGN_OR_RETURN(spec.edits, OwnEdits(claim_edits, "claim edits"));
  const std::vector<std::string> names = EntryNames(claim_uid, devices);
  for (size_t i = 0; i < devices.size(); ++i) {
    DRA_ASSIGN_OR_RETURN(
        ContainerEdits edits,
        OwnEdits(devices[i].edits, absl::StrCat("edits of device \"", devices[i].device, "\"")));
    std::vector<std::string>& ids = built.ids.emplace_back();
    if (edits.empty()) {
      if (spec.edits.empty()) continue;
      edits.additional_gids = {0};  // counts as an edit and does nothing: see the header
    }
    ids.push_back(QualifiedName{VendorOf(kind_), ClassOf(kind_), names[i]}.ToString());
    spec.devices.push_back(Device{names[i], {}, std::move(edits)});
  }
  if (spec.devices.empty()) return built;
  spec.version = MinimumVersion(spec);
  DRA_RETURN_IF_ERROR(ValidateSpec(spec));
  built.spec = std::move(spec);
  return built;
}

absl::StatusOr<std::vector<std::vector<std::string>>> ClaimSpecs::Write(
    absl::string_view claim_uid, const std::vector<ClaimDevice>& devices, const Json& claim_edits) {
  const std::string context = absl::StrCat("write CDI spec of claim ", claim_uid);
  absl::StatusOr<Built> built = Build(claim_uid, devices, claim_edits);
  if (!built.ok()) return Annotate(built.status(), context);
  absl::Status status;
  if (built->spec.has_value()) {
    status = MakeDirectories(*fs_, directory_, kDirectoryMode);
    if (status.ok()) {
      status = WriteFileAtomically(*fs_, PathFor(claim_uid),
                                   absl::StrCat(DumpJsonPretty(ToJson(*built->spec)), "\n"),
                                   kFileMode, Durability::kDurable);
    }
  } else {
    status = RemoveIfExists(*fs_, PathFor(claim_uid));  // of an earlier prepare that had edits
  }
  if (!status.ok()) return Annotate(status, context);
  return std::move(built->ids);
}

absl::StatusOr<bool> ClaimSpecs::Matches(absl::string_view claim_uid,
                                         const std::vector<ClaimDevice>& devices,
                                         const Json& claim_edits) {
  const std::string context = absl::StrCat("compare CDI spec of claim ", claim_uid);
  const absl::StatusOr<Built> built = Build(claim_uid, devices, claim_edits);
  if (!built.ok()) return Annotate(built.status(), context);
  const absl::StatusOr<std::string> text = fs_->ReadOwnFile(PathFor(claim_uid));
  if (absl::IsNotFound(text.status())) return !built->spec.has_value();
  // A symbolic link or a FIFO in its place: what is written anew takes the place.
  if (absl::IsFailedPrecondition(text.status())) return false;
  if (!text.ok()) return Annotate(text.status(), context);
  if (!built->spec.has_value()) return false;
  const absl::StatusOr<Spec> stored = ParseSpecFile(*text);
  return stored.ok() && *stored == *built->spec;  // an unreadable text is one to write anew
}

absl::Status ClaimSpecs::Remove(absl::string_view claim_uid) {
  const std::string context = absl::StrCat("remove CDI spec of claim ", claim_uid);
  if (!IsSafeFileId(claim_uid)) {
    return absl::InvalidArgumentError(absl::StrCat(context, ": the UID may not name a file"));
  }
  return Annotate(RemoveIfExists(*fs_, PathFor(claim_uid)), context);
}

absl::StatusOr<std::vector<std::string>> ClaimSpecs::ListClaims() {
  absl::StatusOr<std::vector<std::string>> names = fs_->List(directory_);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();  // nothing written yet
  if (!names.ok()) return Annotate(names.status(), "list CDI specs");
  std::vector<std::string> claim_uids;
  for (absl::string_view name : *names) {
    if (!absl::ConsumePrefix(&name, file_prefix_) || !absl::ConsumeSuffix(&name, kExtension))
      continue;
    if (IsSafeFileId(name)) claim_uids.emplace_back(name);
  }
  return claim_uids;
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ClaimSpecs::Devices(
    absl::string_view claim_uid) {
  const std::string context = absl::StrCat("read CDI spec of claim ", claim_uid);
  if (!IsSafeFileId(claim_uid)) {
    return absl::InvalidArgumentError(absl::StrCat(context, ": the UID may not name a file"));
  }
  const absl::StatusOr<std::string> text = fs_->ReadOwnFile(PathFor(claim_uid));
  if (!text.ok()) return Annotate(text.status(), context);
  const absl::StatusOr<Spec> spec = ParseSpecFile(*text);
  if (!spec.ok()) {
    return absl::DataLossError(absl::StrCat(context, ": ", spec.status().message()));
  }
  const std::string prefix = absl::StrCat(claim_uid, "-");
  std::vector<std::pair<std::string, std::string>> devices;
  for (const Device& entry : spec->devices) {
    absl::string_view name = entry.name;
    if (!absl::ConsumePrefix(&name, prefix) || name.empty()) continue;
    constexpr size_t kUuid = 36;
    std::string share_id;
    if (name.size() > kUuid + 1 && name[name.size() - kUuid - 1] == '-' &&
        IsUuid(name.substr(name.size() - kUuid))) {
      share_id = std::string(name.substr(name.size() - kUuid));
      name.remove_suffix(kUuid + 1);
    }
    devices.emplace_back(std::string(name), std::move(share_id));
  }
  return devices;
}

std::string ClaimSpecs::ClaimOfTemporary(absl::string_view name) const {
  if (!IsTemporaryName(name)) return "";
  // ".<file of the claim>.<random>.tmp"
  name.remove_prefix(1);
  if (!absl::ConsumePrefix(&name, file_prefix_)) return "";
  const absl::string_view uid = name.substr(0, name.find(absl::StrCat(kExtension, ".")));
  return uid.size() < name.size() && IsSafeFileId(uid) ? std::string(uid) : "";
}

absl::StatusOr<std::vector<std::string>> ClaimSpecs::ListTemporaries() {
  const absl::StatusOr<std::vector<std::string>> names = fs_->List(directory_);
  if (absl::IsNotFound(names.status())) return std::vector<std::string>();
  if (!names.ok()) return Annotate(names.status(), "list CDI specs");
  std::set<std::string> claims;
  for (const std::string& name : *names) {
    std::string uid = ClaimOfTemporary(name);
    if (!uid.empty()) claims.insert(std::move(uid));
  }
  return std::vector<std::string>(claims.begin(), claims.end());
}

absl::Status ClaimSpecs::RemoveTemporaries(absl::string_view claim_uid) {
  const absl::StatusOr<std::vector<std::string>> names = fs_->List(directory_);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  if (!names.ok()) return Annotate(names.status(), "list CDI specs");
  absl::Status first;
  for (const std::string& name : *names) {
    if (claim_uid.empty() || ClaimOfTemporary(name) != claim_uid) continue;
    first.Update(RemoveIfExists(*fs_, JoinPath(directory_, name)));
  }
  return Annotate(first, "remove a temporary CDI file");
}

}  // namespace dra::cdi
