#include "dra/resource/claim.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"
#include "dra/resource/semantic_equal.h"
#include "resource/field_reader.h"

namespace dra::resource {
namespace {

// Reads members, remembering the first fault. The caller asks Result() before it uses what was read.
class ClaimReader {
 public:
  // `required`: absent and empty are faults.
  std::string Text(const Json& parent, const std::string& path, absl::string_view name,
                   bool required) {
    const std::string* text = reader_.String(parent, path, name);
    if (text != nullptr && (!required || !text->empty())) return *text;
    if (required && (text != nullptr || Member(parent, name) == nullptr))
      reader_.Required(Child(path, name), "");
    return "";
  }
  FieldReader& fields() { return reader_; }

  absl::Status Result(absl::string_view what) {
    const std::vector<FieldError> errors = reader_.Take();
    if (errors.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(what, ": ", JoinFieldErrors(errors)));
  }

 private:
  FieldReader reader_;
};

AllocationResult ReadResult(ClaimReader& reader, const Json& object, const std::string& path) {
  AllocationResult result;
  result.raw = object;
  if (!reader.fields().IsObject(object, path)) return result;
  result.request = reader.Text(object, path, "request", true);
  result.id.driver = reader.Text(object, path, "driver", true);
  result.id.pool = reader.Text(object, path, "pool", true);
  result.id.device = reader.Text(object, path, "device", true);
  if (const std::string share = reader.Text(object, path, "shareID", false); !share.empty())
    result.id.share_id = share;
  result.admin_access = reader.fields().Bool(object, path, "adminAccess").value_or(false);
  const Json* consumed = reader.fields().Object(object, path, "consumedCapacity");
  if (consumed == nullptr) return result;
  for (const auto& [name, value] : consumed->items()) {
    if (reader.fields().AsQuantity(value, Key(Child(path, "consumedCapacity"), name)).has_value()) {
      result.consumed_capacity[name] =
          value.is_string() ? value.get<std::string>() : DumpJson(value);
    }
  }
  return result;
}

DeviceConfiguration ReadConfig(ClaimReader& reader, const Json& object, const std::string& path) {
  DeviceConfiguration config;
  if (!reader.fields().IsObject(object, path)) return config;
  config.source = reader.Text(object, path, "source", false);
  if (const Json* requests = reader.fields().Array(object, path, "requests")) {
    for (size_t i = 0; i < requests->size(); ++i) {
      const std::string* name =
          reader.fields().AsString((*requests)[i], Index(Child(path, "requests"), i));
      if (name != nullptr) config.requests.push_back(*name);
    }
  }
  const Json* opaque = reader.fields().Object(object, path, "opaque");
  if (opaque == nullptr) return config;
  config.has_opaque = true;
  config.driver = reader.Text(*opaque, Child(path, "opaque"), "driver", true);
  if (const Json* parameters = Member(*opaque, "parameters")) config.parameters = *parameters;
  return config;
}

void ReadAllocation(ClaimReader& reader, const Json& allocation, ResourceClaim* claim) {
  claim->allocated = true;
  const std::string path = "status.allocation.devices";
  const Json* devices = reader.fields().Object(allocation, "status.allocation", "devices");
  if (devices == nullptr) return;
  if (const Json* results = reader.fields().Array(*devices, path, "results")) {
    for (size_t i = 0; i < results->size(); ++i) {
      claim->results.push_back(ReadResult(reader, (*results)[i], Index(Child(path, "results"), i)));
    }
  }
  if (const Json* configs = reader.fields().Array(*devices, path, "config")) {
    for (size_t i = 0; i < configs->size(); ++i) {
      claim->configs.push_back(ReadConfig(reader, (*configs)[i], Index(Child(path, "config"), i)));
    }
  }
}

void ReadStatus(ClaimReader& reader, const Json& status, ResourceClaim* claim) {
  if (const Json* allocation = reader.fields().Object(status, "status", "allocation")) {
    ReadAllocation(reader, *allocation, claim);
  }
  if (const Json* consumers = reader.fields().Array(status, "status", "reservedFor")) {
    for (size_t i = 0; i < consumers->size(); ++i) {
      const std::string path = Index("status.reservedFor", i);
      const Json& consumer = (*consumers)[i];
      if (!reader.fields().IsObject(consumer, path)) continue;
      claim->reserved_for.push_back({reader.Text(consumer, path, "apiGroup", false),
                                     reader.Text(consumer, path, "resource", true),
                                     reader.Text(consumer, path, "name", true),
                                     reader.Text(consumer, path, "uid", true)});
    }
  }
  if (const Json* devices = reader.fields().Array(status, "status", "devices"))
    claim->device_statuses = *devices;
}

// Which of the names of `config` covers `result`: nullopt if none does, "" if it is for all requests.
std::optional<std::string> MatchingRequest(const DeviceConfiguration& config,
                                           const AllocationResult& result) {
  if (config.requests.empty()) return "";
  const std::string base = result.BaseRequest();
  std::optional<std::string> match;
  for (const std::string& name : config.requests) {
    if (name == result.request) return name;
    if (name == base) match = name;
  }
  return match;
}

}  // namespace

std::string DeviceId::ToString() const {
  std::string text = absl::StrCat(driver, "/", pool, "/", device);
  if (share_id.has_value()) absl::StrAppend(&text, "/", *share_id);
  return text;
}

std::string AllocationResult::BaseRequest() const { return request.substr(0, request.find('/')); }

absl::StatusOr<ResourceClaim> ParseResourceClaim(const Json& object) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("resource claim: must be an object, is ", object.type_name()));
  }
  if (const std::string kind = StringOr(object, "kind"); !kind.empty() && kind != "ResourceClaim") {
    return absl::InvalidArgumentError(absl::StrCat("resource claim: kind: is \"", kind, "\""));
  }
  ClaimReader reader;
  ResourceClaim claim;
  claim.device_statuses = Json::array();
  const Json none = Json::object();
  const Json* metadata = reader.fields().Object(object, "", "metadata");
  const Json& meta = metadata == nullptr ? none : *metadata;
  claim.namespace_name = reader.Text(meta, "metadata", "namespace", true);
  claim.name = reader.Text(meta, "metadata", "name", true);
  claim.uid = reader.Text(meta, "metadata", "uid", true);
  claim.resource_version = reader.Text(meta, "metadata", "resourceVersion", false);
  if (const Json* annotations = reader.fields().Object(meta, "metadata", "annotations")) {
    for (const auto& [name, value] : annotations->items()) {
      const std::string* text = reader.fields().AsString(value, Key("metadata.annotations", name));
      if (text != nullptr) claim.annotations[name] = *text;
    }
  }
  if (const Json* status = reader.fields().Object(object, "", "status"))
    ReadStatus(reader, *status, &claim);
  DRA_RETURN_IF_ERROR(
      reader.Result(absl::StrCat("resource claim ", claim.namespace_name, "/", claim.name)));
  return claim;
}

absl::StatusOr<std::vector<ResolvedConfig>> ResolveConfigs(const ResourceClaim& claim,
                                                           const AllocationResult& result) {
  std::vector<ResolvedConfig> from_class, from_claim;
  for (size_t i = 0; i < claim.configs.size(); ++i) {
    const DeviceConfiguration& config = claim.configs[i];
    const auto refuse = [i](absl::string_view why) {
      return absl::InvalidArgumentError(
          absl::StrCat("status.allocation.devices.config[", i, "]: ", why));
    };
    if (!config.has_opaque) return refuse("only opaque configuration is known to this driver");
    if (config.driver != result.id.driver) continue;
    const bool is_class = config.source == "FromClass";
    if (!is_class && config.source != "FromClaim") {
      return refuse(absl::StrCat("unknown source \"", config.source,
                                 "\"; known are FromClass and FromClaim"));
    }
    const std::optional<std::string> request = MatchingRequest(config, result);
    if (!request.has_value()) continue;
    (is_class ? from_class : from_claim).push_back({config.source, *request, config.parameters});
  }
  // Users outrank admins, whatever the order in the list.
  from_class.insert(from_class.end(), from_claim.begin(), from_claim.end());
  return from_class;
}

std::string AllocationDigest(const ResourceClaim& claim, absl::string_view driver) {
  Json results = Json::array();
  for (const AllocationResult& result : claim.results) {
    if (result.id.driver == driver) results.push_back(Canonical(result.raw));
  }
  Json configs = Json::array();
  for (const DeviceConfiguration& config : claim.configs) {
    // An entry of an unknown kind may be meant for us.
    if (config.has_opaque && config.driver != driver) continue;
    configs.push_back({{"source", config.source},
                       {"requests", config.requests},
                       {"opaque", config.has_opaque},
                       {"parameters", config.parameters}});
  }
  // Keys of an object are sorted, so equal content has one text.
  return Sha256Hex(DumpJson({{"results", std::move(results)}, {"configs", std::move(configs)}}));
}

}  // namespace dra::resource
