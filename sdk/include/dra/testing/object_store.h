#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/json.h"
#include "dra/kube/api_client.h"
#include "dra/testing/server_profile.h"

namespace dra::testing {

const kube::Resource& ResourceClaimTemplates();
const kube::Resource& Namespaces();
// Every kind the doubles serve.
const std::vector<kube::Resource>& ServedResources();

struct StoreList {
  std::string resource_version;
  std::vector<Json> items;
  std::string continue_token;  // "" = that was all
  int64_t remaining = 0;       // items behind the token
};
struct StoreQuery {
  std::string field_selector;
  std::string label_selector;
  std::string resource_version;
  std::string continue_token;
  int64_t limit = 0;            // 0 = no limit
  bool bookmarks = false;       // of a watch
  bool initial_events = false;  // of a watch: the state first, ended by an annotated bookmark
};

// One line of a watch: type is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR (object is a Status then).
struct StoreEvent {
  std::string type;
  Json object;
};

// One watch on an ObjectStore. One thread at a time.
class StoreWatch {
 public:
  virtual ~StoreWatch() = default;
  // The next event; nullopt if none came within `patience` or `stop` was requested. OutOfRange: 410, the position has
  // been compacted away. Cancelled: the watch was cut; it gives nothing more.
  virtual absl::StatusOr<std::optional<StoreEvent>> Next(absl::Duration patience,
                                                         const std::stop_token& stop) = 0;
  // The bookmark of where this watch stands.
  virtual StoreEvent Bookmark() = 0;
};

// What a kube-apiserver stores and refuses, for resource.k8s.io/v1, Node, Pod, Namespace and Event: optimistic locking,
// generated names, generation, gated fields dropped, limits refused with their field paths, selectors, watch history,
// server-side apply of a claim's status.devices. docs/test-doubles.md lists the rules. Any thread.
//
// Every refusal is a status with the kube::ApiError the real server would send.
class ObjectStore {
 public:
  // clock gives creationTimestamp and timeAdded; null: the system's. It outlives this.
  explicit ObjectStore(ServerProfile profile = {}, Clock* clock = nullptr);
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  const ServerProfile& profile() const;
  // Another server version or other gates from now on; what is stored stays as it is.
  void SetProfile(ServerProfile profile);

  // -- as a client of the API, with every check --
  absl::StatusOr<Json> Get(const kube::Resource& resource, absl::string_view namespace_name,
                           absl::string_view name) const;
  absl::StatusOr<StoreList> List(const kube::Resource& resource, absl::string_view namespace_name,
                                 const StoreQuery& query) const;
  absl::StatusOr<std::unique_ptr<StoreWatch>> Watch(const kube::Resource& resource,
                                                    absl::string_view namespace_name,
                                                    const StoreQuery& query) const;
  absl::StatusOr<Json> Create(const kube::Resource& resource, absl::string_view namespace_name,
                              const Json& object, bool dry_run = false);
  // subresource: "" or "status".
  absl::StatusOr<Json> Update(const kube::Resource& resource, absl::string_view namespace_name,
                              absl::string_view name, absl::string_view subresource,
                              const Json& object, bool dry_run = false);
  absl::StatusOr<Json> MergePatch(const kube::Resource& resource, absl::string_view namespace_name,
                                  absl::string_view name, absl::string_view subresource,
                                  const Json& patch, bool dry_run = false);
  absl::StatusOr<Json> Apply(const kube::Resource& resource, absl::string_view namespace_name,
                             absl::string_view name, absl::string_view subresource,
                             absl::string_view field_manager, bool force, const Json& object,
                             bool dry_run = false);
  absl::Status Delete(const kube::Resource& resource, absl::string_view namespace_name,
                      absl::string_view name, const kube::DeleteOptions& options,
                      bool dry_run = false);
  // The number of objects deleted.
  absl::StatusOr<int> DeleteCollection(const kube::Resource& resource,
                                       absl::string_view namespace_name, const StoreQuery& query);

  // -- as the rest of the cluster, for tests: no checks --
  // Stores as it stands (kinds and names from the object); uid, creationTimestamp and generation are filled in where
  // they are absent, resourceVersion is always new. Returns what is stored.
  Json Put(Json object);
  // True if it was there. No preconditions, no finalizers.
  bool Erase(const kube::Resource& resource, absl::string_view namespace_name,
             absl::string_view name);
  std::optional<Json> Find(const kube::Resource& resource, absl::string_view namespace_name,
                           absl::string_view name) const;
  // All of a kind, in every namespace, in key order.
  std::vector<Json> All(const kube::Resource& resource) const;
  // Counts writes that changed something.
  int64_t revision() const;

  // Waits until `predicate` holds: asked at once and after each change. False after `patience`. It may call this store.
  bool WaitFor(const std::function<bool(const ObjectStore&)>& predicate,
               absl::Duration patience = absl::Seconds(10)) const;

  // -- trouble with watches --
  // Ends every open watch without a word.
  void CutWatches();
  // Forgets the history: open watches and older positions get 410.
  void Compact();
  // Sends a bookmark to every watch that asked for them.
  void SendBookmarks();
  int OpenWatches() const;
  bool WaitForWatches(int count, absl::Duration patience = absl::Seconds(10)) const;

  struct State;  // of the implementation

 private:
  const std::shared_ptr<State> state_;
};

}  // namespace dra::testing
