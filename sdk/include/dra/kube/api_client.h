#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dra/base/call.h"
#include "dra/base/json.h"
#include "nlohmann/json.hpp"

namespace dra::kube {

// One kind of object of the API, as it stands in a URL. For core v1, group is "".
struct Resource {
  std::string group;    // "resource.k8s.io", "" for core
  std::string version;  // "v1"
  std::string plural;   // "resourceslices"
  std::string kind;     // "ResourceSlice"
  bool namespaced = false;
};

// resource.k8s.io/v1 and what else a driver touches.
const Resource& ResourceSlices();
const Resource& ResourceClaims();
const Resource& DeviceClasses();
const Resource& Nodes();
const Resource& Pods();
const Resource& Events();  // events.k8s.io/v1

// A failure as the API server described it. Attached to every absl::Status that an HTTP answer caused.
struct ApiError {
  struct Cause {
    std::string reason;  // "FieldValueInvalid"
    std::string field;   // "spec.devices[3].attributes[model].string"
    std::string message;
  };
  int http_code = 0;  // 0: no HTTP answer (connection, TLS, time-out)
  std::string
      reason;  // "NotFound", "Conflict", "Invalid", "Expired", ... ; "" if the body was no Status
  std::string message;
  std::vector<Cause> causes;
  std::optional<absl::Duration> retry_after;
};
// The ApiError of a status, or nullopt if it did not come from an API call. It survives Annotate.
// Codes: 400 and 422 InvalidArgument, 401 Unauthenticated, 403 PermissionDenied, 404 NotFound, 409 AlreadyExists
// (reason AlreadyExists) or Aborted, 410 OutOfRange, 413 InvalidArgument, 429, 5xx and no answer Unavailable (504 and
// time-outs DeadlineExceeded), an answer that is not JSON or not the wanted kind DataLoss.
std::optional<ApiError> ApiErrorOf(const absl::Status& status);
absl::Status MakeApiStatus(const ApiError& error, absl::string_view context);
// True for failures that may pass by themselves: no answer, 429, 5xx, 409 that is not AlreadyExists.
bool IsTransient(const absl::Status& status);

struct ListOptions {
  std::string field_selector;
  std::string label_selector;
};
struct ListResult {
  std::string resource_version;
  std::vector<Json> items;
};
struct WriteOptions {
  bool dry_run = false;
  std::string field_validation = "Warn";  // "Strict" in tests
};
struct DeleteOptions {
  std::string uid;               // precondition, "" = none
  std::string resource_version;  // precondition, "" = none
};

struct WatchEvent {
  enum class Type { kAdded, kModified, kDeleted, kBookmark };
  Type type = Type::kAdded;
  Json object;
};
struct WatchOptions {
  std::string field_selector;
  std::string label_selector;
  std::string resource_version;  // where to start
  std::function<void()>
      on_open;  // may be empty; called once, when the server has accepted the watch
};

// The API server, as the layers above see it. Every call blocks until it has an answer, call.deadline has passed or
// call.stop is requested; without a deadline a default of 30 s applies (not to Watch). Retries of 401 with a fresh
// token happen inside; everything else is the caller's. Any thread, concurrently.
class ApiClient {
 public:
  virtual ~ApiClient() = default;

  // namespace_name is "" for cluster-scoped kinds.
  virtual absl::StatusOr<Json> Get(const Resource& resource, absl::string_view namespace_name,
                                   absl::string_view name, const Call& call) = 0;
  // Follows `continue` tokens to the end; a 410 on the way restarts once.
  virtual absl::StatusOr<ListResult> List(const Resource& resource,
                                          absl::string_view namespace_name,
                                          const ListOptions& options, const Call& call) = 0;
  // Reads one watch stream and hands each event to `on_event`, in this thread, until the stream ends: OK for an
  // orderly end (the caller watches again from the last resource version), OutOfRange for 410 in either form (list
  // again), Cancelled, or the error. Bookmarks are requested and delivered. A silent stream ends after `silence`
  // with DeadlineExceeded.
  virtual absl::Status Watch(const Resource& resource, absl::string_view namespace_name,
                             const WatchOptions& options,
                             const std::function<void(const WatchEvent&)>& on_event,
                             const Call& call) = 0;
  virtual absl::StatusOr<Json> Create(const Resource& resource, absl::string_view namespace_name,
                                      const Json& object, const WriteOptions& options,
                                      const Call& call) = 0;
  // PUT; object.metadata.resourceVersion is the precondition.
  virtual absl::StatusOr<Json> Update(const Resource& resource, absl::string_view namespace_name,
                                      absl::string_view name, const Json& object,
                                      const WriteOptions& options, const Call& call) = 0;
  virtual absl::Status Delete(const Resource& resource, absl::string_view namespace_name,
                              absl::string_view name, const DeleteOptions& options,
                              const Call& call) = 0;
  // Server-side apply with force. `subresource` is "" or "status".
  virtual absl::StatusOr<Json> Apply(const Resource& resource, absl::string_view namespace_name,
                                     absl::string_view name, absl::string_view subresource,
                                     absl::string_view field_manager, const Json& object,
                                     const Call& call) = 0;
  // GET of any path ("/apis/resource.k8s.io", "/version"); the answer must be a JSON object. Used by discovery.
  virtual absl::StatusOr<Json> GetRaw(absl::string_view path, const Call& call);
};

}  // namespace dra::kube
