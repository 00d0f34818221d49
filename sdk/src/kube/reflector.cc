#include "dra/kube/reflector.h"

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dra/base/status.h"
#include "dra/kube/discovery.h"
#include "kube/backoff.h"

namespace dra::kube {
namespace {

// A watch that ends sooner than this without one event counts as a failure, else a server that answers and closes at
// once would be asked in a tight loop.
constexpr auto kShortWatch = std::chrono::seconds(1);

std::string MetadataString(const Json& object, absl::string_view key) {
  const Json* metadata = Find(object, "metadata");
  return metadata == nullptr ? "" : StringOr(*metadata, key);
}

}  // namespace

struct Reflector::Impl {
  Impl(ApiClient* api_client, Clock* used_clock, Logger used_logger, ReflectorOptions used_options,
       Callback on_change)
      : api(api_client),
        clock(used_clock),
        logger(std::move(used_logger)),
        options(std::move(used_options)),
        callback(std::move(on_change)),
        backoff(options.min_backoff, options.max_backoff) {}

  ApiClient* const api;
  Clock* const clock;
  const Logger logger;
  const ReflectorOptions options;
  const Callback callback;

  mutable std::mutex mutex;
  mutable std::condition_variable_any changed;
  Store store;
  bool synced = false;
  bool relist_wanted = false;
  absl::Status last_error;
  std::stop_source round;  // ends the current list, watch or wait
  std::jthread thread;

  // The reflector's thread only.
  Backoff backoff;
  std::string position;  // resource version to watch from; "" = list first

  std::string Key(const Json& object) const {
    const std::string name = MetadataString(object, "name");
    return options.resource.namespaced
               ? absl::StrCat(MetadataString(object, "namespace"), "/", name)
               : name;
  }

  void Tell(Change::Type type, const std::string& name, const Json* object) const {
    if (callback) callback({type, name, object});
  }

  // A token that ends with the next Relist or with Stop.
  std::stop_token NewRound(const std::stop_token& stop) {
    const std::lock_guard<std::mutex> lock(mutex);
    round = std::stop_source();
    if (stop.stop_requested()) round.request_stop();
    if (std::exchange(relist_wanted, false)) position.clear();
    return round.get_token();
  }

  // Any thread. The callbacks of the token run here: without the lock.
  void EndRound() {
    std::stop_source current;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      current = round;
    }
    current.request_stop();
  }

  void Failed(const absl::Status& status) {
    bool first = false;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      first = std::exchange(last_error, status).ok();
    }
    changed.notify_all();
    if (first) {
      logger.Warn(absl::StrCat("cannot follow ", options.resource.plural, ", retrying"),
                  {{"error", status.ToString()}});
    }
  }

  void Recovered() {
    bool was_failing = false;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      was_failing = !std::exchange(last_error, absl::OkStatus()).ok();
    }
    if (was_failing) logger.Info(absl::StrCat("following ", options.resource.plural, " again"));
  }

  // Replaces the store by a fresh list and tells the differences.
  absl::Status List(const std::stop_token& stop) {
    absl::StatusOr<ListResult> list =
        api->List(options.resource, options.namespace_name, options.selector,
                  Call::WithTimeout(options.list_timeout, stop));
    if (absl::IsNotFound(list.status()) && !options.resource.group.empty()) {
      // No such resource at all: say which API version is missing.
      const absl::Status served =
          CheckServesVersion(*api, options.resource.group, options.resource.version,
                             Call::WithTimeout(options.list_timeout, stop));
      if (absl::IsFailedPrecondition(served)) return served;
    }
    if (!list.ok()) return list.status();
    Store fresh;
    for (Json& item : list->items) {
      std::string key = Key(item);
      if (MetadataString(item, "name").empty()) continue;
      fresh.insert_or_assign(std::move(key), std::move(item));
    }
    Store old;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      old = std::exchange(store, fresh);
      synced = true;
    }
    changed.notify_all();
    position = list->resource_version;
    for (const auto& [key, object] : old) {
      if (fresh.find(key) == fresh.end()) Tell(Change::Type::kDeleted, key, &object);
    }
    for (const auto& [key, object] : fresh) {
      const auto before = old.find(key);
      if (before == old.end()) {
        Tell(Change::Type::kAdded, key, &object);
      } else if (before->second != object) {
        Tell(Change::Type::kModified, key, &object);
      }
    }
    Tell(Change::Type::kSynced, "", nullptr);
    return absl::OkStatus();
  }

  void OnEvent(const WatchEvent& event) {
    const std::string version = MetadataString(event.object, "resourceVersion");
    if (!version.empty()) position = version;
    if (event.type == WatchEvent::Type::kBookmark || MetadataString(event.object, "name").empty())
      return;
    const std::string key = Key(event.object);
    bool known = false;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      known = store.find(key) != store.end();
      if (event.type == WatchEvent::Type::kDeleted) {
        store.erase(key);
      } else {
        store.insert_or_assign(key, event.object);
      }
    }
    if (event.type == WatchEvent::Type::kDeleted) {
      Tell(Change::Type::kDeleted, key, &event.object);
    } else {
      Tell(known ? Change::Type::kModified : Change::Type::kAdded, key, &event.object);
    }
  }

  // One list, if needed, and one watch. OK: go on at once.
  absl::Status Once(const std::stop_token& stop) {
    if (position.empty()) {
      DRA_RETURN_IF_ERROR(List(stop));
    }
    WatchOptions watch;
    watch.field_selector = options.selector.field_selector;
    watch.label_selector = options.selector.label_selector;
    watch.resource_version = position;
    // Not the list: where only the watch fails, each round would count as recovered.
    watch.on_open = [this] { Recovered(); };
    Call call;
    call.stop = stop;
    const MonotonicTime start = clock->Monotonic();
    uint64_t events = 0;
    const absl::Status ended = api->Watch(
        options.resource, options.namespace_name, watch,
        [&](const WatchEvent& event) {
          if (events++ == 0) Recovered();  // for a client that has no on_open
          OnEvent(event);
        },
        call);
    if (stop.stop_requested()) return absl::OkStatus();
    if (absl::IsOutOfRange(ended)) {
      logger.Debug(
          absl::StrCat("the watch of ", options.resource.plural, " has expired, listing again"));
      // After a watch that gave nothing the list may be as stale again: not in a tight loop.
      const bool at_once =
          events > 0 || clock->Monotonic() - start >= kShortWatch || !std::exchange(expired, true);
      position.clear();
      return at_once ? absl::OkStatus() : ended;
    }
    expired = false;
    const bool lived = events > 0 || clock->Monotonic() - start >= kShortWatch;
    if (lived) backoff.Reset();
    if (ended.ok() && lived) return absl::OkStatus();
    if (ended.ok()) {
      return absl::UnavailableError(absl::StrCat("watch ", options.resource.plural,
                                                 ": the server closed the stream at once"));
    }
    // A line that cannot be read would come again from the same position.
    if (absl::IsDataLoss(ended) || absl::IsResourceExhausted(ended) ||
        absl::IsInvalidArgument(ended))
      position.clear();
    // A stream that lived and was cut is resumed at once; the next failure in a row waits.
    const std::optional<ApiError> error = ApiErrorOf(ended);
    if (lived && error.has_value() && error->http_code == 0) return absl::OkStatus();
    return ended;
  }

  void Run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const std::stop_token round_stop = NewRound(stop);
      const absl::Status status = Once(round_stop);
      if (status.ok() || round_stop.stop_requested()) continue;
      Failed(status);
      const std::optional<ApiError> error = ApiErrorOf(status);
      clock->Sleep(backoff.Next(error.has_value() ? error->retry_after : std::nullopt), round_stop);
    }
  }

  bool expired = false;  // the last watch ended with 410 before anything came
};

Reflector::Reflector(ApiClient* api, Clock* clock, Logger logger, ReflectorOptions options,
                     Callback callback)
    : impl_(std::make_unique<Impl>(api, clock, std::move(logger), std::move(options),
                                   std::move(callback))) {}

Reflector::~Reflector() { Stop(); }

void Reflector::Start() {
  if (impl_->thread.joinable()) return;
  impl_->thread = std::jthread([impl = impl_.get()](const std::stop_token& stop) {
    const std::stop_callback end_round(stop, [impl] { impl->EndRound(); });
    impl->Run(stop);
  });
}

void Reflector::Stop() {
  if (!impl_->thread.joinable()) return;
  impl_->thread.request_stop();
  impl_->thread.join();
}

bool Reflector::Synced() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->synced;
}

absl::Status Reflector::WaitSynced(const Call& call) const {
  std::unique_lock<std::mutex> lock(impl_->mutex);
  const auto synced = [this] { return impl_->synced; };
  const bool done = call.deadline.has_value()
                        ? impl_->changed.wait_until(lock, call.stop, *call.deadline, synced)
                        : impl_->changed.wait(lock, call.stop, synced);
  if (done) return absl::OkStatus();
  const std::string what = absl::StrCat("list ", impl_->options.resource.plural);
  if (!impl_->last_error.ok())
    return Annotate(impl_->last_error, absl::StrCat(what, ": not synced yet"));
  DRA_RETURN_IF_ERROR(call.Check(what));
  return absl::DeadlineExceededError(absl::StrCat(what, ": deadline exceeded"));
}

Reflector::Store Reflector::Snapshot() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->store;
}

std::optional<Json> Reflector::Lookup(absl::string_view key) const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  const auto found = impl_->store.find(std::string(key));
  if (found == impl_->store.end()) return std::nullopt;
  return found->second;
}

void Reflector::Relist() {
  {
    const std::lock_guard<std::mutex> lock(impl_->mutex);
    impl_->relist_wanted = true;
  }
  impl_->EndRound();
}

absl::Status Reflector::LastError() const {
  const std::lock_guard<std::mutex> lock(impl_->mutex);
  return impl_->last_error;
}

}  // namespace dra::kube
