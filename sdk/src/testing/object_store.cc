#include "dra/testing/object_store.h"

#include <algorithm>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"
#include "dra/resource/names.h"
#include "testing/admission.h"
#include "testing/api_errors.h"
#include "testing/store_state.h"

namespace dra::testing {
namespace {

using kube::Resource;

SystemClock* TheSystemClock() {
  static SystemClock clock;  // stateless
  return &clock;
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

bool CountsGeneration(const Resource& resource) {
  return resource.plural == "resourceslices" || resource.plural == "deviceclasses";
}
bool HasStatus(const Resource& resource) {
  return resource.plural == "resourceclaims" || resource.plural == "pods" ||
         resource.plural == "nodes" || resource.plural == "namespaces";
}
// Kinds whose status a create through the API does not set.
bool ResetsStatus(const Resource& resource) { return resource.plural == "resourceclaims"; }

// What a generated name ends with; vowels are left out so that no words come about.
std::string RandomSuffix() {
  constexpr absl::string_view kAlphabet = "bcdfghjklmnpqrstvwxz2456789";
  absl::BitGen generator;
  std::string suffix;
  for (int i = 0; i < 5; ++i)
    suffix += kAlphabet[absl::Uniform<size_t>(generator, 0, kAlphabet.size())];
  return suffix;
}

std::string ApiVersionOf(const Resource& resource) {
  return resource.group.empty() ? resource.version
                                : absl::StrCat(resource.group, "/", resource.version);
}

// The body of a write: an object of the kind, in the namespace and of the name of the URL.
absl::Status CheckBody(const Resource& resource, absl::string_view namespace_name,
                       absl::string_view name, Json& object) {
  if (!object.is_object()) return BadRequestError("the body is no JSON object");
  if (StringOr(object, "kind", resource.kind) != resource.kind ||
      StringOr(object, "apiVersion", ApiVersionOf(resource)) != ApiVersionOf(resource)) {
    return BadRequestError(absl::StrCat(StringOr(object, "apiVersion"),
                                        ", Kind=", StringOr(object, "kind"), " in version \"",
                                        ApiVersionOf(resource), "\" is not ", resource.kind));
  }
  object["kind"] = resource.kind;
  object["apiVersion"] = ApiVersionOf(resource);
  if (!object.contains("metadata")) object["metadata"] = Json::object();
  Json& metadata = object["metadata"];
  if (!metadata.is_object()) return BadRequestError("metadata is no object");
  for (const char* member : {"name", "generateName", "namespace", "uid", "resourceVersion"}) {
    const Json* value = Find(metadata, member);
    if (value != nullptr && !value->is_string() && !value->is_null()) {
      return BadRequestError(absl::StrCat("metadata.", member, " is no string"));
    }
  }
  const std::string in_body = StringOr(metadata, "namespace");
  if (resource.namespaced) {
    if (namespace_name.empty()) return BadRequestError("the request needs a namespace");
    if (!in_body.empty() && in_body != namespace_name) {
      return BadRequestError(
          "the namespace of the provided object does not match the namespace sent on the request");
    }
    metadata["namespace"] = std::string(namespace_name);
  } else {
    metadata.erase("namespace");
  }
  if (!name.empty() && !StringOr(metadata, "name").empty() && StringOr(metadata, "name") != name) {
    return BadRequestError(absl::StrCat("the name of the object (", StringOr(metadata, "name"),
                                        ") does not match the name on the URL (", std::string(name),
                                        ")"));
  }
  return absl::OkStatus();
}

absl::Status Prepare(const Resource& resource, const ServerProfile& profile, absl::Time now,
                     const Json& before, Json& object) {
  if (resource.plural == "resourceslices") return PrepareSlice(profile, now, before, object);
  if (resource.plural == "resourceclaims") return PrepareClaim(profile, before, object);
  return absl::OkStatus();
}

absl::Status Validate(const Resource& resource, const ServerProfile& profile, const Json& before,
                      const Json& object, absl::string_view subresource) {
  Causes causes;
  const std::string name = StringOr(object["metadata"], "name");
  if (before.is_null() && !resource::CheckDnsSubdomain(name).ok()) {
    causes.push_back(
        {"FieldValueInvalid", "metadata.name",
         absl::StrCat("Invalid value: \"", name, "\": a lowercase RFC 1123 subdomain is wanted")});
  }
  const auto add = [&](Causes more) { causes.insert(causes.end(), more.begin(), more.end()); };
  if (resource.plural == "resourceslices") add(ValidateSlice(profile, before, object));
  if (resource.plural == "resourceclaims") {
    add(subresource == "status" ? ValidateClaimStatus(profile, before, object)
                                : ValidateClaim(profile, before, object));
  }
  if (resource.plural == "resourceclaimtemplates" && !before.is_null() &&
      At(before, {"spec"}) != At(object, {"spec"})) {
    causes.push_back({"FieldValueInvalid", "spec", "field is immutable"});
  }
  if (causes.empty()) return absl::OkStatus();
  return InvalidError(resource, name, std::move(causes));
}

// Without what the server itself writes: equal texts mean that an update changes nothing.
Json WithoutVersion(Json object) {
  object["metadata"].erase("resourceVersion");
  object["metadata"].erase("generation");
  object["metadata"].erase("managedFields");
  return object;
}

}  // namespace

const Resource& ResourceClaimTemplates() {
  static const Resource resource{"resource.k8s.io", "v1", "resourceclaimtemplates",
                                 "ResourceClaimTemplate", true};
  return resource;
}
const Resource& Namespaces() {
  static const Resource resource{"", "v1", "namespaces", "Namespace", false};
  return resource;
}
const std::vector<Resource>& ServedResources() {
  static const std::vector<Resource> all = {
      kube::ResourceSlices(), kube::ResourceClaims(), ResourceClaimTemplates(),
      kube::DeviceClasses(),  kube::Nodes(),          kube::Pods(),
      Namespaces(),           kube::Events()};
  return all;
}

const Resource* FindServed(const Resource& resource) {
  for (const Resource& served : ServedResources()) {
    if (served.group == resource.group && served.version == resource.version &&
        served.plural == resource.plural) {
      return &served;
    }
  }
  return nullptr;
}

ObjectKey KeyOf(absl::string_view namespace_name, absl::string_view name) {
  return absl::StrCat(std::string(namespace_name), "/", std::string(name));
}

const Json* ObjectStore::State::Lookup(const Resource& resource, const ObjectKey& key) const {
  const auto kind = objects.find(resource.plural);
  if (kind == objects.end()) return nullptr;
  const auto found = kind->second.find(key);
  return found == kind->second.end() ? nullptr : &found->second;
}

Json ObjectStore::State::Commit(const Resource& resource, const ObjectKey& key, Json after) {
  auto change = std::make_shared<StoreChange>();
  change->revision = ++revision;
  change->resource = FindServed(resource);
  const Json* before = Lookup(resource, key);
  if (before != nullptr) change->before = *before;
  if (after.is_null()) {
    if (before != nullptr) owners.erase(StringOr((*before)["metadata"], "uid"));
    objects[resource.plural].erase(key);
  } else {
    after["metadata"]["resourceVersion"] = absl::StrCat(revision);
    objects[resource.plural][key] = after;
  }
  change->after = after;
  history.push_back(std::move(change));
  constexpr size_t kHistory = 20000;
  if (history.size() > kHistory) {
    compacted = history.front()->revision;
    history.pop_front();
  }
  changed.SignalAll();
  return after;
}

ObjectStore::ObjectStore(ServerProfile profile, Clock* clock) : state_(std::make_shared<State>()) {
  absl::MutexLock lock(&state_->mutex);
  state_->profile = std::move(profile);
  state_->clock = clock != nullptr ? clock : TheSystemClock();
}

ObjectStore::~ObjectStore() { CutWatches(); }

const ServerProfile& ObjectStore::profile() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->profile;
}

void ObjectStore::SetProfile(ServerProfile profile) {
  absl::MutexLock lock(&state_->mutex);
  state_->profile = std::move(profile);
}

absl::StatusOr<Json> ObjectStore::Get(const Resource& resource, absl::string_view namespace_name,
                                      absl::string_view name) const {
  absl::MutexLock lock(&state_->mutex);
  if (FindServed(resource) == nullptr) return NoSuchResourceError();
  const Json* found = state_->Lookup(resource, KeyOf(namespace_name, name));
  if (found == nullptr) return NotFoundError(resource, name);
  return *found;
}

absl::StatusOr<StoreList> ObjectStore::List(const Resource& resource,
                                            absl::string_view namespace_name,
                                            const StoreQuery& query) const {
  absl::MutexLock lock(&state_->mutex);
  if (FindServed(resource) == nullptr) return NoSuchResourceError();
  DRA_ASSIGN_OR_RETURN(
      const Selector selector,
      Selector::Parse(resource, state_->profile, query.field_selector, query.label_selector));
  StoreList list;
  list.resource_version = absl::StrCat(state_->revision);
  std::string after_key;
  if (!query.continue_token.empty()) {
    const size_t colon = query.continue_token.find(':');
    int64_t at = 0;
    if (colon == std::string::npos ||
        !absl::SimpleAtoi(query.continue_token.substr(0, colon), &at)) {
      return BadRequestError("continue key is not valid");
    }
    if (at < state_->compacted) {
      return ExpiredError(
          "The provided continue parameter is too old to display a consistent list result");
    }
    after_key = query.continue_token.substr(colon + 1);
    list.resource_version = absl::StrCat(at);
  } else if (!query.resource_version.empty()) {
    int64_t wanted = 0;
    if (!absl::SimpleAtoi(query.resource_version, &wanted)) {
      return BadRequestError(absl::StrCat("invalid resource version: ", query.resource_version));
    }
    if (wanted > state_->revision) {
      return OtherError(
          504, "Timeout",
          absl::StrCat("Too large resource version: ", wanted, ", current: ", state_->revision));
    }
  }
  const auto kind = state_->objects.find(resource.plural);
  if (kind == state_->objects.end()) return list;
  const std::string prefix =
      namespace_name.empty() ? "" : absl::StrCat(std::string(namespace_name), "/");
  std::string last;
  for (const auto& [key, object] : kind->second) {
    if (!after_key.empty() && key <= after_key) continue;
    if (key.compare(0, prefix.size(), prefix) != 0 || !selector.Matches(object)) continue;
    if (query.limit > 0 && static_cast<int64_t>(list.items.size()) >= query.limit) {
      list.continue_token = absl::StrCat(list.resource_version, ":", last);
      ++list.remaining;
      continue;
    }
    list.items.push_back(object);
    last = key;
  }
  return list;
}

absl::StatusOr<std::unique_ptr<StoreWatch>> ObjectStore::Watch(const Resource& resource,
                                                               absl::string_view namespace_name,
                                                               const StoreQuery& query) const {
  return OpenWatch(state_, resource, namespace_name, query);
}

absl::StatusOr<Json> ObjectStore::Create(const Resource& resource, absl::string_view namespace_name,
                                         const Json& object, bool dry_run) {
  absl::MutexLock lock(&state_->mutex);
  if (FindServed(resource) == nullptr) return NoSuchResourceError();
  Json created = object;
  DRA_RETURN_IF_ERROR(CheckBody(resource, namespace_name, "", created));
  Json& metadata = created["metadata"];
  if (!StringOr(metadata, "resourceVersion").empty()) {
    return BadRequestError("resourceVersion should not be set on objects to be created");
  }
  std::string name = StringOr(metadata, "name");
  const std::string prefix = StringOr(metadata, "generateName");
  if (name.empty()) {
    if (prefix.empty()) {
      return InvalidError(resource, "",
                          {{"FieldValueRequired", "metadata.name",
                            "Required value: name or generateName is required"}});
    }
    name = absl::StrCat(prefix.substr(0, 58), RandomSuffix());
    metadata["name"] = name;
  }
  const absl::Time now = state_->clock->Now();
  if (ResetsStatus(resource)) created.erase("status");
  DRA_RETURN_IF_ERROR(Prepare(resource, state_->profile, now, Json(), created));
  DRA_RETURN_IF_ERROR(Validate(resource, state_->profile, Json(), created, ""));
  const ObjectKey key = KeyOf(namespace_name, name);
  if (state_->Lookup(resource, key) != nullptr) return AlreadyExistsError(resource, name);
  metadata["uid"] = NewUuid();
  metadata["creationTimestamp"] = TimeText(now);
  if (CountsGeneration(resource)) metadata["generation"] = 1;
  if (dry_run) return created;
  return state_->Commit(resource, key, std::move(created));
}

absl::StatusOr<Json> ObjectStore::Update(const Resource& resource, absl::string_view namespace_name,
                                         absl::string_view name, absl::string_view subresource,
                                         const Json& object, bool dry_run) {
  absl::MutexLock lock(&state_->mutex);
  if (FindServed(resource) == nullptr) return NoSuchResourceError();
  if (!subresource.empty() && (subresource != "status" || !HasStatus(resource)))
    return NoSuchResourceError();
  Json updated = object;
  DRA_RETURN_IF_ERROR(CheckBody(resource, namespace_name, name, updated));
  const ObjectKey key = KeyOf(namespace_name, name);
  const Json* found = state_->Lookup(resource, key);
  if (found == nullptr) return NotFoundError(resource, name);
  const Json before = *found;
  Json& metadata = updated["metadata"];
  const Json& old_metadata = before["metadata"];
  const std::string uid = StringOr(metadata, "uid");
  if (!uid.empty() && uid != StringOr(old_metadata, "uid")) {
    return ConflictError(resource, name,
                         absl::StrCat("Precondition failed: UID in precondition: ", uid,
                                      ", UID in object meta: ", StringOr(old_metadata, "uid")));
  }
  const std::string version = StringOr(metadata, "resourceVersion");
  if (!version.empty() && version != StringOr(old_metadata, "resourceVersion"))
    return ModifiedError(resource, name);
  if (subresource == "status") {
    Json status = updated.contains("status") ? updated["status"] : Json::object();
    updated = before;
    updated["status"] = std::move(status);
    if (resource.plural == "resourceclaims") PruneDeviceStatuses(before, updated);
  } else if (HasStatus(resource)) {
    updated.erase("status");
    if (before.contains("status")) updated["status"] = before["status"];
  }
  updated["metadata"]["name"] = std::string(name);
  for (const char* member :
       {"uid", "creationTimestamp", "generation", "deletionTimestamp", "resourceVersion"}) {
    updated["metadata"].erase(member);
    if (old_metadata.contains(member)) updated["metadata"][member] = old_metadata[member];
  }
  DRA_RETURN_IF_ERROR(Prepare(resource, state_->profile, state_->clock->Now(), before, updated));
  DRA_RETURN_IF_ERROR(Validate(resource, state_->profile, before, updated, subresource));
  if (WithoutVersion(before) == WithoutVersion(updated)) return before;  // no write, no new version
  if (CountsGeneration(resource) && At(before, {"spec"}) != At(updated, {"spec"})) {
    updated["metadata"]["generation"] = IntOr(old_metadata, "generation") + 1;
  }
  if (dry_run) return updated;
  const bool finalized = updated["metadata"].contains("deletionTimestamp") &&
                         At(updated, {"metadata", "finalizers"}).empty();
  if (finalized) {
    state_->Commit(resource, key, Json());
    return updated;
  }
  return state_->Commit(resource, key, std::move(updated));
}

absl::StatusOr<Json> ObjectStore::MergePatch(const Resource& resource,
                                             absl::string_view namespace_name,
                                             absl::string_view name, absl::string_view subresource,
                                             const Json& patch, bool dry_run) {
  if (!patch.is_object()) return BadRequestError("the patch is no JSON object");
  DRA_ASSIGN_OR_RETURN(Json object, Get(resource, namespace_name, name));
  // As the server does: a patch without a version is never a conflict with another writer, it is tried again.
  for (int attempt = 0;; ++attempt) {
    Json patched = object;
    patched.merge_patch(patch);
    absl::StatusOr<Json> result =
        Update(resource, namespace_name, name, subresource, patched, dry_run);
    const bool own_version = At(patch, {"metadata", "resourceVersion"}).is_string();
    if (result.ok() || own_version || attempt == 5 || !absl::IsAborted(result.status()))
      return result;
    DRA_ASSIGN_OR_RETURN(object, Get(resource, namespace_name, name));
  }
}

absl::Status ObjectStore::Delete(const Resource& resource, absl::string_view namespace_name,
                                 absl::string_view name, const kube::DeleteOptions& options,
                                 bool dry_run) {
  absl::MutexLock lock(&state_->mutex);
  if (FindServed(resource) == nullptr) return NoSuchResourceError();
  const ObjectKey key = KeyOf(namespace_name, name);
  const Json* found = state_->Lookup(resource, key);
  if (found == nullptr) return NotFoundError(resource, name);
  const Json& metadata = (*found)["metadata"];
  if (!options.uid.empty() && options.uid != StringOr(metadata, "uid")) {
    return ConflictError(
        resource, name,
        absl::StrCat("the UID in the precondition (", options.uid,
                     ") does not match the UID in record (", StringOr(metadata, "uid"), ")"));
  }
  if (!options.resource_version.empty() &&
      options.resource_version != StringOr(metadata, "resourceVersion")) {
    return ConflictError(
        resource, name,
        absl::StrCat("the ResourceVersion in the precondition (", options.resource_version,
                     ") does not match the ResourceVersion in record (",
                     StringOr(metadata, "resourceVersion"), ")"));
  }
  if (dry_run) return absl::OkStatus();
  if (!At(*found, {"metadata", "finalizers"}).empty()) {
    if (metadata.contains("deletionTimestamp")) return absl::OkStatus();
    Json marked = *found;
    marked["metadata"]["deletionTimestamp"] = TimeText(state_->clock->Now());
    state_->Commit(resource, key, std::move(marked));
    return absl::OkStatus();
  }
  state_->Commit(resource, key, Json());
  return absl::OkStatus();
}

absl::StatusOr<int> ObjectStore::DeleteCollection(const Resource& resource,
                                                  absl::string_view namespace_name,
                                                  const StoreQuery& query) {
  DRA_ASSIGN_OR_RETURN(const StoreList list, List(resource, namespace_name, query));
  int deleted = 0;
  for (const Json& item : list.items) {
    kube::DeleteOptions options;
    options.uid = StringOr(item["metadata"], "uid");
    if (Delete(resource, StringOr(item["metadata"], "namespace"),
               StringOr(item["metadata"], "name"), options)
            .ok()) {
      ++deleted;
    }
  }
  return deleted;
}

}  // namespace dra::testing
