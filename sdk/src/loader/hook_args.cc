#include "loader/hook_args.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "loader/payload.h"
#include "nlohmann/json.hpp"

namespace dra::loader {
namespace {

int32_t ToField(FieldSupport support) {
  switch (support) {
    case FieldSupport::kKept:
      return DRA_FIELD_KEPT;
    case FieldSupport::kDropped:
      return DRA_FIELD_DROPPED;
    case FieldSupport::kUnknown:
      break;
  }
  return DRA_FIELD_UNKNOWN;
}

std::string DevicesJson(const std::vector<PrepareDevice>& devices) {
  Json array = Json::array();
  for (const PrepareDevice& device : devices) {
    array.push_back({{"result", device.result},
                     {"identity", device.identity},
                     {"configs", device.configs.is_array() ? device.configs : Json::array()}});
  }
  return DumpJson(array);
}

}  // namespace

ClaimTexts::ClaimTexts(const ClaimIdentity& claim, const std::vector<PrepareDevice>& claim_devices,
                       std::string claim_undo, const std::vector<OtherClaim>& other_claims)
    : namespace_name(claim.namespace_name),
      name(claim.name),
      uid(claim.uid),
      devices(DevicesJson(claim_devices)),
      undo(std::move(claim_undo)),
      others(OthersJson(other_claims)) {}

dra_claim ClaimTexts::Claim() const {
  dra_claim claim = {};
  claim.struct_size = sizeof(claim);
  claim.namespace_name = View(namespace_name);
  claim.name = View(name);
  claim.uid = View(uid);
  return claim;
}

dra_discover_args MakeDiscoverArgs(const ServerFields& fields, const std::string& held) {
  dra_discover_args args = {};
  args.struct_size = sizeof(args);
  args.counters = ToField(fields.counters);
  args.multiple_allocations = ToField(fields.multiple_allocations);
  args.taints = ToField(fields.taints);
  args.binding_conditions = ToField(fields.binding_conditions);
  args.list_attributes = ToField(fields.list_attributes);
  args.node_allocatable = ToField(fields.node_allocatable);
  args.skip_node_operations = ToField(fields.skip_node_operations);
  args.held_json = View(held);
  return args;
}

std::string OthersJson(const std::vector<OtherClaim>& others) {
  Json array = Json::array();
  for (const OtherClaim& other : others) {
    Json item = {{"claimUID", other.claim_uid},
                 {"device", other.device},
                 {"adminAccess", other.admin_access}};
    if (other.share_id) item["shareID"] = *other.share_id;
    array.push_back(std::move(item));
  }
  return DumpJson(array);
}

absl::Status CheckConfigKind(const Manifest& manifest, const Json& parameters) {
  const std::string api_version = StringOr(parameters, "apiVersion");
  const std::string kind = StringOr(parameters, "kind");
  std::string known;
  for (const Manifest::ConfigKind& entry : manifest.config_kinds) {
    if (entry.api_version == api_version && entry.kind == kind) return absl::OkStatus();
    absl::StrAppend(&known, known.empty() ? "" : ", ", entry.api_version, " ", entry.kind);
  }
  return absl::InvalidArgumentError(absl::StrCat("parameters: unknown apiVersion \"", api_version,
                                                 "\" with kind \"", kind,
                                                 "\"; known: ", known.empty() ? "none" : known));
}

}  // namespace dra::loader
