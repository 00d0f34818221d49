// Server-side apply, and what tests do with the store directly.
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "dra/base/ids.h"
#include "dra/base/status.h"
#include "testing/admission.h"
#include "testing/api_errors.h"
#include "testing/store_state.h"

namespace dra::testing {

using kube::Resource;

absl::StatusOr<Json> ObjectStore::Apply(const Resource& resource, absl::string_view namespace_name,
                                        absl::string_view name, absl::string_view subresource,
                                        absl::string_view field_manager, bool force,
                                        const Json& object, bool dry_run) {
  if (FindServed(resource) == nullptr) return NoSuchResourceError();
  if (field_manager.empty()) {
    return BadRequestError(
        "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for "
        "apply patch");
  }
  if (!object.is_object() || StringOr(object, "kind") != resource.kind ||
      StringOr(object, "apiVersion").empty()) {
    return BadRequestError("an applied object needs apiVersion and kind");
  }
  const Json& metadata = At(object, {"metadata"});
  if (StringOr(metadata, "name") != name) {
    return BadRequestError("metadata.name of the applied object does not match the URL");
  }
  if (metadata.contains("managedFields") && !metadata["managedFields"].empty()) {
    return BadRequestError("metadata.managedFields must be nil");
  }
  absl::StatusOr<Json> live = Get(resource, namespace_name, name);
  if (!live.ok()) {
    if (!absl::IsNotFound(live.status()) || !subresource.empty()) return live.status();
    return Create(resource, namespace_name, object, dry_run);
  }
  const bool device_status = resource.plural == "resourceclaims" && subresource == "status";
  for (int attempt = 0;; ++attempt) {
    const std::string uid = StringOr((*live)["metadata"], "uid");
    Json next = *live;
    if (!StringOr(metadata, "uid").empty()) next["metadata"]["uid"] = metadata["uid"];
    if (!StringOr(metadata, "resourceVersion").empty()) {
      next["metadata"]["resourceVersion"] = metadata["resourceVersion"];
    }
    StatusOwners owners;
    if (device_status) {
      {
        absl::MutexLock lock(&state_->mutex);
        const auto found = state_->owners.find(uid);
        if (found != state_->owners.end()) owners = found->second;
      }
      DRA_ASSIGN_OR_RETURN(
          Json devices,
          ApplyDeviceStatuses(resource, name, At(*live, {"status", "devices"}),
                              At(object, {"status", "devices"}), field_manager, force, owners));
      if (!next.contains("status") || !next["status"].is_object()) next["status"] = Json::object();
      if (devices.empty()) {
        next["status"].erase("devices");
      } else {
        next["status"]["devices"] = std::move(devices);
      }
    } else {
      Json patch = object;
      patch.erase("metadata");
      next.merge_patch(patch);
      for (const char* map : {"labels", "annotations"}) {
        if (metadata.contains(map)) next["metadata"][map].merge_patch(metadata[map]);
      }
    }
    absl::StatusOr<Json> result =
        Update(resource, namespace_name, name, subresource, next, dry_run);
    if (result.ok()) {
      if (device_status && !dry_run) {
        absl::MutexLock lock(&state_->mutex);
        state_->owners[uid] = std::move(owners);
      }
      return result;
    }
    // Another writer came between: read and merge again, unless the caller's own preconditions failed.
    const bool own = !StringOr(metadata, "resourceVersion").empty() ||
                     (!StringOr(metadata, "uid").empty() && StringOr(metadata, "uid") != uid);
    if (own || attempt == 5 || !absl::IsAborted(result.status())) return result;
    live = Get(resource, namespace_name, name);
    if (!live.ok()) return live.status();
  }
}

Json ObjectStore::Put(Json object) {
  absl::MutexLock lock(&state_->mutex);
  const Resource* resource = nullptr;
  for (const Resource& served : ServedResources()) {
    if (served.kind == StringOr(object, "kind")) resource = &served;
  }
  if (resource == nullptr) return Json();
  object["apiVersion"] = resource->group.empty()
                             ? resource->version
                             : absl::StrCat(resource->group, "/", resource->version);
  Json& metadata = object["metadata"];
  if (resource->namespaced && StringOr(metadata, "namespace").empty())
    metadata["namespace"] = "default";
  const ObjectKey key = KeyOf(resource->namespaced ? StringOr(metadata, "namespace") : "",
                              StringOr(metadata, "name"));
  const Json* before = state_->Lookup(*resource, key);
  if (StringOr(metadata, "uid").empty()) {
    metadata["uid"] = before != nullptr ? StringOr((*before)["metadata"], "uid") : NewUuid();
  }
  if (!metadata.contains("creationTimestamp")) {
    metadata["creationTimestamp"] =
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", state_->clock->Now(), absl::UTCTimeZone());
  }
  if (!metadata.contains("generation")) {
    metadata["generation"] = before != nullptr ? IntOr((*before)["metadata"], "generation") + 1 : 1;
  }
  return state_->Commit(*resource, key, std::move(object));
}

bool ObjectStore::Erase(const Resource& resource, absl::string_view namespace_name,
                        absl::string_view name) {
  absl::MutexLock lock(&state_->mutex);
  const ObjectKey key = KeyOf(namespace_name, name);
  if (state_->Lookup(resource, key) == nullptr) return false;
  state_->Commit(resource, key, Json());
  return true;
}

std::optional<Json> ObjectStore::Find(const Resource& resource, absl::string_view namespace_name,
                                      absl::string_view name) const {
  absl::MutexLock lock(&state_->mutex);
  const Json* found = state_->Lookup(resource, KeyOf(namespace_name, name));
  if (found == nullptr) return std::nullopt;
  return *found;
}

std::vector<Json> ObjectStore::All(const Resource& resource) const {
  absl::MutexLock lock(&state_->mutex);
  std::vector<Json> all;
  const auto kind = state_->objects.find(resource.plural);
  if (kind == state_->objects.end()) return all;
  for (const auto& [key, object] : kind->second) all.push_back(object);
  return all;
}

int64_t ObjectStore::revision() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->revision;
}

bool ObjectStore::WaitFor(const std::function<bool(const ObjectStore&)>& predicate,
                          absl::Duration patience) const {
  const absl::Time until = absl::Now() + patience;
  for (;;) {
    const int64_t seen = revision();
    if (predicate(*this)) return true;
    absl::MutexLock lock(&state_->mutex);
    while (state_->revision == seen) {
      if (state_->changed.WaitWithDeadline(&state_->mutex, until)) return false;
    }
  }
}

}  // namespace dra::testing
