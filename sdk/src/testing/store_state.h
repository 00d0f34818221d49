#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "dra/testing/object_store.h"
#include "nlohmann/json.hpp"
#include "testing/selectors.h"
#include "testing/status_apply.h"

namespace dra::testing {

// One change, as watches see it. `resource` null: a bookmark for everybody.
struct StoreChange {
  int64_t revision = 0;
  const kube::Resource* resource = nullptr;
  Json before;  // null: was not there
  Json after;   // null: deleted
};

// "<namespace>/<name>": the order of a list.
using ObjectKey = std::string;

struct ObjectStore::State {
  mutable absl::Mutex mutex;
  mutable absl::CondVar changed;  // after each change of what stands here
  ServerProfile profile ABSL_GUARDED_BY(mutex);
  Clock* clock = nullptr;  // never null after construction

  std::map<std::string, std::map<ObjectKey, Json>> objects ABSL_GUARDED_BY(mutex);  // by plural
  std::map<std::string, StatusOwners> owners ABSL_GUARDED_BY(mutex);                // by claim uid
  int64_t revision ABSL_GUARDED_BY(mutex) = 1;
  int64_t compacted ABSL_GUARDED_BY(mutex) = 0;  // positions before it are gone
  std::deque<std::shared_ptr<const StoreChange>> history ABSL_GUARDED_BY(mutex);
  int64_t watch_epoch ABSL_GUARDED_BY(mutex) = 0;  // raised to cut all watches
  int open_watches ABSL_GUARDED_BY(mutex) = 0;

  // Stores (or with a null `after` removes), counts the revision into the object, records the change, wakes.
  Json Commit(const kube::Resource& resource, const ObjectKey& key, Json after)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  const Json* Lookup(const kube::Resource& resource, const ObjectKey& key) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

// The served kind with this group and plural, or null.
const kube::Resource* FindServed(const kube::Resource& resource);
ObjectKey KeyOf(absl::string_view namespace_name, absl::string_view name);

absl::StatusOr<std::unique_ptr<StoreWatch>> OpenWatch(std::shared_ptr<ObjectStore::State> state,
                                                      const kube::Resource& resource,
                                                      absl::string_view namespace_name,
                                                      const StoreQuery& query);

}  // namespace dra::testing
