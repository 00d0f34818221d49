#include "driver/kubelet_checkpoint.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/json.h"
#include "dra/base/status.h"
#include "nlohmann/json.hpp"

namespace dra::driver {
namespace {

constexpr char kFile[] = "dra_manager_state";
constexpr char kKind[] = "DRACheckpoint";
constexpr char kApiVersion[] = "checkpoint.dra.kubelet.k8s.io/v1";

bool IsOf(const Json& entry, absl::string_view driver_name) {
  const Json* drivers = Find(entry, "DriverState");
  if (drivers == nullptr || !drivers->is_object() || drivers->empty()) return true;
  return drivers->contains(std::string(driver_name));
}

}  // namespace

absl::StatusOr<std::vector<loader::ClaimIdentity>> ParseKubeletCheckpoint(
    absl::string_view text, absl::string_view driver_name) {
  const absl::StatusOr<Json> outer = ParseJsonObject(std::string(text), kFile);
  if (!outer.ok()) return absl::DataLossError(outer.status().message());
  const Json* data = Find(*outer, "Data");
  if (data == nullptr || !data->is_string()) {
    return absl::DataLossError(absl::StrCat(kFile, ": Data must be a string"));
  }
  const absl::StatusOr<Json> inner =
      ParseJsonObject(data->get<std::string>(), absl::StrCat(kFile, ": Data"));
  if (!inner.ok()) return absl::DataLossError(inner.status().message());
  if (StringOr(*inner, "kind") != kKind || StringOr(*inner, "apiVersion") != kApiVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        kFile, ": kind \"", StringOr(*inner, "kind"), "\" of version \"",
        StringOr(*inner, "apiVersion"), "\" is not known, only ", kKind, " of ", kApiVersion));
  }
  std::vector<loader::ClaimIdentity> claims;
  const Json* list = Find(*inner, "ClaimInfoStateList");
  if (list == nullptr || list->is_null()) return claims;  // Go writes an empty list as null
  if (!list->is_array()) {
    return absl::DataLossError(absl::StrCat(kFile, ": ClaimInfoStateList must be an array"));
  }
  for (const Json& entry : *list) {
    loader::ClaimIdentity claim = {StringOr(entry, "Namespace"), StringOr(entry, "ClaimName"),
                                   StringOr(entry, "ClaimUID")};
    if (claim.uid.empty() || claim.name.empty() || claim.namespace_name.empty()) {
      // Half understood is not understood: the claim that is missed could be the one asked about.
      return absl::DataLossError(
          absl::StrCat(kFile, ": an entry without ClaimUID, ClaimName or Namespace"));
    }
    if (IsOf(entry, driver_name)) claims.push_back(std::move(claim));
  }
  return claims;
}

KubeletCheckpoint::KubeletCheckpoint(FileSystem* fs, absl::string_view kubelet_root,
                                     std::string driver_name)
    : fs_(fs), path_(JoinPath(kubelet_root, kFile)), driver_name_(std::move(driver_name)) {}

absl::StatusOr<std::vector<loader::ClaimIdentity>> KubeletCheckpoint::PreparedClaims() {
  const absl::StatusOr<std::string> text = fs_->ReadFile(path_);
  if (!text.ok()) return Annotate(text.status(), "read the kubelet's state");
  return ParseKubeletCheckpoint(*text, driver_name_);
}

}  // namespace dra::driver
