#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "dra/base/clock.h"
#include "dra/base/json.h"
#include "dra/base/logger.h"
#include "dra/kube/api_client.h"
#include "nlohmann/json.hpp"

namespace dra::kube {

struct ReflectorOptions {
  Resource resource;
  std::string namespace_name;  // "" = all
  ListOptions selector;
  // Waits after failures: first, doubled each time up to the last, each drawn from [d, 2d]. A Retry-After of the
  // server is kept at least. Source: kubernetes/client-go:tools/cache/reflector.go.
  absl::Duration min_backoff = absl::Milliseconds(800);
  absl::Duration max_backoff = absl::Seconds(30);
  absl::Duration list_timeout = absl::Seconds(60);
};

// A change of the store. kSynced: the store equals a fresh list now (the first one, and each one after it).
struct Change {
  enum class Type { kAdded, kModified, kDeleted, kSynced };
  Type type = Type::kSynced;
  std::string name;  // key in the store; "" for kSynced
  const Json* object =
      nullptr;  // the new object, for kDeleted the last one; valid during the callback
};

// Keeps a copy of all objects of one kind that match a selector, by list and watch, for ever: resumes cut streams from
// the last resource version, lists again after 410, waits out 429 and failures. Any thread.
class Reflector {
 public:
  using Callback = std::function<void(const Change&)>;
  // Object by key: "name", or "namespace/name" for namespaced kinds.
  using Store = std::map<std::string, Json>;

  // api and clock outlive this. `callback` (may be empty) runs in the reflector's thread with no lock held; it must not
  // call Stop.
  Reflector(ApiClient* api, Clock* clock, Logger logger, ReflectorOptions options,
            Callback callback);
  // Stops.
  ~Reflector();

  void Start();
  // Returns within a second, however silent the stream is.
  void Stop();

  // True once a list has succeeded; stays true, the store then is what was last known.
  bool Synced() const;
  // Waits until Synced, `call.stop` or `call.deadline`; the error then tells what the API server last said.
  absl::Status WaitSynced(const Call& call) const;
  Store Snapshot() const;
  std::optional<Json> Lookup(absl::string_view key) const;
  // Lists anew now, whatever it is doing; returns at once. kSynced tells when it is done.
  void Relist();
  // What fails at present, OK if nothing does.
  absl::Status LastError() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dra::kube
